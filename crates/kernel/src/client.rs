//! The synchronous client of an anchor.
//!
//! Promise: one call at a time on one connection, every wait bounded, every refusal typed. [`Client::ensure`] starts the
//! anchor when none serves; starters may race, one anchor wins and all of them reach it. Dropping a client changes nothing.
//!
//! Left to others: what a method does (`anchor`), the terminal of a session (`attach`).

mod arrival;
mod events;
mod follow;
mod lineages;
mod lists;

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::{is_stopped, probe};
use netsky_disk::{clock, env, peer, state};
use netsky_model::id::AgentId;
use netsky_model::process::{Life, ProcessId};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::drain::Report;
use crate::lines::{Line, Lines};
use crate::rpc::{self, Guard, Method, Refusal, SessionView};
use crate::session::Spec;
use crate::{socket, start};
pub use events::Events;
pub use follow::Follow;

/// How long a call without a wait of its own may take: the anchor answers within milliseconds, a loaded machine within
/// seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a greeting may take before the anchor counts as stuck.
const GREETING: Duration = Duration::from_secs(5);
/// How long a message waits for the anchor to say who sends it; most sends find it idle.
const WHOAMI: Duration = Duration::from_secs(2);
/// How long an anchor may take from its start to its greeting.
const STARTUP: Duration = Duration::from_secs(15);
/// How long one that is stopping is waited for: longer than what it ends usually takes; behind that, its refusal of a start
/// says so.
const STOPPING: Duration = Duration::from_secs(20);
/// How often a starter starts: again only when the one before ended and nobody serves.
const STARTS: u32 = 5;
/// How often a starter looks whether the anchor greets.
const STARTUP_STEP: Duration = Duration::from_millis(10);
/// Bytes that a start needs: its rows, its description, its output's file. With less a disk counts as full.
pub const ROOM: u64 = 64 * 1024;
/// Most bytes of a line of an anchor's log that are shown.
const LAST_WORDS: u64 = 1024;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody serves this root.
    #[error("no anchor serves {}", root.display())]
    NotServing {
        /// The kernel root.
        root: PathBuf,
    },
    /// The anchor is there, or was started, and did not greet in time.
    #[error("the anchor of {}{} did not answer within {} s", root.display(), told(holder.as_ref()), waited.as_secs())]
    Silent {
        /// The kernel root.
        root: PathBuf,
        /// Who holds the root, if anybody does and says so.
        holder: Option<Holder>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Each anchor that was started ended before it served.
    #[error("the anchor of {} ends as soon as it is started: {why}", root.display())]
    Ends {
        /// The kernel root.
        root: PathBuf,
        /// The last words in its log.
        why: String,
    },
    /// The anchor serves as many clients as it may, and did not look at the call.
    #[error("the anchor of {} takes no more clients: {refusal}", root.display())]
    Full {
        /// The kernel root.
        root: PathBuf,
        /// What it said.
        refusal: Refusal,
    },
    /// The anchor refused the call and did nothing.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The connection broke; a mutating call may have been done: repeat it with the same `request_id`.
    #[error("lost the anchor of {} during {method}: {source}", root.display())]
    Lost {
        /// The kernel root.
        root: PathBuf,
        /// What was asked.
        method: &'static str,
        /// How it broke.
        source: io::Error,
    },
    /// The anchor says something this program does not understand.
    #[error("{method} was answered with something else than its answer: {why}")]
    Gibberish {
        /// What was asked.
        method: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The root folder is not ours alone, or the anchor could not be started.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
}

/// The anchor that keeps every other out of its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Whether a signal has stopped it: it answers nobody until another has it go on.
    pub stopped: bool,
    /// Whether there is a socket to reach it by.
    pub reachable: bool,
}

impl Holder {
    /// Who holds a root; none where nobody does, or not from here.
    fn of(layout: &KernelLayout) -> Option<Holder> {
        let held = Lock::is_held(layout.lock()).unwrap_or(false);
        let holder: ProcessId = held.then(|| Lock::noted(layout.lock()))??;
        Some(Holder {
            pid: holder.pid,
            stopped: is_stopped(&holder),
            reachable: state::exists(layout.sock()).unwrap_or(true),
        })
    }
}

