//! The sessions of a root that no anchor serves, as its files and its workers' locks have them.
//!
//! Promise: nothing is written, started or asked. An anchor that comes may know more: what a worker that died has left.

use std::collections::BTreeSet;
use std::path::Path;

use netsky_disk::Error;
use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_model::id::AgentId;
use netsky_model::process::{Life as Probed, ProcessId};

use super::owed::{self, Owed};
use super::recall::{Recall, Remembered};
use super::{folded, revive, undescribed};
use crate::journal::{About, Fold};
use crate::meta_file;
use crate::rpc::{SessionState, SessionView};
use crate::session::{Meta, Phase};

/// What a root knows of its sessions.
#[derive(Debug, Default)]
pub struct Unserved {
    /// By name, without those that were put aside.
    pub sessions: Vec<SessionView>,
    /// Those whose description is there and does not read, or is gone while the session lives or was lost.
    pub unread: Vec<AgentId>,
}

/// Looks at the sessions of `root`.
///
/// # Errors
/// Its folders cannot be read.
pub fn sessions(root: &Path) -> Result<Unserved, Error> {
    let layout = KernelLayout::new(root);
    let recall = rows(&layout);
    let mut found = Unserved::default();
    let (mut described, mut unread) = (BTreeSet::new(), BTreeSet::new());
    for name in layout.described_agents()? {
        match meta_file::read(&layout, &name) {
            Ok(Some(meta)) => {
                if !matches!(meta.phase, Phase::Inactive { .. }) {
                    found.sessions.push(SessionView::of(&meta, state(&layout, &recall, &meta)));
                }
                described.insert(name);
            }
            Ok(None) => {}
            Err(_) => drop(unread.insert(name)),
        }
    }
    let names: BTreeSet<AgentId> =
        recall.sessions().map(|(name, _)| name.clone()).chain(locked(&layout)).collect();
    for name in names.difference(&described) {
        match recall.session(name).map(|known| bare(&layout, name, known)) {
            Some(Some(session)) => found.sessions.push(session),
            Some(None) => continue,
            // Nothing tells of it but its lock.
            None => {}
        }
        unread.insert(name.clone());
    }
    found.sessions.sort_by(|a, b| a.name.cmp(&b.name));
    found.unread.extend(unread);
    Ok(found)
}

/// What the journal says, and beside it what it is owed. One that does not read says nothing here; `ostk journal verify`
/// does.
fn rows(layout: &KernelLayout) -> Recall {
    let mut recall = folded::recall(&layout.journal()).unwrap_or_default();
    if let Ok(root) = Dir::open(layout.root()) {
        let (_, wishes) = Owed::open(root);
        let epoch = recall.epoch();
        wishes.iter().for_each(|about| recall.fold(&owed::killed(about, epoch)));
    }
    recall
}

/// Whose worker holds its lock.
fn locked(layout: &KernelLayout) -> impl Iterator<Item = AgentId> {
    let files = Dir::open(layout.agents()).and_then(|agents| agents.names()).unwrap_or_default();
    let names = files.into_iter().filter_map(|file| file.strip_suffix(".lock")?.parse().ok());
    names.filter(|name| holds(layout, name))
}

fn holds(layout: &KernelLayout, name: &AgentId) -> bool {
    Lock::is_held(layout.worker_lock(name)).unwrap_or(true)
}

/// A session without a description that lives or was lost, by the journal.
fn bare(layout: &KernelLayout, name: &AgentId, known: &Remembered) -> Option<SessionView> {
    let held = holds(layout, name);
    let noted = || Lock::noted::<ProcessId>(layout.worker_lock(name)).filter(|_| held);
    let worker = known.running().cloned().or_else(noted).filter(|_| !known.ended)?;
    let state = match probe(&worker) {
        Probed::Alive => SessionState::Active,
        Probed::Unknown => SessionState::Unknown,
        Probed::Dead if known.kill_asked => SessionState::Stopped,
        Probed::Dead => SessionState::Orphaned,
    };
    let about = About { session: name.clone(), lineage: known.lineage.clone(), generation: known.generation };
    let program = undescribed::program(layout, &about, Some(&worker));
    Some(SessionView::of(&undescribed::bare(layout, about, Some(worker), program), state))
}

fn state(layout: &KernelLayout, recall: &Recall, meta: &Meta) -> SessionState {
    let held = holds(layout, &meta.spec.name);
    let known = recall.session(&meta.spec.name).filter(|known| known.generation == meta.generation);
    let probed = meta.worker.as_ref().map(probe);
    match &meta.phase {
        // Wanted down after it was lost: that stands in the journal alone.
        _ if known.is_some_and(|known| known.state == SessionState::Stopped) => SessionState::Stopped,
        Phase::Ended { how, .. } => how.into(),
        Phase::Inactive { .. } => SessionState::Inactive,
        _ if probed == Some(Probed::Unknown) => SessionState::Unknown,
        Phase::Starting if held => SessionState::Starting,
        Phase::Running { .. } if held => SessionState::Active,
        Phase::Starting | Phase::Running { .. } => {
            let said = revive::last_word(layout, &super::state::about(meta), meta.worker.as_ref());
            match said {
                Some((how, _)) => (&how).into(),
                None if known.is_some_and(|known| known.kill_asked) => SessionState::Stopped,
                None => SessionState::Orphaned,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::root;
    use crate::anchor::stage::session;
    use crate::anchor::state::{Anchor, about};
    use crate::session::Keeper;

    #[test]
    fn fm_kill_enospc_a_kill_that_is_owed_is_no_loss_to_who_looks_without_an_anchor() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        Anchor::new(root::claim(&path).expect("a fresh root")).flush();
        let layout = KernelLayout::new(&path);
        let [killed, lost] = ["agent0", "agent1"].map(|name| {
            let mut meta = session(name, Keeper::Anchor);
            meta.phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
            meta_file::write(&layout, &meta).expect("written");
            meta
        });
        Owed::open(Dir::open(&path).expect("there")).0.note(&about(&killed));
        let told = sessions(&path).expect("reads").sessions;
        let told: Vec<_> = told.iter().map(|session| (&session.name, session.state)).collect();
        let wanted = [(&killed.spec.name, SessionState::Stopped), (&lost.spec.name, SessionState::Orphaned)];
        assert_eq!(told, wanted);
    }
}
