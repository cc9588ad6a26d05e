//! Lines that somebody feeds us, bounded, and whether the next one is there yet.
//!
//! Promise: never more of a line is held than its cap; what is over it is told as such and passed by.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};

use crate::error::{Error, Result};

/// Bytes asked for at once.
const CHUNK: usize = 64 * 1024;

/// Has a key that stops the output of this process's terminal (Ctrl-S) stop nothing; without a terminal there is none.
pub fn let_output_flow() {
    let stdin = rustix::stdio::stdin();
    if let Ok(mut modes) = rustix::termios::tcgetattr(stdin) {
        modes.input_modes.remove(rustix::termios::InputModes::IXON);
        // Where it cannot be said the terminal is as it was.
        let _ = rustix::termios::tcsetattr(stdin, rustix::termios::OptionalActions::Now, &modes);
    }
}

/// One line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// It was longer than the cap.
    TooLong,
}

/// Somewhere that lines come from.
#[derive(Debug)]
pub struct Input {
    file: File,
    what: String,
    cap: usize,
    held: Vec<u8>,
    /// Up to here there is no newline in what is held.
    scanned: usize,
    /// The line that is being read is over the cap.
    passing: bool,
    ended: bool,
}

impl Input {
    /// Standard input, of which nobody else may have read; lines of at most `cap` bytes.
    ///
    /// # Errors
    /// It is closed.
    pub fn stdin(cap: usize) -> Result<Input> {
        let fd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0)
            .map_err(|e| Error::new("read", "standard input", e))?;
        Ok(Input::new(File::from(fd), "standard input".to_owned(), cap))
    }

    /// A file that the user named: wherever it is and whoever owns it, a plain one or a pipe.
    ///
    /// # Errors
    /// It cannot be opened, or is a folder or a device.
    pub fn open(path: &Path, cap: usize) -> Result<Input> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
            .map_err(|e| Error::new("open", path, e))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::new("look at", path, e))?;
        if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Fifo) {
            return Err(Error::because("read", path, "it is neither a file nor a pipe"));
        }
        Ok(Input::new(File::from(fd), path.display().to_string(), cap))
    }

    /// Passes by all but the last `most` bytes of a plain file, and the line that this cuts.
    ///
    /// # Errors
    /// It is no plain file.
    pub fn skip_to_last(&mut self, most: u64) -> Result<()> {
        let end = self.file.metadata().map_err(|e| Error::new("look at", &self.what, e))?.len();
        if end > most {
            self.file.seek(SeekFrom::Start(end - most)).map_err(|e| Error::new("seek in", &self.what, e))?;
            self.passing = true;
        }
        Ok(())
    }

    fn new(file: File, what: String, cap: usize) -> Input {
        Input { file, what, cap, held: Vec::new(), scanned: 0, passing: false, ended: false }
    }

    /// The next line, waited for; none at the end. A last line needs no newline.
    ///
    /// # Errors
    /// The system refuses to read.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            if let Some(line) = self.held_line() {
                return Ok(Some(line));
            }
            if self.ended {
                let rest = std::mem::take(&mut self.held);
                self.scanned = 0;
                let was_passing = std::mem::take(&mut self.passing);
                return Ok(match (was_passing, rest.is_empty()) {
                    (true, _) => Some(Line::TooLong),
                    (false, true) => None,
                    (false, false) => Some(Line::Whole(rest)),
                });
            }
            self.read_more()?;
        }
    }

    /// Whether [`Input::next_line`] would have to wait for whoever feeds us.
    ///
    /// # Errors
    /// The system refuses to read.
    pub fn would_wait(&mut self) -> Result<bool> {
        loop {
            if self.ended || self.held[self.scanned..].contains(&b'\n') {
                return Ok(false);
            }
            self.scanned = self.held.len();
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            // An interrupted look says nothing; whoever asks does no harm by not waiting for more.
            if poll(&mut [PollFd::new(&self.file.as_fd(), PollFlags::IN)], Some(&now)).unwrap_or(0) == 0 {
                return Ok(true);
            }
            self.read_more()?;
        }
    }

    /// A whole line of what is held.
    fn held_line(&mut self) -> Option<Line> {
        let end = self.held[self.scanned..].iter().position(|byte| *byte == b'\n')? + self.scanned;
        let rest = self.held.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.held, rest);
        line.pop();
        self.scanned = 0;
        let too_long = std::mem::take(&mut self.passing) || line.len() > self.cap;
        Some(if too_long { Line::TooLong } else { Line::Whole(line) })
    }

    fn read_more(&mut self) -> Result<()> {
        self.scanned = self.held.len();
        if self.held.len() > self.cap {
            self.passing = true;
            self.held.clear();
            self.scanned = 0;
        }
        let mut chunk = vec![0; CHUNK];
        let read = loop {
            match self.file.read(&mut chunk) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.map_err(|e| Error::new("read", &self.what, e))?,
            }
        };
        self.ended = read == 0;
        self.held.extend_from_slice(&chunk[..read]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    fn pipe() -> (Input, File) {
        let (read, write): (OwnedFd, OwnedFd) = rustix::pipe::pipe().expect("a pipe");
        (Input::new(read.into(), "a pipe".to_owned(), 100_000), write.into())
    }

    fn whole(text: &str) -> Option<Line> {
        Some(Line::Whole(text.as_bytes().to_vec()))
    }

    #[test]
    fn lines_come_one_by_one_and_the_last_needs_no_end() {
        let (mut input, mut feed) = pipe();
        assert!(input.would_wait().expect("readable"));
        feed.write_all(b"one\n\ntw").expect("room");
        assert!(!input.would_wait().expect("readable"));
        assert_eq!(input.next_line().expect("readable"), whole("one"));
        assert_eq!(input.next_line().expect("readable"), whole(""));
        assert!(input.would_wait().expect("readable"), "half a line is none yet");
        feed.write_all(b"o").expect("room");
        drop(feed);
        assert_eq!(input.next_line().expect("readable"), whole("two"));
        assert!(!input.would_wait().expect("readable"));
        assert_eq!(input.next_line().expect("readable"), None);
    }

    #[test]
    fn a12_a_line_over_the_cap_is_passed_by_and_never_held() {
        let (mut input, mut feed) = pipe();
        let writer = std::thread::spawn(move || {
            for _ in 0..100 {
                feed.write_all(&[b'x'; 50_000]).expect("read on the other side");
            }
            feed.write_all(b"\nnext\n").expect("read on the other side");
            feed.write_all(&[b'y'; 100_001]).expect("read on the other side");
        });
        let mut most = 0;
        let mut lines = Vec::new();
        while let Some(line) = input.next_line().expect("readable") {
            most = most.max(input.held.capacity());
            lines.push(line);
        }
        assert_eq!(lines, [Line::TooLong, Line::Whole(b"next".to_vec()), Line::TooLong]);
        assert!(most < 4 * 100_000, "{most}");
        writer.join().expect("it wrote");
    }
}
