//! The home's clock word: one hybrid logical clock for every process of a home.
//!
//! Promise: each reading is above every earlier one of this home, whichever process took it, through
//! wall-clock steps, `kill -9` and power cuts. The word is shared memory over a preallocated file, so
//! taking a reading costs no lock and no sync, only one read of the *ceiling*: that is durable and runs ahead, so that
//! after a power cut the clock starts above everything that was ever handed out.
//!
//! File (4096 bytes, little endian): 0 magic, 8 ceiling, 16 boot, 24 checksum of 0..24, 32 word.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use netsky_model::hlc::Hlc;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fs::Dir;
use crate::lock::Lock;
use crate::sys::{Handle, Mapping};
use crate::{clock, process};

const SIZE: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"netskyc1");
const WORD: usize = 32;
/// How far the ceiling runs ahead: one sync in ten minutes of traffic, and a clock that starts at most
/// ten minutes ahead of the wall after a power cut.
const WINDOW: u64 = (10 * 60 * 1000) << 16;

/// The clock of one home.
#[derive(Debug)]
pub struct SharedClock {
    file: Handle,
    map: Mapping,
    path: PathBuf,
}

/// The durable part of the file.
#[derive(Clone, Copy)]
struct Head {
    ceiling: u64,
    boot: u64,
}

impl Head {
    fn decode(bytes: &[u8; 32]) -> Option<Head> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let whole = word(0) == MAGIC && word(24) == checksum(&bytes[..24]);
        whole.then(|| Head { ceiling: word(8), boot: word(16) })
    }

    fn encode(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.ceiling.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.boot.to_le_bytes());
        let sum = checksum(&bytes[..24]);
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("32 bytes"))
}

/// Not a guess where it cannot be read: another boot would make the clock jump to its ceiling.
fn this_boot() -> Result<u64> {
    Ok(u64::from_str_radix(process::known_boot_id()?, 16).unwrap_or(0))
}

impl SharedClock {
    /// Open the clock at `<state>/clock`, made if it is missing.
    ///
    /// `highest` is asked only when the file is missing or damaged: the highest reading found in the
    /// names of the home, without those that no clock of ours can have given. A damaged file is not repaired by guessing: it starts above all of them.
    ///
    /// # Errors
    /// The file cannot be made, mapped or synced.
    pub fn open(state: &Dir, highest: impl FnOnce() -> Result<Hlc>) -> Result<SharedClock> {
        let path = state.path().join("clock");
        let file = state.open_handle("clock".as_ref(), OFlags::CREATE | OFlags::RDWR)?;
        let failed = |op: &'static str, e: Errno| Error::new(op, &path, e);
        let fresh = file.stat().map_err(|e| failed("look at clock", e))?.size != SIZE as u64;
        if fresh {
            // Real blocks now: a full disk must not turn a later store into a fault.
            let _lock = Lock::take(lock_path(&path))?;
            file.allocate(SIZE as u64).map_err(|e| failed("preallocate clock", e))?;
            file.sync().map_err(|e| failed("sync clock", e))?;
            state.sync()?;
        }
        // Of these SIZE bytes none is ever cut off again.
        let map = file.map(SIZE).map_err(|e| failed("map clock", e))?;
        let clock = SharedClock { file, map, path };
        if !clock.is_started()? {
            clock.start(highest)?;
        }
        Ok(clock)
    }

    fn word(&self) -> &AtomicU64 {
        self.map.word(WORD)
    }

    fn head(&self) -> Result<Option<Head>> {
        let mut bytes = [0; 32];
        self.file.read_exact_at(&mut bytes, 0).map_err(|e| Error::new("read clock", &self.path, e))?;
        Ok(Head::decode(&bytes))
    }

    /// Whether the word was set on this boot and is where a ceiling can be above it.
    fn is_started(&self) -> Result<bool> {
        let head = self.head()?;
        let word = self.word().load(Ordering::SeqCst);
        let boot = this_boot()?;
        Ok(head.is_some_and(|head| head.boot == boot && word.saturating_add(WINDOW) >= head.ceiling))
    }

    /// First use on this boot, or after damage: begin above everything known.
    fn start(&self, highest: impl FnOnce() -> Result<Hlc>) -> Result<()> {
        let _lock = Lock::take(lock_path(&self.path))?;
        if self.is_started()? {
            return Ok(());
        }
        let known = match self.head()? {
            Some(head) => head.ceiling,
            None => highest()?.0,
        };
        let begin = known.max(Hlc::at(wall_ms()).0);
        self.word().store(begin, Ordering::SeqCst);
        self.raise(begin)
    }

    /// Make a new ceiling durable; the caller holds the lock.
    fn raise(&self, above: u64) -> Result<()> {
        let ceiling = above.checked_add(WINDOW).ok_or_else(|| self.exhausted())?;
        let head = Head { ceiling, boot: this_boot()? };
        self.file.write_all_at(&head.encode(), 0).map_err(|e| Error::new("write clock", &self.path, e))?;
        self.file.sync_data().map_err(|e| Error::new("sync clock", &self.path, e))
    }

    /// Only a damaged or forged file gets here: it is left as it is.
    fn exhausted(&self) -> Error {
        Error::because(
            "read clock",
            &self.path,
            "it is at the end of all readings; move it away to start it anew",
        )
    }

    /// The next reading.
    ///
    /// # Errors
    /// The ceiling had to be raised and could not be made durable; no reading is handed out then.
    pub fn next(&self) -> Result<Hlc> {
        let wall = wall_ms();
        let mut last = self.word().load(Ordering::SeqCst);
        let reading = loop {
            let next = Hlc(last).next(wall).ok_or_else(|| self.exhausted())?.0;
            match self.word().compare_exchange_weak(last, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break next,
                Err(now) => last = now,
            }
        };
        if self.head()?.is_none_or(|head| reading >= head.ceiling) {
            let _lock = Lock::take(lock_path(&self.path))?;
            if self.head()?.is_none_or(|head| reading >= head.ceiling) {
                self.raise(reading)?;
            }
        }
        Ok(Hlc(reading))
    }
}

fn lock_path(clock: &Path) -> PathBuf {
    clock.with_extension("lock")
}

fn wall_ms() -> u64 {
    clock::wall().as_millisecond().unsigned_abs()
}
