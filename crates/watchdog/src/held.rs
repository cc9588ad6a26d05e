//! The lock of the one actor: who holds it, when that one last got anywhere, and how the last tick ended.
//!
//! Promise: a holder that does not get on is ended by the next one, and one whose lock lost its name ends by itself.
//! Left to others: what is done under it (`tick`, `up`, `down`, `stop`).

use std::time::Duration;

use netsky_disk::home::Home;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::tick::Ticked;

/// Longest that a tick may hold the lock without getting on: its slowest steps are the start and the kill of
/// one session.
pub(crate) const HOLDER_DEADLINE: Duration = Duration::from_secs(60);
/// Longest that a tick waits for another one: triggers come in bursts and must not be lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Why one did that could not say it.
const CUT: &str = "it was ended before its end, by its keeper after a minute or by somebody";
/// Longest reason of a failed tick, in characters: the note of a lock is one small block.
const LONGEST_WHY: usize = 500;

/// Who holds the lock, and since when.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    process: ProcessId,
    since: Stamp,
    /// Since the last tick that came to its end.
    #[serde(default)]
    failed: Option<FailedTick>,
    /// Whether it is in a tick, and not at its end.
    #[serde(default)]
    ticks: bool,
}

impl Holder {
    /// How the last tick came to nothing, for who knows that it is over.
    fn failed(self) -> Option<FailedTick> {
        let cut = FailedTick { at: self.since, why: CUT.to_owned(), cut: true };
        if self.ticks { Some(cut) } else { self.failed }
    }
}

/// A tick that came to nothing. It stands in the lock's own note, which is rewritten in place: a full disk has room
/// for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTick {
    /// When.
    pub at: Stamp,
    /// Why.
    pub why: String,
    /// It was ended before it could say anything.
    #[serde(default)]
    pub cut: bool,
}

/// The last tick, if it failed.
pub(crate) fn failed(cx: &Context<'_>) -> Option<FailedTick> {
    let holder: Holder = Lock::noted(cx.layout.watchdog_lock())?;
    let is_over = Lock::is_held(cx.layout.watchdog_lock()).is_ok_and(|held| !held);
    if is_over { holder.failed() } else { holder.failed }
}

/// Who holds the lock, and how long ago it last got anywhere.
pub(crate) fn holder(cx: &Context<'_>) -> Option<(u32, Duration)> {
    let holder = Lock::noted::<Holder>(cx.layout.watchdog_lock())?;
    Some((holder.process.pid, clock::stamp().age_of(&holder.since)?))
}

/// The lock of the one actor, and a note of when its holder last got anywhere.
pub(crate) struct Held {
    lock: Lock,
    process: ProcessId,
    pub(crate) failed: Option<FailedTick>,
    pub(crate) ticks: bool,
    /// Since when it was wanted, by the boot clock.
    pub(crate) wanted: Duration,
    /// A folder of the home that could not be made: whoever needs it fails by itself.
    pub(crate) unmade: Option<netsky_disk::Error>,
}

impl Held {
    /// Take the lock.
    pub(crate) fn take(cx: &Context<'_>) -> Result<Held> {
        // Whoever tidied the home took folders whose contents nobody misses, and this lock's own.
        let unmade = Home::complete(cx.layout).err();
        let (path, process) = (cx.layout.watchdog_lock(), process::identity()?);
        let wanted = clock::boot();
        loop {
            if let Some(lock) = Lock::take_within(&path, Duration::from_secs(1))? {
                let failed = Lock::noted(&path).and_then(Holder::failed);
                let mut held = Held { lock, process, failed, ticks: false, wanted, unmade };
                held.got_on()?;
                return Ok(held);
            }
            if let Some(holder) = Lock::noted::<Holder>(&path)
                && clock::stamp().since(&holder.since) > HOLDER_DEADLINE
            {
                process::signal(&holder.process, process::Signal::KILL)?;
            }
            if clock::boot() > wanted + PATIENCE {
                return Err(Error::Locked { waited: PATIENCE, failed: failed(cx).map(|failed| failed.why) });
            }
        }
    }

    /// One step is done: the deadline counts from here.
    pub(crate) fn got_on(&mut self) -> Result<()> {
        // Whoever takes its name now is another actor.
        if !self.lock.has_its_name()? {
            let why = "it was removed under this actor, which ends; repeat";
            return Err(netsky_disk::Error::because("hold", self.lock.path(), why).into());
        }
        let Held { process, failed, ticks, .. } = self;
        let (process, failed) = (process.clone(), failed.clone());
        let holder = Holder { process, since: clock::stamp(), failed, ticks: *ticks };
        match self.lock.note(&holder) {
            // Held all the same, only that nobody can break it. A later note needs no room, for most file systems.
            Err(error) if error.is_full() => Ok(()),
            noted => Ok(noted?),
        }
    }

    /// How a tick ended, for whoever asks later.
    pub(crate) fn came_to(&mut self, outcome: &Result<Ticked>) -> Result<()> {
        let why = |error: &Error| error.to_string().chars().take(LONGEST_WHY).collect();
        let failed = |error| FailedTick { at: clock::stamp(), why: why(error), cut: false };
        (self.failed, self.ticks) = (outcome.as_ref().err().map(failed), false);
        self.got_on()
    }
}
