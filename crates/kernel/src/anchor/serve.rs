//! The socket: connections in, lines out.
//!
//! Promise: whatever a client sends or fails to read costs it its own connection and nobody else's time. A call goes on
//! when its caller has gone: what was begun is finished and remembered. Running out of descriptors delays clients and
//! kills nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::identity::FileId;
use netsky_disk::{env, process};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::AnchorError;
use super::dispatch::{self, Call};
use super::rejected::{Peer, Reason};
use super::shutdown::Shutting;
use super::state::{Anchor, internal};
use crate::log::{self, say};
use crate::rpc::{MAX_CLIENTS, MAX_LINE, Method, Refusal, RefusalKind, Reply, UNREAD, shutdown};
use crate::socket;

/// Pause after a connection could not be accepted, most likely for want of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves until somebody asks the anchor to stop.
pub(super) async fn until_stopped(anchor: &Rc<Anchor>) -> Result<(), AnchorError> {
    let failed = |source| AnchorError::Io { op: "listen at", path: anchor.layout.sock(), source };
    let mut door = Door::open(anchor)?;
    let mut look = tokio::time::interval(anchor.period);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let open = Rc::new(Cell::new(0));
    let mut failing = false;
    loop {
        tokio::select! {
            accepted = door.listener.accept() => match accepted {
                Ok((stream, _)) => {
                    failing = false;
                    admit(anchor, stream, &open);
                }
                Err(error) => {
                    // Said once a siege, not ten times a second.
                    if !std::mem::replace(&mut failing, true) {
                        say!("accept a client: {error}");
                    }
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            _ = look.tick() => {
                door.keep(anchor);
                anchor.tell_rejected(false);
                anchor.tell_arrived(false);
                bound_log(anchor);
            }
            _ = terminate.recv() => { shutdown_by_signal(anchor).await; }
            _ = interrupt.recv() => { shutdown_by_signal(anchor).await; }
            () = anchor.stopped() => break,
        }
    }
    anchor.tell_rejected(true);
    anchor.tell_arrived(true);
    // A client that finds no socket knows that nobody serves; the lock goes with the process.
    if door.is_ours(anchor) {
        netsky_disk::state::remove(anchor.layout.sock())?;
    }
    Ok(anchor.journal(|journal| journal.is_sound())?)
}

/// Where clients come in.
struct Door {
    listener: UnixListener,
    /// What this anchor bound at its path.
    bound: Option<FileId>,
}

impl Door {
    fn open(anchor: &Anchor) -> Result<Door, AnchorError> {
        let path = anchor.layout.sock();
        let failed = |source| AnchorError::Io { op: "listen at", path: path.clone(), source };
        if !anchor.has_root() {
            return Err(failed(std::io::ErrorKind::NotFound.into()));
        }
        let listener = socket::listen(&path)?;
        let bound = FileId::at(&path)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Door { listener: UnixListener::from_std(listener).map_err(failed)?, bound })
    }

    /// Whether the root is ours and what clients find in it is this.
    fn is_ours(&self, anchor: &Anchor) -> bool {
        anchor.has_root() && FileId::at(anchor.layout.sock()).map_or(true, |found| found == self.bound)
    }

    /// Opens anew where somebody took the socket away: without it nobody reaches an anchor that keeps every other out.
    fn keep(&mut self, anchor: &Anchor) {
        if !anchor.has_root() || self.is_ours(anchor) {
            return;
        }
        match Door::open(anchor) {
            Ok(door) => {
                say!("the socket was gone; it is there again");
                *self = door;
            }
            Err(error) => say!("the socket is gone: {error}"),
        }
    }
}

/// Keeps `anchor.log` within its bound; the log of a root that is another's by now is not ours.
fn bound_log(anchor: &Anchor) {
    if !anchor.has_root() {
        return;
    }
    if let Err(error) = log::bound(&anchor.layout) {
        say!("{error}: the log stays as long as it is");
    }
}

async fn shutdown_by_signal(anchor: &Rc<Anchor>) {
    let shutting = Shutting::begin(anchor);
    // Nothing is asked of it that could be refused.
    let _ = super::shutdown::shutdown(anchor, shutdown::Params::default()).await;
    shutting.stops();
}

fn admit(anchor: &Rc<Anchor>, stream: UnixStream, open: &Rc<Cell<u32>>) {
    let ours = env::user();
    let cred = stream.peer_cred();
    let peer = Peer(cred.as_ref().ok().copied());
    // Now: by the time of a call the number may be another's.
    let caller = cred.as_ref().ok().and_then(|cred| process::identify(cred.pid()?.try_into().ok()?));
    let refusal = match cred.map(|cred| cred.uid()) {
        Ok(uid) if uid == ours => None,
        Ok(uid) => {
            let message = format!("uid {uid} is not the owner of this anchor");
            Some((Reason::Foreign, Refusal::new(RefusalKind::Refused, message)))
        }
        Err(error) => Some((Reason::Foreign, internal(error))),
    };
    let full = open.get() >= MAX_CLIENTS;
    let refusal = refusal.or_else(|| {
        let message = format!("{MAX_CLIENTS} clients are connected already");
        full.then(|| (Reason::Full, Refusal::new(RefusalKind::Busy, message)))
    });
    if let Some((reason, refusal)) = refusal {
        anchor.reject(reason, peer, &refusal);
        // At once: a flood of those that are refused must not wait in memory for its turn. A new socket has room for it.
        if let Some(bytes) = line_of(Value::Null, anchor.epoch, Err(refusal)) {
            let _ = stream.try_write(&bytes);
        }
        return;
    }
    let (anchor, open) = (Rc::clone(anchor), Rc::clone(open));
    open.set(open.get() + 1);
    tokio::task::spawn_local(async move {
        let (input, output) = stream.into_split();
        let mut connection = Connection { call: Call { anchor, caller, seat: Rc::default() }, peer, output };
        // Why it ended is said where it was seen.
        let _ = connection.serve(Lines::new(input)).await;
        open.set(open.get() - 1);
    });
}

/// The end of a connection.
struct Closed;

struct Connection {
    call: Call,
    peer: Peer,
    output: OwnedWriteHalf,
}

impl Connection {
    async fn serve(&mut self, mut lines: Lines) -> Result<(), Closed> {
        let mut changes = self.call.anchor.changes();
        loop {
            changes.borrow_and_update();
            while let Some(rows) = self.due() {
                self.push(&rows).await?;
                // Of a long journal most rows may be another's, and nothing is written of those.
                tokio::task::yield_now().await;
            }
            let follows = self.call.seat.borrow().is_some();
            tokio::select! {
                line = lines.next() => match line {
                    Input::Line(line) => self.line(&line).await?,
                    Input::TooLong => {
                        let message = format!("a line is over {MAX_LINE} bytes");
                        self.call.anchor.reject(Reason::TooLong, self.peer, &message);
                        self.reply(Value::Null, Err(Refusal::new(RefusalKind::TooLarge, message))).await?;
                        return Err(Closed);
                    }
                    Input::Half(bytes) => {
                        let why = format!("its last line has {bytes} bytes and no end");
                        self.call.anchor.reject(Reason::Half, self.peer, &why);
                        return Err(Closed);
                    }
                    Input::End => return Ok(()),
                },
                // The sender is the anchor's own.
                _ = changes.changed(), if follows => {}
            }
        }
    }

    /// Lines for a client that follows, as many as are handed out at once.
    fn due(&self) -> Option<Vec<u8>> {
        self.call.seat.borrow_mut().as_mut()?.due(&self.call.anchor)
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), Closed> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let request = match dispatch::parse(line) {
            Ok(request) => request,
            Err((id, refusal)) => {
                // Not in the words of the refusal: they may have what it sent.
                let why = format!("{} bytes that are no request", line.len());
                self.call.anchor.reject(Reason::Malformed, self.peer, &why);
                return self.reply(id, Err(refusal)).await;
            }
        };
        let (id, method) = (request.id.clone(), request.method.clone());
        let shutting = (method == shutdown::Shutdown::NAME).then(|| Shutting::begin(&self.call.anchor));
        // On a task of its own: it is finished even if this connection is not.
        let call = self.call.clone();
        let working = tokio::task::spawn_local(async move { dispatch::answer(&call, request).await });
        let outcome = working.await.unwrap_or_else(|error| Err(internal(error)));
        if outcome.is_ok() {
            shutting.iter().for_each(Shutting::stops);
        }
        // A notification is not answered, whatever came of it.
        match id {
            Some(id) => self.reply(id, outcome).await,
            None => Ok(()),
        }
    }

    /// Writes rows, however long one that reads takes for them; one that takes nothing keeps its place no longer than with an
    /// answer, and comes again by `since`.
    async fn push(&mut self, mut rows: &[u8]) -> Result<(), Closed> {
        while !rows.is_empty() {
            match tokio::time::timeout(UNREAD, self.output.write(rows)).await {
                Ok(Ok(taken @ 1..)) => rows = &rows[taken..],
                Ok(Ok(0) | Err(_)) => return Err(Closed),
                Err(_) => return Err(self.unread("rows were")),
            }
        }
        Ok(())
    }

    /// Says that it is cut off for what it did not read.
    fn unread(&self, what: &str) -> Closed {
        let why = format!("{what} left unread for {} s", UNREAD.as_secs());
        self.call.anchor.reject(Reason::Unread, self.peer, &why);
        Closed
    }

    async fn reply(&mut self, id: Value, outcome: Result<Value, Refusal>) -> Result<(), Closed> {
        let bytes = line_of(id, self.call.anchor.epoch, outcome).ok_or(Closed)?;
        match tokio::time::timeout(UNREAD, self.output.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Closed),
            Err(_) => Err(self.unread("an answer was")),
        }
    }
}

