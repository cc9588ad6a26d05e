//! What is left of a session once its worker is gone.
//!
//! Promise: when a session counts as gone, its end is in its meta and in the journal, and no process of its generation
//! lives. The same code runs when a watched worker dies and when an anchor finds a dead one at its start.

use std::rc::Rc;
use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_disk::sweep::{Swept, sweep_marked};
use serde_json::json;

use super::fold;
use super::revive;
use super::state::Anchor;
use super::table::Life;
use crate::journal::About;
use crate::log::say;
use crate::meta_file;
use crate::rpc::EventKind;
use crate::session::{ENV_MARK, ENV_SESSION, End, Meta, PhaseEvent, mark};

/// How long a sweep looks for processes that will not end before it names them.
const SWEEP: Duration = Duration::from_secs(5);

/// A look at a lock holds it for a moment; how long to wait that out.
pub(super) const LOOKERS: Duration = Duration::from_millis(200);

/// How the death was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Its worker was watched.
    Watched,
    /// It was dead when this anchor started.
    AtStart,
}

/// Settles a session whose worker is gone.
pub(super) async fn session(anchor: &Rc<Anchor>, about: &About, found: Found) {
    if !anchor.set_life(about, Life::Ending) {
        return;
    }
    fold::catch_up(anchor, &about.session);
    let told = match meta_file::read(&anchor.layout, &about.session) {
        Ok(meta) => meta.filter(|meta| meta.generation == about.generation && meta.lineage == about.lineage),
        Err(error) => {
            say!("{error}");
            None
        }
    };
    match told {
        Some(meta) if !meta.phase.may_live() => ended_by_worker(anchor, about, meta),
        told => ended_without_worker(anchor, about, told, found).await,
    }
    anchor.set_life(about, Life::Gone);
    revive::consider(anchor, about, found);
}

/// The worker wrote the end down; its row may be missing if it died right after.
fn ended_by_worker(anchor: &Anchor, about: &About, meta: Meta) {
    let how = meta.phase.clone();
    anchor.entry(&about.session, |entry| entry.meta = meta);
    if !row_is_there(anchor, about) {
        anchor.observe(EventKind::Exited, Some(about.clone()), json!({"how": end_of(&how)}));
    }
}

/// The worker could not say: sweep what it held, and write down what is known.
async fn ended_without_worker(anchor: &Rc<Anchor>, about: &About, told: Option<Meta>, found: Found) {
    let swept = sweep_generation(about).await;
    let asked = anchor.recall(|recall| recall.session(&about.session).is_some_and(|known| known.kill_asked));
    let (kind, how) = match found {
        _ if asked => (EventKind::Died, End::Killed),
        Found::Watched => (EventKind::Died, End::WorkerDied),
        Found::AtStart => (EventKind::Orphaned, End::Orphaned),
    };
    let known = anchor.entry(&about.session, |entry| entry.meta.clone());
    if let Some(meta) = told.or(known) {
        write_end(anchor, about, meta, how.clone());
    }
    anchor.observe(kind, Some(about.clone()), json!({"how": how, "swept": swept.killed, "left": swept.left}));
}

/// Whether the end of that generation is in the journal.
pub(super) fn row_is_there(anchor: &Anchor, about: &About) -> bool {
    anchor.recall(|recall| {
        recall.session(&about.session).is_some_and(|known| {
            known.ended && known.generation == about.generation && known.lineage == about.lineage
        })
    })
}

/// Puts an end into a session's meta, on disk and in the table.
pub(super) fn write_end(anchor: &Anchor, about: &About, mut meta: Meta, how: End) {
    let now = netsky_disk::clock::stamp();
    let Ok(phase) = meta.phase.clone().next(PhaseEvent::Ended(how, now.clone())) else { return };
    meta.phase = phase;
    meta.written_at = now;
    // Whoever holds this lock may write the meta; a worker of this generation that comes late finds it ended.
    match Lock::take_within(anchor.layout.worker_lock(&about.session), LOOKERS) {
        Ok(Some(_held)) => {
            if let Err(error) = meta_file::write(&anchor.layout, &meta) {
                say!("{error}; the end of {} is only in the journal", about.session);
            }
        }
        Ok(None) => say!("{} has a worker that its pid does not tell", about.session),
        Err(error) => say!("{error}"),
    }
    anchor.entry(&about.session, |entry| entry.meta = meta);
}

/// Kills whatever bears the mark of one generation.
pub(super) async fn sweep_generation(about: &About) -> Swept {
    sweep(ENV_MARK, mark(&about.lineage, about.generation)).await
}

/// Kills whatever is left of any generation of a lineage, before another one starts.
pub(super) async fn sweep_lineage(about: &About) -> Swept {
    sweep(ENV_SESSION, about.lineage.to_string()).await
}

async fn sweep(key: &'static str, value: String) -> Swept {
    let swept = tokio::task::spawn_blocking(move || sweep_marked(key, &value, SWEEP)).await;
    match swept {
        Ok(Ok(swept)) => swept,
        Ok(Err(error)) => {
            say!("{error}");
            Swept::default()
        }
        Err(_) => Swept::default(),
    }
}

fn end_of(phase: &crate::session::Phase) -> Option<&End> {
    use crate::session::Phase;
    match phase {
        Phase::Ended { how, .. } | Phase::Inactive { how, .. } => Some(how),
        Phase::Starting | Phase::Running { .. } => None,
    }
}
