//! Sessions whose description is gone or does not read: those that live, and those that were lost.
//!
//! Promise: such a worker is found by the lock it holds, or by the journal's row of its start, and proved by its identity. It is
//! asked to write its description anew, and is adopted by that like any other. One that does not (of a former program,
//! stopped, on a full disk) is listed, watched and ended by what journal, lock and greeting say of it; what it would have to
//! be brought back by is not known then. One that ran, by the journal, and whose worker is dead too is ended there as lost,
//! once, and listed. The damage is one row, however many anchors find it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lines;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_model::id::AgentId;
use netsky_model::process::{Life as Probed, ProcessId};
use tokio::task::JoinHandle;

use super::recall::Remembered;
use super::settle::{self, Found};
use super::state::{Anchor, about};
use super::table::Life;
use super::{adopt, fold, rename, watch};
use crate::journal::About;
use crate::log::say;
use crate::meta_file::{self, MetaFileError};
use crate::rpc::{EventKind, SessionState, event_data};
use crate::session::{End, Io, Keeper, Meta, Phase, PhaseEvent, Seen, Spec, WorkerEvent, WorkerHello};
use crate::worker_client::WorkerClient;

/// How long a worker may take to greet, and then to write: both together end before the first client is served.
const ASK: Duration = Duration::from_millis(900);
/// The size of a terminal that nobody has told.
const TERMINAL: Io = Io::Pty { rows: 24, cols: 80 };

/// How a session without a description stands.
enum Stands {
    /// Somebody holds its lock, or is the worker of its last start, or may be: from here that is not seen.
    Lives,
    /// It ran, nobody wrote its end, and its worker is dead.
    Lost,
    /// Nothing ran, or its end is told.
    Over,
}

