//! The failsafe: what a timer of the machine runs when nobody else may be left, and one round of the three ticks by hand.
//!
//! Promise: it needs nothing that runs, starts only what is wanted ("stop means stop"), and says so where that did not work.
//! It repairs nothing itself: it runs the one actor's tick, in a process of its own, and looks what came of it.

use std::time::Duration;

use netsky_disk::fs::is_real_folder;
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::lock::Lock;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, state};
use netsky_model::duration::human;
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::known::wanted;
use crate::observe;
use crate::tick::LastTick;
use crate::ticker::{DEADLINE, ESCALATE, LastBeat, came, outcome, program, run_tick, timed};

/// Longest wait for the first beat of a ticker that a tick has started: it comes before its first tick.
const BEAT: Duration = Duration::from_secs(15);

/// Slow look, where nothing tells of a change.
const RESCAN: Duration = Duration::from_secs(1);

/// What came of it where nobody has to be kept.
pub(crate) const NOBODY: &str = "nobody is wanted";

/// `state/tick/failsafe.json`: the last run of the failsafe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failsafe {
    /// Format version.
    pub v: u64,
    /// When it ended.
    pub at: Stamp,
    /// How long it took.
    pub duration_ms: u64,
    /// In a word or two: how its tick ended, or that nobody is wanted.
    pub outcome: String,
    /// What its tick did, a sentence each.
    pub done: Vec<String>,
    /// What it could not bring back.
    pub failed: Option<String>,
}

/// The last run; none of one that does not read.
pub fn last_failsafe(layout: &Layout) -> Option<Failsafe> {
    state::read_json(layout.tick("failsafe")).unwrap_or_default()
}

/// Brings back what is wanted and missing, whoever else is dead; the owner hears of what it could not.
///
/// What did not work is in the answer.
pub fn failsafe(cx: &Context<'_>) -> Failsafe {
    let began = clock::stamp();
    let (outcome, done, failed) = match is_needed(cx) {
        false => (NOBODY.to_owned(), Vec::new(), None),
        true => ticked(cx, &began),
    };
    let took = clock::boot().saturating_sub(Duration::from_millis(began.boot_ms));
    cx.record.tick("failsafe", &outcome, took);
    let at = clock::stamp();
    let mut ran = Failsafe { v: 1, at, duration_ms: took.as_millis() as u64, outcome, done, failed };
    // Told of also where the disk has no room for it.
    let written = state::write_json(cx.layout.tick("failsafe"), &ran);
    if let (Some(failed), Err(error)) = (&mut ran.failed, written) {
        failed.push_str(&format!("; {error}"));
    }
    if let Some(failed) = &ran.failed {
        let text = format!("the failsafe of {} failed: {failed}", cx.layout.home().display());
        // Its own exit code is heard by who is not of this program.
        let _ = program(cx, &["escalate", &text, "--key", "failsafe"]).run(ESCALATE);
    }
    ran
}

/// Whether anybody is wanted, or may be; or an anchor serves that may have somebody to end.
fn is_needed(cx: &Context<'_>) -> bool {
    // What does not read may be a wish.
    let is_let_be = |agent: &AgentId| wanted(cx.layout, agent).is_ok_and(|wish| wish.is_none());
    let none_is = cx.layout.desired_agents().is_ok_and(|agents| agents.iter().all(is_let_be));
    let anchor = KernelLayout::new(cx.layout.kernel_root()).lock();
    !none_is || Lock::is_held(anchor).unwrap_or(true)
}

/// A tick, as the ticker makes it; and then the ticker's own word, if it was silent.
fn ticked(cx: &Context<'_>, began: &Stamp) -> (String, Vec<String>, Option<String>) {
    let silent = silence(cx);
    let outcome = outcome(run_tick(cx), DEADLINE);
    if !came(cx, began) {
        let failed = format!("its tick came to nothing ({outcome}); logs/watchdog.log has its words");
        return (outcome, Vec::new(), Some(failed));
    }
    let last: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    let done = last.map_or_else(Vec::new, |last| last.done);
    let failed = silent.filter(|_| !beats(cx, clock::boot() + BEAT)).map(|since| {
        format!("the ticker is silent {since}, and no tick starts it again: see `netsky status`")
    });
    (outcome, done, failed)
}

/// How long the ticker has been silent for, if it is meant to run and that is too long.
fn silence(cx: &Context<'_>) -> Option<String> {
    if wanted(cx.layout, &AgentId::ticker()).is_ok_and(|wish| wish.is_none()) {
        return None;
    }
    let age = last_beat(cx).and_then(|at| clock::stamp().age_of(&at));
    let Some(age) = age else { return Some("since this boot".to_owned()) };
    (age > silent_after(cx)).then(|| format!("for {}", human(age)))
}

/// When a ticker last told of itself.
pub(crate) fn last_beat(cx: &Context<'_>) -> Option<Stamp> {
    let beat: Option<LastBeat> = state::read_json(cx.layout.tick("ticker")).unwrap_or_default();
    beat.map(|beat| beat.at)
}

/// After how long without a word a ticker is taken to be stuck. It tells of a tick that was killed at its deadline as well, and
/// two others may have been before that one.
pub(crate) fn silent_after(cx: &Context<'_>) -> Duration {
    2 * observe::interval(cx) + 3 * DEADLINE
}

/// Waits until the ticker has told of itself; whether it has.
fn beats(cx: &Context<'_>, until: Duration) -> bool {
    let watch = Watch::new(&[cx.layout.tick_folder()]);
    loop {
        if silence(cx).is_none() {
            return true;
        }
        if clock::boot() >= until {
            return false;
        }
        match &watch {
            Ok(watch) if watch.wait(RESCAN).is_ok() => {}
            _ => clock::pause(RESCAN),
        }
    }
}

/// How one tick of a round ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Round {
    /// Which.
    pub tick: &'static str,
    /// How it ended, in words: `done` where all is well.
    pub outcome: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// The three ticks, one after the other, each as a process of its own.
pub fn round(cx: &Context<'_>) -> Vec<Round> {
    let one = |tick: &'static str| {
        let (outcome, took) = timed(program(cx, &[tick, "tick"]), DEADLINE);
        cx.record.tick(tick, &outcome, took);
        Round { tick, outcome, duration_ms: took.as_millis() as u64 }
    };
    ["watchdog", "cron", "loop"].map(one).into()
}

/// Whether there is a home to look into at all: what was never made, or is gone, wants nobody.
pub fn is_home(layout: &Layout) -> bool {
    is_real_folder(layout.home()) && state::exists(layout.home_json()).unwrap_or(true)
}
