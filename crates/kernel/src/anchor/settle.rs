//! What is left of a session once its worker is gone.
//!
//! Promise: when a session counts as gone, its end is in its meta and in the journal, and no process of its generation
//! lives. Who is told of the end finds the session gone: nothing is awaited between the two. The same code runs when a
//! watched worker dies and when an anchor finds a dead one at its start.
//!
//! The worker's lock is held from before the sweep until the end is written: a worker that was started by a dead anchor
//! and comes late finds either the lock taken or its generation ended, and never runs.

use std::rc::Rc;
use std::time::Duration;

use netsky_disk::cgroup::Group;
use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_disk::sweep::{Swept, sweep_marked};
use netsky_disk::{clock, fault, state};
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;

use super::state::Anchor;
use super::table::{Entry, Life};
use super::{adopt, fold, reap, revive};
use crate::journal::About;
use crate::log::say;
use crate::meta_file;
use crate::rpc::{EventKind, event_data};
use crate::session::{ENV_MARK, ENV_SESSION, End, Meta, Phase, PhaseEvent, mark};

/// How long a sweep looks for processes that will not end before it names them.
const SWEEP: Duration = Duration::from_secs(5);

/// Pause between two sweeps of a generation when `/proc` could not be looked into.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A look at a lock holds it for a moment; how long to wait that out.
pub(super) const LOOKERS: Duration = Duration::from_millis(200);

/// Pause between two looks at a description that the disk does not hand out.
pub(super) const READ_AGAIN: Duration = Duration::from_secs(5);

/// Pause between two looks at a lock that nobody could take.
const LOCK_AGAIN: Duration = Duration::from_secs(5);

/// How often a lock that is held although its worker is gone is waited for.
const TRIES: u32 = 2;

/// How the death was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Its worker was watched.
    Watched,
    /// It was dead when this anchor started.
    AtStart,
}

/// Settles a session whose worker is gone. One whose lock stays held, by nobody that can be named and ended, is
/// nothing to judge from here: its name is closed until the lock is found free.
pub(super) async fn session(anchor: &Rc<Anchor>, about: &About, mut found: Found) {
    if !anchor.has_root() {
        // The end of its root; the locks and descriptions at its path are another's.
        return anchor.stop();
    }
    for _ in 0..TRIES {
        if !anchor.set_life(about, Life::Ending) {
            return;
        }
        if let Some(held) = hold(anchor, &about.session) {
            return held_session(anchor, about, found, held).await;
        }
        // Not dead after all: a worker that a dead anchor had only just started.
        anchor.set_life(about, Life::Starting);
        if adopt::came_up(anchor, about).await {
            return;
        }
        found = Found::AtStart;
    }
    if anchor.set_life(about, Life::Foreign) {
        let why = "it stays held, and not by whom it names, or cannot be taken";
        anchor.damaged(format!("agents/{}.lock", about.session), why);
        let (anchor, about) = (Rc::clone(anchor), about.clone());
        tokio::task::spawn_local(async move { look_again(&anchor, &about, found).await });
    }
}

/// Settles it once its lock can be taken: whoever has it may end, and what the disk refused may pass.
async fn look_again(anchor: &Rc<Anchor>, about: &About, found: Found) {
    let is_closed = || anchor.entry(&about.session, |entry| entry.life) == Some(Life::Foreign);
    while anchor.has_root() && is_closed() {
        tokio::time::sleep(LOCK_AGAIN).await;
        // Asked first: a take waits for who has it, and keeps everybody else waiting.
        let is_free = || !Lock::is_held(anchor.layout.worker_lock(&about.session)).unwrap_or(true);
        if is_closed()
            && is_free()
            && let Some(held) = hold(anchor, &about.session)
            && anchor.set_life(about, Life::Ending)
        {
            return held_session(anchor, about, found, held).await;
        }
    }
}

