//! `netsky session down`: what this session was doing and what comes next, for the one after it.

use netsky_disk::env::Caller;
use netsky_model::id::AgentId;
use netsky_watchdog::{MAX_RESUME, leave_resume};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Leave what this agent0 was doing and what comes next to the session after it, which is told by `netsky session up`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to go on with; - for standard input
    text: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        match cx.caller() {
            Caller::Outside => {}
            Caller::Inside { agent: Some(agent), .. } if agent == AgentId::root() => {}
            Caller::Inside { .. } => {
                let what = "what is left here is agent0's: this session is another";
                return Err(Error::new(Kind::Refused, what)
                    .hint("nothing was written; report to agent0 by `netsky channel send`"));
            }
        }
        let text = crate::ostk::reach::text(self.text, MAX_RESUME)?;
        if text.trim().is_empty() {
            return Err(
                Error::new(Kind::Usage, "the text to go on with is empty").hint("nothing was written")
            );
        }
        leave_resume(cx.home()?, &text)?;
        match cx.json {
            true => output::json(&serde_json::json!({ "bytes": text.len() })),
            false => output::say(&format!("{} bytes are left for the next agent0", text.len())),
        }
    }
}
