//! `netsky quiet`: a window in which nobody calls an agent's silence a hang.

use std::time::Duration;

use netsky_model::duration::{human, parse};
use netsky_model::id::AgentId;
use netsky_watchdog::{LONGEST_QUIET, begin_quiet, end_quiet};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Let an agent be silent for a while: no alarm of a hang until then
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For how long: 90m, 2h; at most 24h
    #[arg(value_parser = window, required_unless_present = "end")]
    time: Option<Duration>,
    /// Why
    #[arg(required_unless_present = "end")]
    why: Option<String>,
    /// Whose silence
    #[arg(long, default_value = "agent0", value_parser = super::channel::agent)]
    agent: AgentId,
    /// End the window
    #[arg(long, conflicts_with_all = ["time", "why"])]
    end: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("quiet")?;
        let Args { time, why, agent, .. } = self;
        let Some((time, why)) = time.zip(why) else {
            let ended = end_quiet(cx.home()?, &agent)?;
            if ended == 0 {
                let what = format!("no quiet window of {agent} is there");
                return Err(Error::new(Kind::NotFound, what).hint("nothing was changed"));
            }
            return match cx.json {
                true => output::json(&serde_json::json!({ "agent": agent, "ended": ended })),
                false => output::say(&format!("{agent} is watched again")),
            };
        };
        if why.trim().is_empty() || why.len() > LONGEST {
            let what = format!("why {agent} is to be silent takes 1 to {LONGEST} bytes");
            return Err(Error::new(Kind::Usage, what).hint("nothing was changed"));
        }
        if agent != AgentId::root() && !cx.constellation()?.bus.knows(&agent) {
            let what = format!("{agent} was never started here");
            return Err(Error::new(Kind::NotFound, what).hint("nothing was changed"));
        }
        let quiet = begin_quiet(cx.home()?, &agent, time, &why)?;
        match cx.json {
            true => output::json(&quiet),
            false => output::say(&format!("{agent} may be silent for {}: {why}", human(time))),
        }
    }
}

/// Most bytes of a reason: it is printed on one line.
const LONGEST: usize = 500;

fn window(text: &str) -> Result<Duration, String> {
    let time = parse(text).map_err(|error| error.to_string())?;
    if time > LONGEST_QUIET {
        return Err(format!("a window takes at most {}", human(LONGEST_QUIET)));
    }
    Ok(time)
}
