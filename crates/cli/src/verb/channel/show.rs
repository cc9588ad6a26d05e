//! `netsky channel show`: one message with all that is known of it; changes nothing.

use netsky_bus::{Bus, Entry};
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::witness::Nobody;
use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Show one message
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose message
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// Its id, which may be shortened where unambiguous, or the name of its file
    id: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let bus = Bus::open(cx.home()?, &Nobody);
        let shown = match self.id.parse::<EnvelopeId>() {
            Ok(id) => bus.show(&self.agent, id.as_str()).map_err(Error::from),
            Err(why) => Err(Error::new(Kind::Usage, why.to_string()).hint("see --help")),
        };
        let entry = match shown {
            // A list names what bears none of the bus's names by its file.
            Err(error) if matches!(error.kind, Kind::Usage | Kind::NotFound) => {
                bus.stranger(&self.agent, &self.id)?.ok_or(error)?
            }
            shown => shown?,
        };
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
