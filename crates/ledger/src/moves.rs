//! Telemetry lines read back: the moves and surfacings of envelopes, in the order of the files.
//!
//! Promise: a line that does not read is counted and skipped, and no other with it; a file that cannot be read is named. Lines are unsynced, so an absent
//! one proves nothing; one that is there was written after what it tells of, but
//! for a `returning`, which comes before.

use netsky_disk::layout::Layout;
use netsky_disk::lines;
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::{CAUSES, Cause, STATES, State};
use netsky_model::name::Key;
use netsky_model::process::ProcessId;
use serde::Deserialize;

use crate::logs;

/// What a line tells of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Its text was put before the agent.
    Surfaced,
    /// It is about to go back although nobody died of it.
    Returning,
    /// It is in that state now.
    Moved(State),
    /// It was kept for long enough, and goes.
    Removed,
}

/// One line about one envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// What happened.
    pub what: What,
    /// Whose mailbox.
    pub agent: AgentId,
    /// Which envelope.
    pub key: Key,
    /// Which attempt.
    pub attempt: u32,
    /// Who did it, where that was known.
    pub process: Option<ProcessId>,
    /// For which incarnation.
    pub generation: Option<Generation>,
    /// Why it went back, if it did.
    pub cause: Option<Cause>,
    /// When, on the boot clock of the process's boot.
    pub boot_ms: u64,
}

/// Every line about envelopes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Moves {
    /// In the order of the files.
    pub moves: Vec<Move>,
    /// Lines that do not read: a torn one of a process that was killed while it wrote.
    pub unread: usize,
    /// Files in `logs/` that cannot be read at all, and why: something else has their name.
    pub closed: Vec<(String, String)>,
}

/// What a line must have to be about an envelope.
#[derive(Deserialize)]
struct Line {
    boot_ms: u64,
    process: Option<ProcessId>,
    agent: AgentId,
    id: EnvelopeId,
    hlc: String,
    to: String,
    attempt: u32,
    generation: Option<Generation>,
    cause: Option<String>,
}

/// Reads every telemetry line about an envelope.
///
/// # Errors
/// The folder of the files cannot be read, or this process may open no more of them.
pub fn moves(layout: &Layout) -> netsky_disk::Result<Moves> {
    let mut all = Moves::default();
    for file in logs::files(layout, logs::TELEMETRY)? {
        let lines = match lines::read(layout.logs().join(&file.name)) {
            Ok(lines) => lines,
            Err(error) if error.is_out_of_descriptors() => return Err(error),
            Err(error) => {
                all.closed.push((file.name, error.source.to_string()));
                continue;
            }
        };
        for line in lines {
            match parse(&line) {
                Ok(told) => all.moves.extend(told),
                Err(Unread) => all.unread += 1,
            }
        }
    }
    Ok(all)
}

/// A line that is not one of telemetry.
struct Unread;

/// None for a line about something else.
fn parse(line: &[u8]) -> Result<Option<Move>, Unread> {
    #[derive(Deserialize)]
    struct Kind {
        event: String,
    }
    if line.is_empty() {
        return Ok(None);
    }
    let Kind { event } = serde_json::from_slice(line).map_err(|_| Unread)?;
    if !["surfaced", "returning", "transition", "removed"].contains(&event.as_str()) {
        return Ok(None);
    }
    let line: Line = serde_json::from_slice(line).map_err(|_| Unread)?;
    let state = STATES.into_iter().find(|state| state.word() == line.to).ok_or(Unread)?;
    Ok(Some(Move {
        what: match event.as_str() {
            "surfaced" => What::Surfaced,
            "returning" => What::Returning,
            "removed" => What::Removed,
            _ => What::Moved(state),
        },
        agent: line.agent,
        key: Key { hlc: Hlc::parse(&line.hlc).ok_or(Unread)?, id: line.id },
        attempt: line.attempt,
        process: line.process,
        generation: line.generation,
        cause: line.cause.and_then(|word| CAUSES.into_iter().find(|cause| cause.word() == word)),
        boot_ms: line.boot_ms,
    }))
}

#[cfg(test)]
mod tests {
    use netsky_model::witness::{Transition, Witness};

    use netsky_disk::fs::Dir;

    use super::*;
    use crate::Telemetry;

    #[test]
    fn what_telemetry_writes_reads_back_and_a_torn_line_spoils_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(folder.path().join("home"));
        Dir::create(layout.logs()).expect("made");
        assert_eq!(moves(&layout).expect("reads"), Moves::default());
        let told = Transition {
            agent: AgentId::root(),
            id: "note-1".parse().expect("valid"),
            hlc: Hlc(42),
            to: State::Delivered,
            attempt: 2,
            from: None,
            generation: Some(Generation(3)),
            reason: None,
            cause: None,
        };
        let telemetry = Telemetry::new(&layout);
        telemetry.surfaced(&told);
        let name = Dir::open(layout.logs()).expect("there").names().expect("lists").remove(0);
        let path = layout.logs().join(name);
        let mut torn = std::fs::read(&path).expect("reads");
        torn.extend_from_slice(br#"{"v":1,"ts":"2026"#);
        std::fs::write(&path, torn).expect("writes");
        telemetry.saw(&told);
        let read = moves(&layout).expect("reads");
        let whats: Vec<What> = read.moves.iter().map(|told| told.what).collect();
        assert_eq!((whats, read.unread), (vec![What::Surfaced, What::Moved(State::Delivered)], 1));
        let first = &read.moves[0];
        assert_eq!(first.key, Key { hlc: Hlc(42), id: told.id });
        assert_eq!((first.attempt, first.generation), (2, Some(Generation(3))));
        assert_eq!(first.process, Some(netsky_disk::process::me()));
    }
}