/// Looks for every session of the root that lives or was lost and is not among the `described`; `unread` says why, where there is a file.
pub(super) fn all(
    anchor: &Rc<Anchor>,
    files: &[String],
    described: &BTreeSet<AgentId>,
    mut unread: BTreeMap<AgentId, MetaFileError>,
) -> Vec<JoinHandle<()>> {
    let locks = files.iter().filter_map(|file| file.strip_suffix(".lock")?.parse().ok());
    let journalled =
        anchor.recall(|recall| recall.sessions().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let names: BTreeSet<AgentId> = unread.keys().cloned().chain(locks).chain(journalled).collect();
    let mut asking = Vec::new();
    for name in names.difference(described) {
        let (why, stands) = (unread.remove(name), stands(anchor, name));
        let so = match stands {
            // Left where it is until it reads, or until the next start of its name.
            Stands::Over => {
                if let Some(error) = why {
                    over(anchor, name, &error);
                }
                continue;
            }
            Stands::Lives => "lives",
            Stands::Lost => "is lost",
        };
        let (anchor, name) = (Rc::clone(anchor), name.clone());
        let why = why.map(|error| error.to_string());
        let why = why.unwrap_or_else(|| format!("it is gone, and its session {so}"));
        asking.push(tokio::task::spawn_local(async move {
            match stands {
                Stands::Lost => lost(&anchor, &name, &why).await,
                _ => one(&anchor, &name, &why).await,
            }
        }));
    }
    asking
}

fn file(name: &AgentId) -> String {
    format!("agents/{name}.meta")
}

/// By the lock, and by the worker of its last start: a folder that was removed has no locks.
fn stands(anchor: &Anchor, name: &AgentId) -> Stands {
    if Lock::is_held(anchor.layout.worker_lock(name)).unwrap_or(false) {
        return Stands::Lives;
    }
    if known(anchor, name).is_some_and(|known| !known.ended) {
        // Its worker may have written its start, and its end.
        fold::catch_up(anchor, name);
    }
    match started(anchor, name).as_ref().map(probe) {
        Some(Probed::Alive | Probed::Unknown) => Stands::Lives,
        Some(Probed::Dead) => Stands::Lost,
        None => Stands::Over,
    }
}

fn known(anchor: &Anchor, name: &AgentId) -> Option<Remembered> {
    anchor.recall(|recall| recall.session(name).cloned())
}

/// The worker of the newest generation, as the journal has it.
fn started(anchor: &Anchor, name: &AgentId) -> Option<ProcessId> {
    known(anchor, name)?.running().cloned()
}

async fn one(anchor: &Rc<Anchor>, name: &AgentId, why: &str) {
    // What is left of a session is settled with its lock in hand, which needs its folder.
    if let Err(error) = Dir::make(anchor.layout.agents()) {
        say!("{error}");
    }
    let path = anchor.layout.worker_sock(name);
    let asked = tokio::task::spawn_blocking(move || ask(&path)).await.ok().flatten();
    if let Ok(Some(meta)) = meta_file::read(&anchor.layout, name) {
        anchor.damaged(file(name), why);
        if let Some(settling) = adopt::one(anchor, meta) {
            // A task that panicked has said so on standard error.
            let _ = settling.await;
        }
        return;
    }
    fold::catch_up(anchor, name);
    let noted = Lock::noted::<ProcessId>(anchor.layout.worker_lock(name)).or_else(|| started(anchor, name));
    let hello = asked
        .filter(|hello| hello.name == *name && noted.as_ref().is_none_or(|noted| *noted == hello.worker));
    let Some(meta) = pieced_together(anchor, name, hello, noted) else {
        anchor.damaged(file(name), why);
        return say!("somebody holds {name}, and nothing says which generation it is");
    };
    let life = match meta.worker.as_ref().map(probe) {
        Some(Probed::Alive) => Life::Live,
        // It ended while it was asked.
        Some(Probed::Dead) => {
            anchor.damaged(file(name), why);
            return ended(anchor, meta).await;
        }
        Some(Probed::Unknown) | None => Life::Foreign,
    };
    let about = about(&meta);
    let worker = meta.worker.clone();
    anchor.put(meta, life);
    // Rows of its adoption say that it is described.
    if !anchor.recall(|recall| recall.is_undescribed(&file(name))) {
        if let Some(worker) = worker.as_ref().filter(|_| life == Life::Live) {
            let adopted = event_data::Adopted { pid: worker.pid };
            anchor.observe(EventKind::Adopted, Some(about.clone()), adopted);
        }
        anchor.damaged(file(name), why);
    }
    if let Some(worker) = worker.filter(|_| life == Life::Live) {
        watch::start(anchor, about, worker, None);
    }
}

/// Ends a session that nothing but the journal knows of, with what is left of it.
async fn lost(anchor: &Rc<Anchor>, name: &AgentId, why: &str) {
    anchor.damaged(file(name), why);
    if let Some(meta) = pieced_together(anchor, name, None, started(anchor, name)) {
        ended(anchor, meta).await;
    }
}

async fn ended(anchor: &Rc<Anchor>, meta: Meta) {
    let about = about(&meta);
    anchor.put(meta, Life::Ending);
    settle::session(anchor, &about, Found::AtStart).await;
}

/// A session that is over and whose description is there. One that may read later is listed until then as the journal has
/// it, and nothing is done about it but to keep it down.
fn over(anchor: &Rc<Anchor>, name: &AgentId, error: &MetaFileError) {
    anchor.damaged(file(name), &error.to_string());
    if !error.may_pass() {
        return;
    }
    if let Some((known, meta)) = known(anchor, name).zip(pieced_together(anchor, name, None, None)) {
        let (about, now) = (about(&meta), clock::stamp());
        let how = known.how.clone().unwrap_or(End::Orphaned);
        let mut phase = meta.phase.clone().next(PhaseEvent::Ended(how, now));
        if known.state == SessionState::Inactive {
            phase = phase.and_then(|phase| phase.next(PhaseEvent::Reaped));
        }
        let phase = phase.unwrap_or_else(|_| meta.phase.clone());
        let mut listed = Meta { phase, ..meta };
        // Who its keeper is nobody knows yet: a wish that it stays down is written, and a name is not given to another.
        listed.spec.keeper = Keeper::Policy;
        anchor.put(listed, Life::Gone);
        anchor.entry(&about.session, |entry| entry.asking = known.state == SessionState::Asking);
    }
    once_it_reads(anchor, name);
}

/// Takes a session in as any other that is found at a start, as soon as its description reads.
fn once_it_reads(anchor: &Rc<Anchor>, name: &AgentId) {
    let (anchor, name) = (Rc::clone(anchor), name.clone());
    let stands = |anchor: &Anchor, name: &AgentId| {
        anchor.entry(name, |entry| (entry.meta.lineage.clone(), entry.meta.generation))
    };
    let listed = stands(&anchor, &name);
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(settle::READ_AGAIN).await;
            // Somebody may have started another one.
            if anchor.is_stopping() || stands(&anchor, &name) != listed {
                return;
            }
            match meta_file::read(&anchor.layout, &name) {
                Ok(meta) => {
                    let names = Dir::open(anchor.layout.agents()).and_then(|agents| agents.names());
                    let found =
                        meta.and_then(|meta| rename::found(&anchor, meta, &names.unwrap_or_default()));
                    // A task that panicked has said so on standard error.
                    return drop(found.and_then(|meta| adopt::one(&anchor, meta)));
                }
                Err(error) if error.may_pass() => {}
                Err(error) => return say!("{error}"),
            }
        }
    });
}

