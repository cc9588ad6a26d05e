//! `ostk kernel kill`: end a session's whole tree.

use std::time::Duration;

use netsky_kernel::client::Client;
use netsky_kernel::rpc::Guard;
use netsky_kernel::rpc::kill::MAX_GRACE_MS;
use netsky_model::duration;
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::{reach, table, wishes};
use crate::run::Run;

/// End a session and everything it started; it stays down, but for whom a constellation cannot be without
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

impl Args {
    /// Whether a constellation brings it back. Of a clone that is taken back first: it stays down.
    fn is_wanted_still(&self, cx: &Context, client: &mut Client) -> Result<bool, Error> {
        let root = cx.kernel_root()?;
        let Some(home) = wishes::home_of(&root)? else { return Ok(false) };
        if !wishes::is_wanted(&home, &self.name)? {
            return Ok(false);
        }
        wishes::owner_only(cx, &root, &format!("the end of {}", self.name))?;
        let is_clone = self.name.number().is_some_and(|number| number > 0);
        let is_meant = match self.if_generation {
            Some(wanted) => client.show(&self.name)?.generation == Generation(wanted),
            None => true,
        };
        if is_clone && is_meant {
            wishes::stop(&home, &self.name, self.grace)?;
        }
        Ok(!is_clone)
    }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut client = reach::anchor(cx)?;
        let comes_again = self.is_wanted_still(cx, &mut client)?;
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let session = client.kill(&self.name, self.grace, &guard)?;
        let how = session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string);
        let then = if comes_again { "; netsky starts it again, and `netsky down` ends all" } else { "" };
        table::session(cx, &session, &format!("{} is down: {how}{then}", session.name))?;
        if session.unwritten {
            let what = format!("that {} is to stay down is written nowhere: the disk is full", session.name);
            return Err(Error::new(Kind::Degraded, what).hint("make room before its anchor ends"));
        }
        Ok(())
    }
}
