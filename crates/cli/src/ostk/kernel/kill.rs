//! `ostk kernel kill`: end a session's whole tree.

use std::time::Duration;

use netsky_kernel::rpc::Guard;
use netsky_kernel::rpc::kill::MAX_GRACE_MS;
use netsky_model::duration;
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::{reach, table};
use crate::run::Run;

/// End a session and everything it started; it stays down
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
    /// Time between SIGTERM and SIGKILL [default: 5s]
    #[arg(long, value_parser = parse, value_name = "DURATION")]
    grace: Option<Duration>,
    /// Only if this is the newest generation
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it does nothing again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

fn parse(text: &str) -> Result<Duration, String> {
    let grace = duration::parse(text).map_err(|e| e.to_string())?;
    let most = Duration::from_millis(MAX_GRACE_MS.into());
    if grace > most {
        return Err(format!("a grace is at most {}", duration::human(most)));
    }
    Ok(grace)
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let session = reach::anchor(cx)?.kill(&self.name, self.grace, &guard)?;
        let how = session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string);
        table::session(cx, &session, &format!("{} is down: {how}", session.name))?;
        if session.unwritten {
            let what = format!("that {} is to stay down is written nowhere: the disk is full", session.name);
            return Err(Error::new(Kind::Degraded, what).hint("make room before its anchor ends"));
        }
        Ok(())
    }
}
