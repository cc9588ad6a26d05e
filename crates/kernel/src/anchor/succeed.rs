//! The end of a context: its generation is ended, and the next one of the lineage starts with what it left.
//!
//! Order: the handoff is in the turns log and in its file; the wish is journalled and synced; the tree of the old generation
//! is ended; what settles its death starts the next one, as any revival, but whatever its policy says, until a program of a
//! later one was seen running. An anchor that dies in between leaves the wish to its successor, and what is refused on the
//! way is tried again with the next heartbeats. A context that was used up within a minute counts as a revival that came to
//! nothing: whoever says so in each turn costs no more than whoever crashes.
//!
//! The old generation counts as reaped when a later one has acknowledged what it left, not before: until then every later
//! one is pointed to it again. None of them goes on with its conversation, which has no room for a word.
//!
//! Left to others: sessions of a keeper above. Their lifecycle is told; nobody is ended or started for it here.

use std::rc::Rc;
use std::time::Duration;

use netsky_disk::fault;
use netsky_model::id::{AgentId, Generation};
use netsky_model::lifecycle::LifecycleState;

use super::state::{Anchor, about};
use super::table::{Entry, Life};
use super::{kill, revive};
use crate::drain::{Drain, HandoffView, Progress, Report};
use crate::journal::{About, Draft};
use crate::log::say;
use crate::rpc::EventKind;
use crate::rpc::event_data::{self, HandoffStep};
use crate::rpc::kill::DEFAULT_GRACE_MS;
use crate::session::Keeper;

/// How long a generation may take to acknowledge what was left to it before that is told: it reads a few pages.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// What a report means for the handoff of its lineage, as rows in their order; `row` is its own in the turns log.
pub(super) fn told(
    about: &About,
    row: u64,
    report: &Report,
    (before, now): (&Progress, &Progress),
) -> Vec<Draft> {
    let mut told = Vec::new();
    let is = |of: &HandoffView, is: HandoffStep| {
        let data = event_data::Handoff { of: of.generation, is, row: Some(row) };
        Draft::of(EventKind::Handoff, Some(about.clone()), data)
    };
    if let (Report::Acknowledge, Some(view)) = (report, &before.handoff) {
        told.push(is(view, HandoffStep::Acknowledged));
        let former = About { generation: view.generation, ..about.clone() };
        let data = event_data::Reaped { acknowledged_by: Some(about.generation) };
        told.push(Draft::of(EventKind::Reaped, Some(former), data));
    }
    // One that ages prepares its own as soon as it has acknowledged.
    match (report, &before.handoff, &now.handoff) {
        (Report::Handoff { .. }, _, Some(view)) => told.push(is(view, HandoffStep::Written)),
        (_, former, Some(view)) if former.as_ref().map(|of| of.generation) != Some(view.generation) => {
            told.push(is(view, HandoffStep::Prepared));
        }
        _ => {}
    }
    told
}

/// Whether the context of that generation is dead, and the next one is to take over from it.
pub(super) fn is_due(anchor: &Anchor, about: &About) -> bool {
    wished(anchor, about).unwrap_or_else(|| is_dead(anchor, about))
}

/// Whether that generation is due, or was to take over from one that was and has not come to its program yet.
pub(super) fn is_under_way(anchor: &Anchor, about: &About) -> bool {
    let follows = anchor.recall(|recall| {
        let known = recall.of(about);
        known.is_some_and(|known| known.generation == about.generation && known.follows && !known.kill_asked)
    });
    follows || is_due(anchor, about)
}

