//! What anchor, worker and client agree on about one session.
//!
//! Promise: pure data. A [`Meta`] is the durable description of a session (`agents/<name>.meta`), a [`Phase`]
//! moves only through [`Phase::next`], and every line or file the worker writes for others has its type here.
//! A file of a newer version is reported, never rewritten; unknown fields of our own version are kept.
//!
//! Left to others: reading and writing the files (`netsky_disk`), the frames of the worker's socket
//! (`frame`), what a session means to a constellation (nothing down here knows).

mod flat;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use netsky_disk::cgroup::Group;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::log::say;

use flat::MetaFile;

pub use crate::phase::{End, IllegalPhase, Phase, PhaseEvent};
pub use crate::start::heartbeat_period;

/// Version of every format in this file.
pub const VERSION: u64 = 1;

/// Names the session inside its program: the session's name.
pub const ENV_NAME: &str = "OSTK_NAME";
/// Names the session inside its program: the lineage id.
pub const ENV_SESSION: &str = "OSTK_SESSION";
/// The generation of the lineage this program is.
pub const ENV_GENERATION: &str = "OSTK_GENERATION";
/// The environment mark by which the whole tree of one generation is found: see [`mark`].
pub const ENV_MARK: &str = netsky_disk::env::MARK;
/// The kernel root that holds the session; only what reports about the session goes there.
pub const ENV_ROOT: &str = "OSTK_SESSION_ROOT";
/// The program's own name for its conversation, as an earlier generation reported it: what to go on with.
pub const ENV_CONVERSATION: &str = "OSTK_CONVERSATION";
/// The file in which an earlier generation left its handoff, until this one acknowledges it by `ostk report acknowledge`.
pub const ENV_HANDOFF: &str = "OSTK_HANDOFF";
/// The model asked for at spawn, handed through untouched.
pub const ENV_MODEL: &str = "OSTK_MODEL";

/// The environment mark of one generation: `<lineage>.g<generation>`.
pub fn mark(lineage: &LineageId, generation: Generation) -> String {
    format!("{lineage}.g{generation}")
}

/// How a program is connected to its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Io {
    /// A pseudo terminal of this size at the start.
    Pty {
        /// Lines.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// Three pipes: input, output and errors apart.
    Pipes,
}

/// Who revives the lineage when its program is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// The anchor itself, however it ended, until it is killed.
    Anchor,
    /// The anchor, as the root's `revival_policy` says, where the program was taken away: by a crash of its worker, a
    /// reboot, a hang, a signal that nobody asked for. One that returns has ended.
    Policy,
    /// Somebody above the kernel; the anchor only reports.
    Watchdog,
}

/// What to run: everything a start needs, and nothing about any particular start.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// The session's name, unique under one root.
    pub name: AgentId,
    /// Program and arguments; the program is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// Working directory of the program.
    pub cwd: PathBuf,
    /// The whole environment; the kernel adds only its own `OSTK_` names.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The umask that the program starts with: its files are its user's business. The kernel's own, which lets nobody
    /// else in, where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Terminal or pipes.
    pub io: Io,
    /// Which kind of program this is, for those above; opaque here.
    pub runtime: String,
    /// The model asked for, opaque here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who revives it.
    pub keeper: Keeper,
    /// Free labels of the caller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

// By hand: values of an environment may be secrets, so only the names are ever printed.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("name", &self.name)
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("umask", &self.umask)
            .field("io", &self.io)
            .field("runtime", &self.runtime)
            .field("model", &self.model)
            .field("keeper", &self.keeper)
            .field("tags", &self.tags)
            .finish()
    }
}

/// `agents/<name>.meta`: the durable description of the newest generation of a session.
///
/// One writer at a time: the anchor before the worker starts, the worker while it holds `agents/<name>.lock`,
/// the anchor again once that worker is proved dead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "MetaFile", into = "MetaFile")]
pub struct Meta {
    /// Logical identity across processes and anchors.
    pub lineage: LineageId,
    /// Only rises within a lineage.
    pub generation: Generation,
    /// What runs.
    pub spec: Spec,
    /// Epoch of the anchor that reserved this generation.
    pub anchor_epoch: u64,
    /// When this content was written.
    pub written_at: Stamp,
    /// Where the generation stands.
    pub phase: Phase,
    /// The program, once it ran.
    pub program: Option<ProcessId>,
    /// The process that holds it.
    pub worker: Option<ProcessId>,
    /// The worker's socket, absolute.
    pub socket: PathBuf,
    /// Version of the program that wrote this.
    pub version: String,
    /// The program's own name for its conversation, as the lineage had it when this generation was reserved.
    pub conversation: Option<String>,
    /// Whether somebody asked for this very generation; a revival is nobody's, and nor is what the first programs wrote.
    pub asked: bool,
    /// Where an earlier generation left its handoff, if one waited when this generation was reserved.
    pub handoff: Option<PathBuf>,
    /// The folder of the control group that holds the program's tree; none where none is to be had.
    pub cgroup: Option<PathBuf>,
    /// The offset in the output log at which this generation's output begins; none where it never ran, or was started by a
    /// worker of before.
    pub output_from: Option<u64>,
    /// Fields of a later program of the same format version, kept as they were.
    pub extra: Map<String, Value>,
}

