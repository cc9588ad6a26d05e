//! `session/kill`: end a session's whole tree.
//!
//! Promise: the wish is durable before anything is signalled, so that nobody revives the session, not even a successor of an
//! anchor that dies in the middle. A full disk keeps nobody from being killed: the wish then goes where room was set aside
//! (`owed`), and where there is none it is kept in memory and the answer says so. The worker does the killing; a worker that does not is killed itself and what it held is
//! swept. The caller is answered when nothing of the generation lives.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::process::{PidFd, Signal, signal};
use netsky_disk::sweep::group_lives;
use netsky_disk::{clock, fault};
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;

use super::state::{Anchor, about, internal, not_found};
use super::table::Life;
use crate::journal::About;
use crate::log::say;
use crate::rpc::kill::{Params, check_grace};
use crate::rpc::{EventKind, Guard, Refusal, RefusalKind, SessionView, event_data};
use crate::session::{End, Keeper, Meta};
use crate::worker_client::{WorkerClient, WorkerError};

/// How long a start that is under way may take to come to its end.
const STARTING: Duration = Duration::from_secs(15);
/// How long a worker may take beyond the grace: it sweeps its tree and writes two small files.
const MARGIN: Duration = Duration::from_secs(5);
/// How long the tree of a killed worker may take to be swept.
const SWEEP: Duration = Duration::from_secs(10);
/// How long a worker may take to greet: its loop comes round in milliseconds.
const HELLO: Duration = Duration::from_secs(2);
/// How often a group is looked at that a stuck worker does not wait for.
const LOOK: Duration = Duration::from_millis(20);
/// How long after a worker's last word (or after its silence) its end may take to be settled here.
const GONE: Duration = Duration::from_secs(1);

/// Ends what a client names.
pub(super) async fn kill(anchor: &Rc<Anchor>, params: Params) -> Result<SessionView, Refusal> {
    let Params { session, grace_ms, guard } = params;
    check_grace(grace_ms)?;
    let meta = current(anchor, &session, &guard)?;
    let about = about(&meta);
    match life(anchor, &about) {
        Some(Life::Foreign) => {
            let message =
                format!("{session} is another pid namespace's or nobody's: it cannot be ended from here");
            return Err(Refusal::new(RefusalKind::Refused, message));
        }
        // Nothing to end; but one that its anchor keeps must not come back.
        Some(Life::Gone) if meta.spec.keeper == Keeper::Watchdog || asked_before(anchor, &about) => {}
        // Also of one that ends by itself: whoever settles it looks for the wish before it revives.
        _ => {
            let data = event_data::Kill { grace_ms: Some(grace_ms), request_id: guard.request_id.clone() };
            wish(anchor, &about, data)?;
            fault::point("anchor.kill.wished").map_err(internal)?;
        }
    }
    // Whoever was asked what becomes of it has answered.
    anchor.entry(&session, |entry| entry.asking = false);
    if !until(anchor, &about, STARTING, |life| life != Life::Starting).await {
        return Err(Refusal::new(RefusalKind::Busy, format!("{session} is still starting")));
    }
    match life(anchor, &about) {
        Some(Life::Live) => {
            // What its start has written into it since.
            let meta = current(anchor, &session, &guard)?;
            end(anchor, &about, &meta, grace_ms).await
        }
        _ => ended(anchor, &about, SWEEP).await,
    }
}

/// The life of that very generation; none when another one has taken its place, which says that this one is gone.
fn life(anchor: &Anchor, about: &About) -> Option<Life> {
    let life = anchor.entry(&about.session, |entry| {
        let same = entry.meta.generation == about.generation && entry.meta.lineage == about.lineage;
        same.then_some(entry.life)
    });
    life.flatten()
}

fn current(anchor: &Anchor, session: &AgentId, guard: &Guard) -> Result<Meta, Refusal> {
    let meta = anchor.entry(session, |entry| entry.meta.clone()).ok_or_else(|| not_found(session))?;
    guard.believes(session, meta.generation)?;
    Ok(meta)
}

