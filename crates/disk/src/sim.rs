//! The door for simulations: a world that stands in for the machine, for one thread.
//!
//! Promise: while a thread is in a [`World`], whatever it does through this crate with files, locks, clocks, chance and
//! process identity happens in that world and touches nothing of the machine; other threads notice nothing.
//! Only with the feature `sim`, which nothing that ships has. Leaves to others: what the world is (`crates/sim`).

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
pub use rustix::fs::{FileType, FlockOperation, OFlags, RenameFlags};
pub use rustix::io::Errno;

use crate::sys::Handle;
pub use crate::sys::Stat;

/// What the system answers to a call.
pub type Answer<T> = Result<T, Errno>;

/// A machine as this crate sees it. A number is an opened file or folder, until it is closed; paths are absolute, or
/// below the folder they come with.
pub trait World: Debug {
    /// openat(2).
    fn open(&self, base: Option<u64>, path: &Path, flags: OFlags) -> Answer<u64>;
    /// close(2); gives up its lock.
    fn close(&self, number: u64);
    /// fstatat(2) that follows no link.
    fn stat(&self, base: Option<u64>, path: &Path) -> Answer<Stat>;
    /// fstat(2).
    fn stat_handle(&self, number: u64) -> Answer<Stat>;
    /// mkdir(2).
    fn mkdir(&self, path: &Path) -> Answer<()>;
    /// Names in a folder.
    fn names(&self, number: u64) -> Answer<Vec<OsString>>;
    /// renameat2(2), each end a folder and a name.
    fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Answer<()>;
    /// unlinkat(2).
    fn unlink(&self, number: u64, name: &OsStr) -> Answer<()>;
    /// read(2).
    fn read(&self, number: u64, bytes: &mut [u8]) -> Answer<usize>;
    /// pread(2).
    fn read_at(&self, number: u64, bytes: &mut [u8], at: u64) -> Answer<usize>;
    /// write(2), at the end where the file was opened for appending.
    fn write(&self, number: u64, bytes: &[u8]) -> Answer<usize>;
    /// pwrite(2) of all bytes.
    fn write_at(&self, number: u64, bytes: &[u8], at: u64) -> Answer<()>;
    /// fsync(2) and fdatasync(2).
    fn sync(&self, number: u64) -> Answer<()>;
    /// fallocate(2) from the start.
    fn allocate(&self, number: u64, len: u64) -> Answer<()>;
    /// ftruncate(2).
    fn set_len(&self, number: u64, len: u64) -> Answer<()>;
    /// flock(2).
    fn lock(&self, number: u64, operation: FlockOperation) -> Answer<()>;
    /// mmap(2), shared, in words.
    fn map(&self, number: u64, len: usize) -> Answer<Rc<[AtomicU64]>>;

    /// The wall clock.
    fn wall(&self) -> Timestamp;
    /// Time since boot.
    fn boot(&self) -> Duration;
    /// Lets time pass.
    fn pause(&self, duration: Duration);
    /// Chance.
    fn fill(&self, bytes: &mut [u8]);
    /// Eight hex digits: which boot this is.
    fn boot_id(&self) -> &'static str;
    /// Pid of the process that acts.
    fn pid(&self) -> u32;
    /// When the process that has a pid now was started; none if there is none.
    fn started(&self, pid: u32) -> Option<u64>;
    /// A named fault point was passed.
    fn point(&self, name: &'static str);
}

thread_local! {
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// The world that this thread is in.
pub(crate) fn world() -> Option<Rc<dyn World>> {
    WORLD.with_borrow(Clone::clone)
}

/// Stays in a world until it is dropped.
#[derive(Debug)]
#[must_use = "the world is left when this is dropped"]
pub struct Inside {
    before: Option<Rc<dyn World>>,
}

/// Enters a world with this thread.
pub fn enter(world: Rc<dyn World>) -> Inside {
    Inside { before: WORLD.replace(Some(world)) }
}

impl Drop for Inside {
    fn drop(&mut self) {
        WORLD.set(self.before.take());
    }
}

/// An opened file or folder of a world.
#[derive(Debug)]
pub(crate) struct Node {
    world: Rc<dyn World>,
    number: u64,
}

impl Node {
    pub(crate) fn world(&self) -> Rc<dyn World> {
        self.world.clone()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.world.close(self.number);
    }
}

pub(crate) fn open(world: Rc<dyn World>, base: Option<u64>, path: &Path, flags: OFlags) -> Answer<Handle> {
    let number = world.open(base, path, flags)?;
    Ok(Handle::Simulated(Node { world, number }))
}
