//! A client of one worker's socket: synchronous, for `attach`, for drivers and for the anchor's kill.
//!
//! Promise: no call waits for ever. A worker that is stopped takes connections (the system does) but says nothing:
//! that is [`WorkerError::Silent`] after a stated time. Frames of a later version are skipped.
//!
//! Left to others: what to do with output (`attach`), and who may type (drivers, by their epoch).

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use netsky_disk::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::frame::{Decoder, Form, FrameError, FromWorker, MAX_HELLO, Refusal, ToWorker};
use crate::journal::About;
use crate::session::{End, Heartbeat, VERSION, WorkerHello};
use crate::socket;

/// Longest wait for the hello line: a worker's round takes milliseconds, its durable writes some more.
pub const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for room to send: the worker reads in every round.
const SEND_WAIT: Duration = Duration::from_secs(5);
/// Input in one frame; larger input is cut, so that each piece fits the worker's queue on its own.
const INPUT: usize = 64 << 10;
/// Bytes read at once.
const READ: usize = 64 << 10;

/// Why a worker could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Nobody listens there.
    #[error("connect to worker {path}: {source}")]
    Connect {
        /// The socket.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It takes the connection and says nothing: stopped or stuck.
    #[error("worker does not answer within {0:?}")]
    Silent(Duration),
    /// It ended the connection; its meta file tells the rest.
    #[error("worker closed the connection")]
    Closed,
    /// What it says is no hello or no frame.
    #[error("worker speaks no known protocol: {0}")]
    Protocol(String),
    /// It did not obey.
    #[error("worker refused: {}", .0.text)]
    Refused(Refusal),
    /// The connection failed.
    #[error("talk to worker: {0}")]
    Io(#[from] std::io::Error),
}

/// An open connection.
#[derive(Debug)]
pub struct WorkerClient {
    stream: UnixStream,
    decoder: Decoder,
    hello: WorkerHello,
    /// Came while something else was waited for.
    kept: VecDeque<FromWorker>,
    closed: bool,
}

impl WorkerClient {
    /// Connect and read the hello line, waiting at most [`HELLO_WAIT`].
    ///
    /// # Errors
    /// Nobody listens, it says nothing, or nothing that we know.
    pub fn connect(path: &Path) -> Result<WorkerClient, WorkerError> {
        WorkerClient::connect_within(path, HELLO_WAIT)
    }

    /// As [`WorkerClient::connect`], with another limit.
    ///
    /// # Errors
    /// As there.
    pub fn connect_within(path: &Path, limit: Duration) -> Result<WorkerClient, WorkerError> {
        let stream = socket::connect(path, limit)
            .map_err(|source| WorkerError::Connect { path: path.display().to_string(), source })?;
        stream.set_write_timeout(Some(SEND_WAIT))?;
        let (hello, rest) = read_hello(&stream, limit)?;
        if hello.v > VERSION {
            return Err(WorkerError::Protocol(format!("version {} is newer than ours, {VERSION}", hello.v)));
        }
        let mut decoder = Decoder::default();
        decoder.push(&rest);
        Ok(WorkerClient { stream, decoder, hello, kept: VecDeque::new(), closed: false })
    }

    /// As [`WorkerClient::connect_within`], to the worker of that very generation.
    ///
    /// # Errors
    /// As there; [`WorkerError::Closed`] where another generation answers: the one that was meant is gone.
    pub(crate) fn of(path: &Path, wanted: &About, limit: Duration) -> Result<WorkerClient, WorkerError> {
        let worker = WorkerClient::connect_within(path, limit)?;
        let hello = worker.hello();
        if hello.generation != wanted.generation || hello.lineage != wanted.lineage {
            return Err(WorkerError::Closed);
        }
        Ok(worker)
    }

    /// What the worker said of itself when we came.
    pub fn hello(&self) -> &WorkerHello {
        &self.hello
    }

    /// Ask for output from this offset on.
    ///
    /// # Errors
    /// The connection failed.
    pub fn follow(&mut self, from: u64) -> Result<(), WorkerError> {
        self.send(&ToWorker::Follow { from })
    }

    /// Ask for the screen as it is and the output from there on; only where the hello says that it can.
    ///
    /// # Errors
    /// The connection failed.
    pub fn screen(&mut self) -> Result<(), WorkerError> {
        self.send(&ToWorker::Screen)
    }

    /// Send input: `epoch` 0 for an attached person, else the driver's. A refusal comes back as a frame.
    ///
    /// # Errors
    /// The connection failed.
    pub fn input(&mut self, epoch: u64, bytes: &[u8]) -> Result<(), WorkerError> {
        bytes.chunks(INPUT).try_for_each(|piece| self.send(&ToWorker::Input { epoch, bytes: piece.to_vec() }))
    }

    /// As [`WorkerClient::input`], in one frame: taken whole or refused whole. At most a frame's payload.
    ///
    /// # Errors
    /// The connection failed.
    pub fn input_whole(&mut self, epoch: u64, bytes: &[u8]) -> Result<(), WorkerError> {
        self.send(&ToWorker::Input { epoch, bytes: bytes.to_vec() })
    }

    /// Send what is to be typed, at most once under `id`, and wait until the worker has said that it is queued whole; true
    /// if it was before. Only where the hello says that it can.
    ///
    /// # Errors
    /// [`WorkerError::Refused`]: nothing was typed. Any other: it may have been.
    pub fn type_once(
        &mut self,
        epoch: u64,
        form: Form,
        id: &str,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<bool, WorkerError> {
        self.send(&ToWorker::Type { epoch, form, id: id.to_owned(), bytes: bytes.to_vec() })?;
        let until = clock::boot() + limit;
        let mut others = VecDeque::new();
        let answer = loop {
            match self.next(until.saturating_sub(clock::boot()))? {
                Some(FromWorker::Typed { before }) => break Ok(before),
                Some(FromWorker::Refused(refusal)) => break Err(WorkerError::Refused(refusal)),
                Some(other) => others.push_back(other),
                None => break Err(WorkerError::Silent(limit)),
            }
        };
        self.kept.extend(others);
        answer
    }

    /// End the program's input (pipes only).
    ///
    /// # Errors
    /// The connection failed.
    pub fn close_input(&mut self, epoch: u64) -> Result<(), WorkerError> {
        self.send(&ToWorker::CloseInput { epoch })
    }

    /// Tell the terminal's new size.
    ///
    /// # Errors
    /// The connection failed.
    pub fn resize(&mut self, rows: u16, cols: u16) -> Result<(), WorkerError> {
        self.send(&ToWorker::Resize { rows, cols })
    }

    /// Send a signal to the program's process group.
    ///
    /// # Errors
    /// The connection failed.
    pub fn signal(&mut self, signal: i32) -> Result<(), WorkerError> {
        self.send(&ToWorker::Signal { signal })
    }

    /// Ask for the program's end: SIGTERM, after `grace` SIGKILL to whatever is left.
    ///
    /// # Errors
    /// The connection failed.
    pub fn kill(&mut self, grace: Duration) -> Result<(), WorkerError> {
        self.send(&ToWorker::Kill { grace_ms: u32::try_from(grace.as_millis()).unwrap_or(u32::MAX) })
    }

    /// Ask for the program's end and wait until its tree is gone and recorded, at most `grace` and `limit`.
    ///
    /// # Errors
    /// [`WorkerError::Silent`]: nothing was heard in time; the tree has to be killed by hand.
    /// [`WorkerError::Closed`]: the worker went; its meta file tells whether it recorded an end.
    pub fn kill_and_wait(&mut self, grace: Duration, limit: Duration) -> Result<End, WorkerError> {
        self.kill(grace)?;
        let until = clock::boot() + grace + limit;
        loop {
            match self.next(until.saturating_sub(clock::boot()))? {
                Some(FromWorker::Exit(end)) => return Ok(end),
                Some(_) => {}
                None => return Err(WorkerError::Silent(grace + limit)),
            }
        }
    }

    /// Ask whether its main loop answers.
    ///
    /// # Errors
    /// [`WorkerError::Silent`] when it does not within `limit`.
    pub fn probe(&mut self, limit: Duration) -> Result<Heartbeat, WorkerError> {
        self.send(&ToWorker::Probe)?;
        let until = clock::boot() + limit;
        let mut others = VecDeque::new();
        let answer = loop {
            match self.next(until.saturating_sub(clock::boot()))? {
                Some(FromWorker::Alive(beat)) => break Ok(*beat),
                Some(other) => others.push_back(other),
                None => break Err(WorkerError::Silent(limit)),
            }
        };
        self.kept.extend(others);
        answer
    }

    /// Have it write its session's description anew, and wait until it is there. One of a former program refuses.
    ///
    /// # Errors
    /// [`WorkerError::Refused`]: it is not there.
    pub(crate) fn restate(&mut self, limit: Duration) -> Result<(), WorkerError> {
        self.send(&ToWorker::Restate)?;
        let until = clock::boot() + limit;
        loop {
            match self.next(until.saturating_sub(clock::boot()))? {
                Some(FromWorker::Alive(_)) => return Ok(()),
                Some(FromWorker::Refused(refusal)) => return Err(WorkerError::Refused(refusal)),
                Some(_) => {}
                None => return Err(WorkerError::Silent(limit)),
            }
        }
    }

    /// The next frame; none if none came within `limit`.
    ///
    /// # Errors
    /// [`WorkerError::Closed`] after the last frame of a worker that has gone.
    pub fn next(&mut self, limit: Duration) -> Result<Option<FromWorker>, WorkerError> {
        let until = clock::boot() + limit;
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            if self.closed {
                return Err(WorkerError::Closed);
            }
            if !wait_readable(&self.stream, until)? {
                return Ok(None);
            }
            self.read()?;
        }
    }

    /// The next frame that was read already; for a caller that polls the descriptor itself.
    ///
    /// # Errors
    /// The bytes are no frames.
    pub fn buffered(&mut self) -> Result<Option<FromWorker>, WorkerError> {
        if let Some(frame) = self.kept.pop_front() {
            return Ok(Some(frame));
        }
        loop {
            let frame = self.decoder.next_frame().map_err(|e| WorkerError::Protocol(e.to_string()))?;
            let Some(frame) = frame else { return Ok(None) };
            match FromWorker::parse(&frame) {
                Ok(frame) => return Ok(Some(frame)),
                // A later worker may say more than we know.
                Err(FrameError::Unknown { .. }) => {}
                Err(error) => return Err(WorkerError::Protocol(error.to_string())),
            }
        }
    }

    /// Read once what is there; waits if nothing is. False at the end of the connection.
    ///
    /// # Errors
    /// The connection failed.
    pub fn read(&mut self) -> Result<bool, WorkerError> {
        let mut bytes = vec![0; READ];
        match rustix::io::read(&self.stream, &mut bytes[..]) {
            Ok(0) | Err(Errno::CONNRESET) => self.closed = true,
            Ok(read) => self.decoder.push(&bytes[..read]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(e) => return Err(WorkerError::Io(e.into())),
        }
        Ok(!self.closed)
    }

    fn send(&mut self, frame: &ToWorker) -> Result<(), WorkerError> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        match self.stream.write_all(&bytes) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Err(WorkerError::Silent(SEND_WAIT)),
            // What it said before it went is still to be read; then `next` reports the end.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(e) => Err(WorkerError::Io(e)),
        }
    }
}