/// Whether that generation, or one that follows it, is to be down.
pub(super) fn asked_before(anchor: &Anchor, about: &About) -> bool {
    anchor.recall(|recall| {
        let known = recall.of(about);
        known.is_some_and(|known| known.kill_asked && known.generation >= about.generation)
    })
}

/// The newest generation of its lineage. One that an anchor took, and died before it had described it, is in the journal
/// alone: a wish about the one before would be about nobody any more.
fn newest(anchor: &Anchor, about: &About) -> About {
    let taken = anchor.recall(|recall| recall.of(about).map(|known| known.generation));
    About { generation: about.generation.max(taken.unwrap_or(about.generation)), ..about.clone() }
}

/// Writes down that it is to be down, and to stay so.
pub(super) fn wish(anchor: &Anchor, about: &About, data: event_data::Kill) -> Result<(), Refusal> {
    let about = &newest(anchor, about);
    match anchor.commit(EventKind::Kill, Some(about.clone()), data.clone()) {
        Err(error) if error.is_full() => {
            say!("{error}; the kill of {} is owed to the journal", about.session);
            anchor.owe(about, data);
            Ok(())
        }
        written => written.map_err(internal),
    }
}

/// Ends a live session: through its worker, else without it.
pub(super) async fn end(
    anchor: &Rc<Anchor>,
    about: &About,
    meta: &Meta,
    grace_ms: u32,
) -> Result<SessionView, Refusal> {
    let grace = Duration::from_millis(u64::from(grace_ms));
    let until = clock::boot() + grace;
    let (path, wanted) = (anchor.layout.worker_sock(&about.session), about.clone());
    let asked = tokio::task::spawn_blocking(move || ask(&path, &wanted, grace));
    match asked.await {
        Ok(Ok(_)) | Err(_) => {}
        Ok(Err(error)) => say!("the worker of {} does not kill: {error}", about.session),
    }
    if let Ok(view) = ended(anchor, about, GONE).await {
        return Ok(view);
    }
    // The worker is stuck. Its program dies with it, by the parent-death signal; the rest is swept by its mark.
    if let Some(program) = meta.program.clone() {
        plead(program, until.saturating_sub(clock::boot())).await;
    }
    if let Some(worker) = &meta.worker {
        signal(worker, Signal::KILL).map_err(internal)?;
    }
    ended(anchor, about, SWEEP).await
}

/// Has the worker of that very generation kill, and waits for it.
fn ask(path: &Path, wanted: &About, grace: Duration) -> Result<End, WorkerError> {
    WorkerClient::of(path, wanted, HELLO)?.kill_and_wait(grace, MARGIN)
}

/// What is left of the grace that a stuck worker did not give to the program and its group. Its number stays the program's,
/// for who is stuck waits for nobody.
async fn plead(program: ProcessId, rest: Duration) {
    let pleading = tokio::task::spawn_blocking(move || {
        let over = clock::boot() + rest;
        let Some(held) = PidFd::open(&program)? else { return Ok(()) };
        held.signal_group(Signal::TERM)?;
        // Who is stopped would only see it when somebody continues it.
        held.signal_group(Signal::CONT)?;
        while clock::boot() < over && group_lives(program.pid)? {
            clock::pause(LOOK);
        }
        Ok(())
    });
    if let Ok(Err(error)) = pleading.await {
        let error: netsky_disk::Error = error;
        say!("{error}");
    }
}

/// Waits until nothing of that generation lives.
pub(super) async fn ended(anchor: &Anchor, about: &About, limit: Duration) -> Result<SessionView, Refusal> {
    if until(anchor, about, limit, |life| life == Life::Gone).await {
        return anchor.view(&about.session);
    }
    Err(Refusal::new(RefusalKind::Busy, format!("{} has not ended yet", about.session)))
}

