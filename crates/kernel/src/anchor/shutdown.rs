//! `kernel/shutdown`: stop the anchor; workers live on unless everything is to end.
//!
//! Promise: whoever asks is answered, in any order and company: an anchor that is to stop does so when nobody's shutdown is
//! still at work. So what one wants ended is not left by another who wants less.

use std::cell::Cell;
use std::rc::Rc;

use netsky_model::id::AgentId;

use super::state::{Anchor, about};
use super::table::Life;
use super::{kill, revive};
use crate::log::say;
use crate::rpc::kill::{DEFAULT_GRACE_MS, check_grace};
use crate::rpc::shutdown::{Answer, Params};
use crate::rpc::{EventKind, Guard, Refusal, event_data};
use crate::session::{Keeper, Phase};

/// Shutdowns that were asked for and are not answered yet.
#[derive(Default)]
pub(super) struct Asked {
    count: Cell<usize>,
    /// One of them was done: with the last the anchor stops.
    done: Cell<bool>,
}

impl Asked {
    /// Those beside one that is about to be answered.
    fn beside(&self) -> usize {
        self.count.get().saturating_sub(1)
    }
}

/// One shutdown, from its request until its answer is on its way.
pub(super) struct Shutting(Rc<Anchor>);

impl Shutting {
    pub(super) fn begin(anchor: &Rc<Anchor>) -> Shutting {
        anchor.shutdowns.count.set(anchor.shutdowns.count.get() + 1);
        Shutting(Rc::clone(anchor))
    }

    /// Has the anchor stop once no other is at work.
    pub(super) fn stops(&self) {
        self.0.shutdowns.done.set(true);
    }
}

impl Drop for Shutting {
    fn drop(&mut self) {
        let Asked { count, done } = &self.0.shutdowns;
        count.set(count.get() - 1);
        if count.get() == 0 && done.get() {
            self.0.stop();
        }
    }
}

/// Ends what is to be ended; the caller stops the anchor once the answer is on its way.
pub(super) async fn shutdown(anchor: &Rc<Anchor>, params: Params) -> Result<Answer, Refusal> {
    let grace_ms = params.grace_ms.unwrap_or(DEFAULT_GRACE_MS);
    check_grace(grace_ms)?;
    anchor.begin_stop();
    let live = anchor
        .names()
        .into_iter()
        .filter(|name| anchor.entry(name, |entry| !matches!(entry.life, Life::Gone)).unwrap_or(false));
    let mut answer =
        Answer { ended: Vec::new(), left: live.collect(), unwritten: Vec::new(), waiting: 0, others: 0 };
    if params.all {
        stay_down(anchor);
        let is_kept = |name: &AgentId| anchor.entry(name, |entry| entry.meta.spec.keeper == Keeper::Anchor);
        let (keepers, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut answer.left).into_iter().partition(|name| is_kept(name).unwrap_or(false));
        end(anchor, others, grace_ms, &mut answer).await;
        // Who keeps the others stays until they are down, and each of them until the one before it is, in the order of their names.
        for keeper in keepers {
            end(anchor, vec![keeper], grace_ms, &mut answer).await;
        }
    }
    let Answer { ended, left, .. } = answer.clone();
    anchor.tell_arrived(true);
    let data = event_data::AnchorStopped { all: params.all, ended, left };
    anchor.observe(EventKind::AnchorStopped, None, data);
    anchor.journal(|journal| journal.keep_head(false));
    answer.unwritten = anchor.only_known();
    answer.waiting = anchor.journal(|journal| journal.waits());
    answer.others = anchor.shutdowns.beside();
    Ok(answer)
}

/// Ends all of these at once.
async fn end(anchor: &Rc<Anchor>, sessions: Vec<AgentId>, grace_ms: u32, answer: &mut Answer) {
    let kills: Vec<_> = sessions
        .into_iter()
        .map(|session| {
            let anchor = Rc::clone(anchor);
            tokio::task::spawn_local(async move {
                let params =
                    crate::rpc::kill::Params { session: session.clone(), grace_ms, guard: Guard::none() };
                (session, kill::kill(&anchor, params).await)
            })
        })
        .collect();
    for kill in kills {
        match kill.await {
            Ok((session, Ok(_))) => answer.ended.push(session),
            Ok((session, Err(refusal))) => {
                say!("{refusal}");
                answer.left.push(session);
            }
            Err(error) => say!("{error}"),
        }
    }
}

/// What this anchor brings back is part of everything, also what dies just now or waits for its revival: the next anchor
/// leaves it down. What waits to be told goes on waiting: nothing starts before somebody has said so.
fn stay_down(anchor: &Anchor) {
    for name in anchor.names() {
        let seen = anchor.entry(&name, |entry| {
            let over = matches!(entry.meta.phase, Phase::Inactive { .. });
            let waits = entry.life == Life::Gone && !entry.asking;
            (entry.meta.spec.keeper, over, waits, about(&entry.meta))
        });
        let Some((keeper, over, waits, about)) = seen else { continue };
        let comes_back = match keeper {
            Keeper::Anchor => !over && !kill::asked_before(anchor, &about),
            // Its successor too, where it was ended for its dead context.
            Keeper::Policy => waits && revive::is_ours(anchor, &about),
            Keeper::Watchdog => false,
        };
        if !comes_back {
            continue;
        }
        let data = event_data::Kill { grace_ms: None, request_id: None };
        if let Err(error) = kill::wish(anchor, &about, data) {
            say!("{name} may come back: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::settle::Found;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::session::End;

    #[test]
    fn a_shutdown_of_everything_keeps_down_what_its_policy_would_bring_back() {
        on_stage(async |anchor| {
            let ended = |name, by| {
                let mut meta = session(name, Keeper::Policy);
                let Phase::Ended { how, .. } = &mut meta.phase else { panic!("it has ended") };
                *how = by;
                meta
            };
            let (waits, asks) = (ended("agent1", End::WorkerDied), ended("agent2", End::WorkerDied));
            let (returned, used_up) = (session("agent3", Keeper::Policy), ended("agent4", End::Killed));
            let all = [&waits, &asks, &returned, &used_up];
            for meta in all {
                anchor.put(meta.clone(), Life::Gone);
            }
            anchor.observe(EventKind::Succeed, Some(about(&used_up)), event_data::Nothing {});
            anchor.entry(&asks.spec.name, |entry| entry.asking = true);
            revive::consider(&anchor, &about(&waits), Found::Watched);
            shutdown(&anchor, Params { all: true, grace_ms: None }).await.expect("stops");
            let down = all.map(|meta| kill::asked_before(&anchor, &about(meta)));
            assert_eq!(down, [true, false, false, true], "{:?}", rows(&anchor));
            assert!(!revive::wanted(&anchor, &about(&used_up)), "the next anchor starts no successor");
        });
    }

    #[test]
    fn a12_who_came_without_a_row_is_counted_before_the_anchor_has_stopped() {
        on_stage(async |anchor| {
            (0..20).for_each(|_| anchor.arrived(None, None));
            shutdown(&anchor, Params { all: false, grace_ms: None }).await.expect("stops");
            let told = rows(&anchor);
            let arrived = told.iter().filter(|kind| **kind == EventKind::Arrived).count();
            assert_eq!((arrived, told.last()), (11, Some(&EventKind::AnchorStopped)), "{told:?}");
        });
    }
}
