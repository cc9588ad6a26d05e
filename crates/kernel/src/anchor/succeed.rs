//! The end of a context: its generation is ended, and the next one of the lineage starts with what it left.
//!
//! Order: the handoff is in the turns log and in its file; the wish is journalled and synced; the tree of the old generation
//! is ended; what settles its death starts the next one, as any revival, but whatever its policy says. An anchor that dies
//! in between leaves the wish to its successor. The old generation counts as reaped when a later one has acknowledged what
//! it left, not before: until then every later one is pointed to it again.
//!
//! Left to others: sessions of a keeper above. Their lifecycle is told, and who keeps them starts the next generation.

use std::rc::Rc;
use std::time::Duration;

use netsky_disk::fault;
use netsky_model::id::Generation;
use netsky_model::lifecycle::LifecycleState;

use super::state::Anchor;
use super::table::{Entry, Life};
use super::{kill, revive};
use crate::drain::{Drain, HandoffView, Progress, Report};
use crate::journal::About;
use crate::log::say;
use crate::rpc::EventKind;
use crate::rpc::event_data::{self, HandoffStep};
use crate::rpc::kill::DEFAULT_GRACE_MS;
use crate::session::Keeper;

/// How long a generation may take to acknowledge what was left to it before that is told: it reads a few pages.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// What a report means for the handoff of its lineage.
pub(super) fn told(anchor: &Rc<Anchor>, about: &About, report: &Report, before: &Progress, now: &Progress) {
    let is = |of: &HandoffView, is: HandoffStep| {
        let data = event_data::Handoff { of: of.generation, is };
        anchor.observe(EventKind::Handoff, Some(about.clone()), data);
    };
    if let (Report::Acknowledge, Some(view)) = (report, &before.handoff) {
        is(view, HandoffStep::Acknowledged);
        let former = About { generation: view.generation, ..about.clone() };
        anchor.observe(
            EventKind::Reaped,
            Some(former),
            event_data::Reaped { acknowledged_by: Some(about.generation) },
        );
    }
    // One that ages prepares its own as soon as it has acknowledged.
    match (report, &before.handoff, &now.handoff) {
        (Report::Handoff { .. }, _, Some(view)) => is(view, HandoffStep::Written),
        (_, former, Some(view)) if former.as_ref().map(|of| of.generation) != Some(view.generation) => {
            is(view, HandoffStep::Prepared);
        }
        _ => {}
    }
    if before.lifecycle != LifecycleState::Dead && now.lifecycle == LifecycleState::Dead {
        begin(anchor, about);
    }
}

/// Whether the context of that generation is dead, and the next one is to take over from it.
pub(super) fn is_due(anchor: &Anchor, about: &About) -> bool {
    let known = anchor.recall(|recall| {
        let known = recall.session(&about.session).filter(|known| known.generation == about.generation);
        known.map(|known| (known.succeeded, known.kill_asked))
    });
    match known {
        Some((true, _)) => true,
        Some((false, true)) => false,
        // An anchor may have died between the last turn and its row.
        Some((false, false)) | None => {
            let dead = anchor.drain(&about.lineage, |drain| {
                let state = drain.state();
                state.generation == about.generation && state.lifecycle == LifecycleState::Dead
            });
            dead.unwrap_or(false)
        }
    }
}

fn begin(anchor: &Rc<Anchor>, about: &About) {
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
    // The end of a context is no crash: nothing is waited out.
    anchor.entry(&about.session, |entry| entry.revivals = 0);
    // Only a kill can be asked for here.
    let _ = fault::point("anchor.succeed.wished");
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
        if let Err(refusal) = kill::end(&anchor, &about, &meta, DEFAULT_GRACE_MS).await {
            say!("{refusal}; its context is dead");
        }
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
            let data = event_data::Handoff { of, is: HandoffStep::Unacknowledged };
            anchor.observe(EventKind::Handoff, Some(about), data);
        }
    });
}

/// Whose handoff waits for that generation.
fn waiting(anchor: &Anchor, about: &About) -> Option<Generation> {
    let whose = |drain: &mut Drain| drain.state().waiting(about.generation).map(|handoff| handoff.generation);
    anchor.drain(&about.lineage, whose).ok().flatten()
}
