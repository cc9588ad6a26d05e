//! The bounded output log of a session: `agents/<name>.out` and the segment before it, `<name>.out.prev`.
//!
//! Promise: an offset counts bytes over the whole life of a session's name, across generations, and never
//! means two things. What can no longer be read is told as a gap, never skipped. Writing never fails
//! outward: a full disk costs history, not the program, and what is lost is a gap as well.
//!
//! Not promised: survival of a power cut (writes are unsynced; telemetry, not state), and of what a full disk refused: the
//! offsets of output that never came to the disk are those of the next worker's.
//!
//! A segment is a 64-byte header line `{"v":1,"base":N}`, padded with spaces, and then the raw bytes.
//! Left to others: who reads what (`worker`, `attach`), and what the bytes mean.

use std::collections::VecDeque;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::session::LogSpan;

/// Bytes of output in one segment; two of them are kept. Hours of a busy terminal, and a bound on the disk.
pub const SEGMENT: u64 = 8 << 20;
/// The header line, newline included.
const HEADER: u64 = 64;
/// The newest output is also kept in memory, so that a client who keeps up never waits for a disk.
const RECENT: usize = 256 << 10;
/// So often a reader looks for a file that is not there, …
const LOOKS: u32 = 20;
/// … and so long after one another.
const LOOK: Duration = Duration::from_millis(10);
/// After a failed write, how long before the disk is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// A log that cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// A read failed half-way.
    #[error("read output log: {0}")]
    Read(#[from] std::io::Error),
    /// Written under a later format: left alone.
    #[error("output log is of format {found}, this program knows 1")]
    Newer {
        /// The version found.
        found: u64,
    },
    /// A file of it has no header.
    #[error("output log {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// Its file is not there.
    #[error("output log {} is gone", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes that start at this offset.
    Bytes {
        /// Offset of the first.
        offset: u64,
        /// Never empty.
        bytes: Vec<u8>,
    },
    /// Nothing can be read from `from` up to `to`; read on at `to`.
    Gap {
        /// Asked for.
        from: u64,
        /// Where readable output starts, or the log's end.
        to: u64,
    },
    /// Nothing more yet.
    End,
}

#[derive(Serialize, Deserialize)]
struct Header {
    v: u64,
    base: u64,
}

impl Header {
    fn to_bytes(base: u64) -> Vec<u8> {
        let text = serde_json::to_string(&Header { v: 1, base }).expect("two numbers become JSON");
        format!("{text:<width$}\n", width = HEADER as usize - 1).into_bytes()
    }
}

/// One file of the log, held open, so that it stays readable when its name goes.
#[derive(Debug)]
struct Segment {
    file: File,
    base: u64,
    len: u64,
}

/// What an existing file turned out to be.
enum Found {
    Segment(Segment),
    Missing,
    /// Nothing is in it: its writer is about to write the header, or died before that.
    Empty,
    Damaged,
}

impl Segment {
    fn open(dir: &Dir, name: &str, flags: OFlags) -> Result<Found, LogError> {
        let file = match dir.open_file(name, flags) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(Found::Missing),
            Err(e) => return Err(e.into()),
        };
        let mut head = [0; HEADER as usize];
        // Before it is read: its writer may write it meanwhile.
        let empty = file.metadata()?.len() == 0;
        match file.read_exact_at(&mut head, 0) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Ok(if empty { Found::Empty } else { Found::Damaged });
            }
            // What the disk does not hand out may be whole.
            read => read?,
        }
        let Ok(header) = serde_json::from_slice::<Header>(&head) else { return Ok(Found::Damaged) };
        if header.v > 1 {
            return Err(LogError::Newer { found: header.v });
        }
        let len = file.metadata()?.len() - HEADER;
        Ok(Found::Segment(Segment { file, base: header.base, len }))
    }

    fn create(dir: &Dir, name: &str, base: u64) -> Result<Segment, LogError> {
        let file = dir.open_file(name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR)?;
        file.write_all_at(&Header::to_bytes(base), 0)?;
        Ok(Segment { file, base, len: 0 })
    }

    fn end(&self) -> u64 {
        self.base + self.len
    }

    /// Bytes from `from`, which must be inside; `None` if the file gives none.
    fn read(&self, from: u64, max: usize) -> Option<Chunk> {
        let left = self.end().checked_sub(from).filter(|left| *left > 0)?;
        let mut bytes = vec![0; max.min(usize::try_from(left).unwrap_or(max))];
        let read = self.file.read_at(&mut bytes, HEADER + (from - self.base)).ok().filter(|n| *n > 0)?;
        bytes.truncate(read);
        Some(Chunk::Bytes { offset: from, bytes })
    }
}