impl AsFd for WorkerClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The hello line and what came after it.
fn read_hello(stream: &UnixStream, limit: Duration) -> Result<(WorkerHello, Vec<u8>), WorkerError> {
    let until = clock::boot() + limit;
    let mut held = Vec::new();
    loop {
        if let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let rest = held.split_off(end + 1);
            let hello = serde_json::from_slice(&held).map_err(|e| WorkerError::Protocol(e.to_string()))?;
            return Ok((hello, rest));
        }
        if held.len() > MAX_HELLO {
            return Err(WorkerError::Protocol(format!("a first line of more than {MAX_HELLO} bytes")));
        }
        if !wait_readable(stream, until)? {
            return Err(WorkerError::Silent(limit));
        }
        let mut bytes = [0; MAX_HELLO];
        match rustix::io::read(stream, &mut bytes[..]) {
            Ok(0) | Err(Errno::CONNRESET) => return Err(WorkerError::Closed),
            Ok(read) => held.extend_from_slice(&bytes[..read]),
            Err(Errno::INTR) => {}
            Err(e) => return Err(WorkerError::Io(e.into())),
        }
    }
}

/// Whether there is something to read before `until` on the boot clock.
fn wait_readable(stream: &UnixStream, until: Duration) -> Result<bool, WorkerError> {
    loop {
        let left = until.saturating_sub(clock::boot());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(e) => return Err(WorkerError::Io(e.into())),
        }
    }
}