/// The line of an answer; one that nobody could read says so instead.
fn line_of(id: Value, epoch: u64, outcome: Result<Value, Refusal>) -> Option<Vec<u8>> {
    let mut bytes = serde_json::to_vec(&Reply::new(id.clone(), epoch, outcome)).ok()?;
    if bytes.len() >= MAX_LINE {
        let message = format!("the answer of {} bytes is over {MAX_LINE}", bytes.len());
        let refusal = Refusal::new(RefusalKind::TooLarge, message);
        bytes = serde_json::to_vec(&Reply::new(id, epoch, Err(refusal))).ok()?;
    }
    bytes.push(b'\n');
    Some(bytes)
}

enum Input {
    Line(Vec<u8>),
    TooLong,
    /// So many bytes of a line whose end did not come.
    Half(usize),
    End,
}

/// Lines out of a connection; what was read stays when the wait for more is given up.
struct Lines {
    input: OwnedReadHalf,
    held: Vec<u8>,
    scanned: usize,
}

impl Lines {
    fn new(input: OwnedReadHalf) -> Lines {
        Lines { input, held: Vec::new(), scanned: 0 }
    }

    /// The next line. Half a line before the end is nobody's wish.
    async fn next(&mut self) -> Input {
        loop {
            if let Some(end) = self.held[self.scanned..].iter().position(|&b| b == b'\n') {
                let rest = self.held.split_off(self.scanned + end + 1);
                let mut line = std::mem::replace(&mut self.held, rest);
                line.pop();
                self.scanned = 0;
                return if line.len() > MAX_LINE { Input::TooLong } else { Input::Line(line) };
            }
            self.scanned = self.held.len();
            if self.held.len() > MAX_LINE {
                return Input::TooLong;
            }
            let mut chunk = [0; 16 * 1024];
            match self.input.read(&mut chunk).await {
                Ok(0) | Err(_) if self.held.trim_ascii().is_empty() => return Input::End,
                Ok(0) | Err(_) => return Input::Half(self.held.len()),
                Ok(n) => self.held.extend_from_slice(&chunk[..n]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_over_a_line_is_refused_as_such() {
        let line = line_of(Value::from(7), 3, Ok(Value::from("x".repeat(MAX_LINE)))).expect("a line");
        let reply: Reply = serde_json::from_slice(&line).expect("it reads");
        assert_eq!(reply.id, Value::from(7));
        assert!(matches!(reply.outcome, crate::rpc::Outcome::Error(e) if e.kind() == RefusalKind::TooLarge));
    }

    /// Our end of a connection whose other one is `peer`'s.
    fn connection(anchor: &Rc<Anchor>, ours: UnixStream) -> (Connection, Lines) {
        let peer = Peer(ours.peer_cred().ok());
        let (input, output) = ours.into_split();
        let call = Call { anchor: Rc::clone(anchor), caller: None, seat: Rc::default() };
        (Connection { call, peer, output }, Lines::new(input))
    }

    #[test]
    fn a12_a_follower_that_reads_nothing_is_cut_off_and_told_and_a_slow_one_is_not() {
        crate::anchor::stage::on_stage(async |anchor| {
            // The time goes on by itself while everybody waits.
            tokio::time::pause();
            let rows = vec![b'x'; 4 * MAX_LINE];
            let (mut slow, ours) = UnixStream::pair().expect("a socket");
            let (mut to_slow, _) = connection(&anchor, ours);
            let reading = async {
                let mut taken = 0;
                while taken < rows.len() {
                    tokio::time::sleep(UNREAD - Duration::from_secs(1)).await;
                    taken += slow.read(&mut vec![0; MAX_LINE]).await.expect("reads");
                }
            };
            let (pushed, ()) = tokio::join!(to_slow.push(&rows), reading);
            assert!(pushed.is_ok() && !anchor.rejected.borrow().has_told(Reason::Unread));
            let (_deaf, ours) = UnixStream::pair().expect("a socket");
            let (mut to_deaf, lines) = connection(&anchor, ours);
            for _ in 0..4 {
                let data = serde_json::json!({"text": "x".repeat(MAX_LINE / 4)});
                let draft = crate::journal::Draft { kind: crate::rpc::EventKind::Adopted, about: None, data };
                anchor.journal(|journal| journal.write(&draft, false)).expect("room");
            }
            let follows = crate::anchor::subscribe::Subscription::new(Some(0), None, 4);
            *to_deaf.call.seat.borrow_mut() = Some(follows);
            let served = tokio::time::timeout(2 * UNREAD, to_deaf.serve(lines)).await;
            assert!(served.expect("it waits no longer").is_err());
            assert!(anchor.rejected.borrow().has_told(Reason::Unread));
        });
    }

    #[test]
    fn a12_a_replay_of_another_sessions_rows_leaves_time_for_everybody_else() {
        crate::anchor::stage::on_stage(async |anchor| {
            crate::anchor::stage::write(&anchor, 2_000);
            let (_client, ours) = UnixStream::pair().expect("a socket");
            let (mut to_client, lines) = connection(&anchor, ours);
            let session = "agent7".parse().expect("a name");
            let of = crate::anchor::subscribe::Followed { session, lineage: None };
            let follows = crate::anchor::subscribe::Subscription::new(Some(0), Some(of), 2_000);
            *to_client.call.seat.borrow_mut() = Some(follows);
            // One turn of it, however much is due.
            tokio::select! {
                biased;
                _ = to_client.serve(lines) => panic!("its client is there"),
                () = std::future::ready(()) => {}
            }
            assert!(to_client.due().is_some(), "it took the whole journal in one turn");
        });
    }

    #[test]
    fn a12_a_client_that_goes_in_the_middle_of_a_line_is_told_and_one_that_goes_after_it_is_not() {
        crate::anchor::stage::on_stage(async |anchor| {
            for (sent, is_told) in [("", false), ("\n \n", false), ("\n{\"jsonrpc\":", true)] {
                let (mut client, ours) = UnixStream::pair().expect("a socket");
                let (mut to_client, lines) = connection(&anchor, ours);
                client.write_all(sent.as_bytes()).await.expect("room");
                drop(client);
                assert_eq!(to_client.serve(lines).await.is_err(), is_told, "{sent:?}");
                assert_eq!(anchor.rejected.borrow().has_told(Reason::Half), is_told, "{sent:?}");
            }
        });
    }

    #[test]
    fn a12_a_client_that_leaves_an_answer_unread_is_cut_off_and_told() {
        crate::anchor::stage::on_stage(async |anchor| {
            // The time goes on by itself while everybody waits.
            tokio::time::pause();
            let (_deaf, ours) = UnixStream::pair().expect("a socket");
            let (mut to_deaf, _) = connection(&anchor, ours);
            let answer = Value::from("x".repeat(MAX_LINE / 2));
            assert!(to_deaf.reply(Value::from(1), Ok(answer)).await.is_err(), "it waits no longer");
            assert!(anchor.rejected.borrow().has_told(Reason::Unread));
        });
    }
}
