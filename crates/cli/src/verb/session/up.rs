//! `netsky session up`: the up proof of this session, and what it finds at its start.

use netsky_disk::env::Caller;
use netsky_disk::state;
use netsky_ledger::Facts;
use netsky_model::duration::human;
use netsky_model::id::AgentId;
use netsky_watchdog::{archive_resume, resume, session_up};
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;
use crate::verb::channel::drain;

/// The fact that agent0 is up.
const UP: &str = "session.up";

/// Prove that this session is up; run it first thing in every agent
///
/// agent0 is told what the session before it left by `netsky session down`, where that is not older than a day, and whether
/// a page is due for agentinfinity.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print and take the mail that waits, too: for a program that nobody gives its mail
    #[arg(long)]
    drain: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        // By what it was given at its start, as the nonce is: the kernel may not know it yet.
        if let Caller::Inside { agent: Some(asks), .. } = netsky_disk::env::caller()
            && let Caller::Inside { agent: Some(me), .. } = cx.caller()
            && asks != me
        {
            let what = format!("that {asks} is up is refused: this session is {me}");
            return Err(Error::new(Kind::Refused, what).hint("unset what was set in its environment"));
        }
        let proof = session_up(&cx.constellation()?, &netsky_disk::env::caller())?;
        let layout = cx.home()?;
        if cx.json {
            output::json(&proof)?;
        } else {
            output::say(&proof.line())?;
        }
        if proof.agent == AgentId::root() {
            let key = format!("up.{}.g{}.{}", proof.agent, proof.generation, proof.at);
            let data = json!({ "agent": proof.agent, "generation": proof.generation, "line": proof.line() });
            // It is up whatever the record can take.
            let _ = Facts::new(layout).append_once(UP, &key, data);
            if !cx.json {
                goes_on(cx)?;
            }
        }
        if self.drain { drain::Args::all(proof.agent).run(cx) } else { Ok(()) }
    }
}

/// What the session before left, and what is due. What does not read is said: the mail behind it is taken all the same.
fn goes_on(cx: &Context) -> Result<(), Error> {
    let layout = cx.home()?;
    match resume(layout) {
        Ok(Some(left)) => {
            let text = left.text.trim_end();
            output::say(&format!("left {} ago, to go on with:\n{text}", human(left.age)))?;
            // Told first: who dies in between is told once more.
            if let Err(error) = archive_resume(layout) {
                output::say(&format!("the next session is told this again: failed to {error}"))?;
            }
        }
        Ok(None) => {}
        Err(error) => {
            output::say(&format!("what the session before left is not known: failed to {error}"))?;
        }
    }
    if state::exists(layout.state().join("agentinit-escalation")).unwrap_or(false) {
        output::say("agentinfinity cannot be started: see `netsky status` and `netsky markers`")?;
    }
    Ok(())
}