/// What people are told of who holds a root.
fn told(holder: Option<&Holder>) -> String {
    match holder {
        None => String::new(),
        Some(Holder { pid, stopped: true, .. }) => format!(" (pid {pid}) is stopped and"),
        Some(Holder { pid, reachable: false, .. }) => format!(" (pid {pid}) has lost its socket and"),
        Some(Holder { pid, .. }) => format!(" (pid {pid})"),
    }
}

impl ClientError {
    /// The stable kind, when the anchor refused.
    pub fn kind(&self) -> Option<rpc::RefusalKind> {
        match self {
            ClientError::Refused(refusal) | ClientError::Full { refusal, .. } => Some(refusal.kind()),
            _ => None,
        }
    }

    /// Whether the anchor of the next moment may answer: this one is gone, stuck, or has no slot for another client.
    pub fn passes(&self) -> bool {
        use ClientError::{Full, Lost, NotServing, Silent};
        matches!(self, Lost { .. } | NotServing { .. } | Silent { .. } | Full { .. })
    }
}

/// A connection to the anchor of one root.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    hello: rpc::hello::Answer,
}

impl Client {
    /// Connects to the anchor that serves `root`.
    ///
    /// # Errors
    /// [`ClientError::NotServing`] when there is none, [`ClientError::Silent`] when it is stuck.
    pub fn connect(root: &Path) -> Result<Client, ClientError> {
        let not_serving = || ClientError::NotServing { root: root.to_owned() };
        let mut connection = Connection::to(root, GREETING)?;
        match connection.call_within::<rpc::hello::Hello>(&rpc::hello::Params {}, GREETING) {
            Ok(hello) => Ok(Client { connection, hello }),
            Err(ClientError::Lost { source, .. }) if is_timeout(&source) => Err(silent(root, GREETING)),
            // An anchor that ended between our connect and its greeting.
            Err(ClientError::Lost { source, .. }) if is_closed(&source) => Err(not_serving()),
            Err(other) => Err(other),
        }
    }

    /// Below which session of `root` this process runs, as its anchor sees it, without a greeting before.
    ///
    /// # Errors
    /// As [`Client::connect`]; an anchor of an older program knows no such call.
    pub fn whoami(root: &Path) -> Result<Option<rpc::whoami::Who>, ClientError> {
        let until = clock::boot() + WHOAMI;
        let mut connection = Connection::to(root, WHOAMI)?;
        let left = until.saturating_sub(clock::boot()).max(Duration::from_millis(1));
        let answer = connection.call_within::<rpc::whoami::Whoami>(&rpc::whoami::Params {}, left)?;
        Ok(answer.session)
    }

    /// Connects, and starts `program serve --root ROOT` before if nobody serves. One that is stopping is waited for first.
    ///
    /// The anchor is detached from this process, its session, its terminal and its environment marks: it does not end with
    /// whoever happened to start it.
    ///
    /// # Errors
    /// As [`Client::connect`]; also when the anchor cannot be started or does not greet in time.
    pub fn ensure(root: &Path, program: &Path) -> Result<Client, ClientError> {
        let until = clock::boot() + STOPPING;
        let mut served = Client::connect(root);
        while served.as_ref().is_ok_and(|client| client.hello.stopping) && clock::boot() < until {
            clock::pause(STARTUP_STEP);
            served = Client::connect(root);
        }
        match served {
            Err(ClientError::NotServing { .. }) => {}
            other => return other,
        }
        let begun = clock::boot();
        let mut started = start::anchor(root, program)?;
        let mut starts = 1;
        loop {
            match Client::connect(root) {
                Err(ClientError::NotServing { .. }) if clock::boot() - begun < STARTUP => {
                    // Ours may have lost to one that was just leaving: then nobody is left who would serve.
                    let vacant =
                        probe(&started) == Life::Dead && !Lock::is_held(KernelLayout::new(root).lock())?;
                    if vacant && starts == STARTS {
                        return Err(ends(root));
                    }
                    if vacant {
                        started = start::anchor(root, program)?;
                        starts += 1;
                    }
                    clock::pause(STARTUP_STEP);
                }
                Err(ClientError::NotServing { .. }) => return Err(silent(root, clock::boot() - begun)),
                other => return other,
            }
        }
    }

    /// Who serves.
    pub fn hello(&self) -> &rpc::hello::Answer {
        &self.hello
    }

    /// The kernel root.
    pub fn root(&self) -> &Path {
        &self.connection.root
    }

