//! `netsky loop reschedule`: when a dynamic loop fires next.

use std::time::Duration;

use netsky_schedule::interval::LONGEST;
use netsky_schedule::loops::{LoopId, Mode};

use super::{change, comes, id, tell, usage};
use crate::context::Context;
use crate::error::Error;
use crate::run::Run;

/// Say in how many seconds a loop without an interval fires next
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
    /// Seconds from now; 0 is at once
    #[arg(allow_negative_numbers = true, value_parser = seconds)]
    seconds: u64,
}

/// Digits alone; what does not fit is over ten years by far.
fn seconds(text: &str) -> Result<u64, String> {
    match text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Err("it is not a whole number of seconds, 0 or more".to_owned()),
        false => Ok(text.parse().unwrap_or(u64::MAX)),
    }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if self.seconds > LONGEST.as_secs() {
            return Err(usage(format!("{} seconds are over ten years", self.seconds)));
        }
        let entry = change(cx, self.id, |entry, now| {
            if entry.mode == Mode::Fixed {
                let what = "is fixed: its interval says when it fires; `netsky loop edit` changes that";
                return Err(usage(format!("{} {what}", entry.id)));
            }
            entry.arm(now, Duration::from_secs(self.seconds));
            comes(entry)
        })?;
        let resumed = if entry.paused { ", once it is resumed" } else { "" };
        tell(cx, &entry, &format!("tells {} at {}{resumed}", entry.agent, entry.next_fire_utc))
    }
}
