//! Append-only files of JSON lines: a torn last line is cut before anything follows it (faults T14).

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fs::{Dir, UNTRUSTED, only_ours, scratch_name};
use crate::sys::{self, Handle};

/// Bytes read at once on the way back to the end of the last whole line.
const STEP: u64 = 64 * 1024;
/// No line that this program writes is longer: past it the end is not torn, the file is something else.
pub const LONGEST: u64 = 4 * 1024 * 1024;

/// A file of lines, open for appending.
#[derive(Debug)]
pub struct Lines {
    file: Handle,
    path: PathBuf,
}

impl Lines {
    /// Open for appending by the only writer there is; returns how many torn bytes were cut.
    ///
    /// # Errors
    /// The file cannot be opened, read or cut.
    pub fn open(dir: &Dir, name: &str) -> Result<(Lines, u64)> {
        let lines = Lines::open_as_is(dir, name)?;
        let cut = lines.repair()?;
        Ok((lines, cut))
    }

    /// Open for appending beside other writers: each line is one write, and nobody cuts. A torn end becomes a line of
    /// its own, so that it spoils no other.
    ///
    /// # Errors
    /// The file cannot be opened, or its end cannot be read or closed.
    pub fn open_shared(dir: &Dir, name: &str) -> Result<Lines> {
        let mut lines = Lines::open_as_is(dir, name)?;
        let len = lines.len()?;
        let mut last = [b'\n'];
        if len > 0 {
            lines.file.read_exact_at(&mut last, len - 1).map_err(|e| lines.error("read the end of", e))?;
        }
        if last != [b'\n'] {
            // Two writers may both do this: an empty line more is no line.
            lines.append(b"")?;
        }
        Ok(lines)
    }

    fn open_as_is(dir: &Dir, name: &str) -> Result<Lines> {
        let file = dir.open_handle(name.as_ref(), OFlags::CREATE | OFlags::APPEND | OFlags::RDWR)?;
        Ok(Lines { file, path: dir.path().join(name) })
    }

    /// Bytes in the file now.
    ///
    /// # Errors
    /// The system does not say.
    #[expect(clippy::len_without_is_empty, reason = "asked of a file that is about to grow")]
    pub fn len(&self) -> Result<u64> {
        self.file.stat().map(|stat| stat.size).map_err(|e| self.error("look at", e))
    }

    fn error(&self, op: &'static str, source: impl Into<std::io::Error>) -> Error {
        Error::new(op, &self.path, source)
    }

    /// Cuts what an append left that failed, so that the next line is one.
    ///
    /// # Errors
    /// The file cannot be read or cut.
    pub fn mend(&self) -> Result<()> {
        self.repair().map(drop)
    }

    /// Cuts what follows the last whole line: half a line, or the zeros that a power cut leaves of what was not
    /// written yet.
    fn repair(&self) -> Result<u64> {
        let len = self.len()?;
        let mut from = len;
        let mut torn = 0;
        let whole = loop {
            let step = from.min(STEP);
            from -= step;
            let mut part = vec![0; step as usize];
            self.file.read_exact_at(&mut part, from).map_err(|e| self.error("read the end of", e))?;
            if let Some(newline) = part.iter().rposition(|b| *b == b'\n') {
                break from + newline as u64 + 1;
            }
            torn += part.iter().filter(|b| **b != 0).count() as u64;
            if torn > LONGEST {
                let why = format!("no line ends in its last {} bytes; it was left as it is", len - from);
                return Err(Error::because("find the last line of", &self.path, why));
            }
            if from == 0 {
                break self.nothing_whole(len, torn)?;
            }
        };
        if whole < len {
            self.file.set_len(whole).map_err(|e| self.error("cut the torn end of", e))?;
        }
        Ok(len - whole)
    }

    /// A file without any line: its first one was torn, if it is no longer than a line can be.
    fn nothing_whole(&self, len: u64, torn: u64) -> Result<u64> {
        if len <= LONGEST {
            return Ok(0);
        }
        let why = format!("no line ends in its {len} bytes, {torn} of them not zero; it was left as it is");
        Err(Error::because("find the last line of", &self.path, why))
    }

