//! Linux: one inotify instance.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// What a new file in a folder is told by: made, moved there, or written whole.
const NEWS: WatchFlags =
    WatchFlags::MOVED_TO.union(WatchFlags::CREATE).union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ONLYDIR);

#[derive(Debug)]
pub(super) struct Events {
    fd: OwnedFd,
}

impl Events {
    pub(super) fn start() -> Result<Events> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        Ok(Events { fd: init(flags).map_err(|e| Error::new("start watching", "inotify", e))? })
    }

    pub(super) fn add(&self, folder: &Path) -> Result<()> {
        add_watch(&self.fd, folder, NEWS).map(drop).map_err(|e| Error::new("watch", folder, e))
    }

    /// Takes what was told and looks at none of it: an overflow says no more and no less than any other event.
    pub(super) fn forget(&self) -> Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.fd, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Error::new("read events of", "inotify", e)),
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
