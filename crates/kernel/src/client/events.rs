//! Following the journal: the rows of one subscription, as they come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netsky_disk::clock;

use super::{ClientError, Connection, lost};
use crate::lines::Line;
use crate::rpc::{self, Event, EventKind};

/// Rows of the journal as they come.
#[derive(Debug)]
pub struct Events {
    pub(super) connection: Connection,
    pub(super) hello: rpc::hello::Answer,
    pub(super) head: u64,
}

impl Events {
    /// The newest row at the time of the subscription.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Who serves.
    pub fn hello(&self) -> &rpc::hello::Answer {
        &self.hello
    }

    /// The next row, or `None` when `wait` passed without one (absent: waits without end).
    ///
    /// An [`EventKind::Gap`] says which rows were not pushed; a new subscription `since` the row before it gets them.
    ///
    /// # Errors
    /// [`ClientError::Lost`] when the anchor is gone: subscribe again `since` the last row.
    pub fn next(&mut self, wait: Option<Duration>) -> Result<Option<Event>, ClientError> {
        const METHOD: &str = "client/subscribe";
        let gibberish = |why: String| ClientError::Gibberish { method: METHOD, why };
        let deadline = wait.map(|wait| clock::boot() + wait);
        let Connection { root, stream, lines, .. } = &mut self.connection;
        match lines.next(stream, deadline).map_err(|e| lost(root, METHOD, e))? {
            Line::Whole(bytes) => {
                let notification: rpc::Notification =
                    serde_json::from_slice(&bytes).map_err(|e| gibberish(e.to_string()))?;
                serde_json::from_value(notification.params).map(Some).map_err(|e| gibberish(e.to_string()))
            }
            Line::Late => Ok(None),
            Line::End => Err(lost(root, METHOD, io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Waits for a row that `wanted` accepts; `None` when `wait` passed without one.
    ///
    /// # Errors
    /// As [`Events::next`]; a gap is returned like a wanted row, since the wanted one may be in it.
    pub fn find(
        &mut self,
        wait: Duration,
        mut wanted: impl FnMut(&Event) -> bool,
    ) -> Result<Option<Event>, ClientError> {
        let deadline = clock::boot() + wait;
        loop {
            let left = deadline.saturating_sub(clock::boot());
            match self.next(Some(left))? {
                Some(event) if event.kind == EventKind::Gap || wanted(&event) => return Ok(Some(event)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Readable when something came; a caller that polls it must then call [`Events::next`] with no wait until `None`, since a
/// read may have taken several rows.
impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.as_fd()
    }
}