/// A meta file that does not say what it must.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// Written by a later program under a later version: leave it alone.
    #[error("written in format {found}, this program knows {VERSION}")]
    Newer {
        /// The version in the file.
        found: u64,
    },
    /// Not JSON, or not of that shape.
    #[error("not a session description: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl Meta {
    /// Most bytes of the file; a larger one is nobody's.
    pub const MAX_BYTES: u64 = 1 << 20;

    /// Read the bytes of a meta file.
    ///
    /// # Errors
    /// [`MetaError::Newer`] for a later format, [`MetaError::Malformed`] for anything that does not parse.
    pub fn parse(bytes: &[u8]) -> Result<Meta, MetaError> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        let Version { v: found } = serde_json::from_slice(bytes)?;
        if found > VERSION {
            return Err(MetaError::Newer { found });
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// The bytes of the file: one JSON object and a newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            serde_json::to_vec_pretty(self).expect("string keys and plain data always become JSON");
        bytes.push(b'\n');
        bytes
    }

    /// The environment mark of this generation.
    pub fn mark(&self) -> String {
        mark(&self.lineage, self.generation)
    }

    /// The control group of this generation, as its anchor wrote it down; none if it wrote none, or what stands there is
    /// not this generation's.
    pub(crate) fn group(&self, root: &Path) -> Option<Group> {
        let of = |path: &PathBuf| Group::of(path, root, &self.mark());
        self.cgroup.as_ref().map(of)?.map_err(|error| say!("{error}")).ok()
    }

    /// Whether it is its anchor's to bring back once it is gone: what was ended on purpose stays down, and so does what
    /// never ran.
    pub fn is_kept(&self) -> bool {
        let down = match &self.phase {
            Phase::Ended { started_at: None, .. } if self.generation == Generation::NONE.next() => true,
            Phase::Ended { how: End::FailedToStart { .. }, .. } if self.asked => true,
            Phase::Ended { how: End::Exited { .. } | End::Signalled { asked: true, .. }, .. } => {
                self.spec.keeper == Keeper::Policy
            }
            Phase::Ended { how, .. } => *how == End::Killed,
            Phase::Inactive { .. } => true,
            Phase::Starting | Phase::Running { .. } => false,
        };
        self.spec.keeper != Keeper::Watchdog && !down
    }
}

/// The one line a worker prints on its standard output for whoever started it; then it closes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum ReadyLine {
    /// The program runs and the socket listens.
    Ready {
        /// The worker itself.
        worker: ProcessId,
        /// Its program.
        program: ProcessId,
        /// The worker's socket.
        socket: PathBuf,
    },
    /// Nothing runs; whatever was started is gone again.
    Failed {
        /// For programs.
        kind: StartFailure,
        /// One line for a person.
        why: String,
    },
}

/// Why a worker did not start its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartFailure {
    /// Another worker of that name lives.
    Busy,
    /// The meta file speaks of another generation, or of one that has started already.
    Stale,
    /// The program itself cannot be started; the meta file says so too.
    Program,
    /// Files, socket or terminal could not be set up.
    Setup,
}

/// First line of the worker's socket, in JSON; after it come frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerHello {
    /// Version of the frames.
    pub v: u64,
    /// The session's name.
    pub name: AgentId,
    /// Its lineage.
    pub lineage: LineageId,
    /// Its generation.
    pub generation: Generation,
    /// The worker.
    pub worker: ProcessId,
    /// Its program.
    pub program: ProcessId,
    /// Which offsets of output can be read now.
    pub log: LogSpan,
    /// Whether the program has a terminal.
    pub pty: bool,
    /// Whether it can show its screen; no worker of before could.
    #[serde(default)]
    pub screen: bool,
    /// Whether a picture of its screen has the settings of the keyboard; the first ones that had pictures left them out.
    #[serde(default)]
    pub keyboard: bool,
    /// Whether it types at most once under a name, and texts as its terminal wants them; no worker of before could.
    #[serde(default)]
    pub types: bool,
    /// The highest epoch that input came with; a driver starts above it.
    pub input_epoch: u64,
}

/// The readable part of an output log: offsets count bytes over the whole life of a session's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpan {
    /// First offset that is still there.
    pub base: u64,
    /// One past the last.
    pub end: u64,
}

/// `.heartbeat.<name>`: rewritten in place at a fixed size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Version of this format.
    pub v: u64,
    /// The session's name.
    pub name: AgentId,
    /// Its generation.
    pub generation: Generation,
    /// Who beats.
    pub worker: ProcessId,
    /// Rises by one each time the worker's main loop came round to beat.
    pub liveness: u64,
    /// Rises with output and input of the program.
    pub progress: u64,
    /// What the worker is doing.
    pub phase: Pulse,
    /// Whether the last word is that the program was killed on request; the first ones that had one said no other end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub killed: bool,
    /// The last word: how the program ended, on a disk that did not take the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<End>,
    /// When it beat.
    #[serde(flatten)]
    pub at: Stamp,
}