/// A chunk at `from` out of segments in order, the log ending at `end`.
fn read_segments(segments: [Option<&Segment>; 2], end: u64, from: u64, max: usize) -> Chunk {
    if from == end {
        return Chunk::End;
    }
    for segment in segments.into_iter().flatten() {
        if (segment.base..segment.end()).contains(&from)
            && let Some(chunk) = segment.read(from, max)
        {
            return chunk;
        }
    }
    let bases = segments.into_iter().flatten().filter(|s| s.len > 0).map(|s| s.base);
    // Beyond the end: the log lost its tail in a power cut, so its end is where to read on.
    let to = bases.filter(|base| *base > from).min().unwrap_or(end);
    Chunk::Gap { from, to }
}

/// The writing side; one per file, in the worker.
#[derive(Debug)]
pub struct OutputLog {
    dir: Dir,
    name: String,
    current: Option<Segment>,
    previous: Option<Segment>,
    recent: VecDeque<u8>,
    end: u64,
    retry_at: Duration,
}

impl OutputLog {
    /// Open the log `name` (for instance `agent7.out`) in `dir`, or begin it. Offsets go on where it ended.
    ///
    /// A file with a damaged header is moved aside to `<name>.damaged`, not overwritten.
    ///
    /// # Errors
    /// The file system refuses, or the log is of a later format.
    pub fn open(dir: Dir, name: &str) -> Result<OutputLog, LogError> {
        let previous = match Segment::open(&dir, &prev(name), OFlags::RDONLY)? {
            Found::Segment(segment) => Some(segment),
            Found::Missing | Found::Empty | Found::Damaged => None,
        };
        let base = previous.as_ref().map_or(0, Segment::end);
        let current = match Segment::open(&dir, name, OFlags::RDWR)? {
            Found::Segment(segment) => segment,
            Found::Missing => Segment::create(&dir, name, base)?,
            Found::Empty | Found::Damaged => {
                dir.rename_over(name, &dir, format!("{name}.damaged"))?;
                Segment::create(&dir, name, base)?
            }
        };
        let end = current.end();
        Ok(OutputLog {
            dir,
            name: name.to_owned(),
            current: Some(current),
            previous,
            recent: VecDeque::new(),
            end,
            retry_at: Duration::ZERO,
        })
    }

    /// What can be read now.
    pub fn span(&self) -> LogSpan {
        let kept = [&self.previous, &self.current];
        let on_disk = kept.into_iter().flatten().filter(|s| s.len > 0).map(|s| s.base).min();
        LogSpan { base: on_disk.unwrap_or(self.end).min(self.recent_base()), end: self.end }
    }

    fn recent_base(&self) -> u64 {
        self.end - self.recent.len() as u64
    }

    /// Append output. `now` is the boot clock, for the pause between tries on a disk that refuses.
    pub fn append(&mut self, bytes: &[u8], now: Duration) {
        let offset = self.end;
        self.end += bytes.len() as u64;
        self.recent.extend(bytes);
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
        if now < self.retry_at {
            return;
        }
        if self.write(offset, bytes).is_err() {
            self.retry_at = now + RETRY;
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        self.write_missed(offset)?;
        let fits = self
            .current
            .as_ref()
            .is_some_and(|segment| segment.end() == offset && segment.len + bytes.len() as u64 <= SEGMENT);
        if !fits {
            self.rotate(offset)?;
        }
        let Some(segment) = &mut self.current else { return Ok(()) };
        segment.file.write_all_at(bytes, HEADER + segment.len)?;
        segment.len += bytes.len() as u64;
        Ok(())
    }

    /// What a full disk refused before this goes first while memory has it: a new segment for each hole would soon be all
    /// that is kept. The segment may grow over its bound by as much.
    fn write_missed(&mut self, offset: u64) -> Result<(), LogError> {
        let base = self.recent_base();
        let Some(segment) = self.current.as_mut().filter(|one| (base..offset).contains(&one.end())) else {
            return Ok(());
        };
        let range = [segment.end(), offset].map(|at| usize::try_from(at - base).unwrap_or(usize::MAX));
        let missed: Vec<u8> = self.recent.range(range[0]..range[1]).copied().collect();
        match segment.file.write_all_at(&missed, HEADER + segment.len) {
            Ok(()) => segment.len += missed.len() as u64,
            Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                return Err(e.into());
            }
            // A new one may be better off.
            Err(_) => {}
        }
        Ok(())
    }

