//! Lines out of a blocking stream, with a deadline and a bound.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use netsky_disk::clock;

use crate::rpc::MAX_LINE;

/// What came.
pub(crate) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// The deadline, first; what was read of a line is kept for the next call.
    Late,
    /// The end of the stream.
    End,
}

/// What was read and not yet handed out.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
    /// No line end in `held` before this.
    scanned: usize,
}

impl Lines {
    /// The next line, waited for until `deadline` on the boot clock; a line over [`MAX_LINE`] is an error, since everything after it would be out of step.
    pub(crate) fn next(&mut self, stream: &mut UnixStream, deadline: Option<Duration>) -> io::Result<Line> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Line::Whole(line));
            }
            if self.held.len() > MAX_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line over 1 MiB"));
            }
            // A zero timeout would mean none at all.
            let left =
                deadline.map(|deadline| deadline.saturating_sub(clock::boot()).max(Duration::from_micros(1)));
            stream.set_read_timeout(left)?;
            let mut chunk = [0; 16 * 1024];
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(Line::End),
                Ok(n) => self.held.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(Line::Late);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let Some(end) = self.held[self.scanned..].iter().position(|&b| b == b'\n') else {
            self.scanned = self.held.len();
            return None;
        };
        let rest = self.held.split_off(self.scanned + end + 1);
        let mut line = std::mem::replace(&mut self.held, rest);
        line.pop();
        self.scanned = 0;
        Some(line)
    }
}
