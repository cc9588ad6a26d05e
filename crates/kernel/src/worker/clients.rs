//! Everybody who is connected to the worker's socket, each with bounded buffers of its own.
//!
//! Promise: no client makes the worker wait. One that does not read is fed no further and later reads on from the
//! log by its offset, or is told the gap; one that does not let its answers out is not listened to either.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use netsky_disk::peer;
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::screen::{Screen, UNFINISHED};
use crate::frame::{Decoder, FrameError, FromWorker, Refusal, RefusalKind, ToWorker};
use crate::output_log::{Chunk, OutputLog};
use crate::session::{End, LogSpan, WorkerHello};

/// Most clients at once: a driver, an anchor and dozens of people; beyond that somebody leaks connections.
const CLIENTS: usize = 64;
/// Connections taken in one round: however many come, the program and the others have their turn.
const ACCEPTS: usize = 64;
/// Output is put into a client's buffer up to here, so that a slow one holds little of our memory.
const FILL: usize = 64 << 10;
/// Output in one frame; small enough that a probe's answer never waits long behind it.
const PIECE: usize = 32 << 10;
/// With this much unsent a client is not read from: its answers would grow without end.
const UNSENT: usize = 256 << 10;
/// With this much unsent a client is let go: one read of its questions alone has filled it, without one answer taken.
const FLOODED: usize = 1 << 20;
/// Bytes read from a client in one round, so that all get their turn.
const READ: usize = 64 << 10;
/// Times a client's buffer is filled in one round; a fast reader of a long log must not keep the program waiting.
const FILLS: usize = 16;
/// Pause of the listener when the system has no descriptors left.
const PAUSE: Duration = Duration::from_secs(1);

/// One connection.
#[derive(Debug)]
struct Client {
    number: u64,
    stream: UnixStream,
    decoder: Decoder,
    unsent: Vec<u8>,
    follow: Option<u64>,
    /// It wants to see the screen before it follows.
    wants_screen: bool,
    told_end: bool,
    gone: bool,
}

/// All connections and where they come from.
#[derive(Debug)]
pub(super) struct Clients {
    listener: UnixListener,
    paused_until: Duration,
    clients: Vec<Client>,
    numbered: u64,
}

/// What one client asks for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) client: u64,
    pub(super) frame: Result<ToWorker, FrameError>,
}

impl Clients {
    pub(super) fn new(listener: UnixListener) -> io::Result<Clients> {
        listener.set_nonblocking(true)?;
        Ok(Clients { listener, paused_until: Duration::ZERO, clients: Vec::new(), numbered: 0 })
    }

    /// What to poll the listener for; none while it is paused.
    pub(super) fn listener(&self, now: Duration) -> Option<BorrowedFd<'_>> {
        (now >= self.paused_until).then(|| self.listener.as_fd())
    }

    /// What to poll each client for, by its number.
    pub(super) fn interests(&self, log_end: u64) -> impl Iterator<Item = (u64, BorrowedFd<'_>, PollFlags)> {
        self.clients.iter().map(move |client| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.unsent.len() < UNSENT);
            let behind = client.follow.is_some_and(|next| next != log_end);
            flags.set(PollFlags::OUT, behind || !client.unsent.is_empty());
            (client.number, client.stream.as_fd(), flags)
        })
    }

    /// Who is connected.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.clients.iter().map(|client| client.number).collect()
    }

    /// Take new connections. Each is greeted; one of another user is dropped without a word.
    pub(super) fn accept(&mut self, now: Duration, hello: &WorkerHello) {
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, hello),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.paused_until = now + PAUSE;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream, hello: &WorkerHello) {
        if !peer::is_us(&stream) || stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut unsent = serde_json::to_vec(hello).expect("plain data with string keys becomes JSON");
        unsent.push(b'\n');
        let crowded = self.clients.len() >= CLIENTS;
        if crowded {
            let text = format!("{CLIENTS} clients are connected already");
            FromWorker::Refused(Refusal { kind: RefusalKind::Busy, text }).encode(&mut unsent);
        }
        self.numbered += 1;
        let number = self.numbered;
        let decoder = Decoder::default();
        let mut client = Client {
            number,
            stream,
            decoder,
            unsent,
            follow: None,
            wants_screen: false,
            told_end: false,
            gone: false,
        };
        client.flush();
        if !crowded {
            self.clients.push(client);
        }
    }

    /// Read from one client once; what it asks for.
    pub(super) fn read(&mut self, number: u64) -> Vec<Request> {
        let Some(client) = self.client(number) else { return Vec::new() };
        client.read().into_iter().map(|frame| Request { client: number, frame }).collect()
    }

    fn client(&mut self, number: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.number == number)
    }

    /// Send one client the output from `from` on.
    pub(super) fn follow(&mut self, number: u64, from: u64) {
        if let Some(client) = self.client(number) {
            client.follow = Some(from);
        }
    }

    /// Show one client the screen, and from there on the output; where there is none by then it is told so.
    pub(super) fn show_screen(&mut self, number: u64) {
        if let Some(client) = self.client(number) {
            client.wants_screen = true;
        }
    }

    /// Answer one client.
    pub(super) fn answer(&mut self, number: u64, answer: &FromWorker) {
        if let Some(client) = self.client(number) {
            answer.encode(&mut client.unsent);
            client.gone |= client.unsent.len() > FLOODED;
        }
    }

    /// Give every client what it can take now, and forget those that are gone.
    pub(super) fn pump(&mut self, log: &OutputLog, screen: Option<&Screen>, end: Option<&End>) {
        for client in &mut self.clients {
            client.pump(log, screen, end);
        }
        self.clients.retain(|client| !client.gone);
    }

    /// Whether every client has got everything, its end too.
    pub(super) fn all_served(&self) -> bool {
        self.clients.iter().all(|client| client.told_end && client.unsent.is_empty())
    }
}

