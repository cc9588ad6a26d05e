//! The ticker: runs the ticks each interval, each as a process of its own with a deadline, so that one
//! hung call cannot stop time. It keeps its cadence on the boot clock, without drift.

use std::time::Duration;

use netsky_disk::spawn::{Ended, Program};
use netsky_disk::{clock, state};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::Result;

/// Longest that one tick may take before it is killed.
const DEADLINE: Duration = Duration::from_secs(60);

/// `state/tick/ticker.json`: the ticker's last beat.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LastBeat {
    /// Format version.
    pub(crate) v: u64,
    /// When the last tick ended.
    pub(crate) at: Stamp,
    /// How often it ticks.
    pub(crate) interval_ms: u64,
    /// How the last tick ended.
    pub(crate) outcome: String,
    /// How long it took.
    pub(crate) duration_ms: u64,
}

fn tell(cx: &Context<'_>, beat: &LastBeat, said: &impl Fn(&str)) {
    if let Err(error) = state::write_json(cx.layout.tick("ticker"), beat) {
        said(&error.to_string());
    }
}

/// Run one watchdog tick as a process of its own.
pub(crate) fn run_tick(cx: &Context<'_>) -> Result<Ended> {
    let home = cx.layout.home().display().to_string();
    let program = Program {
        path: cx.netsky.clone(),
        args: vec!["watchdog".to_owned(), "tick".to_owned()],
        set: [(netsky_disk::env::HOME.to_owned(), home)].into(),
        log: Some(cx.layout.watchdog_log()),
        ..Program::default()
    };
    Ok(program.run(DEADLINE)?)
}

/// Tick for ever. Whatever fails is told and tried again at the next slot.
pub fn ticker(cx: &Context<'_>, interval: Duration, said: impl Fn(&str)) -> ! {
    let mut next = clock::boot();
    let mut beat = LastBeat {
        v: 1,
        at: clock::stamp(),
        interval_ms: interval.as_millis() as u64,
        outcome: "none yet".to_owned(),
        duration_ms: 0,
    };
    // Told before the first tick, which judges by it; a disk that is full must not stop time.
    tell(cx, &beat, &said);
    loop {
        let began = clock::boot();
        beat.outcome = match run_tick(cx) {
            Ok(Ended::Exited(Some(0))) => "done".to_owned(),
            Ok(Ended::Exited(code)) => format!("ended with {code:?}"),
            Ok(Ended::TooLate) => format!("killed after {} s", DEADLINE.as_secs()),
            Err(error) => error.to_string(),
        };
        beat.duration_ms = clock::boot().saturating_sub(began).as_millis() as u64;
        beat.at = clock::stamp();
        cx.record.tick("watchdog", &beat.outcome, Duration::from_millis(beat.duration_ms));
        said(&format!("{} watchdog tick: {} in {} ms", beat.at.wall, beat.outcome, beat.duration_ms));
        tell(cx, &beat, &said);
        // After a suspend or a slow tick: the next slot of the cadence, not one for each that passed.
        let now = clock::boot();
        while next <= now {
            next += interval;
        }
        clock::pause(next - now);
    }
}
