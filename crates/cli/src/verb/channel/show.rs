//! `netsky channel show`: one message with all that is known of it; changes nothing.

use netsky_bus::{Bus, Entry};
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::witness::Nobody;
use serde_json::Value;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Show one message
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose message
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous
    id: EnvelopeId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let entry = Bus::open(cx.home()?, &Nobody).show(&self.agent, self.id.as_str())?;
        self::entry(cx, &entry)
    }
}

/// All that is known of one file.
pub(super) fn entry(cx: &Context, entry: &Entry) -> Result<(), Error> {
    let value = super::list::as_value(entry);
    if cx.json {
        return output::json(&value);
    }
    let Value::Object(fields) = value else { return Ok(()) };
    let width = fields.keys().map(String::len).max().unwrap_or(0);
    for (key, value) in fields.iter().filter(|(key, _)| *key != "text") {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output::say(&format!("{key:width$}  {}", output::one_line(&shown)))?;
    }
    match &entry.envelope {
        Some(envelope) => output::say(&format!("\n{}", envelope.text)),
        None => Ok(()),
    }
}
