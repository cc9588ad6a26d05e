//! When each loop comes, in one file beside them: a tick reads that and the loops that are due, however many there are.
//!
//! Promise: it only ever says what the files said when the folder was last as it is now; in doubt it is made anew. It is
//! derived, and never synced: after a reboot it is of no use.

use netsky_disk::fs::Dir;
use netsky_disk::rows::Rows;
use netsky_model::stamp::Stamp;

use super::entry::{Loop, LoopId};
use super::step::Standing;

/// Bytes of the head and of each row.
const HEAD: usize = 64;
const ROW: usize = 40;
/// How each begins that is of this form.
const MAGIC: &[u8; 8] = b"nsloops1";
/// A folder that nobody can have, and a file: the index is not whole.
const NONE: u64 = 0;

/// What a tick knows of a loop without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: LoopId,
    /// Of its file, when it was read.
    pub(crate) file: u64,
    /// Milliseconds of the wall clock; none of one that sleeps.
    wall_ms: i64,
    /// The same of the boot clock, where that is known.
    boot_ms: u64,
    boot: u32,
    /// A wall clock before that was set back by hours.
    far_ms: i64,
}

impl Row {
    pub(crate) fn of(entry: &Loop, file: u64) -> Row {
        let clock = entry.clock();
        let is_armed = entry.standing() == Standing::Armed;
        let far = entry.implausible_before().filter(|_| is_armed);
        Row {
            id: entry.id,
            file,
            wall_ms: if is_armed { entry.next_fire_utc.as_millisecond() } else { i64::MAX },
            boot_ms: clock.map_or(0, |clock| clock.boot_ms),
            boot: clock.map_or(0, |clock| tag(&clock.boot_id)),
            far_ms: far.map_or(i64::MIN, |far| far.as_millisecond()),
        }
    }

    /// Of what is no loop: it is read again when its file is another.
    pub(crate) fn asleep(id: LoopId, file: u64) -> Row {
        Row { id, file, wall_ms: i64::MAX, boot_ms: 0, boot: 0, far_ms: i64::MIN }
    }

    fn is_asleep(&self) -> bool {
        self.wall_ms == i64::MAX
    }

    /// Whether the loop itself must be looked at.
    pub(crate) fn is_due(&self, now: &Stamp, boot: u32) -> bool {
        let wall = now.wall.as_millisecond();
        !self.is_asleep()
            && (wall < self.far_ms
                || if self.boot == boot { self.boot_ms <= now.boot_ms } else { self.wall_ms <= wall })
    }

    /// Milliseconds until it comes; none of one that sleeps.
    pub(crate) fn left_ms(&self, now: &Stamp, boot: u32) -> Option<u64> {
        if self.is_asleep() {
            return None;
        }
        let by_wall = u64::try_from(self.wall_ms.saturating_sub(now.wall.as_millisecond())).unwrap_or(0);
        Some(if self.boot == boot { self.boot_ms.saturating_sub(now.boot_ms) } else { by_wall })
    }