/// A client of a worker at the other end of this connection, which has said its hello.
#[cfg(test)]
pub(crate) fn over(stream: UnixStream) -> WorkerClient {
    let me = netsky_disk::process::me();
    let hello = serde_json::json!({
        "v": 1, "name": "agent0", "lineage": "agent0-00000000", "generation": 1, "worker": me, "program": me,
        "log": {"base": 0, "end": 0}, "pty": true, "screen": true, "input_epoch": 0,
    });
    let hello = serde_json::from_value(hello).expect("it reads");
    WorkerClient { stream, decoder: Decoder::default(), hello, kept: VecDeque::new(), closed: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_goes_before_it_has_read_all_is_heard_to_the_end() {
        let (stream, mut worker) = UnixStream::pair().expect("a pair");
        let mut client = over(stream);
        client.input(0, b"never read").expect("sent");
        let mut last = Vec::new();
        FromWorker::Output { offset: 0, bytes: b"last words".to_vec() }.encode(&mut last);
        worker.write_all(&last).expect("said");
        drop(worker);
        client.input(0, b"typed on").expect("that it has gone is no failure");
        let said = client.next(SEND_WAIT).expect("heard");
        assert!(
            matches!(&said, Some(FromWorker::Output { bytes, .. }) if bytes == b"last words"),
            "{said:?}"
        );
        assert!(matches!(client.next(SEND_WAIT), Err(WorkerError::Closed)));
    }
}
