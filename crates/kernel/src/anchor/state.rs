//! The one owner of journal, table and recall.
//!
//! Promise: a row that was written, or waits for room, has been folded once, and subscribers know of what was written. A borrow of the state never crosses an
//! await: every method here takes it, works and gives it back.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::cgroup::Place;
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::lock::Lock;
use netsky_disk::state;
use netsky_model::id::{AgentId, LineageId};
use netsky_model::process::ProcessId;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::answers::InFlight;
use super::arrivals::Arrivals;
use super::in_force::InForce;
use super::owed::Owed;
use super::recall::Recall;
use super::registry::Registry;
use super::rejected::Rejected;
use super::report;
use super::root::Claim;
use super::shutdown::Asked;
use super::table::{Entry, Life};
use crate::drain::{Drain, DrainError};
use crate::heads::Findings;
use crate::journal::{About, Chain, Draft, Fold, Journal, JournalError};
use crate::log::say;
use crate::meta_file::{self, MetaFileError};
use crate::rpc::{EventKind, Refusal, RefusalKind, SessionState, SessionView, event_data};
use crate::session::{Meta, Phase};

/// One anchor; shared by its tasks.
pub(super) struct Anchor {
    pub(super) layout: KernelLayout,
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) me: ProcessId,
    /// Time between two heartbeats of a worker.
    pub(super) period: Duration,
    /// Where its sessions get their control groups, if anywhere.
    pub(super) cgroups: Option<Place>,
    pub(super) in_flight: InFlight,
    /// Of clients.
    pub(super) arrivals: RefCell<Arrivals>,
    /// Clients that were turned away or cut off.
    pub(super) rejected: RefCell<Rejected>,
    pub(super) shutdowns: Asked,
    /// Held while a session is brought back.
    pub(super) reviving: Semaphore,
    state: RefCell<State>,
    /// What its user wants.
    pub(super) in_force: InForce,
    /// What lineages have behind them, as far as somebody asked.
    drains: RefCell<BTreeMap<LineageId, Drain>>,
    /// `agents.jsonl`.
    pub(super) registry: Registry,
    /// Files that were reported as damaged: each is, once.
    damaged: RefCell<BTreeSet<String>>,
    /// Rises with every row and every change of a session's life.
    changed: watch::Sender<u64>,
    stopping: Cell<bool>,
    stopped: watch::Sender<bool>,
    chain: Chain,
    lock: Lock,
    /// The `home.json` beside its root, where this root belongs to a home.
    home: Option<PathBuf>,
}

struct State {
    journal: Journal,
    recall: Recall,
    owed: Owed,
    /// Whose kills an anchor before this one left owed.
    wishes: Vec<About>,
    table: BTreeMap<AgentId, Entry>,
}

impl Anchor {
    pub(super) fn new(claim: Claim) -> Anchor {
        let Claim { layout, id, epoch, me, journal, chain, recall, lock, owed, wishes } = claim;
        let home = layout.root().parent().map(|home| Layout::new(home).home_json());
        let is_home = |file: &PathBuf| {
            let read: Option<Value> = state::read_json(file).ok().flatten();
            read.is_some_and(|read| read.get("home_id").is_some())
        };
        let home = home.filter(is_home);
        let period = crate::start::heartbeat_period();
        Anchor {
            in_force: InForce::open(layout.root(), period),
            layout,
            id,
            epoch,
            me,
            period,
            cgroups: Place::find()
                .map_err(|error| say!("{error}: sessions are ended by descent and by their mark alone"))
                .ok(),
            in_flight: InFlight::default(),
            arrivals: RefCell::new(Arrivals::new()),
            rejected: RefCell::default(),
            shutdowns: Asked::default(),
            reviving: Semaphore::new(super::revive::AT_ONCE),
            state: RefCell::new(State { journal, recall, owed, wishes, table: BTreeMap::new() }),
            drains: RefCell::default(),
            registry: Registry::default(),
            damaged: RefCell::default(),
            changed: watch::Sender::new(0),
            stopping: Cell::new(false),
            stopped: watch::Sender::new(false),
            chain,
            lock,
            home,
        }
    }

    /// Whether what has the root's path is still what this anchor claimed. A root that was removed or moved is over: what
    /// has its path by now is another's, and nothing of it is written here.
    /// So is one whose home is gone, though somebody who still worked in there kept the folder from being removed.
    pub(super) fn has_root(&self) -> bool {
        let at_home = || self.home.as_ref().is_none_or(|home| state::exists(home).unwrap_or(true));
        self.lock.has_its_name().unwrap_or(true) && at_home()
    }

