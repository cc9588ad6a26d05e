//! The ticker: runs a tick of the watchdog each interval, and beside it those of cron, of loops and of tasks and the ingests of the record,
//! each as a process of its own with a deadline, so that one hung call cannot stop time. It keeps its cadence on the boot clock,
//! without drift.

mod beside;
mod failing;

use std::convert::Infallible;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::fs::is_real_folder;
use netsky_disk::spawn::{Ended, Program};
use netsky_disk::{clock, state};
use netsky_model::stamp::Stamp;
use netsky_runtime::{Config, Precision};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::held;
use crate::keeper::seat;
use crate::notify;
use crate::tick::LastTick;

pub use beside::LastRun;
pub(crate) use beside::last_runs;
use beside::{Beside, KINDS};
use failing::{FAILING, Failing};

/// Longest that one tick may take before it is killed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Longest that telling him may take.
pub(crate) const ESCALATE: Duration = Duration::from_secs(60);

/// Time between two looks at what runs beside the cadence, and at what is due where that is to come exactly.
const LOOK: Duration = Duration::from_secs(1);

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

fn tell(cx: &Context<'_>, beat: &LastBeat, service: bool, said: &impl Fn(&str)) {
    if let Err(error) = state::write_json(cx.layout.tick("ticker"), beat) {
        said(&error.to_string());
    }
    if service {
        notify::tell(notify::BEAT);
    }
}

/// Run one watchdog tick as a process of its own.
pub(crate) fn run_tick(cx: &Context<'_>) -> Result<Ended> {
    Ok(program(cx, &["watchdog", "tick"]).run(DEADLINE)?)
}