    /// One session.
    ///
    /// # Errors
    /// `not-found`.
    pub fn show(&mut self, session: &AgentId) -> Result<SessionView, ClientError> {
        self.call::<rpc::show::Show>(&rpc::show::Params { session: session.clone() })
    }

    /// Starts the next generation of a session and returns once its program runs.
    ///
    /// # Errors
    /// `busy` while the session lives, `stale-generation`, `failed-to-start`, `bad-params`.
    pub fn spawn(&mut self, spec: &Spec, guard: &Guard) -> Result<SessionView, ClientError> {
        let params = rpc::spawn::Params { spec: spec.clone(), guard: guard.clone() };
        // A start waits for the former generation's sweep and the worker's readiness, both bounded by the anchor.
        self.connection.call_within::<rpc::spawn::Spawn>(&params, PATIENCE * 3)
    }

    /// Ends a session's whole tree and returns once it is gone; an ended one is left as it is.
    ///
    /// # Errors
    /// `not-found`, `stale-generation`, `busy` when the tree would not end.
    pub fn kill(
        &mut self,
        session: &AgentId,
        grace: Option<Duration>,
        guard: &Guard,
    ) -> Result<SessionView, ClientError> {
        let grace_ms = grace.map_or(rpc::kill::DEFAULT_GRACE_MS, |grace| {
            u32::try_from(grace.as_millis()).unwrap_or(u32::MAX)
        });
        let params = rpc::kill::Params { session: session.clone(), grace_ms, guard: guard.clone() };
        let patience = PATIENCE * 2 + Duration::from_millis(u64::from(grace_ms));
        self.connection.call_within::<rpc::kill::Kill>(&params, patience)
    }

    /// Gives a session that has ended another name.
    ///
    /// # Errors
    /// `not-found`, `stale-generation`, `refused` when it lives, comes back or is a keeper's above, and for a taken name.
    pub fn rename(
        &mut self,
        session: &AgentId,
        to: &AgentId,
        guard: &Guard,
    ) -> Result<SessionView, ClientError> {
        let (session, to, guard) = (session.clone(), to.clone(), guard.clone());
        self.call::<rpc::rename::Rename>(&rpc::rename::Params { session, to, guard })
    }

    /// Tells what a session says about itself.
    ///
    /// # Errors
    /// `not-found`, `stale-generation`, and what does not fit what was told before.
    pub fn report(
        &mut self,
        session: &AgentId,
        report: &Report,
        guard: &Guard,
    ) -> Result<rpc::report::Answer, ClientError> {
        let (session, report, guard) = (session.clone(), report.clone(), guard.clone());
        self.call::<rpc::report::SessionReport>(&rpc::report::Params { session, report, guard })
    }

    /// Types into a session, controls and all.
    ///
    /// # Errors
    /// `not-found`, `stale-generation`, `refused` when it does not run, `busy` when its program does not read.
    pub fn input(&mut self, params: &rpc::input::Params) -> Result<SessionView, ClientError> {
        self.call::<rpc::input::Input>(params)
    }

    /// Puts a text before a program and returns once its worker has taken it whole.
    ///
    /// # Errors
    /// As [`Client::input`], and `refused` when its context lets nothing in.
    pub fn prompt(&mut self, params: &rpc::prompt::Params) -> Result<SessionView, ClientError> {
        self.call::<rpc::prompt::Prompt>(params)
    }

    /// Gives a terminal another size.
    ///
    /// # Errors
    /// As [`Client::input`], and `refused` where there is no terminal.
    pub fn resize(&mut self, params: &rpc::resize::Params) -> Result<SessionView, ClientError> {
        self.call::<rpc::resize::Resize>(params)
    }

    /// Sends a signal to a program's group.
    ///
    /// # Errors
    /// As [`Client::input`], and `bad-params` for a number that is no signal.
    pub fn signal(&mut self, params: &rpc::signal::Params) -> Result<SessionView, ClientError> {
        self.call::<rpc::signal::SendSignal>(params)
    }

