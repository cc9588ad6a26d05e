//! Sessions that were there before this anchor.
//!
//! Promise: a live worker is found by the lock it holds, and watched by its identity, never by a bare pid (faults T8); its
//! pid does not change, also without a description ([`undescribed`]).  A session without a worker is swept, marked `orphaned` and left to its keeper.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_model::id::AgentId;
use netsky_model::process::Life as Probed;

use super::settle::{self, Found};
use super::state::{Anchor, about};
use super::table::Life;
use super::{fold, reap, rename, revive, succeed, undescribed, watch};
use crate::journal::About;
use crate::log::say;
use crate::meta_file;
use crate::rpc::{EventKind, event_data};
use crate::session::{Meta, Phase};

/// How long a worker may take to come up that a former anchor started just before it died.
const COMING_UP: Duration = Duration::from_secs(10);
/// How often such a worker is looked at; its lock and meta have no event of their own.
const LOOK: Duration = Duration::from_millis(20);
/// How long the first client waits for sweeps of dead sessions; they go on behind it.
const BEFORE_SERVING: Duration = Duration::from_secs(2);

/// Reads every session of the root; an anchor that cannot see whom it has is none.
pub(super) async fn all(anchor: &Rc<Anchor>) -> netsky_disk::Result<()> {
    let names = match Dir::open(anchor.layout.agents()).and_then(|agents| agents.names()) {
        Ok(names) => names,
        // What lives all the same is in the journal.
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let (mut settling, mut described, mut unread) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for file in &names {
        let Some(name) = file.strip_suffix(".meta").and_then(|name| name.parse::<AgentId>().ok()) else {
            continue;
        };
        match meta_file::read(&anchor.layout, &name) {
            Ok(Some(meta)) => {
                described.insert(name);
                settling.extend(rename::found(anchor, meta, &names).and_then(|meta| one(anchor, meta)));
            }
            Ok(None) => {}
            Err(error) => {
                unread.insert(name, error);
            }
        }
    }
    settling.extend(undescribed::all(anchor, &names, &described, unread));
    let all = async {
        for task in settling {
            // A task that panicked has said so on standard error.
            let _ = task.await;
        }
    };
    // What takes longer goes on while clients see it as `ending`.
    let _ = tokio::time::timeout(BEFORE_SERVING, all).await;
    Ok(())
}

pub(super) fn one(anchor: &Rc<Anchor>, meta: Meta) -> Option<tokio::task::JoinHandle<()>> {
    let about = about(&meta);
    let held = Lock::is_held(anchor.layout.worker_lock(&about.session)).unwrap_or(true);
    let probed = meta.worker.as_ref().map(probe);
    let may_live = meta.phase.may_live();
    let spawn = |life: Life| {
        anchor.put(meta.clone(), life);
        if !matches!(meta.phase, Phase::Inactive { .. }) {
            // What it reported and nobody told is told with this; files that do not read are said so.
            let _ = anchor.drain(&about.lineage, |_| ());
        }
        fold::catch_up(anchor, &about.session);
    };
    match (held, probed) {
        (true, Some(Probed::Alive)) if matches!(meta.phase, Phase::Running { .. }) => {
            spawn(Life::Live);
            adopted(anchor, &meta);
            None
        }
        (_, Some(Probed::Unknown)) if may_live => {
            spawn(Life::Foreign);
            None
        }
        (true, _) => {
            spawn(Life::Starting);
            let anchor = Rc::clone(anchor);
            tokio::task::spawn_local(async move {
                if !came_up(&anchor, &about).await {
                    settle::session(&anchor, &about, Found::AtStart).await;
                }
            });
            None
        }
        // Whoever wrote the end down may have died before it had told, and what it told may not have reached the disk.
        (false, _) if may_live || !settle::is_told(anchor, &about) => {
            spawn(Life::Ending);
            let anchor = Rc::clone(anchor);
            Some(tokio::task::spawn_local(async move {
                settle::session(&anchor, &about, Found::AtStart).await;
            }))
        }
        (false, _) => {
            spawn(Life::Gone);
            reap::tell(anchor, &meta);
            revive::consider(anchor, &about, Found::AtStart);
            None
        }
    }
}

fn adopted(anchor: &Rc<Anchor>, meta: &Meta) {
    let Some(worker) = meta.worker.clone() else { return };
    let about = about(meta);
    anchor.observe(EventKind::Adopted, Some(about.clone()), event_data::Adopted { pid: worker.pid });
    watch::start(anchor, about.clone(), worker, None);
    succeed::lives(anchor, &about);
}

/// Waits for a worker that holds its lock and is not (or no longer) running its program: it is coming up or finishing.
/// True once it runs and was adopted; false once its lock is free, or it was ended for being neither.
pub(super) async fn came_up(anchor: &Rc<Anchor>, about: &About) -> bool {
    let looking = async {
        while Lock::is_held(anchor.layout.worker_lock(&about.session)).unwrap_or(true) {
            if let Ok(Some(meta)) = meta_file::read(&anchor.layout, &about.session)
                && meta.generation == about.generation
                && matches!(meta.phase, Phase::Running { .. })
                && meta.worker.as_ref().is_some_and(|worker| probe(worker) == Probed::Alive)
            {
                anchor.put(meta.clone(), Life::Live);
                fold::catch_up(anchor, &about.session);
                adopted(anchor, &meta);
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        false
    };
    if let Ok(came_up) = tokio::time::timeout(COMING_UP, looking).await {
        return came_up;
    }
    // It neither runs nor ends. Its note in the lock says who it is.
    if anchor.has_root()
        && let Some(worker) = Lock::noted(anchor.layout.worker_lock(&about.session))
    {
        if let Err(error) = netsky_disk::process::signal(&worker, netsky_disk::process::Signal::KILL) {
            say!("{error}");
        }
        // One of another pid namespace is never proved gone.
        let _ = tokio::time::timeout(COMING_UP, watch::gone(&worker)).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::session::{End, Keeper, PhaseEvent};

    #[test]
    fn fm_reap_kill_who_was_put_aside_and_of_whom_no_row_says_so_is_told_once() {
        on_stage(async |anchor| {
            let mut meta = session("agent1", Keeper::Policy);
            let data = event_data::Ended::by(End::Exited { code: 1 });
            anchor.observe(EventKind::Exited, Some(about(&meta)), data);
            meta.phase = meta.phase.next(PhaseEvent::Reaped).expect("it has ended");
            for _ in 0..2 {
                assert!(one(&anchor, meta.clone()).is_none());
                assert_eq!(rows(&anchor), [EventKind::Exited, EventKind::Reaped]);
            }
        });
    }

    #[test]
    fn fm_reap_power_who_was_put_aside_and_of_whose_end_no_row_says_is_told_with_it() {
        on_stage(async |anchor| {
            let mut meta = session("agent1", Keeper::Policy);
            let data =
                event_data::Spawn { runtime: "command".to_owned(), keeper: Keeper::Policy, request_id: None };
            anchor.observe(EventKind::Spawn, Some(about(&meta)), data);
            meta.phase = meta.phase.next(PhaseEvent::Reaped).expect("it has ended");
            meta_file::write(&anchor.layout, &meta).expect("written");
            one(&anchor, meta).expect("it is settled").await.expect("no panic");
            assert_eq!(rows(&anchor), [EventKind::Spawn, EventKind::Exited, EventKind::Reaped]);
        });
    }

    #[test]
    fn fm_adopt_eio_an_anchor_that_cannot_list_its_sessions_does_not_serve_without_them() {
        on_stage(async |anchor| {
            all(&anchor).await.expect("there are none");
            let agents = anchor.layout.agents();
            std::fs::remove_dir(&agents).expect("it is empty");
            all(&anchor).await.expect("there are none");
            std::fs::write(&agents, []).expect("written");
            let error = all(&anchor).await.expect_err("whom it has is not known");
            assert!(error.to_string().contains("agents"), "{error}");
        });
    }
}
