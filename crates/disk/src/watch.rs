//! Waking by file events. A wake is a hint: the caller looks at the folder again, and also when the wait ran out, since
//! events can be lost (a file system without them). A queue that ran over is an event like any other: what it dropped is
//! found by the look that follows. Where the system gives no events (all that a user may have are in use) a wait runs out.
//!
//! Leaves to others: the system's own way of telling, one file each below `watch/`; what to look for.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::sys::simulated;
use crate::wake::Stop;

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(target_os = "linux")]
use inotify::Events;

#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
mod kqueue;
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
use kqueue::Events;

/// One source of events over some folders. Systems give a user few of them (128 by default): one a process. By default it
/// watches none.
#[derive(Debug, Default)]
pub struct Watch {
    /// None before the first folder, and for as long as the system gives none.
    events: OnceLock<Events>,
}

/// What a system says that has no room for one more folder.
const USED_UP: &[Errno] = &[Errno::NOSPC, Errno::NOMEM, Errno::MFILE, Errno::NFILE];

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Something changed.
    Event,
    /// Nothing was heard in time.
    Timeout,
}

impl Watch {
    /// Watch for files that appear in, move into, or are closed after writing in these folders.
    ///
    /// Look at the folders after this call and before waiting: what came earlier gives no event.
    ///
    /// # Errors
    /// As [`Watch::add`].
    pub fn new<P: AsRef<Path>>(folders: &[P]) -> Result<Watch> {
        let watch = Watch::default();
        for folder in folders {
            watch.add(folder)?;
        }
        Ok(watch)
    }

    /// Watch one more folder; one that is watched already is no error. Nor is it one that the user's sources or watched
    /// folders are used up: nothing is heard of this one then, and a later call tries again.
    ///
    /// # Errors
    /// It is missing, or may not be watched.
    pub fn add(&self, folder: impl AsRef<Path>) -> Result<()> {
        // Nobody else is at work in a simulation: nothing comes.
        simulated!(_world => Ok(()));
        let Ok(events) = self.started() else { return Ok(()) };
        match events.add(folder.as_ref()) {
            Err(error) if error.is_one_of(USED_UP) => Ok(()),
            added => added,
        }
    }

    fn started(&self) -> Result<&Events> {
        match self.events.get() {
            Some(events) => Ok(events),
            None => {
                let started = Events::start()?;
                Ok(self.events.get_or_init(|| started))
            }
        }
    }

    /// Wait for an event at most `limit`; everything heard so far counts as one.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&self, limit: Duration) -> Result<Wake> {
        self.wait_beside(limit, None)
    }

    /// As [`Watch::wait`], and the wish that this process ends ends it too.
    ///
    /// # Errors
    /// As [`Watch::wait`].
    pub fn wait_or_stop(&self, limit: Duration, stop: &Stop) -> Result<Wake> {
        self.wait_beside(limit, Some(stop))
    }

    fn wait_beside(&self, limit: Duration, stop: Option<&Stop>) -> Result<Wake> {
        // In a simulation time passes at once.
        simulated!(world => {
            world.pause(limit);
            Ok(Wake::Timeout)
        });
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let events = self.events.get();
        let mut ready: Vec<PollFd<'_>> = Vec::new();
        ready.extend(events.map(|events| PollFd::new(events, PollFlags::IN)));
        ready.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Wake::Timeout),
            Ok(_) => {}
            Err(e) => return Err(Error::new("wait for events of", "a watch", e)),
        }
        match events {
            Some(events) if !ready[0].revents().is_empty() => {
                events.forget()?;
                Ok(Wake::Event)
            }
            _ => Ok(Wake::Timeout),
        }
    }
}