pub(crate) fn program(cx: &Context<'_>, args: &[&str]) -> Program {
    let home = cx.layout.home().display().to_string();
    Program {
        path: cx.netsky.clone(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        set: [(netsky_disk::env::HOME.to_owned(), home)].into(),
        unset: notify::OURS.map(str::to_owned).into(),
        // A tick without a log is a tick.
        log: is_real_folder(cx.layout.logs()).then(|| cx.layout.watchdog_log()),
        ..Program::default()
    }
}

/// Runs one to its end or its deadline: how it ended, in words, and how long it took.
pub(crate) fn timed(program: Program, deadline: Duration) -> (String, Duration) {
    let began = clock::boot();
    let outcome = outcome(program.run(deadline).map_err(Error::from), deadline);
    (outcome, clock::boot().saturating_sub(began))
}

/// How a run ended, in words.
pub(crate) fn outcome(ended: Result<Ended>, deadline: Duration) -> String {
    match ended {
        Ok(Ended::Exited(Some(0))) => "done".to_owned(),
        Ok(Ended::Exited(Some(code))) => format!("ended with code {code}"),
        Ok(Ended::Exited(None)) => "ended by a signal".to_owned(),
        Ok(Ended::TooLate) => format!("killed after {} s", deadline.as_secs()),
        Err(error) => error.to_string(),
    }
}

/// Whether the tick that began then came to its end, whatever it found.
pub(crate) fn came(cx: &Context<'_>, began: &Stamp) -> bool {
    let last: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    last.is_some_and(|last| is_since(&last.at, began)) && held::failed(cx).is_none()
}

/// Whether what ended then ended after what began. The clocks of two boots say nothing of one another.
pub(crate) fn is_since(ended: &Stamp, began: &Stamp) -> bool {
    ended.boot_id == began.boot_id && ended.boot_ms >= began.boot_ms
}

/// Tells the owner by the way that needs nothing of what ticks need; whether he was.
fn escalate(mut program: Program, what: &str, lost: &str, outcome: &str, key: &str) -> bool {
    let minutes = FAILING.as_secs() / 60;
    let text = format!(
        "{what} comes to its end for {minutes} min, so {lost}: {outcome}; `netsky status` and logs/watchdog.log say why"
    );
    program.args.extend([text, "--key".to_owned(), key.to_owned()]);
    // 6: he was told, and the record was not.
    matches!(program.run(ESCALATE), Ok(Ended::Exited(Some(0 | 6))))
}

/// Tick for ever. Whatever fails is told and tried again at the next slot. As a `service` it waits for the end of another first.
///
/// # Errors
/// Another ticker runs.
pub fn ticker(
    cx: &Context<'_>,
    caller: &Caller,
    interval: Duration,
    service: bool,
    said: impl Fn(&str),
) -> Result<Infallible> {
    let _one = seat(cx, caller, service)?;
    let (mut next, mut failing) = (clock::boot(), Failing::default());
    let mut beside = KINDS.map(Beside::new);
    let mut beat = LastBeat {
        v: 1,
        at: clock::stamp(),
        interval_ms: interval.as_millis() as u64,
        outcome: "none yet".to_owned(),
        duration_ms: 0,
    };
    // Told before the first tick, which judges by it; a disk that is full must not stop time.
    tell(cx, &beat, service, &said);
    loop {
        let began = clock::stamp();
        beat.outcome = outcome(run_tick(cx), DEADLINE);
        beat.at = clock::stamp();
        beat.duration_ms = beat.at.boot_ms.saturating_sub(began.boot_ms);
        cx.record.tick("watchdog", &beat.outcome, Duration::from_millis(beat.duration_ms));
        said(&format!("{} watchdog tick: {} in {} ms", beat.at.wall, beat.outcome, beat.duration_ms));
        tell(cx, &beat, service, &said);
        if failing.look(came(cx, &began), clock::boot()) {
            let telling = program(cx, &["escalate"]);
            failing.told = escalate(telling, "no tick", "nobody is seen to", &beat.outcome, "ticks");
        }
        // After the tick that keeps the constellation alive.
        for one in &mut beside {
            one.look(cx, &said);
            one.begin(cx, &said);
        }
        next = slot_after(next, clock::boot(), interval);
        let exact = Config::last_good(cx.layout).ticker.precision == Precision::Exact;
        rest(cx, &mut beside, (next, exact), &said);
    }
}

/// The next slot of the cadence: after a suspend or a slow tick one, and not one for each that passed.
fn slot_after(slot: Duration, now: Duration, interval: Duration) -> Duration {
    let passed = now.saturating_sub(slot).as_nanos() / interval.as_nanos().max(1);
    let step = interval.saturating_mul(u32::try_from(passed + 1).unwrap_or(u32::MAX));
    slot.saturating_add(step)
}

/// Waits for a slot. What ends meanwhile is told of; what is due meanwhile begins, where it is to come exactly.
fn rest(cx: &Context<'_>, beside: &mut [Beside], (slot, exact): (Duration, bool), said: &impl Fn(&str)) {
    loop {
        let now = clock::boot();
        if now >= slot {
            return;
        }
        let mut until = slot;
        for one in &mut *beside {
            match exact.then(|| one.due(cx.layout)).flatten() {
                Some(due) if due <= now => one.begin(cx, said),
                due => until = due.map_or(until, |due| until.min(due)),
            }
        }
        // Also what is made meanwhile is due some time.
        if exact || beside.iter().any(Beside::is_at_work) {
            until = until.min(now + LOOK);
        }
        clock::pause(until.saturating_sub(now));
        beside.iter_mut().for_each(|one| one.look(cx, said));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn t24_the_cadence_has_no_drift_and_no_slot_comes_twice() {
        let ms = Duration::from_millis;
        let (mut slot, mut now) = (ms(5), ms(5));
        for took in [1, 3, 99, 100, 101, 0, 250, 700_000] {
            now += ms(took);
            let next = slot_after(slot, now, ms(100));
            assert!(next > now && next <= now + ms(100), "the next one after {now:?}, not {next:?}");
            assert_eq!((next - ms(5)).as_millis() % 100, 0, "in the phase of the first");
            (slot, now) = (next, next);
        }
    }

    #[test]
    fn a_tick_came_if_it_said_so_and_did_not_fail() {
        in_a_home(|cx| {
            let began = clock::stamp();
            assert!(!came(cx, &began), "it left nothing");
            let last = LastTick { v: 1, at: clock::stamp(), duration_ms: 1, done: vec![], problems: vec![] };
            state::write_json(cx.layout.tick("watchdog"), &last).expect("written");
            assert!(came(cx, &began));
            let rebooted = Stamp { boot_id: "00000000".to_owned(), boot_ms: 1, ..began };
            assert!(!came(cx, &rebooted), "of the boot before, whose clock was further");
            clock::pause(Duration::from_millis(5));
            assert!(!came(cx, &clock::stamp()), "the one before");
        });
    }
}