/// What the journal says of it; nothing where nobody wished for anything.
fn wished(anchor: &Anchor, about: &About) -> Option<bool> {
    let known = anchor.recall(|recall| {
        let known = recall.session(&about.session).filter(|known| known.generation == about.generation);
        known.map(|known| (known.succeeded, known.kill_asked))
    });
    match known? {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// What the reports say of it: an anchor may have died between the last turn and its row.
fn is_dead(anchor: &Anchor, about: &About) -> bool {
    let dead = anchor.drain(&about.lineage, |drain| {
        let state = drain.state();
        state.generation == about.generation && state.lifecycle == LifecycleState::Dead
    });
    dead.unwrap_or(false)
}

/// Tries again what was refused, of one that lives.
pub(super) fn once_more(anchor: &Rc<Anchor>, name: &AgentId) {
    let living = anchor.entry(name, |entry| (entry.life == Life::Live).then(|| about(&entry.meta)));
    let Some(about) = living.flatten() else { return };
    // Files that nobody could open are not read again with each look: whoever lists sessions does.
    let is_due = || anchor.has_drain(&about.lineage) && is_dead(anchor, &about);
    if wished(anchor, &about).unwrap_or_else(is_due) {
        begin(anchor, &about);
    }
}

/// Has the next generation take over from one whose context is dead.
pub(super) fn begin(anchor: &Rc<Anchor>, about: &About) {
    let keeper = anchor.entry(&about.session, |entry| entry.meta.spec.keeper);
    if anchor.is_stopping() || !matches!(keeper, Some(Keeper::Anchor | Keeper::Policy)) {
        return;
    }
    let told = anchor.recall(|recall| recall.session(&about.session).is_some_and(|known| known.succeeded));
    if !told
        && let Err(error) = anchor.commit(EventKind::Succeed, Some(about.clone()), event_data::Nothing {})
    {
        return say!("{} keeps its dead context: {error}", about.session);
    }
    if let Err(error) = fault::point("anchor.succeed.wished") {
        return say!("{} keeps its dead context: {error}", about.session);
    }
    finish(anchor, about);
}

/// Ends the generation; a moment later, so that its own last report is answered first.
fn finish(anchor: &Rc<Anchor>, about: &About) {
    let (anchor, about) = (Rc::clone(anchor), about.clone());
    tokio::task::spawn_local(async move {
        let live = |entry: &mut Entry| (entry.life == Life::Live).then(|| entry.meta.clone());
        let meta = anchor.entry(&about.session, live).flatten();
        let Some(meta) = meta.filter(|meta| meta.generation == about.generation) else { return };
        if !is_due(&anchor, &about) || !revive::wanted(&anchor, &about) {
            return;
        }
        // One at a time: it may take longer than from one look to the next.
        let other = anchor.entry(&about.session, |entry| std::mem::replace(&mut entry.giving_way, true));
        if other != Some(false) {
            return;
        }
        if let Err(refusal) = kill::end(&anchor, &about, &meta, DEFAULT_GRACE_MS).await {
            say!("{refusal}; its context is dead");
        }
        // The next generation's begins with none.
        anchor.entry(&about.session, |entry| entry.giving_way = false);
    });
}

/// What an anchor has to finish or to wait for with a session it found or started.
pub(super) fn lives(anchor: &Rc<Anchor>, about: &About) {
    if is_due(anchor, about) {
        return begin(anchor, about);
    }
    let Some(of) = waiting(anchor, about) else { return };
    let (anchor, about) = (Rc::clone(anchor), about.clone());
    tokio::task::spawn_local(async move {
        tokio::time::sleep(ACKNOWLEDGED_WITHIN).await;
        let same = |entry: &mut Entry| entry.life == Life::Live && entry.meta.generation == about.generation;
        if anchor.entry(&about.session, same) == Some(true) && waiting(&anchor, &about) == Some(of) {
            let data = event_data::Handoff { of, is: HandoffStep::Unacknowledged, row: None };
            anchor.observe(EventKind::Handoff, Some(about), data);
        }
    });
}

/// Whose handoff waits for that generation.
fn waiting(anchor: &Anchor, about: &About) -> Option<Generation> {
    let whose = |drain: &mut Drain| drain.state().waiting(about.generation).map(|handoff| handoff.generation);
    anchor.drain(&about.lineage, whose).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use netsky_disk::clock;
    use netsky_disk::lock::Lock;
    use tokio::net::UnixListener;

    use super::*;
    use crate::anchor::adopt;
    use crate::anchor::settle::Found;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::drain::Report;
    use crate::rpc::Guard;
    use crate::rpc::report::Params;
    use crate::session::{End, Meta, Phase};

    /// A session that its policy keeps; taken away, where it is not living.
    fn kept(generation: u64, phase: Phase) -> Meta {
        Meta { generation: Generation(generation), phase, ..session("agent7", Keeper::Policy) }
    }

    fn running() -> Phase {
        Phase::Running { started_at: clock::stamp() }
    }

    /// Gone, and when its program ran.
    fn over(how: End, has_run: bool) -> Phase {
        Phase::Ended { how, at: clock::stamp(), started_at: has_run.then(clock::stamp) }
    }

    fn reserved(anchor: &Anchor, meta: &Meta) {
        let (runtime, keeper) = ("command".to_owned(), meta.spec.keeper);
        let data = event_data::Spawn { runtime, keeper, request_id: None };
        anchor.observe(EventKind::Spawn, Some(about(meta)), data);
    }

    fn report(anchor: &Rc<Anchor>, report: Report) {
        let params = Params { session: "agent7".parse().expect("a name"), report, guard: Guard::none() };
        crate::anchor::report::report(anchor, &params).expect("taken");
    }

    /// Leads a context to its end.
    fn use_up(anchor: &Rc<Anchor>) {
        report(anchor, Report::Context { used: 95.try_into().expect("a percentage") });
        report(anchor, Report::Finalization);
        report(anchor, Report::Turn(Box::default()));
    }

    #[test]
    fn a_generation_that_does_not_end_for_its_dead_context_is_ended_again_at_a_later_look_one_at_a_time() {
        on_stage(async |anchor| {
            tokio::time::pause();
            let meta = kept(1, running());
            let name = &meta.spec.name;
            anchor.put(meta.clone(), Life::Live);
            netsky_disk::fs::Dir::make(anchor.layout.agents()).expect("made");
            let worker = UnixListener::bind(anchor.layout.worker_sock(name)).expect("bound");
            let asked = Rc::new(Cell::new(0));
            let count = Rc::clone(&asked);
            tokio::task::spawn_local(async move {
                // One that hangs up on whoever comes.
                while worker.accept().await.is_ok() {
                    count.set(count.get() + 1);
                }
            });
            let until = async |is: bool| {
                let reached = async {
                    while anchor.entry(name, |entry| entry.giving_way) != Some(is) {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(Duration::from_secs(600), reached).await.expect("reached");
            };
            let looks = async |wanted: u32| {
                until(true).await;
                (0..3).for_each(|_| once_more(&anchor, name));
                until(false).await;
                assert_eq!(asked.get(), wanted);
            };
            use_up(&anchor);
            looks(1).await;
            once_more(&anchor, name);
            looks(2).await;
            let told = rows(&anchor).iter().filter(|kind| **kind == EventKind::Succeed).count();
            assert_eq!(told, 1, "it is wished for once");
        });
    }

    #[test]
    fn contexts_that_are_used_up_within_a_minute_wait_like_revivals_also_under_the_next_anchor() {
        on_stage(async |anchor| {
            for (generation, pause) in [(1, 0), (2, 10_000), (3, 20_000), (4, 40_000)] {
                let meta = kept(generation, over(End::Killed, true));
                reserved(&anchor, &meta);
                anchor.put(meta.clone(), Life::Gone);
                begin(&anchor, &about(&meta));
                revive::consider(&anchor, &about(&meta), Found::Watched);
                let told = anchor.journal(|journal| journal.after(0)).expect("reads").pop().expect("one");
                let said = (told.kind, told.data["attempt"].as_u64(), told.data["after_ms"].as_u64());
                assert_eq!(said, (EventKind::Revive, Some(generation - 1), Some(pause)));
            }
            let next = kept(5, over(End::Killed, true));
            reserved(&anchor, &next);
            begin(&anchor, &about(&next));
            assert_eq!(anchor.recall(|recall| recall.revivals(&about(&next))), 4);
        });
    }

    #[test]
    fn a_successor_is_started_whatever_its_policy_says_until_its_program_was_seen_running() {
        let never_ran = over(End::FailedToStart { why: "no such file".to_owned() }, false);
        for (policy, told) in [("reap", EventKind::Reaped), ("ask", EventKind::Asking)] {
            on_stage(async |anchor| {
                let settings = anchor.layout.root().join("settings");
                std::fs::write(&settings, format!("LIMIT revival_policy {policy}\n")).expect("written");
                let decided = |meta: &Meta| {
                    anchor.put(meta.clone(), Life::Gone);
                    let before = rows(&anchor).len();
                    revive::consider(&anchor, &about(meta), Found::Watched);
                    rows(&anchor).split_off(before)
                };
                let first = kept(1, running());
                reserved(&anchor, &first);
                anchor.put(first.clone(), Life::Live);
                use_up(&anchor);
                let first = Meta { phase: over(End::Killed, true), ..first };
                assert_eq!(decided(&first), [EventKind::Revive], "{policy}");
                // Its start fails, and the anchor dies before the next one's program runs.
                for (generation, phase) in
                    [(2, never_ran.clone()), (3, over(End::Orphaned, false)), (4, never_ran.clone())]
                {
                    let next = kept(generation, phase);
                    reserved(&anchor, &next);
                    assert_eq!(decided(&next), [EventKind::Revive], "{policy} {generation}");
                }
                let fifth = kept(5, over(End::WorkerDied, true));
                reserved(&anchor, &fifth);
                let (me, at) = (netsky_disk::process::me(), clock::stamp());
                let data = event_data::Started { worker: me.clone(), n: 1, at, program: me };
                anchor.observe(EventKind::Started, Some(about(&fifth)), data);
                assert_eq!(decided(&fifth), [told], "{policy}: it has taken over");
            });
        }
    }

    #[test]
    fn t18_a_successor_that_the_next_anchor_finds_and_that_never_acknowledges_is_told() {
        on_stage(async |anchor| {
            tokio::time::pause();
            let first = kept(1, running());
            reserved(&anchor, &first);
            anchor.put(first, Life::Live);
            use_up(&anchor);
            let mut worker = std::process::Command::new("sleep").arg("1000").spawn().expect("starts");
            let known = netsky_disk::process::identify(worker.id());
            let second = Meta { worker: known, ..kept(2, running()) };
            reserved(&anchor, &second);
            netsky_disk::fs::Dir::make(anchor.layout.agents()).expect("made");
            let _held = Lock::take(anchor.layout.worker_lock(&second.spec.name)).expect("taken");
            let settling = adopt::one(&anchor, second);
            tokio::time::sleep(ACKNOWLEDGED_WITHIN + Duration::from_secs(1)).await;
            worker.kill().and_then(|()| worker.wait()).expect("ours");
            assert!(settling.is_none(), "it lived");
            let told = anchor.journal(|journal| journal.after(0)).expect("reads");
            let last = told.iter().rfind(|row| row.kind == EventKind::Handoff).expect("it was prepared");
            assert_eq!(last.data["is"], "unacknowledged", "{told:?}");
        });
    }

    #[test]
    fn who_is_killed_while_it_takes_over_has_no_successor() {
        on_stage(async |anchor| {
            let first = kept(1, running());
            anchor.put(first.clone(), Life::Live);
            reserved(&anchor, &first);
            use_up(&anchor);
            let second = kept(2, over(End::Orphaned, false));
            reserved(&anchor, &second);
            assert!(is_under_way(&anchor, &about(&second)));
            let data = event_data::Kill { grace_ms: None, request_id: None };
            kill::wish(&anchor, &about(&second), data).expect("written");
            let third = kept(3, over(End::Orphaned, false));
            reserved(&anchor, &third);
            assert!(!is_under_way(&anchor, &about(&third)), "somebody started it anew");
        });
    }
}
