//! Heartbeats, seen from here.
//!
//! Promise: ages count on a clock that stands still in suspend, from the beat this anchor saw itself: a machine that slept
//! wakes to healthy sessions. Silence is reported once, and its end too. What is still silent at the next look is ended and
//! revived where the anchor is its keeper; what to do about another's is that keeper's business.
//!
//! Silent is who beats neither in the file nor, asked, over the socket: a file that was removed, cannot be written or does
//! not read is damage, and no worker is ended for it.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::process::{Signal, signal};
use netsky_model::id::AgentId;
use tokio::time::Instant;

use super::state::{Anchor, about};
use super::table::{Found, Life};
use super::{fold, reap, succeed};
use crate::journal::About;
use crate::log::say;
use crate::rpc::{EventKind, event_data};
use crate::session::{Heartbeat, Keeper, Meta};
use crate::worker_client::{WorkerClient, WorkerError};

/// Looks in a row that find no heartbeat in the file before it counts as damaged: one may meet it half rewritten.
const DAMAGED: u32 = 2;
/// How long a worker may take to greet, and then to answer: its loop comes round in milliseconds.
const ROUND: Duration = Duration::from_secs(2);

/// Looks at every worker once a period, and at the root: an anchor whose root was removed or moved serves nobody.
pub(super) fn start(anchor: &Rc<Anchor>) {
    let anchor = Rc::clone(anchor);
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(anchor.period).await;
            if !anchor.has_root() {
                // Its workers see the same, each by itself.
                say!("the root {} was removed or moved", anchor.layout.root().display());
                return anchor.stop();
            }
            let looks = anchor.names().into_iter().map(|name| {
                let anchor = Rc::clone(&anchor);
                tokio::task::spawn_local(async move { look(&anchor, &name).await })
            });
            // All at once: those that are asked over their sockets may each take as long as is waited for one.
            for look in looks.collect::<Vec<_>>() {
                // A look that panicked has said so on standard error.
                let _ = look.await;
            }
            anchor.names().iter().for_each(|name| succeed::once_more(&anchor, name));
            reap::old(&anchor);
            anchor.register_all();
            anchor.flush();
        }
    });
}

async fn look(anchor: &Anchor, name: &AgentId) {
    if anchor.entry(name, |entry| entry.life) != Some(Life::Live) {
        return;
    }
    let garbled = anchor.refresh(name).err();
    let unread = anchor.entry(name, |entry| {
        entry.unread = if garbled.is_some() { entry.unread.saturating_add(1) } else { 0 };
        entry.unread
    });
    if let Some(why) = garbled.filter(|_| unread >= Some(DAMAGED)) {
        anchor.damaged(format!(".heartbeat.{name}"), &why.to_string());
    }
    if anchor.recall(|recall| recall.session(name).is_some_and(|known| !known.started)) {
        // Adopted before its worker had written the row of its start.
        fold::catch_up(anchor, name);
    }
    // A beat that is due may be on its way; one and a half are late, and still far from the shortest bound.
    if anchor.entry(name, |entry| entry.silence(Instant::now()) >= anchor.period * 3 / 2) == Some(true) {
        listen(anchor, name).await;
    }
    judge(anchor, name);
}

/// Asks a worker whose file is silent over its socket; an answer is a beat.
async fn listen(anchor: &Anchor, name: &AgentId) {
    let Some(about) = anchor.entry(name, |entry| about(&entry.meta)) else { return };
    let (path, wanted) = (anchor.layout.worker_sock(name), about.clone());
    let asking = tokio::task::spawn_blocking(move || ask(path, &wanted));
    let Ok(Ok(answer)) = asking.await else { return };
    // Read after the answer: who has beaten n times had n in the file before it answered.
    let _ = anchor.refresh(name);
    let told = anchor.entry(name, |entry| {
        if entry.life != Life::Live || entry.meta.generation != about.generation {
            return false;
        }
        let behind = match (&answer, &entry.beat) {
            (Some(answer), Some(beat)) => beat.liveness < answer.liveness,
            (answer, beat) => answer.is_none() || beat.is_none(),
        };
        entry.take_answer(answer.as_ref(), Instant::now());
        behind
    });
    if told == Some(true) {
        anchor.damaged(
            format!(".heartbeat.{name}"),
            "its worker lives and beats, and the file does not say so",
        );
    }
}

