//! The home's clock word: one hybrid logical clock for every process of a home.
//!
//! Promise: each reading is above every earlier one of this home, whichever process took it, through
//! wall-clock steps, `kill -9` and power cuts. The word is shared memory over a preallocated file, so
//! taking a reading costs no lock and no sync, only one read of the *ceiling*: that is durable and runs ahead, so that
//! after a power cut the clock starts above everything that was ever handed out. It starts at the highest of the wall, the
//! ceiling, and the names of the home: any of the three may be lost or of the past, alone or with one other.
//!
//! File (4096 bytes, little endian): 0 magic, 8 ceiling, 16 boot, 24 checksum of 0..24, 32 word.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use netsky_model::hlc::Hlc;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fs::Dir;
use crate::identity::FileId;
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
        let whole = word(0) == MAGIC && word(24) == checksum(&bytes[..24]) && is_sane(word(8));
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
    /// # Errors
    /// The file cannot be made, mapped or synced.
    pub fn open(state: &Dir) -> Result<SharedClock> {
        let path = state.path().join("clock");
        let file = state.open_handle("clock".as_ref(), OFlags::CREATE | OFlags::RDWR)?;
        let failed = |op: &'static str, e: Errno| Error::new(op, &path, e);
        if file.stat().map_err(|e| failed("look at clock", e))?.size != SIZE as u64 {
            // Real blocks now: a full disk must not turn a later store into a fault.
            let _lock = Lock::take(lock_path(&path))?;
            file.allocate(SIZE as u64).map_err(|e| failed("preallocate clock", e))?;
            file.sync().map_err(|e| failed("sync clock", e))?;
            state.sync()?;
        }
        // Of these SIZE bytes none is ever cut off again.
        let map = file.map(SIZE).map_err(|e| failed("map clock", e))?;
        Ok(SharedClock { file, map, path })
    }

    /// Whether the file lost its name, removed or moved away: others have another clock by now, and this one is no longer
    /// the home's. A look that fails says nothing.
    pub fn is_lost(&self) -> bool {
        let own = self.file.stat().map(|stat| FileId::of(&stat));
        matches!((own, FileId::at(&self.path)), (Ok(own), Ok(named)) if named != Some(own))
    }

    fn word(&self) -> &AtomicU64 {
        self.map.word(WORD)
    }

    fn head(&self) -> Result<Option<Head>> {
        let mut bytes = [0; 32];
        self.file.read_exact_at(&mut bytes, 0).map_err(|e| Error::new("read clock", &self.path, e))?;
        Ok(Head::decode(&bytes))
    }

    /// The head, if the clock runs: whole, of this boot, and with the word where that ceiling can be above it.
    fn running(&self) -> Result<Option<Head>> {
        let boot = this_boot()?;
        let word = self.word().load(Ordering::SeqCst);
        let runs = |head: &Head| head.boot == boot && word.saturating_add(WINDOW) >= head.ceiling;
        Ok(self.head()?.filter(|head| is_sane(word) && runs(head)))
    }

    /// First use on this boot, or after damage: begin above everything known.
    fn start(&self, highest: impl FnOnce() -> Result<Hlc>) -> Result<Head> {
        // A home of many names takes longer to read than others wait for the lock. What gets a name meanwhile has its
        // reading from a clock that somebody else started, and that is met below.
        let highest = highest()?;
        let _lock = Lock::take(lock_path(&self.path))?;
        if let Some(head) = self.running()? {
            return Ok(head);
        }
        let ceiling = self.head()?.map_or(0, |head| head.ceiling);
        let begin = Hlc(ceiling).max(highest).max(Hlc::at(wall_ms())).0;
        // Others may be taking readings, so a word that is no damage only rises.
        let begun = |word| Some(if is_sane(word) { begin.max(word) } else { begin });
        let former =
            self.word().fetch_update(Ordering::SeqCst, Ordering::SeqCst, begun).expect("always some");
        self.raise(begun(former).expect("always some"))
    }

    /// Make a new ceiling durable; the caller holds the lock.
    fn raise(&self, above: u64) -> Result<Head> {
        let ceiling = above.checked_add(WINDOW).ok_or_else(|| self.exhausted())?;
        let head = Head { ceiling, boot: this_boot()? };
        self.file.write_all_at(&head.encode(), 0).map_err(|e| Error::new("write clock", &self.path, e))?;
        self.file.sync_data().map_err(|e| Error::new("sync clock", &self.path, e))?;
        Ok(head)
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
    /// `highest` is asked at the first use on a boot and after damage: the highest reading in the names of the home. The
    /// clock then starts above that, its ceiling and the wall; what is left of a damaged file is not guessed at.
    ///
    /// # Errors
    /// The ceiling had to be raised and could not be made durable; no reading is handed out then.
    pub fn next(&self, highest: impl FnOnce() -> Result<Hlc>) -> Result<Hlc> {
        let head = match self.running()? {
            Some(head) => head,
            None => self.start(highest)?,
        };
        let wall = wall_ms();
        let mut last = self.word().load(Ordering::SeqCst);
        let reading = loop {
            let next = Hlc(last).next(wall).ok_or_else(|| self.exhausted())?.0;
            match self.word().compare_exchange_weak(last, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break next,
                Err(now) => last = now,
            }
        };
        // A ceiling only rises: one that was above then is above now.
        if reading >= head.ceiling {
            let _lock = Lock::take(lock_path(&self.path))?;
            if self.head()?.is_none_or(|head| reading >= head.ceiling) {
                self.raise(reading)?;
            }
        }
        Ok(Hlc(reading))
    }
}

/// Whether a reading is one that a clock of ours gives.
fn is_sane(reading: u64) -> bool {
    Hlc(reading) < Hlc::END
}

fn lock_path(clock: &Path) -> PathBuf {
    clock.with_extension("lock")
}

fn wall_ms() -> u64 {
    // Before 1970 there is no reading; the last one says more than such a clock.
    u64::try_from(clock::wall().as_millisecond()).unwrap_or(0)
}