    /// Begin a segment at `base`, keeping the one before unless it is empty.
    fn rotate(&mut self, base: u64) -> Result<(), LogError> {
        match &self.current {
            Some(full) if full.len > 0 => {
                // A write that failed half-way left bytes past the end that nobody may take for output.
                let _ = full.file.set_len(HEADER + full.len);
                self.dir.rename_over(&self.name, &self.dir, prev(&self.name))?;
                self.previous = self.current.take();
            }
            _ => {
                self.current = None;
                self.dir.remove(&self.name)?;
            }
        }
        self.current = Some(Segment::create(&self.dir, &self.name, base)?);
        Ok(())
    }

    /// At most `max` bytes from `from` on.
    pub fn read_from(&self, from: u64, max: usize) -> Chunk {
        if from >= self.recent_base() && from < self.end {
            let skip = usize::try_from(from - self.recent_base()).unwrap_or(usize::MAX);
            let bytes = self.recent.iter().skip(skip).take(max).copied().collect();
            return Chunk::Bytes { offset: from, bytes };
        }
        let segments = [self.previous.as_ref(), self.current.as_ref()];
        match read_segments(segments, self.end, from, max) {
            Chunk::Gap { from, to } if from < self.recent_base() => {
                Chunk::Gap { from, to: to.min(self.recent_base()) }
            }
            other => other,
        }
    }
}

/// The reading side for everybody but the worker: opens the files anew for each piece, so it sees rotations.
#[derive(Debug)]
pub struct LogReader {
    dir: Dir,
    name: String,
}

impl LogReader {
    /// Read the log at `path`, for instance `<root>/agents/agent7.out`.
    ///
    /// # Errors
    /// Its folder cannot be opened, or the path names no file.
    pub fn open(path: &Path) -> Result<LogReader, LogError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        Ok(LogReader { dir: Dir::open(folder)?, name })
    }

    /// What can be read now; an empty span at 0 if there is no log yet.
    ///
    /// # Errors
    /// The files cannot be opened.
    pub fn span(&self) -> Result<LogSpan, LogError> {
        let (previous, current) = self.segments()?;
        let end = current.as_ref().or(previous.as_ref()).map_or(0, Segment::end);
        let kept = [previous, current];
        let base = kept.iter().flatten().filter(|s| s.len > 0).map(|s| s.base).min().unwrap_or(end);
        Ok(LogSpan { base, end })
    }

    /// At most `max` bytes from `from` on.
    ///
    /// # Errors
    /// The files cannot be opened.
    pub fn read_from(&self, from: u64, max: usize) -> Result<Chunk, LogError> {
        let (previous, current) = self.segments()?;
        let end = current.as_ref().or(previous.as_ref()).map_or(0, Segment::end);
        Ok(read_segments([previous.as_ref(), current.as_ref()], end, from, max))
    }

    /// Whether its files are what a worker has written. What can be read of them can be read all the same.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Gone`], or the files cannot be opened.
    pub fn check(&self) -> Result<(), LogError> {
        let path = |name: &str| self.dir.path().join(name);
        let is_there = |name: &str| match Segment::open(&self.dir, name, OFlags::RDONLY)? {
            Found::Damaged => Err(LogError::Damaged { path: path(name) }),
            Found::Missing => Ok(false),
            Found::Segment(_) | Found::Empty => Ok(true),
        };
        let mut looks = 0..LOOKS;
        while !is_there(&self.name)? {
            // A writer that rotates is about to make it.
            if looks.next().is_none() {
                return Err(LogError::Gone { path: path(&self.name) });
            }
            clock::pause(LOOK);
        }
        is_there(&prev(&self.name)).map(drop)
    }

    /// The current segment is opened first: if the writer rotates in between, the former one opened
    /// second is that same file, and nothing is missed.
    fn segments(&self) -> Result<(Option<Segment>, Option<Segment>), LogError> {
        let open = |name: &str| match Segment::open(&self.dir, name, OFlags::RDONLY)? {
            Found::Segment(segment) => Ok(Some(segment)),
            Found::Missing | Found::Empty | Found::Damaged => Ok::<_, LogError>(None),
        };
        let current = open(&self.name)?;
        let previous = open(&prev(&self.name))?;
        Ok((previous, current))
    }
}