/// What the worker of that very generation answers: its heartbeat; none where it greets and has no time for more.
fn ask(path: PathBuf, wanted: &About) -> Result<Option<Heartbeat>, WorkerError> {
    let mut worker = WorkerClient::of(&path, wanted, ROUND)?;
    // The greeting came from its main loop as well.
    Ok(worker.probe(ROUND).ok())
}

fn judge(anchor: &Anchor, name: &AgentId) {
    let bounds = anchor.settings().heartbeat;
    let seen = anchor.entry(name, |entry| (entry.judge(Instant::now(), bounds), entry.meta.clone()));
    let Some((Some(found), meta)) = seen else { return };
    match found {
        Found::Hung(silence) => {
            let data = event_data::Hung { age_ms: silence.as_millis() as u64 };
            anchor.observe(EventKind::Hung, Some(about(&meta)), data);
        }
        Found::Recovered => anchor.observe(EventKind::Recovered, Some(about(&meta)), event_data::Nothing {}),
        Found::StillHung if meta.spec.keeper != Keeper::Watchdog => end(&meta),
        Found::StillHung => {}
    }
}

/// Ends a worker that was found hung twice, by its identity: its program dies with it, and whoever watches it settles and
/// revives the session like any other.
fn end(meta: &Meta) {
    let Some(worker) = &meta.worker else { return };
    say!("{} is hung; its worker {} is ended", meta.spec.name, worker.pid);
    if let Err(error) = signal(worker, Signal::KILL) {
        say!("{error}");
    }
}

impl Anchor {
    /// Reads a live session's heartbeat file; an error is about what it says.
    pub(super) fn refresh(&self, name: &AgentId) -> serde_json::Result<()> {
        if self.entry(name, |entry| entry.life) != Some(Life::Live) {
            return Ok(());
        }
        let read = netsky_disk::state::read(self.layout.heartbeat(name));
        // None before the first beat; one that cannot be read just now is a beat that is missing.
        let Ok(Some(bytes)) = read else { return Ok(()) };
        let beat: Heartbeat = serde_json::from_slice(bytes.trim_ascii_end())?;
        self.entry(name, |entry| entry.take_beat(&beat, Instant::now()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, rows, session};

    #[test]
    fn a_heartbeat_that_does_not_read_is_told_once() {
        on_stage(async |anchor| {
            let meta = session("agent0", Keeper::Watchdog);
            let name = &meta.spec.name;
            std::fs::write(anchor.layout.heartbeat(name), "half a be").expect("written");
            anchor.put(meta.clone(), Life::Live);
            look(&anchor, name).await;
            assert_eq!(rows(&anchor), [], "the first look may meet a beat that is being written");
            for _ in 0..3 {
                look(&anchor, name).await;
            }
            assert_eq!(rows(&anchor), [EventKind::Damaged]);
        });
    }

    #[test]
    fn what_a_worker_left_is_looked_at_while_it_lives_and_told_once_if_it_does_not_read() {
        on_stage(async |anchor| {
            let meta = session("agent0", Keeper::Watchdog);
            let name = &meta.spec.name;
            let (runtime, keeper) = (meta.spec.runtime.clone(), meta.spec.keeper);
            let data = event_data::Spawn { runtime, keeper, request_id: None };
            anchor.observe(EventKind::Spawn, Some(about(&meta)), data);
            std::fs::write(anchor.layout.events(name), "no row\n").expect("written");
            for (life, told) in [(Life::Gone, 1), (Life::Live, 2)] {
                anchor.put(meta.clone(), life);
                for _ in 0..3 {
                    look(&anchor, name).await;
                }
                assert_eq!(rows(&anchor).len(), told, "{:?}", rows(&anchor));
            }
        });
    }
}