    /// Replaces the description of a session in this anchor's root.
    pub(super) fn write_meta(&self, meta: &Meta) -> netsky_disk::Result<()> {
        if self.has_root() {
            return meta_file::write(&self.layout, meta);
        }
        Err(netsky_disk::Error::because("write in", self.layout.root(), "it is another root by now"))
    }

    /// The first rows of this anchor.
    pub(super) fn log_started(&self) {
        let data = event_data::AnchorStarted {
            anchor_id: self.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: self.me.pid,
            heads: self.journal(|journal| journal.heads_key()),
        };
        self.observe(EventKind::AnchorStarted, None, data);
        let heads = &self.chain.heads;
        if heads.is_damage() {
            let Findings { cut, rewritten, mut unread, gone, .. } = heads.clone();
            unread.extend(gone.iter().map(|file| format!("{file}: it is gone")));
            let damaged = event_data::Damaged::of("journal.jsonl", "it is not what its heads say");
            let data = event_data::Damaged { cut, rewritten, unread, ..damaged };
            self.observe(EventKind::Damaged, None, data);
        }
        if !self.chain.broken.is_empty() {
            let why = format!(
                "{} of {} rows do not follow from the one before",
                self.chain.broken.len(),
                self.chain.rows
            );
            let lines = self.chain.broken.clone();
            let data = event_data::Damaged { lines, ..event_data::Damaged::of("journal.jsonl", why) };
            self.observe(EventKind::Damaged, None, data);
        }
    }

    /// Writes a row durably, before its effect.
    pub(super) fn commit(
        &self,
        kind: EventKind,
        about: Option<About>,
        data: impl Serialize,
    ) -> Result<(), JournalError> {
        let row = Draft::of(kind, about, data);
        let written = {
            let state = &mut *self.state.borrow_mut();
            let written = state.journal.commit(row);
            state.catch_up();
            written
        };
        self.touch();
        self.stop_if_unsound();
        written.map(drop)
    }

    /// Writes a row about something that has happened; without room for it, it is written later.
    pub(super) fn observe(&self, kind: EventKind, about: Option<About>, data: impl Serialize) {
        self.tell(Draft::of(kind, about, data));
    }

    /// The same of a row that is made.
    pub(super) fn tell(&self, row: Draft) {
        {
            let state = &mut *self.state.borrow_mut();
            state.journal.observe(row);
            state.catch_up();
        }
        self.touch();
        self.stop_if_unsound();
    }

    /// Holds a kill for which the journal has no room: it counts from here on, is noted where room was set aside, and its
    /// row is written when there is some.
    pub(super) fn owe(&self, about: &About, data: event_data::Kill) {
        self.state.borrow_mut().owed.note(about);
        self.observe(EventKind::Kill, Some(about.clone()), data);
    }

    /// The kill of a session is on the disk, wherever.
    pub(super) fn is_on_disk(&self, session: &AgentId) {
        self.state.borrow_mut().owed.is_known(session);
    }

    /// Whose kills end with this anchor, if there is no room before.
    pub(super) fn only_known(&self) -> Vec<AgentId> {
        self.state.borrow().owed.only_known().cloned().collect()
    }

    /// Has what the anchor before this one owed written, behind the rows that say who writes it.
    pub(super) fn pay(&self) {
        // They stay until all of them have a row: with the first that waits for nothing the room would be made free.
        let wishes = self.state.borrow().wishes.clone();
        for about in wishes {
            self.observe(EventKind::Kill, Some(about), event_data::Kill { grace_ms: None, request_id: None });
        }
        self.state.borrow_mut().wishes.clear();
        self.flush();
    }

    /// Writes what waits for room, and sets some aside for the next time there is none.
    pub(super) fn flush(&self) {
        let flushed = {
            let state = &mut *self.state.borrow_mut();
            let flushed = state.journal.flush();
            state.catch_up();
            if flushed.is_ok() && self.has_root() {
                state.owed.set_aside();
            }
            flushed
        };
        if let Err(error) = flushed {
            say!("rows of the journal wait: {error}");
        }
        self.touch();
        self.stop_if_unsound();
    }

    /// Reports a file of the root that does not read, once: it may be looked at again and again, of a description also by
    /// anchor after anchor.
    pub(super) fn damaged(&self, file: String, why: &str) {
        if self.recall(|recall| recall.is_undescribed(&file)) {
            return;
        }
        if self.damaged.borrow_mut().insert(file.clone()) {
            self.observe(EventKind::Damaged, None, event_data::Damaged::of(file, why));
        }
    }

    /// A file that was reported reads again: the next time that it does not is another.
    pub(super) fn is_whole(&self, file: &str) {
        self.damaged.borrow_mut().remove(file);
    }