/// Settles a session with the lock of its worker in hand.
async fn held_session(anchor: &Rc<Anchor>, about: &About, found: Found, held: Lock) {
    fold::catch_up(anchor, &about.session);
    // By its worker; what an anchor writes of one whose worker is dead is no more than that.
    let seen = anchor.recall(|recall| recall.end(about));
    let seen = seen.is_some_and(|how| !matches!(how, End::WorkerDied | End::Orphaned));
    let (told, may_write) = match meta_file::read(&anchor.layout, &about.session) {
        Ok(meta) => {
            (meta.filter(|meta| meta.generation == about.generation && meta.lineage == about.lineage), true)
        }
        Err(error) => {
            say!("{error}");
            // The end is written in the place of what says nothing. What the disk did not hand out may say how it ended.
            // What a later program wrote is whole, and is left alone.
            let aside = error.is_damage().then(|| state::set_aside(anchor.layout.meta(&about.session)));
            if let Some(Err(error)) = &aside {
                say!("{error}");
            }
            (None, aside.is_some_and(|aside| aside.is_ok()))
        }
    };
    match told {
        Some(meta) if !meta.phase.may_live() => ended_by_worker(anchor, about, meta),
        told => ended_without_worker(anchor, about, told, found, Some(&held).filter(|_| may_write)).await,
    }
    drop(held);
    anchor.set_life(about, Life::Gone);
    if may_write || seen {
        return revive::consider(anchor, about, found);
    }
    say!("what becomes of {} is decided once its description reads", about.session);
    once_it_reads(anchor, about, found);
}

/// Settles a session again as soon as its description reads, for it may say that the program returned by itself, or is set
/// aside as one that says nothing; nothing starts over one that does not read anyway.
fn once_it_reads(anchor: &Rc<Anchor>, about: &About, found: Found) {
    let (anchor, about) = (Rc::clone(anchor), about.clone());
    tokio::task::spawn_local(async move {
        let waits = |entry: &mut Entry| {
            let same = entry.meta.generation == about.generation && entry.meta.lineage == about.lineage;
            same && entry.life == Life::Gone && !matches!(entry.meta.phase, Phase::Inactive { .. })
        };
        loop {
            tokio::time::sleep(READ_AGAIN).await;
            if anchor.is_stopping() || anchor.entry(&about.session, waits) != Some(true) {
                return;
            }
            let is_decided = match meta_file::read(&anchor.layout, &about.session) {
                Ok(_) => true,
                // It will never say anything, and could not be set aside, or not be looked at, before.
                Err(error) if error.is_damage() => replace(&anchor, &about.session),
                Err(_) => false,
            };
            if is_decided {
                return session(&anchor, &about, found).await;
            }
        }
    });
}

/// Sets a description aside that says nothing, and writes what the table says in its place.
fn replace(anchor: &Anchor, name: &AgentId) -> bool {
    let Some(_held) = hold(anchor, name) else { return false };
    let known = anchor.entry(name, |entry| entry.meta.clone());
    state::set_aside(anchor.layout.meta(name)).is_ok()
        && known.is_some_and(|known| anchor.write_meta(&known).is_ok())
}

/// The end is written down; its row may be missing if whoever wrote it died right after.
fn ended_by_worker(anchor: &Anchor, about: &About, meta: Meta) {
    let how = match &meta.phase {
        Phase::Ended { how, .. } | Phase::Inactive { how, .. } => Some(how.clone()),
        Phase::Starting | Phase::Running { .. } => None,
    };
    anchor.entry(&about.session, |entry| entry.meta = meta.clone());
    if let Some(how) = how.filter(|_| !is_told(anchor, about)) {
        let kind = match how {
            End::Exited { .. } | End::Signalled { .. } | End::Killed => EventKind::Exited,
            End::WorkerDied => EventKind::Died,
            End::FailedToStart { .. } => EventKind::Failed,
            End::Orphaned => EventKind::Orphaned,
        };
        anchor.observe(kind, Some(about.clone()), event_data::Ended::by(how));
    }
    reap::tell(anchor, &meta);
}

/// The worker could not say: sweep what it held, and write down what is known.
async fn ended_without_worker(
    anchor: &Rc<Anchor>,
    about: &About,
    told: Option<Meta>,
    found: Found,
    held: Option<&Lock>,
) {
    let (swept, unseen) = sweep_generation(anchor, about).await;
    // Only a kill can be asked for here: there is nobody to give an error to.
    let _ = fault::point("anchor.settle.swept");
    let worker = anchor.entry(&about.session, |entry| entry.meta.worker.clone()).flatten();
    // The end may have found no room; then the worker has said it in its heartbeat.
    let said = revive::last_word(&anchor.layout, about, worker.as_ref());
    if matches!(said, Some((End::Killed, _))) {
        anchor.is_on_disk(&about.session);
    }
    let asked = anchor.recall(|recall| recall.session(&about.session).is_some_and(|known| known.kill_asked));
    let (kind, guess, at) = match (said, found) {
        (Some((how, at)), _) if how != End::Killed => (EventKind::Exited, how, Some(at)),
        (said, _) if asked || said.is_some() => (EventKind::Died, End::Killed, None),
        (_, Found::Watched) => (EventKind::Died, End::WorkerDied, None),
        (_, Found::AtStart) => (EventKind::Orphaned, End::Orphaned, None),
    };
    // What is told counts: a program that returned was not taken away.
    let how = anchor.recall(|recall| recall.end(about)).unwrap_or(guess);
    let known = anchor.entry(&about.session, |entry| entry.meta.clone());
    if let Some(meta) = told.or(known) {
        let at = at.clone().unwrap_or_else(clock::stamp);
        write_end(anchor, about, meta, (how.clone(), at), held);
    }
    let _ = fault::point("anchor.settle.written");
    // It is where an anchor told of it and could not write it down.
    if !is_told(anchor, about) {
        let ended = event_data::Ended::swept(Some(how), swept, unseen);
        anchor.observe(kind, Some(about.clone()), event_data::Ended { at, ..ended });
    }
}