fn prev(name: &str) -> String {
    format!("{name}.prev")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn folder(home: &tempfile::TempDir) -> Dir {
        Dir::create(home.path().join("agents")).expect("makes it")
    }

    fn path(home: &tempfile::TempDir) -> std::path::PathBuf {
        home.path().join("agents/a.out")
    }

    fn log(home: &tempfile::TempDir) -> OutputLog {
        OutputLog::open(folder(home), "a.out").expect("opens")
    }

    fn reader(home: &tempfile::TempDir) -> LogReader {
        LogReader::open(&path(home)).expect("opens")
    }

    fn bytes(offset: u64, text: &[u8]) -> Chunk {
        Chunk::Bytes { offset, bytes: text.to_vec() }
    }

    #[test]
    fn offsets_go_on_over_generations() {
        let home = tempfile::tempdir().expect("tempdir");
        log(&home).append(b"first ", NOW);
        let mut second = log(&home);
        assert_eq!(second.span(), LogSpan { base: 0, end: 6 });
        second.append(b"second", NOW);
        assert_eq!(second.read_from(0, 100), bytes(0, b"first second"), "from disk");
        assert_eq!(second.read_from(6, 3), bytes(6, b"sec"), "from memory");
        assert_eq!(second.read_from(12, 3), Chunk::End);
        assert_eq!(reader(&home).read_from(2, 100).expect("reads"), bytes(2, b"rst second"));
    }

    #[test]
    fn rotation_keeps_one_segment_and_tells_the_gap() {
        let home = tempfile::tempdir().expect("tempdir");
        let mut writer = log(&home);
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..25 {
            writer.append(&piece, NOW);
        }
        let end = 25 << 20;
        assert_eq!(writer.span(), LogSpan { base: 16 << 20, end });
        assert_eq!(reader(&home).span().expect("reads"), writer.span());
        let gap = Chunk::Gap { from: 5, to: 16 << 20 };
        assert_eq!(writer.read_from(5, 10), gap);
        assert_eq!(reader(&home).read_from(5, 10).expect("reads"), gap);
        assert_eq!(writer.read_from(16 << 20, 2), bytes(16 << 20, b"xx"));
        let reopened = log(&home);
        assert_eq!(reopened.span(), writer.span());
    }

    #[test]
    fn a_damaged_header_is_put_aside_and_a_newer_log_is_left_alone() {
        let home = tempfile::tempdir().expect("tempdir");
        let file = path(&home);
        folder(&home);
        std::fs::write(&file, b"torn").expect("writes");
        assert_eq!(log(&home).span(), LogSpan { base: 0, end: 0 });
        assert_eq!(std::fs::read(home.path().join("agents/a.out.damaged")).expect("kept"), b"torn");

        let newer = format!("{:<63}\n", r#"{"v":2,"base":0}"#);
        std::fs::write(&file, &newer).expect("writes");
        let refused = OutputLog::open(folder(&home), "a.out");
        assert!(matches!(refused, Err(LogError::Newer { found: 2 })));
        assert_eq!(std::fs::read(&file).expect("kept"), newer.as_bytes());
    }

    #[test]
    fn a_damaged_log_is_not_read_as_an_empty_one() {
        let home = tempfile::tempdir().expect("tempdir");
        let file = path(&home);
        folder(&home);
        let check = || reader(&home).check();
        assert!(matches!(check(), Err(LogError::Gone { path }) if path == file));
        std::fs::write(&file, b"").expect("writes");
        check().expect("it may be about to begin");
        for junk in [&b"torn"[..], &[0; 4096]] {
            std::fs::write(&file, junk).expect("writes");
            assert!(matches!(check(), Err(LogError::Damaged { path }) if path == file));
        }
        std::fs::remove_file(&file).expect("removed");
        let mut writer = log(&home);
        writer.append(&vec![b'x'; usize::try_from(SEGMENT).expect("fits")], NOW);
        writer.append(b"y", NOW);
        check().expect("both are whole");
        std::fs::remove_file(&file).expect("removed");
        assert!(matches!(check(), Err(LogError::Gone { path }) if path == file));
        std::fs::write(&file, b"torn").expect("writes");
        assert!(matches!(check(), Err(LogError::Damaged { path }) if path == file));
        assert!(matches!(reader(&home).read_from(0, 1), Ok(Chunk::Bytes { .. })), "what reads is read");
        let before = home.path().join("agents/a.out.prev");
        std::fs::rename(&file, &before).expect("renamed");
        drop(log(&home));
        assert!(matches!(check(), Err(LogError::Damaged { path }) if path == before));
    }

    #[test]
    fn fm_spawn_eio_a_header_that_the_disk_does_not_hand_out_is_no_damage() {
        let home = tempfile::tempdir().expect("tempdir");
        drop(log(&home));
        // Stand-in for a failing disk: the file can only be written.
        let refused = Segment::open(&folder(&home), "a.out", OFlags::WRONLY);
        assert!(matches!(refused, Err(LogError::Read(_))));
    }

    #[test]
    fn a_disk_that_refuses_costs_history_only_and_the_hole_is_a_gap() {
        let home = tempfile::tempdir().expect("tempdir");
        let mut writer = log(&home);
        writer.append(b"kept", NOW);
        // Stand-in for a full disk: the file can only be read.
        let current = writer.current.as_mut().expect("open");
        current.file = File::open(path(&home)).expect("opens");
        writer.append(b"lost", NOW);
        assert_eq!(writer.read_from(4, 10), bytes(4, b"lost"), "still live from memory");
        writer.append(b"also lost, too soon to try again", NOW);
        writer.append(b"kept again", NOW + RETRY);
        let after = 8 + 32;
        assert_eq!(writer.read_from(after, 100), bytes(after, b"kept again"));
        let reader = reader(&home);
        assert_eq!(reader.read_from(0, 100).expect("reads"), bytes(0, b"kept"));
        assert_eq!(reader.read_from(4, 100).expect("reads"), Chunk::Gap { from: 4, to: after });
        assert_eq!(reader.read_from(after, 100).expect("reads"), bytes(after, b"kept again"));
    }

    #[test]
    fn a_disk_that_is_full_again_and_again_costs_no_history_that_memory_has() {
        let home = tempfile::tempdir().expect("tempdir");
        let mut writer = log(&home);
        let former = vec![b'x'; usize::try_from(SEGMENT).expect("fits")];
        writer.append(&former, NOW);
        writer.append(b"y", NOW);
        let (mut said, mut now) = ([former, b"y".to_vec()].concat(), NOW);
        for round in 0..5 {
            let full = File::options().write(true).open("/dev/full").expect("opens");
            let healthy = std::mem::replace(&mut writer.current.as_mut().expect("open").file, full);
            for _ in 0..2 {
                now += RETRY;
                let words = format!("round {round} ");
                writer.append(words.as_bytes(), now);
                said.extend(words.bytes());
            }
            writer.current.as_mut().expect("still the same").file = healthy;
            now += RETRY;
            writer.append(b"room ", now);
            said.extend(b"room ");
        }
        let (reader, mut read) = (reader(&home), Vec::new());
        while let Chunk::Bytes { bytes, .. } = reader.read_from(read.len() as u64, 1 << 20).expect("reads") {
            read.extend(bytes);
        }
        assert!(read == said, "{} of {} bytes from the start on", read.len(), said.len());
    }

    #[test]
    fn an_offset_beyond_the_end_is_told_as_a_gap_back_to_it() {
        let home = tempfile::tempdir().expect("tempdir");
        let mut writer = log(&home);
        writer.append(b"abc", NOW);
        assert_eq!(writer.read_from(90, 10), Chunk::Gap { from: 90, to: 3 });
    }
}
