//! Waking by file events. A wake is a hint: the caller looks at the folder again, and also when the
//! wait ran out, since events can be lost (queue overflow, a file system without them).

use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::sys::simulated;

/// One inotify instance over some folders.
#[derive(Debug)]
pub struct Watch {
    fd: std::os::fd::OwnedFd,
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
    /// A folder is missing, or the user's number of instances is used up.
    pub fn new<P: AsRef<Path>>(folders: &[P]) -> Result<Watch> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let fd = init(flags).map_err(|e| Error::new("start watching", "inotify", e))?;
        // Nobody else is at work in a simulation: nothing comes, and time passes at once.
        simulated!(_world => Ok(Watch { fd }));
        for folder in folders {
            let flags =
                WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR;
            add_watch(&fd, folder.as_ref(), flags).map_err(|e| Error::new("watch", folder, e))?;
        }
        Ok(Watch { fd })
    }

    /// Wait for an event at most `limit`; everything heard so far counts as one.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&self, limit: Duration) -> Result<Wake> {
        let failed = |e: Errno| Error::new("wait for events of", "inotify", e);
        simulated!(world => {
            world.pause(limit);
            Ok(Wake::Timeout)
        });
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Wake::Timeout),
            Ok(_) => {}
            Err(e) => return Err(failed(e)),
        }
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.fd, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(Wake::Event),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
}