    /// Append one line; not durable.
    ///
    /// # Errors
    /// It could not be written whole; the torn end is cut by the next opening.
    pub fn append(&mut self, line: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        (&self.file).write_all(&bytes).map_err(|e| self.error("append to", e))
    }

    /// Cut the file back to a length it had: what an append left that failed.
    ///
    /// # Errors
    /// The system refuses.
    pub fn cut_to(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|e| self.error("cut", e))
    }

    /// Make every line appended so far durable.
    ///
    /// # Errors
    /// The system could not.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| self.error("sync", e))
    }
}

/// Reads the whole lines of a file one by one, from an offset on, while others may append to it.
#[derive(Debug)]
pub struct Reader {
    file: BufReader<Source>,
    path: PathBuf,
    /// Where the next line begins.
    at: u64,
    line: Vec<u8>,
}

/// A file as something that reads, from an offset of its own.
#[derive(Debug)]
struct Source {
    file: Handle,
    at: u64,
}

impl Read for Source {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Reader {
    /// Open for reading from the line that begins at `at`.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(dir: &Dir, name: &str, at: u64) -> Result<Reader> {
        let file = dir.open_handle(name.as_ref(), OFlags::RDONLY)?;
        let file = BufReader::with_capacity(STEP as usize, Source { file, at });
        Ok(Reader { file, path: dir.path().join(name), at, line: Vec::new() })
    }

    /// Where the next line begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Make every line that was read so far durable, whoever wrote it: for who notes how far it read. Where nobody has
    /// noted anything of the file before (`from` 0), its name in `dir` too.
    ///
    /// # Errors
    /// The system could not.
    pub fn settle(&self, dir: &Dir, from: u64) -> Result<()> {
        self.file.get_ref().file.sync_data().map_err(|e| Error::new("sync", &self.path, e))?;
        if from == 0 { dir.sync() } else { Ok(()) }
    }

    /// The next whole line and where it begins; none at the end, where half a line is none. Of a line that is longer
    /// than any that this program writes only the beginning comes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>> {
        let begins = self.at;
        let mut next = begins;
        self.line.clear();
        loop {
            let read = self.file.fill_buf().map_err(|e| Error::new("read", &self.path, e))?;
            if read.is_empty() {
                return Ok(None);
            }
            let end = read.iter().position(|b| *b == b'\n');
            let part = &read[..end.unwrap_or(read.len())];
            let room = (LONGEST as usize).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.file.consume(used);
            next += used as u64;
            if end.is_some() {
                self.at = next;
                return Ok(Some((begins, &self.line)));
            }
        }
    }
}

/// Writes a file anew under its name, as it reads now: after a sync that failed the system may call lost pages clean, and
/// a second one would prove nothing. Whoever has it open goes on in the former one.
///
/// `tmp` is a folder of the same file system.
///
/// # Errors
/// The step that failed. Unless that is the last one (the folder's sync) the name still leads to the former file.
pub fn renew(tmp: &Dir, dir: &Dir, name: &str) -> Result<()> {
    let failed = |e: std::io::Error| Error::new("write anew", dir.path().join(name), e);
    let mut former = Source { file: dir.open_handle(name.as_ref(), OFlags::RDONLY)?, at: 0 };
    let scratch = scratch_name(name);
    let file = tmp.open_handle(scratch.as_ref(), OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
    let copied = std::io::copy(&mut former, &mut &file).and_then(|_| Ok(file.sync()?)).map_err(failed);
    if let Err(error) = copied.and_then(|()| tmp.rename_over(&scratch, dir, name)) {
        // The first error is the one to tell; a file that stays in tmp is swept later.
        let _ = tmp.remove(&scratch);
        return Err(error);
    }
    dir.sync()
}

/// The whole lines of a file; none if it is not there. A torn last line is left out.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>> {
    let path = path.as_ref();
    let file = match sys::open(None, path, OFlags::RDONLY | UNTRUSTED, 0) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(e) => return Err(Error::new("read", path, e)),
    };
    only_ours(&file, path).map_err(|e| e.on("read", path))?;
    let mut bytes = Vec::new();
    (&file).read_to_end(&mut bytes).map_err(|e| Error::new("read", path, e))?;
    let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    lines.pop();
    Ok(lines)
}