/// Has a worker write its description anew; what it greeted with, if it did.
fn ask(path: &Path) -> Option<WorkerHello> {
    let mut worker = WorkerClient::connect_within(path, ASK).ok()?;
    if let Err(error) = worker.restate(ASK) {
        say!("{}: its description was not written anew: {error}", worker.hello().name);
    }
    Some(worker.hello().clone())
}

/// What is known of a session without its description: enough to list, to watch and to end it, and nothing to start it by.
fn pieced_together(
    anchor: &Anchor,
    name: &AgentId,
    hello: Option<WorkerHello>,
    noted: Option<ProcessId>,
) -> Option<Meta> {
    let greeted = hello.as_ref().map(|hello| (hello.lineage.clone(), hello.generation));
    let journalled = || known(anchor, name).map(|known| (known.lineage, known.generation));
    let (lineage, generation) = greeted.or_else(journalled)?;
    let about = About { session: name.clone(), lineage, generation };
    let worker = hello.as_ref().map(|hello| hello.worker.clone()).or(noted);
    let program = match &hello {
        Some(hello) => Some(hello.program.clone()),
        None => program(&anchor.layout, &about, worker.as_ref()),
    };
    let io = if hello.is_some_and(|hello| hello.pty) { TERMINAL } else { Io::Pipes };
    let mut meta = bare(&anchor.layout, about, worker, program);
    (meta.spec.io, meta.anchor_epoch) = (io, anchor.epoch);
    meta.cgroup = anchor.cgroups.as_ref().and_then(|place| place.of(anchor.layout.root(), &meta.mark()).ok());
    Some(meta)
}

/// A description of a session that has none.
pub(super) fn bare(
    layout: &KernelLayout,
    about: About,
    worker: Option<ProcessId>,
    program: Option<ProcessId>,
) -> Meta {
    let now = clock::stamp();
    Meta {
        lineage: about.lineage,
        generation: about.generation,
        socket: layout.worker_sock(&about.session),
        spec: Spec {
            name: about.session,
            argv: Vec::new(),
            cwd: "/".into(),
            env: BTreeMap::new(),
            umask: None,
            io: Io::Pipes,
            runtime: "unknown".to_owned(),
            model: None,
            // Nobody here can bring it back.
            keeper: Keeper::Watchdog,
            tags: BTreeMap::new(),
        },
        anchor_epoch: 0,
        written_at: now.clone(),
        phase: Phase::Running { started_at: now },
        program,
        worker,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        conversation: None,
        asked: false,
        handoff: None,
        cgroup: None,
        output_from: None,
        extra: serde_json::Map::new(),
    }
}

