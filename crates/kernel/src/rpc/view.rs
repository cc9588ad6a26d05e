//! A session as clients see it.
//!
//! Promise: values of the environment are never in it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drain::Progress;
use crate::session::{End, Keeper, Meta, Phase, Pulse};
use crate::settings::Bounds;

/// What can be said about a session in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// Its generation is reserved and the program is being started.
    Starting,
    /// It lives and its worker beat less than 30 s ago.
    Active,
    /// It lives; last beat 30 to 90 s ago.
    Idle,
    /// It lives; no beat for more than 90 s.
    Hung,
    /// Its worker is gone and what it left is being swept.
    Ending,
    /// Its program returned or was ended by a signal nobody asked for.
    Exited,
    /// It was killed on request.
    Stopped,
    /// Its worker died before it could say how the program ended.
    Died,
    /// Its program never ran.
    Failed,
    /// An anchor found neither worker nor program when it started.
    Orphaned,
    /// It was taken away, and the root's policy is to ask what becomes of it: `lineage resolve` says so.
    Asking,
    /// Ended and put aside by `kernel reap`.
    Inactive,
    /// It belongs to another pid namespace or boot of this root, or to nobody known: not to be judged from here.
    Unknown,
}

/// A session that is over, by how it ended.
impl From<&End> for SessionState {
    fn from(how: &End) -> Self {
        match how {
            End::Exited { .. } | End::Signalled { .. } => SessionState::Exited,
            End::Killed => SessionState::Stopped,
            End::WorkerDied => SessionState::Died,
            End::FailedToStart { .. } => SessionState::Failed,
            End::Orphaned => SessionState::Orphaned,
        }
    }
}

impl SessionState {
    /// A live session by the time since its worker's last beat.
    pub fn after(silence: Duration, bounds: Bounds) -> SessionState {
        match silence {
            silence if silence >= bounds.hung => SessionState::Hung,
            silence if silence >= bounds.idle => SessionState::Idle,
            _ => SessionState::Active,
        }
    }

    /// Whether processes of the session may be alive.
    pub fn may_live(self) -> bool {
        matches!(
            self,
            SessionState::Starting
                | SessionState::Active
                | SessionState::Idle
                | SessionState::Hung
                | SessionState::Ending
                | SessionState::Unknown
        )
    }

    /// The word that stands in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            SessionState::Starting => "starting",
            SessionState::Active => "active",
            SessionState::Idle => "idle",
            SessionState::Hung => "hung",
            SessionState::Ending => "ending",
            SessionState::Exited => "exited",
            SessionState::Stopped => "stopped",
            SessionState::Died => "died",
            SessionState::Failed => "failed",
            SessionState::Orphaned => "orphaned",
            SessionState::Asking => "asking",
            SessionState::Inactive => "inactive",
            SessionState::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for SessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// The last heartbeat of a worker, as the anchor saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatView {
    /// Rises with each beat.
    pub liveness: u64,
    /// Rises with output and input of the program.
    pub progress: u64,
    /// What the worker is doing.
    pub phase: Pulse,
    /// Milliseconds since the anchor saw `liveness` change, counted only while the machine ran.
    pub age_ms: u64,
}

/// One row of the process table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// Unique under one root.
    pub name: AgentId,
    /// The word for it.
    pub state: SessionState,
    /// The program's pid, while it may live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Logical identity across processes and anchors.
    pub lineage: LineageId,
    /// The newest generation.
    pub generation: Generation,
    /// Which kind of program.
    pub runtime: String,
    /// The model asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who revives it.
    pub keeper: Keeper,
    /// Whether the anchor brings it back once it is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Milliseconds until the anchor brings it back, while it makes the pause before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revives_in_ms: Option<u64>,
    /// The program of this generation, once it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProcessId>,
    /// The process that holds or held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<ProcessId>,
    /// When the program started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Stamp>,
    /// When the tree was found or swept empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Stamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Its worker's last beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<HeartbeatView>,
    /// What it says about itself.
    #[serde(flatten)]
    pub progress: Progress,
    /// Whether it was killed on a full disk and only its anchor knows: one that ends before there is room forgets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwritten: bool,
    /// Free labels of the caller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The worker's socket.
    pub socket: PathBuf,
    /// The folder of the control group that its tree is in, while it may live; null where none is to be had.
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    /// Program and arguments; only in the answer to `session/show`, as they may be long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Working directory of the program; only in the answer to `session/show`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
}

impl SessionView {
    /// What its description says of a session, in the state that somebody found it in; without heartbeat, program's
    /// arguments and folder.
    pub fn of(meta: &Meta, state: SessionState) -> SessionView {
        let (started_at, ended_at, end) = match &meta.phase {
            Phase::Starting => (None, None, None),
            Phase::Running { started_at } => (Some(started_at.clone()), None, None),
            Phase::Ended { how, at, started_at } => (started_at.clone(), Some(at.clone()), Some(how.clone())),
            Phase::Inactive { how, at } => (None, Some(at.clone()), Some(how.clone())),
        };
        SessionView {
            name: meta.spec.name.clone(),
            state,
            pid: meta.program.as_ref().map(|program| program.pid).filter(|_| state.may_live()),
            lineage: meta.lineage.clone(),
            generation: meta.generation,
            runtime: meta.spec.runtime.clone(),
            model: meta.spec.model.clone(),
            keeper: meta.spec.keeper,
            kept: meta.is_kept(),
            revives_in_ms: None,
            program: meta.program.clone(),
            worker: meta.worker.clone(),
            started_at,
            ended_at,
            end,
            heartbeat: None,
            progress: Progress::default(),
            unwritten: false,
            tags: meta.spec.tags.clone(),
            socket: meta.socket.clone(),
            cgroup: meta.cgroup.clone().filter(|_| state.may_live()),
            argv: Vec::new(),
            cwd: None,
        }
    }
}
