//! The sessions of a root that no anchor serves, as its files and its workers' locks have them.
//!
//! Promise: nothing is written, started or asked, and whoever looks gets this one answer. An anchor that comes may know more:
//! what a worker that died has left, and whether one that does not beat in its file answers.

use std::collections::BTreeSet;
use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_disk::{Error, clock};
use netsky_model::id::AgentId;
use netsky_model::process::{Life as Probed, ProcessId};

use super::owed::{self, Owed};
use super::recall::{Recall, Remembered};
use super::{folded, in_force, revive, undescribed};
use crate::drain;
use crate::journal::{About, Fold};
use crate::meta_file;
use crate::rpc::{SessionState, SessionView};
use crate::session::{End, Meta, Phase};
use crate::settings::Bounds;

/// What a root knows of its sessions.
#[derive(Debug, Default)]
pub struct Unserved {
    /// By name, also those that were put aside.
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
    let look = Look {
        recall: rows(&layout),
        bounds: in_force::settings(root).heartbeat,
        is_served: Lock::is_held(layout.lock()).unwrap_or(true),
        layout: &layout,
    };
    let mut found = Unserved::default();
    let (mut described, mut unread) = (BTreeSet::new(), BTreeSet::new());
    for name in layout.described_agents()? {
        match meta_file::read(&layout, &name) {
            Ok(Some(meta)) => {
                found.sessions.push(look.described(&meta));
                described.insert(name);
            }
            Ok(None) => {}
            Err(_) => drop(unread.insert(name)),
        }
    }
    let names: BTreeSet<AgentId> =
        look.recall.sessions().map(|(name, _)| name.clone()).chain(locked(&layout)).collect();
    for name in names.difference(&described) {
        match look.recall.session(name).map(|known| bare(&layout, name, known)) {
            Some(Some(session)) => found.sessions.push(session),
            Some(None) => continue,
            // Nothing tells of it but its lock.
            None => {}
        }
        unread.insert(name.clone());
    }
    for view in found.sessions.iter_mut().filter(|view| view.state != SessionState::Inactive) {
        // What does not read says nothing here; `ostk lineage show` does.
        if let Ok(Some(whole)) = drain::read(&layout, &view.lineage, false) {
            view.progress = whole.state.progress(view.generation, !view.state.may_live());
        }
    }
    found.sessions.sort_by(|a, b| a.name.cmp(&b.name));
    found.unread.extend(unread);
    Ok(found)
}