    /// Stops the anchor; with `all` every session first. Returns what was ended and what lives on.
    ///
    /// # Errors
    /// [`ClientError::NotServing`] where it stopped before it took this: what it left is the next one's to end.
    pub fn shutdown(mut self, all: bool) -> Result<rpc::shutdown::Answer, ClientError> {
        let params = rpc::shutdown::Params { all, grace_ms: None };
        match self.connection.call_within::<rpc::shutdown::Shutdown>(&params, PATIENCE * 5) {
            Err(ClientError::Lost { root, source, .. }) if is_closed(&source) => {
                Err(ClientError::NotServing { root })
            }
            answered => answered,
        }
    }

    /// Follows the journal after row `since` (absent: from now on).
    ///
    /// # Errors
    /// `bad-params` when the journal has not reached that row.
    pub fn subscribe(mut self, since: Option<u64>) -> Result<Events, ClientError> {
        let params = rpc::subscribe::Params { since, session: None };
        let head = self.call::<rpc::subscribe::Subscribe>(&params)?.head;
        Ok(Events { connection: self.connection, hello: self.hello, head })
    }

    /// Follows one session after row `since` (absent: from now on).
    ///
    /// # Errors
    /// `not-found`, and `bad-params` when the journal has not reached that row.
    pub fn attach(mut self, session: &AgentId, since: Option<u64>) -> Result<Events, ClientError> {
        let (session, mode) = (session.clone(), rpc::attach::Mode::Events);
        let head = self.call::<rpc::attach::Attach>(&rpc::attach::Params { session, mode, since })?.head;
        Ok(Events { connection: self.connection, hello: self.hello, head })
    }

    /// Calls any method, also one that this program does not know, and returns what it answers.
    ///
    /// # Errors
    /// [`ClientError`]; `unknown-method`, `bad-params`.
    pub fn call_raw(
        &mut self,
        method: &str,
        params: Value,
        patience: Duration,
    ) -> Result<Value, ClientError> {
        let known = rpc::METHODS.iter().find(|known| known.name == method);
        let told = known.map_or("a call", |known| known.name);
        read(told, &self.connection.exchange(method, told, params, patience)?)
    }

    fn call<M: Method>(&mut self, params: &M::Params) -> Result<M::Answer, ClientError> {
        self.connection.call_within::<M>(params, PATIENCE)
    }
}

/// What a caller needs of an [`rpc::Reply`]: the result as it stands on the line, since that of many sessions is long.
#[derive(Deserialize)]
struct Heard<'a> {
    id: Value,
    // Null is a result.
    #[serde(borrow, default, deserialize_with = "as_it_stands")]
    result: Option<&'a RawValue>,
    error: Option<Refusal>,
}

fn as_it_stands<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

fn read<T: DeserializeOwned>(method: &'static str, result: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(result.get()).map_err(|e| gibberish(method, e))
}

fn gibberish(method: &'static str, why: impl ToString) -> ClientError {
    ClientError::Gibberish { method, why: why.to_string() }
}

/// The stream, and what was read of it.
#[derive(Debug)]
struct Connection {
    root: PathBuf,
    stream: UnixStream,
    lines: Lines,
    next_id: u64,
}

impl Connection {
    /// Connects to whoever serves a root, if that is us.
    fn to(root: &Path, patience: Duration) -> Result<Connection, ClientError> {
        let stream = match socket::connect(&KernelLayout::new(root).sock(), patience) {
            Ok(stream) => stream,
            Err(e) if is_timeout(&e) => return Err(silent(root, patience)),
            Err(e) if is_absent(&e) => return Err(ClientError::NotServing { root: root.to_owned() }),
            Err(e) => return Err(lost(root, "connect", e)),
        };
        let server = peer::uid(&stream)?;
        if server != env::user() {
            let message = format!("the anchor of {} belongs to uid {server}", root.display());
            return Err(Refusal::new(rpc::RefusalKind::Refused, message).into());
        }
        Ok(Connection::new(root, stream))
    }

    fn new(root: &Path, stream: UnixStream) -> Connection {
        Connection { root: root.to_owned(), stream, lines: Lines::default(), next_id: 1 }
    }

    fn call_within<M: Method>(
        &mut self,
        params: &M::Params,
        patience: Duration,
    ) -> Result<M::Answer, ClientError> {
        let params = serde_json::to_value(params).map_err(|e| gibberish(M::NAME, e))?;
        read(M::NAME, &self.exchange(M::NAME, M::NAME, params, patience)?)
    }