/// Waits until the life of that generation is as `wanted`, or over: another one starts only after its end, and may do so
/// before anybody who waits has looked. False when it is not within `limit`.
async fn until(anchor: &Anchor, about: &About, limit: Duration, wanted: impl Fn(Life) -> bool) -> bool {
    let mut changes = anchor.changes();
    let waiting = async {
        loop {
            changes.borrow_and_update();
            if life(anchor, about).is_none_or(&wanted) {
                return;
            }
            // The sender is the anchor's own.
            let _ = changes.changed().await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::revive;
    use crate::anchor::settle::Found;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::rpc::{EventKind, SessionState, shutdown};

    fn params(session: &AgentId) -> Params {
        Params { session: session.clone(), grace_ms: 0, guard: Guard::none() }
    }

    /// What settling does once it has swept.
    fn settled(anchor: &Rc<Anchor>, about: &About) {
        anchor.set_life(about, Life::Gone);
        revive::consider(anchor, about, Found::Watched);
    }

    #[test]
    fn a_kill_that_meets_a_dying_kept_session_keeps_it_down() {
        on_stage(async |anchor| {
            let dying = session("agentinfinity", Keeper::Anchor);
            anchor.put(dying.clone(), Life::Ending);
            let (of, about) = (Rc::clone(&anchor), about(&dying));
            let killing = tokio::task::spawn_local(async move { kill(&of, params(&dying.spec.name)).await });
            tokio::task::yield_now().await;
            settled(&anchor, &about);
            killing.await.expect("no panic").expect("ended");
            assert_eq!(rows(&anchor), [EventKind::Kill], "asked, and not revived");
        });
    }

    #[test]
    fn a_shutdown_of_everything_that_meets_a_dying_kept_session_keeps_it_down() {
        on_stage(async |anchor| {
            let dying = session("agentinfinity", Keeper::Anchor);
            anchor.put(dying.clone(), Life::Ending);
            let (of, about) = (Rc::clone(&anchor), about(&dying));
            let stopping = tokio::task::spawn_local(async move {
                super::super::shutdown::shutdown(&of, shutdown::Params { all: true, grace_ms: None }).await
            });
            tokio::task::yield_now().await;
            settled(&anchor, &about);
            assert_eq!(
                stopping.await.expect("no panic").expect("stops").ended,
                std::slice::from_ref(&about.session)
            );
            assert!(asked_before(&anchor, &about), "the next anchor would revive it");
        });
    }

    #[test]
    fn a_kill_is_of_the_newest_generation_also_where_only_the_journal_has_it() {
        on_stage(async |anchor| {
            let first = session("agentinfinity", Keeper::Anchor);
            let second = About { generation: first.generation.next(), ..about(&first) };
            // An anchor took the second one and died before it had described it.
            for of in [about(&first), second.clone()] {
                let runtime = "command".to_owned();
                let data = event_data::Spawn { runtime, keeper: Keeper::Anchor, request_id: None };
                anchor.observe(EventKind::Spawn, Some(of), data);
            }
            anchor.put(first.clone(), Life::Gone);
            assert!(revive::wanted(&anchor, &about(&first)));
            let view = kill(&anchor, params(&first.spec.name)).await.expect("it is down");
            assert_eq!((view.state, view.kept), (SessionState::Stopped, false));
            assert!(!revive::wanted(&anchor, &about(&first)), "{:?}", rows(&anchor));
            let told = anchor.journal(|journal| journal.after(0)).expect("reads");
            assert_eq!(told.last().and_then(|row| row.generation), Some(second.generation));
        });
    }

    #[test]
    fn an_end_is_seen_although_the_next_generation_starts_at_once() {
        on_stage(async |anchor| {
            let first = session("agent0", Keeper::Watchdog);
            anchor.put(first.clone(), Life::Ending);
            let (of, about) = (Rc::clone(&anchor), about(&first));
            let waiting =
                tokio::task::spawn_local(async move { ended(&of, &about, Duration::from_millis(200)).await });
            tokio::task::yield_now().await;
            anchor.put(Meta { generation: first.generation.next(), ..first }, Life::Starting);
            waiting.await.expect("no panic").expect("the first one is gone");
        });
    }
}
