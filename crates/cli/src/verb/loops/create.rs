//! `netsky loop create`: one prompt for later, or one for each interval.

use std::time::Duration;

use netsky_disk::random;
use netsky_model::id::AgentId;
use netsky_runtime::{Config, Trouble};
use netsky_schedule::loops::{Loop, LoopId, Store};

use super::{A_LOOP, close, comes, fits, spaced, tell, usage};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Have an agent told something each INTERVAL, or once in 25 minutes where there is none
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often, and what: `15m "check CI"`; or only what, which comes once and then waits for `reschedule`
    #[arg(value_name = "[INTERVAL] PROMPT", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Who is told [default: the calling agent, else agent0]
    #[arg(long, value_parser = super::super::channel::agent)]
    agent: Option<AgentId>,
    /// After how long it fires no more: 30d
    #[arg(long, value_name = "D", value_parser = spaced)]
    expires: Option<Duration>,
    /// A loop without an interval comes again by itself, 25 minutes after each time
    #[arg(long)]
    keep_alive: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (interval, prompt) = match &self.words[..] {
            [interval, prompt] => (Some(spaced(interval).map_err(usage)?), prompt),
            [prompt] => (None, prompt),
            _ => return Err(usage("a loop takes an interval and a prompt, or a prompt")),
        };
        if interval.is_some() && self.keep_alive {
            return Err(usage("--keep-alive is of loops without an interval"));
        }
        let agent = self.agent.unwrap_or_else(|| cx.asker());
        cx.may_schedule(A_LOOP, &agent)?;
        cx.known(&agent)?;
        let layout = cx.home()?;
        let told = |trouble: Trouble| output::complain("netsky", &trouble.to_string());
        let expires = self.expires.or_else(|| Config::last_good_or_tell(layout, told).loops.expires);
        let mut store = Store::open(layout)?;
        let entry = loop {
            let id = LoopId::from_random(digits());
            let mut entry = Loop::new(id, agent.clone(), prompt.clone(), interval, store.now());
            entry.keep_alive = self.keep_alive;
            if let Some(after) = expires {
                entry.expire(after, store.now());
            }
            fits(&entry)?;
            comes(&entry)?;
            if store.create(&entry)? {
                break entry;
            }
        };
        close(store);
        let when = entry.next_fire_utc;
        tell(cx, &entry, &format!("tells {agent} at {when}{}", how(&entry)))
    }
}

fn how(entry: &Loop) -> String {
    match entry.interval() {
        Some(interval) => format!(", and each {}", netsky_schedule::interval::written(interval)),
        None if entry.keep_alive => ", and again 25 minutes after each time".to_owned(),
        None => ", once".to_owned(),
    }
}

fn digits() -> u32 {
    u32::from_str_radix(&random::short(), 16).expect("eight hex digits")
}
