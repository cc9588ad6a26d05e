//! Waking by file events. A wake is a hint: the caller looks at the folder again, and also when the wait ran out, since
//! events can be lost (a file system without them). A queue that ran over is an event like any other: what it dropped is
//! found by the look that follows.
//!
//! Leaves to others: the system's own way of telling, one file each below `watch/`; what to look for.

use std::os::fd::AsFd;
use std::path::Path;
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

/// One source of events over some folders. Systems give a user few of them (128 by default): one a process.
#[derive(Debug)]
pub struct Watch {
    events: Events,
}

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
    /// A folder is missing, or the user's number of sources is used up.
    pub fn new<P: AsRef<Path>>(folders: &[P]) -> Result<Watch> {
        let watch = Watch { events: Events::start()? };
        for folder in folders {
            watch.add(folder)?;
        }
        Ok(watch)
    }

    /// Watch one more folder; one that is watched already is no error.
    ///
    /// # Errors
    /// It is missing, or the user's number of watched folders is used up.
    pub fn add(&self, folder: impl AsRef<Path>) -> Result<()> {
        // Nobody else is at work in a simulation: nothing comes.
        simulated!(_world => Ok(()));
        self.events.add(folder.as_ref())
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
        let events = self.events.as_fd();
        let mut ready = vec![PollFd::new(&events, PollFlags::IN)];
        ready.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Wake::Timeout),
            Ok(_) => {}
            Err(e) => return Err(Error::new("wait for events of", "a watch", e)),
        }
        if ready[0].revents().is_empty() {
            return Ok(Wake::Timeout);
        }
        self.events.forget()?;
        Ok(Wake::Event)
    }
}