impl Heartbeat {
    /// How the program ended, where this is the worker's last word.
    pub(crate) fn end(&self) -> Option<End> {
        self.ended.clone().or_else(|| self.killed.then_some(End::Killed))
    }
}

/// What a worker is doing, as its heartbeat tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pulse {
    /// The program runs.
    Running,
    /// A kill is in its grace.
    Killing,
    /// The program is gone; its last output and its tree are being taken care of.
    Draining,
}

/// One row of `agents/<name>.events.jsonl`: what a worker saw, for an anchor to fold by `(worker, n)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEvent {
    /// Version of this format.
    pub v: u64,
    /// Counts from 1 within one worker.
    pub n: u64,
    /// When.
    pub ts: Stamp,
    /// Who saw it.
    pub worker: ProcessId,
    /// Of which lineage.
    pub lineage: LineageId,
    /// Of which generation.
    pub generation: Generation,
    /// What.
    #[serde(flatten)]
    pub what: Seen,
}

/// What a worker reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Seen {
    /// The program runs.
    Started {
        /// The program.
        program: ProcessId,
    },
    /// A kill was asked for.
    KillAsked {
        /// Milliseconds between SIGTERM and SIGKILL.
        grace_ms: u32,
    },
    /// The program is gone and its tree swept.
    Exited {
        /// How.
        how: End,
        /// How many further processes of the tree had to be killed.
        swept: u64,
        /// Processes that could not be ended, if any: an alarm.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<ProcessId>,
        /// Why nobody could look whether anything is left, if nobody could: an alarm as well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unseen: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const META_V1: &[u8] = include_bytes!("../samples/meta.v1.json");

    #[test]
    fn the_checked_in_meta_of_version_1_loads_and_keeps_unknown_fields() {
        let meta = Meta::parse(META_V1).expect("the sample loads for ever");
        assert_eq!(meta.spec.name.to_string(), "agent7");
        assert_eq!(meta.mark(), "agent7-0badcafe.g3");
        assert_eq!(meta.program.as_ref().map(|p| p.pid), Some(4242));
        assert_eq!(meta.worker.as_ref().map(|p| p.start_time), Some(99100));
        assert_eq!(meta.extra.get("from_the_future"), Some(&Value::from(true)));
        assert_eq!(Meta::parse(&meta.to_bytes()).expect("what we write we read"), meta);
    }

    #[test]
    fn what_somebody_asked_for_is_not_taken_away() {
        let mut meta = Meta::parse(META_V1).expect("sample");
        let at = netsky_disk::clock::stamp();
        let signalled = |asked| End::Signalled { signal: 15, asked };
        for (how, keeper, kept) in [
            (signalled(false), Keeper::Policy, true),
            (signalled(true), Keeper::Policy, false),
            (signalled(true), Keeper::Anchor, true),
            (End::Exited { code: 0 }, Keeper::Policy, false),
            (End::Exited { code: 0 }, Keeper::Anchor, true),
        ] {
            meta.spec.keeper = keeper;
            meta.phase = Phase::Ended { how: how.clone(), at: at.clone(), started_at: Some(at.clone()) };
            assert_eq!(meta.is_kept(), kept, "{how:?} {keeper:?}");
        }
    }

    #[test]
    fn a_newer_meta_is_reported_not_guessed() {
        let newer = br#"{"v":2,"anything":[]}"#;
        assert!(matches!(Meta::parse(newer), Err(MetaError::Newer { found: 2 })));
        assert!(matches!(Meta::parse(b"{"), Err(MetaError::Malformed(_))));
    }

    #[test]
    fn a_debug_print_hides_the_values_of_the_environment() {
        let meta = Meta::parse(META_V1).expect("sample");
        let shown = format!("{meta:?}");
        assert!(shown.contains("API_KEY"));
        assert!(!shown.contains("sesame"));
    }

    #[test]
    fn lines_of_the_worker_have_stable_names() {
        let failed = ReadyLine::Failed { kind: StartFailure::Program, why: "no such file".to_owned() };
        assert_eq!(
            serde_json::to_string(&failed).expect("plain data"),
            r#"{"is":"failed","kind":"program","why":"no such file"}"#
        );
        let killed = serde_json::to_string(&Seen::KillAsked { grace_ms: 5000 }).expect("plain data");
        assert_eq!(killed, r#"{"kind":"kill-asked","data":{"grace_ms":5000}}"#);
        assert_eq!(
            serde_json::to_string(&End::Signalled { signal: 9, asked: false }).expect("plain data"),
            r#"{"kind":"signalled","signal":9}"#
        );
    }
}
