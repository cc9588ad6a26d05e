//! The anchor: the daemon of one kernel root.
//!
//! Promise: it is a cache of what the files and processes of the root say. It may be killed at any instant; its workers do
//! not notice, and its successor reads everything again through the code that live events go through. Only one serves a
//! root ([`root`]), and its epoch is higher than that of every one before it.
//!
//! One thread, one owner of all state: tasks on a current-thread runtime share an [`Rc<Anchor>`] and never hold a borrow
//! over an await. What waits for others (a sweep, a worker's readiness, a grace) waits beside, so a ping is answered
//! meanwhile.
//!
//! In the order of a reader's need:
mod act; // what somebody does to a program
mod adopt; // sessions that were there before this anchor
mod answers; // `request_id`: said twice is done once
mod arrivals; // who came to stay
mod attach; // what a connection follows
mod dispatch; // from a line to a method
mod fold; // what workers wrote down while no anchor listened
mod folded; // the process table as the journal alone has it
mod handlers; // from a method to what does it
mod hello;
mod in_force; // the root's settings, while they read and while they do not
mod intensity; // how soon what ended comes back
mod kill;
mod lineage;
mod list;
mod owed; // room for kills on a full disk
mod owners; // what no agent may do to those who are kept
mod pauses; // as long by the boot clock
mod ps;
mod pulse; // heartbeats, seen from here
mod reap;
mod recall; // what the journal's rows mean to the anchor, live and on a restart
mod registry; // agents.jsonl
mod rejected; // who was turned away or cut off
mod rename;
mod report; // what a session says about itself
mod revive; // sessions this anchor keeps alive itself
mod root; // claim the folder: whose it is, the lock, the epoch
mod serve; // the socket
mod settle; // what is left of a session once its worker is gone
mod show;
mod shutdown;
mod spawn;
#[cfg(test)]
mod stage; // an anchor in memory, for tests of single handlers
mod state; // the one owner of journal, table and recall
mod subscribe; // rows of the journal on a connection
mod succeed; // a dead context gives way to the next generation
mod table; // sessions in memory, and as clients see them
mod undescribed; // living sessions whose description is gone or does not read
mod unserved; // what is known without an anchor
mod watch; // a worker's death, by pidfd
mod whoami; // below which session a caller runs

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::files;
use crate::journal::JournalError;
use state::Anchor;

/// Why an anchor does not serve.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// Another anchor serves this root; nothing was touched.
    #[error("an anchor already serves {} ({by})", root.display())]
    Taken {
        /// The kernel root.
        root: PathBuf,
        /// Who, as far as its lock says.
        by: String,
    },
    /// The disk said no, or the folder is not ours alone.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The socket cannot be opened, or the runtime not started.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// How it failed.
        source: std::io::Error,
    },
}

pub use folded::{Folded, sessions as folded};
pub use in_force::settings_trouble;
pub use unserved::{Unserved, sessions as unserved};

/// Serves `root` until asked to stop (`kernel/shutdown`, SIGTERM, SIGINT).
///
/// # Errors
/// [`AnchorError::Taken`] when another anchor does.
pub fn main(root: &Path) -> Result<(), AnchorError> {
    let failed = |source| AnchorError::Io { op: "start the anchor of", path: root.to_owned(), source };
    // Before anything is created: sockets have no mode argument.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    files::enough(root)?;
    files::take_all();
    let claim = root::claim(root)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let local = tokio::task::LocalSet::new();
    let served = local.block_on(&runtime, async {
        let anchor = Rc::new(Anchor::new(claim));
        anchor.log_started();
        // Whoever started it has written them for it.
        anchor.settings();
        anchor.pay();
        adopt::all(&anchor).await?;
        anchor.register_all();
        settle::remove_groups(&anchor);
        pulse::start(&anchor);
        serve::until_stopped(&anchor).await
    });
    // A sweep that still runs in a blocking thread is not worth waiting for: the successor sweeps again.
    runtime.shutdown_background();
    served
}
