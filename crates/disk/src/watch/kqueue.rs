//! macOS and the BSDs: one kqueue, and one open folder for each that is watched.
//!
//! It tells that a folder's list of names changed, which is all that a look at it needs: what the bus shows is renamed into
//! place whole. Type-checked only (`docs/proof.md`, "Not run").

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::kqueue::{Event, EventFilter, EventFlags, VnodeEvents, kevent, kqueue};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Events {
    /// Before the folders: it is closed before what it refers to.
    queue: OwnedFd,
    folders: Mutex<Vec<OwnedFd>>,
}

impl Events {
    pub(super) fn start() -> Result<Events> {
        let queue = kqueue().and_then(|queue| fcntl_setfd(&queue, FdFlags::CLOEXEC).map(|()| queue));
        let queue = queue.map_err(|e| Error::new("start watching", "kqueue", e))?;
        Ok(Events { queue, folders: Mutex::default() })
    }

    pub(super) fn add(&self, folder: &Path) -> Result<()> {
        let refused = |e: Errno| Error::new("watch", folder, e);
        let opened = openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let opened = opened.map_err(refused)?;
        let which = |fd: &OwnedFd| fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
        let new = which(&opened).map_err(refused)?;
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if folders.iter().any(|known| which(known) == Ok(new)) {
            return Ok(());
        }
        let news = EventFilter::Vnode { vnode: opened.as_raw_fd(), flags: VnodeEvents::WRITE };
        let change = Event::new(news, EventFlags::ADD | EventFlags::CLEAR, std::ptr::null_mut());
        // Kept first: what a queue refers to must be open.
        folders.push(opened);
        self.call(&[change], &mut Vec::new()).map_err(|e| {
            // Not watched: the next call must try again.
            folders.pop();
            refused(e)
        })
    }

    /// Takes what was told and looks at none of it.
    pub(super) fn forget(&self) -> Result<()> {
        let mut told = Vec::with_capacity(16);
        loop {
            told.clear();
            match self.call(&[], &mut told) {
                Ok(()) if told.is_empty() => return Ok(()),
                Ok(()) | Err(Errno::INTR) => {}
                Err(e) => return Err(Error::new("read events of", "kqueue", e)),
            }
        }
    }

    /// Says what to watch and takes what has been told, as far as there is room for it; waits for nothing.
    fn call(&self, changes: &[Event], told: &mut Vec<Event>) -> rustix::io::Result<()> {
        // SAFETY: the queue refers only to folders in `self.folders`, none of which is closed before the queue is.
        unsafe { kevent(&self.queue, changes, spare_capacity(told), Some(Duration::ZERO)) }.map(drop)
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
