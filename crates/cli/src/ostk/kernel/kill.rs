//! `ostk kernel kill`: end a session's whole tree.

use std::time::Duration;

use netsky_disk::layout::Layout;
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

/// What a constellation does about an end.
enum Then {
    /// Nothing: it stays down.
    Nothing,
    /// Nobody knows.
    Unknown(String),
    /// It starts it again.
    Again(Layout),
}

impl Then {
    /// Sees to it, and says so.
    fn done(self) -> String {
        let home = match self {
            Then::Nothing => return String::new(),
            Then::Unknown(why) => return why,
            Then::Again(home) => home,
        };
        match wishes::again(&home) {
            Ok(()) => "; netsky starts it again, and `netsky down` ends all".to_owned(),
            Err(error) => format!("; `netsky watchdog tick` starts it again, which did not begin: {error}"),
        }
    }
}

impl Args {
    /// What a constellation does about its end. The wish for a clone is taken back: it stays down.
    fn unwish(&self, cx: &Context, guard: &Guard) -> Result<Then, Error> {
        let root = cx.kernel_root()?;
        let Some(home) = wishes::home_of(&root)? else { return Ok(Then::Nothing) };
        let wanted = netsky_watchdog::wanted(&home, &self.name);
        if matches!(wanted, Ok(None)) {
            return Ok(Then::Nothing);
        }
        wishes::owner_only(cx, &root, &format!("the end of {}", self.name))?;
        if let Err(error) = wanted {
            return Ok(Then::Unknown(format!("; whether it is wanted is not known: {error}")));
        }
        let is_clone = self.name.number().is_some_and(|number| number > 0);
        if is_clone {
            wishes::stop(&home, &self.name, self.grace, guard)?;
            return Ok(Then::Nothing);
        }
        Ok(Then::Again(home))
    }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut client = reach::anchor(cx)?;
        let request_id = self.request_id.clone();
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id };
        let then = self.unwish(cx, &guard)?;
        let session = client.kill(&self.name, self.grace, &guard)?;
        let then = then.done();
        let how = session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string);
        table::session(cx, &session, &format!("{} is down: {how}{then}", session.name))?;
        if session.unwritten {
            let what = format!("that {} is to stay down is written nowhere: the disk is full", session.name);
            return Err(Error::new(Kind::Degraded, what).hint("make room before its anchor ends"));
        }
        Ok(())
    }
}