    /// An anchor that does not know its newest row ends: its successor reads what is there. No session notices.
    fn stop_if_unsound(&self) {
        if let Err(error) = self.journal(|journal| journal.is_sound()) {
            say!("{error}; this anchor ends, the next one reads what is there");
            self.stop();
        }
    }

    /// Looks at the journal.
    pub(super) fn journal<R>(&self, look: impl FnOnce(&mut Journal) -> R) -> R {
        look(&mut self.state.borrow_mut().journal)
    }

    /// Looks at what the rows say.
    pub(super) fn recall<R>(&self, look: impl FnOnce(&Recall) -> R) -> R {
        look(&self.state.borrow().recall)
    }

    /// Looks at one session, or changes it.
    pub(super) fn entry<R>(&self, name: &AgentId, look: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        self.state.borrow_mut().table.get_mut(name).map(look)
    }

    /// Puts a session into the table in place of what was there.
    pub(super) fn put(&self, meta: Meta, life: Life) {
        let name = meta.spec.name.clone();
        {
            let state = &mut *self.state.borrow_mut();
            let table = &mut state.table;
            let (revivals, counted) = match table.get(&meta.spec.name) {
                Some(entry) => (entry.revivals, false),
                None => match (state.recall.revivals(&about(&meta)), state.recall.is_tried(&about(&meta))) {
                    // Somebody started it: that begins anew.
                    (_, false) if meta.asked => (0, false),
                    recalled => recalled,
                },
            };
            let entry = Entry { revivals, counted, ..Entry::new(meta, life, Instant::now()) };
            table.insert(entry.name().clone(), entry);
        }
        self.register(&[name]);
        self.touch();
    }

    /// Gives a session of the table another name.
    pub(super) fn rename(&self, from: &AgentId, to: &AgentId) {
        {
            let table = &mut self.state.borrow_mut().table;
            let Some(mut entry) = table.remove(from) else { return };
            entry.meta.spec.name = to.clone();
            entry.meta.socket = self.layout.worker_sock(to);
            table.insert(to.clone(), entry);
        }
        self.register_anew();
        self.touch();
    }

    /// Every session's name.
    pub(super) fn names(&self) -> Vec<AgentId> {
        self.state.borrow().table.keys().cloned().collect()
    }

    /// Moves a session of that very description on; false when another generation has taken its place.
    pub(super) fn set_life(&self, about: &About, life: Life) -> bool {
        let moved = self.entry(&about.session, |entry| {
            let same = entry.meta.generation == about.generation && entry.meta.lineage == about.lineage;
            if same {
                entry.life = life;
            }
            same
        });
        self.register(std::slice::from_ref(&about.session));
        self.touch();
        moved.unwrap_or(false)
    }

    /// One session as clients see it.
    pub(super) fn view(&self, name: &AgentId) -> Result<SessionView, Refusal> {
        // One that does not read is told by the next looks of `pulse`.
        let _ = self.refresh(name);
        // Before the session is looked at: settings that do not read are told in a row of their own.
        let bounds = self.settings().heartbeat;
        let view = self.entry(name, |entry| entry.view(Instant::now(), bounds));
        let mut view = view.ok_or_else(|| not_found(name))?;
        view.unwritten = self.state.borrow().owed.is_only_known(name);
        if self.is_down(name) {
            (view.state, view.kept, view.revives_in_ms) = (SessionState::Stopped, false, None);
        }
        let over = !view.state.may_live();
        if let Ok(progress) = self.drain(&view.lineage, |drain| drain.state().progress(view.generation, over))
        {
            view.progress = progress;
        }
        Ok(view)
    }

    /// The word for a session, by the bounds of a silence as they were read last.
    pub(super) fn state_of(&self, name: &AgentId) -> Option<SessionState> {
        if self.is_down(name) {
            return Some(SessionState::Stopped);
        }
        let bounds = self.in_force.last().heartbeat;
        self.entry(name, |entry| entry.state(Instant::now(), bounds))
    }

    /// Whether a session that was lost was wanted down since: its description says how it was lost, and the journal this;
    /// of a generation that has no description yet, the journal alone.
    fn is_down(&self, name: &AgentId) -> bool {
        let gone = self.entry(name, |entry| {
            let ended =
                matches!(entry.meta.phase, Phase::Ended { .. } | Phase::Running { .. } | Phase::Starting);
            (ended && entry.life == Life::Gone).then(|| about(&entry.meta))
        });
        let Some(gone) = gone.flatten() else { return false };
        self.recall(|recall| match recall.session(name) {
            Some(known) if known.generation == gone.generation => known.state == SessionState::Stopped,
            Some(known) if known.lineage == gone.lineage && known.generation > gone.generation => {
                known.kill_asked
            }
            _ => false,
        })
    }

