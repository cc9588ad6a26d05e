//! I7: a restart comes to its end, and there is never a second one of anyone.
//!
//! Nothing is in flight, or a live child works on it, or it is within its bound. All processes of one agent of this home are
//! of one generation, and no program of a session was started before the one before it had ended.

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_kernel::rpc::EventKind;
use netsky_model::id::{AgentId, Generation};
use netsky_model::process::Life;
use netsky_model::restart::BOUND;

use super::read::Seen;
use super::read::kernel::{JOURNAL, Kernel, Row};
use super::read::processes::Bearer;
use super::verdict::Verdict;

/// Most age of the marker that a restart is under way (formats, "Markers").
const MOST: Duration = BOUND.saturating_add(GRACE);
/// How far past its deadline a child may be seen: the tick that ends it comes once a minute.
const GRACE: Duration = Duration::from_secs(180);
/// The marker.
const INFLIGHT: &str = "state/restart-inflight";

pub(super) fn check(seen: &Seen) -> Verdict {
    let mut verdict = Verdict::new("I7", "a restart ends within its bound, and nobody is there twice");
    in_flight(seen, &mut verdict);
    twice_now(&seen.bearers, &mut verdict);
    twice_ever(&seen.kernel, &mut verdict);
    verdict
}

fn in_flight(seen: &Seen, verdict: &mut Verdict) {
    let Some(inflight) = &seen.restart.inflight else { return };
    verdict.saw(1);
    // Nobody is late while nobody looks: the machine slept.
    let unseen = inflight.looked.as_ref().map_or(0, |looked| looked.unseen_ms);
    let age = seen.now.since(&inflight.began).saturating_sub(Duration::from_millis(unseen));
    let lives = inflight.child.as_ref().is_some_and(|child| seen.life(child) == Life::Alive);
    if lives && age > BOUND + GRACE {
        let what = format!("child {} of {} lives past the bound of a restart", inflight.epoch, inflight.id);
        verdict.broken(INFLIGHT, what);
    }
    if !lives && age > MOST {
        let minutes = MOST.as_secs() / 60;
        let what = format!("{} began more than {minutes} minutes ago and nobody works on it", inflight.id);
        verdict.broken(INFLIGHT, what);
    }
}

/// Two generations in one look may be one that went and one that came; in every look, they live side by side.
fn twice_now(bearers: &[Bearer], verdict: &mut Verdict) {
    let mut agents: BTreeMap<&AgentId, BTreeMap<Generation, &Bearer>> = BTreeMap::new();
    for bearer in bearers {
        let Some((agent, generation)) = &bearer.agent else { continue };
        verdict.saw(1);
        agents.entry(agent).or_default().entry(*generation).or_insert(bearer);
    }
    for (agent, generations) in agents {
        let all: Vec<(Generation, &Bearer)> = generations.into_iter().collect();
        for pair in all.windows(2) {
            let ((old, one), (new, two)) = (pair[0], pair[1]);
            let what = format!(
                "lives as {agent} generation {old} while process {} is generation {new}",
                two.process.pid
            );
            verdict.lives(&one.process, format!("{agent} {old} {new}"), what);
        }
    }
}

/// One generation of a session, as the journal tells it.
#[derive(Default)]
struct Told<'a> {
    started: Option<&'a Row>,
    ended: Option<&'a Row>,
}

fn twice_ever(kernel: &Kernel, verdict: &mut Verdict) {
    let mut sessions: BTreeMap<&AgentId, BTreeMap<Generation, Told<'_>>> = BTreeMap::new();
    for row in &kernel.rows {
        let Some(about) = &row.about else { continue };
        let told = sessions.entry(&about.session).or_default().entry(about.generation).or_default();
        match row.kind {
            EventKind::Started => told.started = told.started.or(Some(row)),
            _ if row.is_end() => told.ended = told.ended.or(Some(row)),
            _ => {}
        }
    }
    for (session, generations) in sessions {
        verdict.saw(generations.len());
        let ran: Vec<(Generation, Told<'_>)> =
            generations.into_iter().filter(|(_, told)| told.started.is_some()).collect();
        for pair in ran.windows(2) {
            let ((old, before), (new, after)) = (&pair[0], &pair[1]);
            let (Some(began), Some(next)) = (before.started, after.started) else { continue };
            if let Some(what) = overlap(kernel, began, before.ended, next, *old) {
                let what = format!("{session} generation {new} started {what}");
                match before.ended {
                    None if anchor_between(kernel, began, next) => verdict.note(place(next), what),
                    _ => verdict.broken(place(next), what),
                }
            }
        }
    }
}

fn place(row: &Row) -> String {
    format!("{JOURNAL}:{}", row.line)
}

/// Why the start `next` came too early, if it did.
fn overlap(kernel: &Kernel, began: &Row, ended: Option<&Row>, next: &Row, old: Generation) -> Option<String> {
    let Some(ended) = ended else {
        let lost = anchor_between(kernel, began, next);
        let why = if lost { "; an anchor died in between" } else { "" };
        return Some(format!("and the end of generation {old} was never written{why}"));
    };
    if ended.line > next.line {
        return Some(format!("before the end of generation {old}"));
    }
    match (&ended.at, &next.at) {
        (Some(end), Some(start)) if end.boot_id == start.boot_id && start.boot_ms < end.boot_ms => {
            Some(format!("before generation {old} ended, by the clocks of their workers"))
        }
        _ => None,
    }
}

/// Whether an anchor started between two rows: what its predecessor saw last may never have been written.
fn anchor_between(kernel: &Kernel, from: &Row, to: &Row) -> bool {
    let mut starts = kernel.rows.iter().filter(|row| row.kind == EventKind::AnchorStarted);
    starts.any(|row| from.line < row.line && row.line < to.line)
}
