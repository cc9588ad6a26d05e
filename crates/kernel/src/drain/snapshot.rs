//! The snapshot of a lineage at its last turn boundary: `drain/<lineage>.json`, version 2, and what version 1 was.
//!
//! Promise: what parses is whole (its digest matches). A newer version is left alone and said so. Deliberately not in it:
//! absolute root paths other than the working directory, pending images, approvals given at run time, handles, and
//! whatever a turn had begun: all of that is made anew, or is over.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use jiff::Timestamp;
use netsky_model::canonical;
use netsky_model::id::{Generation, LineageId};
use netsky_model::lifecycle::{ContextPct, LifecycleState};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Handoff, Intent, JsonText, LoopConfig, Messages, Model, State, Told, Turn, Usage};

/// Version of the format.
pub const VERSION: u64 = 2;
/// Most bytes of the file as it is written; the messages are not in it.
pub(crate) const MAX_BYTES: u64 = 4 << 20;
/// Most bytes of one that is read: in version 1 they are.
pub(crate) const MAX_READ: u64 = 64 << 20;

/// Up to where the turns log was folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// The last row's hash.
    pub hash: String,
}

impl Default for Place {
    fn default() -> Place {
        Place { rows: 0, bytes: 0, hash: netsky_model::chain::GENESIS.to_owned() }
    }
}

/// What ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// Which kind of program.
    pub kind: String,
    /// The program's own name for its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Where the program keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// The model that its start asked for, as it was handed through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u64,
    /// Whose.
    pub lineage_id: LineageId,
    /// The anchor that wrote it.
    pub anchor_id: String,
    /// The generation that finished the turn.
    pub generation: Generation,
    /// When.
    pub written_at: Timestamp,
    /// Turns that are over.
    pub turn: u64,
    /// Who answered last; where nobody told, who was asked for at the start.
    #[serde(default)]
    pub model: Option<Model>,
    /// The sums of all turns.
    pub usage: Usage,
    /// Count and digest.
    pub messages: Messages,
    /// What the loop may do.
    pub loop_config: LoopConfig,
    /// What ran.
    pub runtime: Runtime,
    /// Where the context stood.
    #[serde(default)]
    pub lifecycle: LifecycleState,
    /// The last word about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_pct: Option<ContextPct>,
    /// The last word about what the program did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When that was to be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_until: Option<Stamp>,
    /// Tool calls without a result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intents: BTreeMap<String, Intent>,
    /// What its generation leaves to the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// The newest named calls that told something.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub recent: VecDeque<Told>,
    /// Up to where the turns log is in here.
    pub log: Place,
    /// blake3 of the rest in canonical form, hex.
    #[serde(default)]
    pub digest: String,
}

/// A file that is no snapshot, or not this program's.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Another program wrote it.
    #[error("written in version {found}, this program knows 1 and {VERSION}")]
    Newer {
        /// The version found.
        found: u64,
    },
    /// It does not parse.
    #[error("not a snapshot: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It parses and was changed.
    #[error("its digest does not match")]
    Changed,
}

/// What a file says.
#[derive(Debug)]
pub(crate) enum Read {
    /// A file of this version.
    Whole(Box<Snapshot>),
    /// A file of version 1, whose messages were inline: what it says as a turn to be logged, its conversation's name.
    Upgraded { turn: Box<Turn>, session_id: Option<String> },
}

/// A model of which only what a start asked for is known.
pub(super) fn asked(model: Option<&String>) -> Option<Model> {
    model.map(|name| Model { name: name.clone(), ..Model::default() })
}

impl Snapshot {
    /// The state at the boundary.
    pub fn state(&self) -> State {
        State {
            turn: self.turn,
            generation: self.generation,
            lifecycle: self.lifecycle,
            // At a boundary no turn is.
            under_way: false,
            one_before: false,
            context_pct: self.context_pct,
            phase: self.phase.clone(),
            phase_until: self.phase_until.clone(),
            session_id: self.runtime.session_id.clone(),
            transcript: self.runtime.transcript.clone(),
            usage: self.usage.clone(),
            // Nobody told that one, and the next start may ask for another.
            model: self.model.clone().filter(|_| self.model != asked(self.runtime.model.as_ref())),
            loop_config: self.loop_config.clone(),
            messages: self.messages.clone(),
            intents: self.intents.clone(),
            handoff: self.handoff.clone(),
            recent: self.recent.clone(),
        }
    }

    /// The bytes of the file, digest included.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut value = serde_json::to_value(self).expect("plain data with string keys becomes JSON");
        value["digest"] = canonical::digest(&value).into();
        let mut bytes = serde_json::to_vec_pretty(&value).expect("a value becomes JSON");
        bytes.push(b'\n');
        bytes
    }
}

/// Reads the bytes of a file.
pub(crate) fn parse(bytes: &[u8]) -> Result<Read, SnapshotError> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let Version { version } = serde_json::from_slice(bytes)?;
    match version {
        1 => Ok(upgrade_from_v1(serde_json::from_slice(bytes)?)),
        VERSION => {
            let value: Value = serde_json::from_slice(bytes)?;
            if value["digest"] != canonical::digest(&value) {
                return Err(SnapshotError::Changed);
            }
            Ok(Read::Whole(Box::new(serde_json::from_value(value)?)))
        }
        0 | 2.. => Err(SnapshotError::Newer { found: version }),
    }
}

/// Version 1: without `loop_config`, its messages inline, without a digest.
#[derive(Deserialize)]
struct V1<'a> {
    #[serde(default)]
    turn: u64,
    #[serde(default)]
    model: Option<Model>,
    #[serde(default)]
    usage: Usage,
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
    #[serde(default)]
    runtime: Option<Runtime>,
}

fn upgrade_from_v1(v1: V1<'_>) -> Read {
    let messages = v1.messages.iter().map(|message| JsonText(message.get().to_owned())).collect();
    let turn = Turn {
        turn: (v1.turn > 0).then_some(v1.turn),
        messages,
        usage: v1.usage,
        model: v1.model,
        loop_config: None,
    };
    Read::Upgraded { turn: Box::new(turn), session_id: v1.runtime.and_then(|runtime| runtime.session_id) }
}
