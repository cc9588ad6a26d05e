//! `netsky handoff draft`: what the system knows, for the agent to complete.

use netsky_watchdog::handoff_draft;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Print a draft with what the system knows; complete it, and give it to `netsky restart --handoff FILE`
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let text = handoff_draft(&cx.constellation()?);
        match cx.json {
            true => output::json(&serde_json::json!({ "text": text })),
            false => output::say(text.trim_end()),
        }
    }
}