    fn write(&self) -> [u8; ROW] {
        let mut bytes = [0; ROW];
        bytes[..4].copy_from_slice(&self.id.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.boot.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.file.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.wall_ms.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.boot_ms.to_le_bytes());
        bytes[32..].copy_from_slice(&self.far_ms.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Row {
        Row {
            id: LoopId(u32::from_le_bytes(part(bytes, 0))),
            boot: u32::from_le_bytes(part(bytes, 4)),
            file: u64::from_le_bytes(part(bytes, 8)),
            wall_ms: i64::from_le_bytes(part(bytes, 16)),
            boot_ms: u64::from_le_bytes(part(bytes, 24)),
            far_ms: i64::from_le_bytes(part(bytes, 32)),
        }
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a row has all of its parts")
}

/// A boot in few bytes; never what stands for none.
pub(crate) fn tag(boot_id: &str) -> u32 {
    u32::from_str_radix(boot_id, 16).unwrap_or(u32::MAX).max(1)
}

/// A version of a file or a folder in few bytes.
pub(crate) fn hash(version: &str) -> u64 {
    let digest = blake3::hash(version.as_bytes());
    u64::from_le_bytes(part(digest.as_bytes(), 0)).max(1)
}

/// The file, and what it says.
#[derive(Debug)]
pub(crate) struct Index {
    /// None where it cannot be opened: what is told of then is in memory alone.
    file: Option<Rows>,
    pub(crate) rows: Vec<Row>,
    /// The folder that it is of.
    folder: u64,
    boot: u32,
    /// When every file was last looked at, by the boot clock.
    pub(crate) scanned_ms: u64,
    /// Whether what is in the file is of no use until it is written whole.
    is_torn: bool,
}

impl Index {
    /// As far as it reads; one that does not is empty and of no folder.
    pub(crate) fn open(tick: &Dir, name: &str, now: &Stamp) -> netsky_disk::Result<Index> {
        let file = Rows::open(tick, name)?;
        let bytes = file.read()?;
        let mut index = Index { file: Some(file), ..Index::nowhere(now) };
        if bytes.len() < HEAD || bytes[..8] != *MAGIC {
            return Ok(index);
        }
        let (head, rows) = bytes.split_at(HEAD);
        let count = u64::from_le_bytes(part(head, 8));
        let is_whole = count.checked_mul(ROW as u64) == Some(rows.len() as u64);
        // What another boot left unsynced is whatever the disk had by then.
        if is_whole && u32::from_le_bytes(part(head, 32)) == index.boot {
            index.rows = rows.chunks_exact(ROW).map(Row::read).collect();
            index.folder = u64::from_le_bytes(part(head, 16));
            index.scanned_ms = u64::from_le_bytes(part(head, 24));
            index.is_torn = false;
        }
        Ok(index)
    }

    /// One that nobody finds again.
    pub(crate) fn nowhere(now: &Stamp) -> Index {
        let boot = tag(&now.boot_id);
        Index { file: None, rows: Vec::new(), folder: NONE, boot, scanned_ms: 0, is_torn: true }
    }

    /// Whether it is of the folder as it is now.
    pub(crate) fn is_of(&self, folder: Option<u64>) -> bool {
        !self.is_torn && self.folder != NONE && folder == Some(self.folder)
    }

    /// Everything anew.
    pub(crate) fn replace(&mut self, rows: Vec<Row>, scanned_ms: u64) -> netsky_disk::Result<()> {
        self.rows = rows;
        self.scanned_ms = scanned_ms;
        let Some(file) = &self.file else { return Ok(()) };
        file.write_at(&self.head(NONE), 0)?;
        let bytes: Vec<u8> = self.rows.iter().flat_map(Row::write).collect();
        file.write_at(&bytes, HEAD as u64)?;
        file.cut((HEAD + bytes.len()) as u64)?;
        (self.is_torn, self.folder) = (false, NONE);
        Ok(())
    }

    /// One row: over the one of the same loop, or behind all.
    pub(crate) fn put(&mut self, place: Option<usize>, row: Row) -> netsky_disk::Result<()> {
        let place = place.unwrap_or(self.rows.len());
        match self.rows.get_mut(place) {
            Some(old) => *old = row,
            None => self.rows.push(row),
        }
        self.write_at(&row.write(), (HEAD + place * ROW) as u64)
    }

    /// Says that it is of no folder until it is said which.
    pub(crate) fn open_up(&mut self) -> netsky_disk::Result<()> {
        self.seal(None)
    }

    /// Says which folder it is of.
    pub(crate) fn seal(&mut self, folder: Option<u64>) -> netsky_disk::Result<()> {
        self.folder = folder.unwrap_or(NONE);
        self.write_at(&self.head(self.folder), 0)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> netsky_disk::Result<()> {
        self.file.iter().try_for_each(|file| file.write_at(bytes, at))
    }

    fn head(&self, folder: u64) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&(self.rows.len() as u64).to_le_bytes());
        bytes[16..24].copy_from_slice(&folder.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.scanned_ms.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.boot.to_le_bytes());
        bytes
    }
}