    /// Looks at what a lineage has behind it, or adds to it. Files that do not read are reported, once.
    pub(super) fn drain<R>(
        &self,
        lineage: &LineageId,
        look: impl FnOnce(&mut Drain) -> R,
    ) -> Result<R, DrainError> {
        if let Some(drain) = self.drains.borrow_mut().get_mut(lineage) {
            return Ok(look(drain));
        }
        let drain = self.open_drain(lineage)?;
        report::catch_up(self, lineage, drain.rows());
        Ok(look(self.drains.borrow_mut().entry(lineage.clone()).or_insert(drain)))
    }

    fn open_drain(&self, lineage: &LineageId) -> Result<Drain, DrainError> {
        let opened = Drain::open(&self.layout, lineage);
        let (drain, notes) = opened.inspect_err(|error| self.drain_failed(lineage, error))?;
        for note in notes {
            self.damaged(format!("drain/{lineage}"), &note);
        }
        Ok(drain)
    }

    /// Reads a lineage's files that were begun anew: what they say was told of those before.
    pub(super) fn begin_drain(&self, about: &About) -> Result<(), DrainError> {
        let drain = self.open_drain(&about.lineage)?;
        self.observe(EventKind::Anew, Some(about.clone()), event_data::Anew { rows: drain.rows() });
        self.drains.borrow_mut().insert(about.lineage.clone(), drain);
        Ok(())
    }

    /// Whether a lineage's files were read.
    pub(super) fn has_drain(&self, lineage: &LineageId) -> bool {
        self.drains.borrow().contains_key(lineage)
    }

    /// Sees whether all of a lineage's turns log holds, before anything is brought back by it; one that held and that nobody
    /// touched since is not read again. What does not hold is reported, once.
    pub(super) fn check_drain(&self, lineage: &LineageId) -> Result<(), DrainError> {
        let checked = self.drain(lineage, Drain::check).and_then(|checked| checked);
        if let Err(error) = &checked {
            self.drain_failed(lineage, error);
        }
        checked
    }

    /// Reports a lineage's file that does not read, once.
    pub(super) fn drain_failed(&self, lineage: &LineageId, error: &DrainError) {
        if matches!(error, DrainError::Damaged { .. }) {
            self.damaged(format!("drain/{lineage}"), &error.to_string());
        }
    }

    /// Has a lineage's files read anew: what failed halfway may have left anything.
    pub(super) fn forget_drain(&self, lineage: &LineageId) {
        self.drains.borrow_mut().remove(lineage);
    }

    /// A receiver that wakes with every row and every change of a life.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// From now on nothing is started.
    pub(super) fn begin_stop(&self) {
        self.stopping.set(true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Ends [`serve::until_stopped`](super::serve::until_stopped).
    pub(super) fn stop(&self) {
        self.stopping.set(true);
        self.stopped.send_replace(true);
    }

    /// Returns once [`Anchor::stop`] was called.
    pub(super) async fn stopped(&self) {
        let mut stopped = self.stopped.subscribe();
        // The sender is ours and lives as long as we do.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }
}

impl State {
    /// Folds what happened since the last time, and seals a file that they have filled.
    fn catch_up(&mut self) {
        self.fold();
        self.journal.rotate_if_full(&self.recall);
        self.fold();
        if self.journal.waits() == 0 && self.wishes.is_empty() {
            self.owed.clear();
        }
    }

    fn fold(&mut self) {
        for event in self.journal.take_unfolded() {
            self.recall.fold(&event);
        }
    }
}

pub(super) fn about(meta: &Meta) -> About {
    About { session: meta.spec.name.clone(), lineage: meta.lineage.clone(), generation: meta.generation }
}

pub(super) fn not_found(name: &AgentId) -> Refusal {
    Refusal::new(RefusalKind::NotFound, format!("no session {name}"))
}

pub(super) fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalKind::Internal, error.to_string())
}

/// A description that does not read; what a later program wrote is left alone.
pub(super) fn unread(error: MetaFileError) -> Refusal {
    if error.is_newer() {
        let message = format!("{error}: it is left alone, use the newer program");
        return Refusal::new(RefusalKind::Refused, message);
    }
    internal(error)
}

/// What the disk did not take; on a full one that is said as such, and nothing was done.
pub(super) fn unwritten(error: impl Into<JournalError>) -> Refusal {
    let error = error.into();
    let kind = if error.is_full() { RefusalKind::Busy } else { RefusalKind::Internal };
    Refusal::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::on_stage;
    use crate::rpc::event_data::Nothing;

    #[test]
    #[should_panic(expected = "a row of hung says {}")]
    fn a_row_that_is_not_what_the_reference_says_of_its_kind_is_not_written_here() {
        on_stage(async |anchor| anchor.observe(EventKind::Hung, None, Nothing {}));
    }
}