/// What the journal says, and beside it what it is owed. One that does not read says nothing here; `ostk journal verify`
/// does.
fn rows(layout: &KernelLayout) -> Recall {
    let mut recall = folded::newest(&layout.journal()).unwrap_or_default();
    if let Ok((_, wishes)) = Dir::open(layout.root()).and_then(Owed::open) {
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

/// What is known of the root beside descriptions.
struct Look<'a> {
    layout: &'a KernelLayout,
    recall: Recall,
    bounds: Bounds,
    /// Somebody holds it who does not answer, or is only coming.
    is_served: bool,
}

impl Look<'_> {
    fn described(&self, meta: &Meta) -> SessionView {
        let (state, end) = self.stands(meta);
        let view = SessionView::of(meta, state);
        let kept = view.kept && state != SessionState::Stopped;
        SessionView { end: view.end.clone().or(end), kept, ..view }
    }

    /// Where it stands, and how it ended where its description does not say so.
    fn stands(&self, meta: &Meta) -> (SessionState, Option<End>) {
        let (layout, about) = (self.layout, super::state::about(meta));
        let held = holds(layout, &about.session);
        let known = self.recall.session(&about.session).filter(|known| known.generation == meta.generation);
        let probed = meta.worker.as_ref().map(probe);
        let state = match &meta.phase {
            // Wanted down after it was lost: that stands in the journal alone.
            _ if known.is_some_and(|known| known.state == SessionState::Stopped) => SessionState::Stopped,
            Phase::Ended { how, .. } => how.into(),
            Phase::Inactive { .. } => SessionState::Inactive,
            _ if probed == Some(Probed::Unknown) => SessionState::Unknown,
            Phase::Starting if held || self.is_served => SessionState::Starting,
            Phase::Running { .. } if held => self.beats(&about),
            Phase::Starting | Phase::Running { .. } => {
                let how = match revive::last_word(layout, &about, meta.worker.as_ref()) {
                    Some((how, _)) => how,
                    None if known.is_some_and(|known| known.kill_asked) => End::Killed,
                    None => End::Orphaned,
                };
                return ((&how).into(), Some(how));
            }
        };
        (state, None)
    }

    /// Of a worker that lives, by the last beat in its file; one that beats nowhere does so over its socket, as far as is
    /// known here.
    fn beats(&self, about: &About) -> SessionState {
        let beat = revive::last_beat(self.layout, about);
        beat.map_or(SessionState::Active, |beat| {
            SessionState::after(clock::stamp().since(&beat.at), self.bounds)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::anchor::root;
    use crate::anchor::stage::session;
    use crate::anchor::state::{Anchor, about};
    use crate::session::{Heartbeat, Keeper};

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
        Owed::open(Dir::open(&path).expect("there")).expect("reads").0.note(&about(&killed));
        let told = sessions(&path).expect("reads").sessions;
        let told: Vec<_> = told.iter().map(|session| (&session.name, session.state)).collect();
        let wanted = [(&killed.spec.name, SessionState::Stopped), (&lost.spec.name, SessionState::Orphaned)];
        assert_eq!(told, wanted);
    }
    #[test]
    fn who_looks_without_an_anchor_is_told_what_the_next_one_would_find() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        Anchor::new(root::claim(&path).expect("a fresh root")).flush();
        let layout = KernelLayout::new(&path);
        std::fs::write(path.join("settings"), "LIMIT heartbeat_idle 1m\nLIMIT heartbeat_hung 2m\n")
            .expect("written");
        let described = |name: &str, phase: Phase| {
            let worker = Some(netsky_disk::process::me());
            let meta = Meta { phase, worker, ..session(name, Keeper::Anchor) };
            meta_file::write(&layout, &meta).expect("written");
            meta
        };
        let running = || Phase::Running { started_at: clock::stamp() };
        let silent = |meta: &Meta, silence: u64, ended: Option<End>| {
            let mut at = clock::stamp();
            // As if it were before this boot, where that is no longer ago.
            (at.boot_id, at.wall) = ("0".to_owned(), at.wall - Duration::from_secs(silence));
            let sample = include_bytes!("../../samples/heartbeat.v1.json");
            let sample: Heartbeat = serde_json::from_slice(sample).expect("the sample loads");
            let (name, worker) = (meta.spec.name.clone(), netsky_disk::process::me());
            let beat = Heartbeat { name, worker, generation: meta.generation, at, ended, ..sample };
            netsky_disk::state::write(
                layout.heartbeat(&meta.spec.name),
                &serde_json::to_vec(&beat).expect("plain"),
            )
            .expect("written");
        };
        let mut held = Vec::new();
        for (name, silence) in
            [("agent1", Some(30)), ("agent2", Some(90)), ("agent3", Some(180)), ("agent4", None)]
        {
            let meta = described(name, running());
            silence.into_iter().for_each(|silence| silent(&meta, silence, None));
            held.push(Lock::try_take(layout.worker_lock(&meta.spec.name)).expect("ours").expect("free"));
        }
        silent(&described("agent5", running()), 1, Some(End::Exited { code: 3 }));
        described("agent6", running());
        described("agent7", Phase::Starting);
        described("agent8", Phase::Inactive { how: End::Killed, at: clock::stamp() });
        let told = || -> Vec<_> {
            let told = sessions(&path).expect("reads").sessions;
            told.into_iter().map(|session| (session.state, session.end)).collect()
        };
        let orphaned = (SessionState::Orphaned, Some(End::Orphaned));
        let wanted = [
            (SessionState::Active, None),
            (SessionState::Idle, None),
            (SessionState::Hung, None),
            (SessionState::Active, None),
            (SessionState::Exited, Some(End::Exited { code: 3 })),
            orphaned.clone(),
            orphaned,
            (SessionState::Inactive, Some(End::Killed)),
        ];
        assert_eq!(told(), wanted);
        // An anchor that does not answer may be just starting it.
        let _anchor = Lock::try_take(layout.lock()).expect("ours").expect("free");
        assert_eq!(told()[6], (SessionState::Starting, None));
    }
}