/// Whether the end of that generation is in the journal.
pub(super) fn is_told(anchor: &Anchor, about: &About) -> bool {
    anchor.recall(|recall| recall.is_told(about))
}

/// Takes the lock of a session's worker; none when a worker holds it, or the root is gone.
pub(super) fn hold(anchor: &Anchor, name: &AgentId) -> Option<Lock> {
    if !anchor.has_root() {
        return None;
    }
    // Made anew where it is gone: a worker whose lock went with it ends itself.
    let made = Dir::make(anchor.layout.agents());
    let taken = made.and_then(|_| Lock::take_within(anchor.layout.worker_lock(name), LOOKERS));
    taken.unwrap_or_else(|error| {
        say!("{error}");
        None
    })
}

/// Puts an end into a session's meta, in the table and on disk; the lock is what gives the right to, and nobody has it over
/// what does not read: the next anchor looks again.
pub(super) fn write_end(
    anchor: &Anchor,
    about: &About,
    mut meta: Meta,
    (how, at): (End, Stamp),
    held: Option<&Lock>,
) {
    let Ok(phase) = meta.phase.clone().next(PhaseEvent::Ended(how, at)) else { return };
    meta.phase = phase;
    meta.written_at = clock::stamp();
    if let Some(Err(error)) = held.map(|_| anchor.write_meta(&meta)) {
        say!("{error}; the end of {} is only in the journal", about.session);
    }
    anchor.entry(&about.session, |entry| entry.meta = meta);
}

/// Kills whatever bears the mark of one generation. A look that fails is not an empty one: it is repeated, and what
/// stays unseen to the limit is said so; before another generation starts, [`sweep_lineage`] looks once more.
pub(super) async fn sweep_generation(anchor: &Anchor, about: &About) -> (Swept, Option<String>) {
    let until = clock::boot() + SWEEP;
    let meta = anchor.entry(&about.session, |entry| entry.meta.clone());
    let meta = meta.filter(|meta| meta.generation == about.generation && meta.lineage == about.lineage);
    let of_group = sweep_groups(meta.and_then(|meta| meta.group(anchor.layout.root())).into_iter()).await;
    loop {
        match sweep(ENV_MARK, mark(&about.lineage, about.generation)).await {
            Ok(swept) => return (both(of_group, swept), None),
            Err(_) if clock::boot() < until => tokio::time::sleep(LOOK_AGAIN).await,
            Err(why) => {
                say!("sweep {}: {why}", about.session);
                return (of_group, Some(why));
            }
        }
    }
}

/// Kills whatever is left of any generation of a lineage, before another one starts. A look that fails is not an
/// empty one: nothing may start after it.
pub(super) async fn sweep_lineage(anchor: &Anchor, about: &About) -> Result<Swept, String> {
    let marks = format!("{}.g", about.lineage);
    let of_groups =
        sweep_groups(groups(anchor).filter(|(mark, _)| mark.starts_with(&marks)).map(|(_, group)| group))
            .await;
    let swept = sweep(ENV_SESSION, about.lineage.to_string()).await?;
    Ok(both(of_groups, swept))
}

/// The groups of this root, by the marks of their generations.
fn groups(anchor: &Anchor) -> impl Iterator<Item = (String, Group)> {
    let listed = anchor.cgroups.as_ref().map(|place| place.groups(anchor.layout.root())).transpose();
    let listed = listed.unwrap_or_else(|error| {
        say!("{error}");
        None
    });
    listed.into_iter().flatten()
}

/// Kills and removes groups. One that cannot be is said so; what was in it is looked for by its mark.
async fn sweep_groups(groups: impl Iterator<Item = Group>) -> Swept {
    let mut all = Swept::default();
    for group in groups {
        match tokio::task::spawn_blocking(move || group.sweep(SWEEP)).await {
            Ok(Ok(swept)) => all = both(all, swept),
            Ok(Err(error)) => say!("{error}"),
            Err(_) => say!("the sweep of a cgroup was cut short"),
        }
    }
    all
}