    /// One request and its answer; in errors it is `told`.
    fn exchange(
        &mut self,
        method: &str,
        told: &'static str,
        params: Value,
        patience: Duration,
    ) -> Result<Box<RawValue>, ClientError> {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        let request = rpc::Request {
            jsonrpc: "2.0".to_owned(),
            id: Some(id.clone()),
            method: method.to_owned(),
            params,
        };
        let mut line = serde_json::to_vec(&request).map_err(|e| gibberish(told, e))?;
        line.push(b'\n');
        if line.len() > rpc::MAX_LINE {
            let message = format!("{told} with {} bytes is over the limit of {}", line.len(), rpc::MAX_LINE);
            return Err(Refusal::new(rpc::RefusalKind::TooLarge, message).into());
        }
        let deadline = clock::boot() + patience;
        self.stream.set_write_timeout(Some(patience)).map_err(|e| lost(&self.root, told, e))?;
        match self.stream.write_all(&line) {
            // It closed on us; why stands in what it said before.
            Err(e) if is_closed(&e) => {}
            written => written.map_err(|e| lost(&self.root, told, e))?,
        }
        loop {
            let bytes = match self.lines.next(&mut self.stream, Some(deadline)) {
                Ok(Line::Whole(bytes)) => bytes,
                Ok(Line::Late) => return Err(lost(&self.root, told, io::ErrorKind::TimedOut.into())),
                Ok(Line::End) => return Err(lost(&self.root, told, io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Err(lost(&self.root, told, error)),
            };
            let Heard { id: about, result, error } =
                serde_json::from_slice(&bytes).map_err(|e| gibberish(told, e))?;
            // An error about a line it could not read has no id; a reply to a call we gave up has an older one.
            if about != id && !about.is_null() {
                continue;
            }
            return match (result, error) {
                (Some(result), None) => Ok(result.to_owned()),
                // Said before it has read anything: there is no call that it would be about.
                (None, Some(refusal)) if about.is_null() && refusal.kind() == rpc::RefusalKind::Busy => {
                    Err(ClientError::Full { root: self.root.clone(), refusal })
                }
                (None, Some(refusal)) => Err(refusal.into()),
                _ => Err(gibberish(told, "neither a result nor an error, or both")),
            };
        }
    }
}

fn silent(root: &Path, waited: Duration) -> ClientError {
    ClientError::Silent { root: root.to_owned(), holder: Holder::of(&KernelLayout::new(root)), waited }
}

/// Why no anchor stays.
fn ends(root: &Path) -> ClientError {
    match netsky_disk::room(root) {
        // It cannot say so itself: its log is on that disk.
        Ok(0..ROOM) => netsky_disk::Error::new("start an anchor for", root, Errno::NOSPC).into(),
        _ => ClientError::Ends { root: root.to_owned(), why: last_words(root) },
    }
}

/// The newest line of an anchor's log.
fn last_words(root: &Path) -> String {
    let mut end = Vec::new();
    // Without a log there are no words.
    let _ = netsky_disk::fs::open_to_read(&KernelLayout::new(root).log()).map(|mut log| {
        let from = log.metadata().map_or(0, |log| log.len().saturating_sub(LAST_WORDS));
        log.seek(SeekFrom::Start(from)).and_then(|_| log.take(LAST_WORDS).read_to_end(&mut end))
    });
    String::from_utf8_lossy(&end).lines().last().unwrap_or_default().to_owned()
}

fn lost(root: &Path, method: &'static str, source: io::Error) -> ClientError {
    ClientError::Lost { root: root.to_owned(), method, source }
}

/// No socket, or one whose owner is gone.
fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn is_closed(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_result_and_an_error_that_is_null_is_none() {
        for (line, result, is_refused) in [
            (r#"{"id": 1, "result": null}"#, Some("null"), false),
            (r#"{"id": 1, "result": {"a": [1]}, "error": null}"#, Some(r#"{"a": [1]}"#), false),
            (
                r#"{"id": null, "error": {"code": -32000, "message": "no", "data": {"kind": "busy"}}}"#,
                None,
                true,
            ),
            (r#"{"id": 1}"#, None, false),
        ] {
            let heard: Heard<'_> = serde_json::from_str(line).expect(line);
            assert_eq!(
                (heard.result.map(RawValue::get), heard.error.is_some()),
                (result, is_refused),
                "{line}"
            );
        }
    }
}