impl Client {
    fn read(&mut self) -> Vec<Result<ToWorker, FrameError>> {
        let mut bytes = vec![0; READ];
        match rustix::io::read(&self.stream, &mut bytes[..]) {
            Ok(0) => self.gone = true,
            Ok(read) => self.decoder.push(&bytes[..read]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.gone = true,
        }
        let mut frames = Vec::new();
        loop {
            match self.decoder.next_frame() {
                Ok(None) => return frames,
                Ok(Some(frame)) => frames.push(ToWorker::parse(&frame)),
                Err(_too_long) => {
                    self.gone = true;
                    return frames;
                }
            }
        }
    }

    fn pump(&mut self, log: &OutputLog, screen: Option<&Screen>, end: Option<&End>) {
        for _ in 0..FILLS {
            self.fill(log, screen, end);
            let before = self.unsent.len();
            self.flush();
            // Nothing more to say, or nothing more is taken.
            if self.gone || before == 0 || self.unsent.len() == before {
                return;
            }
        }
    }

    /// Put output into the buffer up to its bound, and after the last byte of it the end.
    fn fill(&mut self, log: &OutputLog, screen: Option<&Screen>, end: Option<&End>) {
        // Once there is room: however often it asks, it is owed one picture, that of the moment it is given.
        if self.wants_screen && self.unsent.len() < FILL {
            match screen {
                Some(screen) => self.paint(log, screen),
                None => {
                    let text = "there is no picture of the screen".to_owned();
                    let refusal = Refusal { kind: RefusalKind::NotHere, text };
                    FromWorker::Refused(refusal).encode(&mut self.unsent);
                }
            }
            self.wants_screen = false;
        }
        while let Some(next) = self.follow {
            if self.unsent.len() >= FILL {
                return;
            }
            let (frame, after) = match log.read_from(next, PIECE) {
                Chunk::Bytes { offset, bytes } => {
                    let after = offset + bytes.len() as u64;
                    (FromWorker::Output { offset, bytes }, after)
                }
                Chunk::Gap { from, to } => (FromWorker::Gap { from, to }, to),
                Chunk::End => break,
            };
            frame.encode(&mut self.unsent);
            self.follow = Some(after);
        }
        if let Some(end) = end.filter(|_| !self.told_end) {
            FromWorker::Exit(end.clone()).encode(&mut self.unsent);
            self.told_end = true;
        }
    }

    fn paint(&mut self, log: &OutputLog, screen: &Screen) {
        let LogSpan { base, end: offset } = log.span();
        let tail = match log.read_from(offset.saturating_sub(UNFINISHED as u64).max(base), UNFINISHED) {
            Chunk::Bytes { bytes, .. } => bytes,
            Chunk::Gap { .. } | Chunk::End => Vec::new(),
        };
        for piece in screen.picture(&tail).chunks(PIECE) {
            FromWorker::Screen { offset, bytes: piece.to_vec() }.encode(&mut self.unsent);
        }
        self.follow = Some(offset);
    }

    fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.unsent.len() {
            // Not `write`: a peer that has gone must be an error, not a signal.
            let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
            match rustix::net::send(&self.stream, &self.unsent[sent..], flags) {
                Ok(taken) => sent += taken,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.gone = true;
                    break;
                }
            }
        }
        self.unsent.drain(..sent);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use netsky_disk::process::me;

    use super::*;

    #[test]
    fn a12_of_a_flood_of_connections_a_round_takes_some() {
        let home = tempfile::tempdir().expect("tempdir");
        let path = home.path().join("sock");
        let listener = UnixListener::bind(&path).expect("binds");
        let mut clients = Clients::new(listener).expect("ours");
        let hello: WorkerHello = serde_json::from_value(serde_json::json!({
            "v": 1, "name": "agent0", "lineage": "agent0-00000000", "generation": 1, "worker": me(), "program": me(),
            "log": {"base": 0, "end": 0}, "pty": true, "input_epoch": 0,
        }))
        .expect("it reads");
        let came: Vec<UnixStream> =
            (0..ACCEPTS + 9).map(|_| UnixStream::connect(&path).expect("waits")).collect();
        came.iter().for_each(|stream| stream.set_nonblocking(true).expect("ours"));
        let greeted = || came.iter().filter(|stream| (&**stream).read(&mut [0; 4096]).is_ok()).count();
        for of_round in [ACCEPTS, 9] {
            clients.accept(Duration::ZERO, &hello);
            assert_eq!(greeted(), of_round);
        }
    }
}