/// Two sweeps as one; the second one has looked for whom the first one left.
fn both(mut first: Swept, second: Swept) -> Swept {
    first.killed += second.killed;
    first.left.extend(second.left.into_iter().filter(|id| !first.left.contains(id)).collect::<Vec<_>>());
    first
}

/// Removes the empty groups that dead sessions and dead roots left: a worker that is killed leaves its own.
pub(super) fn remove_groups(anchor: &Anchor) {
    for (mark, group) in groups(anchor) {
        let lives = anchor.names().iter().any(|name| {
            let look = |entry: &mut Entry| entry.life != Life::Gone && entry.meta.mark() == mark;
            anchor.entry(name, look).unwrap_or(false)
        });
        if !lives && let Err(error) = group.remove() {
            say!("{error}");
        }
    }
    let left = anchor.cgroups.as_ref().map(|place| place.remove_left(anchor.layout.root()));
    if let Some(Err(error)) = left {
        say!("{error}");
    }
}

async fn sweep(key: &'static str, value: String) -> Result<Swept, String> {
    match tokio::task::spawn_blocking(move || sweep_marked(key, &value, SWEEP)).await {
        Ok(swept) => swept.map_err(|error| error.to_string()),
        Err(_) => Err("the sweep was cut short".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, rows, session as described};
    use crate::anchor::state::about;
    use crate::rpc::SessionState;
    use crate::session::{Heartbeat, Keeper};

    #[test]
    fn what_does_not_read_is_not_written_over_by_an_end_that_it_may_tell_better() {
        for reads in [true, false] {
            on_stage(async |anchor| {
                let mut meta = described("agent0", Keeper::Watchdog);
                meta.phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
                meta_file::write(&anchor.layout, &meta).expect("written");
                let file = anchor.layout.meta(&meta.spec.name);
                if !reads {
                    // One that somebody else can reach is not trusted.
                    std::fs::hard_link(&file, file.with_extension("link")).expect("linked");
                }
                anchor.put(meta.clone(), Life::Live);
                let before = std::fs::read(&file).expect("reads");
                session(&anchor, &about(&meta), Found::Watched).await;
                assert_eq!(std::fs::read(&file).expect("reads") == before, !reads);
                assert_eq!(rows(&anchor), [EventKind::Died]);
                assert_eq!(anchor.state_of(&meta.spec.name), Some(SessionState::Died));
            });
        }
    }

    /// A session that runs by the table, and by a description that `is_linked`: one that somebody else can reach is not trusted.
    fn unread(anchor: &Anchor, written: &Meta) -> std::path::PathBuf {
        std::fs::write(anchor.layout.root().join("settings"), "LIMIT revival_policy ask\n").expect("written");
        meta_file::write(&anchor.layout, written).expect("written");
        let file = anchor.layout.meta(&written.spec.name);
        let link = file.with_extension("link");
        std::fs::hard_link(&file, &link).expect("linked");
        let phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
        anchor.put(Meta { phase, ..written.clone() }, Life::Live);
        link
    }

    #[test]
    fn i3_the_last_word_of_a_worker_counts_where_its_end_was_not_written() {
        let returned = End::Exited { code: 3 };
        for (ended, killed, state, row) in [
            (Some(returned.clone()), false, SessionState::Exited, EventKind::Exited),
            (Some(End::Killed), true, SessionState::Stopped, EventKind::Died),
            // By a worker that knew no other word.
            (None, true, SessionState::Stopped, EventKind::Died),
            (None, false, SessionState::Asking, EventKind::Died),
        ] {
            on_stage(async |anchor| {
                let ask = "LIMIT revival_policy ask\n";
                std::fs::write(anchor.layout.root().join("settings"), ask).expect("written");
                let mut meta = described("agent0", Keeper::Policy);
                meta.phase = Phase::Running { started_at: clock::stamp() };
                let mut worker = netsky_disk::process::me();
                worker.start_time -= 1;
                meta.worker = Some(worker.clone());
                meta_file::write(&anchor.layout, &meta).expect("written");
                let sample: Heartbeat =
                    serde_json::from_slice(include_bytes!("../../samples/heartbeat.v1.json")).expect("loads");
                let at = clock::stamp();
                let generation = meta.generation;
                let beat = Heartbeat { worker, generation, killed, ended, at: at.clone(), ..sample };
                let bytes = serde_json::to_vec(&beat).expect("plain");
                netsky_disk::state::write(anchor.layout.heartbeat(&meta.spec.name), &bytes).expect("written");
                anchor.put(meta.clone(), Life::Live);
                session(&anchor, &about(&meta), Found::Watched).await;
                assert_eq!(anchor.state_of(&meta.spec.name), Some(state));
                assert_eq!(rows(&anchor)[0], row);
                let told = anchor.entry(&meta.spec.name, |entry| entry.meta.phase.clone());
                if let Some(Phase::Ended { how, at: ended_at, .. }) = told
                    && how == returned
                {
                    assert_eq!(ended_at, at, "when it ended, not when somebody looked");
                }
            });
        }
    }

    #[test]
    fn i3_what_returned_by_the_journal_has_ended_whether_or_not_its_description_reads() {
        on_stage(async |anchor| {
            let meta = described("agent0", Keeper::Policy);
            unread(&anchor, &meta);
            let ended = event_data::Ended::by(End::Exited { code: 0 });
            anchor.observe(EventKind::Exited, Some(about(&meta)), ended);
            session(&anchor, &about(&meta), Found::Watched).await;
            assert_eq!(anchor.state_of(&meta.spec.name), Some(SessionState::Exited));
            assert_eq!(rows(&anchor), [EventKind::Exited], "nobody asks what becomes of it");
        });
    }

    #[test]
    fn i3_what_becomes_of_a_session_is_decided_once_its_description_reads() {
        for returned in [true, false] {
            on_stage(async |anchor| {
                tokio::time::pause();
                let mut meta = described("agent0", Keeper::Policy);
                if !returned {
                    meta.phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
                }
                let link = unread(&anchor, &meta);
                session(&anchor, &about(&meta), Found::Watched).await;
                assert_eq!(anchor.state_of(&meta.spec.name), Some(SessionState::Died));
                assert_eq!(rows(&anchor), [EventKind::Died], "it may have returned");
                std::fs::remove_file(link).expect("removed");
                let wanted = if returned { SessionState::Exited } else { SessionState::Asking };
                let mut changes = anchor.changes();
                let decided = async {
                    while anchor.state_of(&meta.spec.name) != Some(wanted) {
                        changes.changed().await.expect("it lives");
                    }
                };
                tokio::time::timeout(Duration::from_secs(600), decided).await.expect("it is decided");
                assert_eq!(rows(&anchor).contains(&EventKind::Asking), !returned);
            });
        }
    }

    #[test]
    fn i3_a_description_that_turns_out_to_say_nothing_is_set_aside_and_its_session_decided() {
        on_stage(async |anchor| {
            tokio::time::pause();
            let meta = described("agent0", Keeper::Policy);
            let link = unread(&anchor, &meta);
            std::fs::write(&link, "half a l").expect("written");
            session(&anchor, &about(&meta), Found::Watched).await;
            assert_eq!(anchor.state_of(&meta.spec.name), Some(SessionState::Died));
            std::fs::remove_file(link).expect("removed");
            let mut changes = anchor.changes();
            let decided = async {
                while anchor.state_of(&meta.spec.name) != Some(SessionState::Asking) {
                    changes.changed().await.expect("it lives");
                }
            };
            tokio::time::timeout(Duration::from_secs(600), decided).await.expect("it is decided");
            assert_eq!(rows(&anchor), [EventKind::Died, EventKind::Asking]);
            assert!(matches!(meta_file::read(&anchor.layout, &meta.spec.name), Ok(Some(_))));
        });
    }

    #[test]
    fn i9_a_lock_that_stays_held_with_a_stale_note_closes_its_name_until_it_is_free() {
        on_stage(async |anchor| {
            tokio::time::pause();
            let meta = described("agent0", Keeper::Anchor);
            let mut lock =
                Lock::try_take(anchor.layout.worker_lock(&meta.spec.name)).expect("ours").expect("free");
            let mut nobody = netsky_disk::process::me();
            nobody.start_time -= 1;
            lock.note(&nobody).expect("written");
            anchor.put(meta.clone(), Life::Live);
            let about = about(&meta);
            let settling = session(&anchor, &about, Found::Watched);
            tokio::time::timeout(Duration::from_secs(60), settling).await.expect("it ends");
            assert_eq!(anchor.entry(&meta.spec.name, |entry| entry.life), Some(Life::Foreign));
            assert_eq!(rows(&anchor), [EventKind::Damaged]);
            drop(lock);
            let mut changes = anchor.changes();
            let settled = async {
                while anchor.entry(&meta.spec.name, |entry| entry.life) == Some(Life::Foreign) {
                    changes.changed().await.expect("it lives");
                }
            };
            tokio::time::timeout(Duration::from_secs(60), settled).await.expect("it is looked at again");
        });
    }
}