/// The program, as its worker wrote down that it started it.
pub(super) fn program(layout: &KernelLayout, about: &About, worker: Option<&ProcessId>) -> Option<ProcessId> {
    let lines = lines::read(layout.events(&about.session)).ok()?;
    let rows = lines.iter().rev().filter_map(|line| serde_json::from_slice::<WorkerEvent>(line).ok());
    rows.filter(|row| Some(&row.worker) == worker && row.generation == about.generation)
        .find_map(|row| if let Seen::Started { program } = row.what { Some(program) } else { None })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::anchor::reap;
    use crate::anchor::spawn;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::rpc::{Guard, RefusalKind};

    /// A session that was lost, by the rows of it and by a description that has a second link: such a one is not trusted.
    fn lost_and_linked(anchor: &Anchor, state: SessionState) -> (Meta, PathBuf) {
        let mut meta = session("agent0", Keeper::Policy);
        let Phase::Ended { how, .. } = &mut meta.phase else { panic!("it has ended") };
        *how = End::WorkerDied;
        meta_file::write(&anchor.layout, &meta).expect("written");
        let file = anchor.layout.meta(&meta.spec.name);
        let link = file.with_extension("link");
        std::fs::hard_link(&file, &link).expect("linked");
        let of = || Some(about(&meta));
        let (runtime, keeper) = (meta.spec.runtime.clone(), meta.spec.keeper);
        anchor.observe(EventKind::Spawn, of(), event_data::Spawn { runtime, keeper, request_id: None });
        anchor.observe(EventKind::Died, of(), event_data::Ended::by(End::WorkerDied));
        if state == SessionState::Asking {
            anchor.observe(EventKind::Asking, of(), event_data::Asking { why: None });
        }
        (meta, link)
    }

    #[test]
    fn i3_a_dead_session_whose_description_does_not_read_just_now_is_known_and_goes_on_once_it_does() {
        for (policy, state, after) in [
            ("ask", SessionState::Asking, SessionState::Asking),
            ("revive", SessionState::Died, SessionState::Died),
            ("reap", SessionState::Died, SessionState::Inactive),
        ] {
            on_stage(async |anchor| {
                tokio::time::pause();
                let settings = format!("LIMIT revival_policy {policy}\n");
                std::fs::write(anchor.layout.root().join("settings"), settings).expect("written");
                let (meta, link) = lost_and_linked(&anchor, state);
                let (name, before) = (&meta.spec.name, rows(&anchor).len());
                adopt::all(&anchor).await.expect("reads");
                assert_eq!(anchor.state_of(name), Some(state));
                let params = crate::rpc::spawn::Params { spec: meta.spec.clone(), guard: Guard::none() };
                let refused = spawn::spawn(&anchor, params).await.expect_err("nothing starts over it");
                assert_eq!(
                    refused.kind() == RefusalKind::Refused,
                    state == SessionState::Asking,
                    "{refused}"
                );
                let again = spawn::revived(
                    &anchor,
                    anchor.entry(name, |entry| entry.meta.spec.clone()).expect("listed"),
                    meta.generation,
                    None,
                );
                assert_eq!(again.await.expect_err("nobody knows what").kind(), RefusalKind::Busy);
                let _ = reap::reap(&anchor);
                assert_eq!(
                    rows(&anchor).split_off(before),
                    [EventKind::Damaged],
                    "{policy}: nothing is done"
                );
                std::fs::remove_file(link).expect("removed");
                let mut changes = anchor.changes();
                let read = async {
                    while anchor.entry(name, |entry| entry.meta.spec.argv.is_empty()) != Some(false) {
                        changes.changed().await.expect("it lives");
                    }
                };
                tokio::time::timeout(Duration::from_secs(600), read).await.expect("it is read");
                assert_eq!(anchor.state_of(name), Some(after), "{policy}");
                assert_eq!(rows(&anchor).contains(&EventKind::Revive), policy == "revive");
            });
        }
    }

    #[test]
    fn i3_a_session_without_a_description_that_ends_while_it_is_asked_is_ended_as_lost() {
        on_stage(async |anchor| {
            let meta = session("agent0", Keeper::Policy);
            let mut worker = netsky_disk::process::me();
            worker.start_time -= 1;
            let of = || Some(about(&meta));
            let (runtime, keeper) = (meta.spec.runtime.clone(), meta.spec.keeper);
            anchor.observe(EventKind::Spawn, of(), event_data::Spawn { runtime, keeper, request_id: None });
            let started = event_data::Started { program: worker.clone(), worker, n: 1, at: clock::stamp() };
            anchor.observe(EventKind::Started, of(), started);
            let before = rows(&anchor).len();
            one(&anchor, &meta.spec.name, "it is gone").await;
            assert_eq!(rows(&anchor).split_off(before), [EventKind::Damaged, EventKind::Orphaned]);
            assert_eq!(anchor.state_of(&meta.spec.name), Some(SessionState::Orphaned));
        });
    }
}
