//! What a generation leaves to the next one when its context ends.
//!
//! Promise: from `aging` on there is a record, brought up to date by every report of that generation; it stands until a
//! later generation has acknowledged it, and none takes its place before that, also where the later one ages too. It is part of the state, so of the log and of every snapshot; the file
//! `<lineage>.handoff.json`, which the next program is pointed to, says the same for whoever only reads.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use netsky_disk::ReadError;
use netsky_disk::fs::{self, Dir, Place};
use netsky_disk::layout::KernelLayout;
use netsky_model::id::{Generation, LineageId};
use netsky_model::lifecycle::{ContextPct, LifecycleState};
use serde::{Deserialize, Serialize};

use super::{Report, State};

/// Version of the file.
const VERSION: u64 = 1;
/// Longest text that a program leaves to its successor, in bytes: pages, and well within a line of the protocol.
pub const LONGEST: usize = 64 << 10;
/// Most bytes of the file: that text with its escapes, and the names of all open calls.
const MAX_BYTES: u64 = 2 << 20;

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Whose it is.
    pub generation: Generation,
    /// Turns of the lineage that were over.
    pub turn: u64,
    /// Where its context stood.
    pub lifecycle: LifecycleState,
    /// How much of it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_pct: Option<ContextPct>,
    /// The program's own name for its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tool calls without a result: their ids, and which tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intents: BTreeMap<String, String>,
    /// What the program wrote for its successor; absent until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The record as a file.
#[derive(Serialize)]
struct File<'a> {
    v: u64,
    lineage_id: &'a LineageId,
    written_at: Timestamp,
    #[serde(flatten)]
    handoff: &'a Handoff,
}

/// The name of the file.
pub(super) fn name(lineage: &LineageId) -> String {
    format!("{lineage}.handoff.json")
}

/// Writes down what waits for the next generation; what was acknowledged becomes the one before.
pub(super) fn keep(folder: &Path, lineage: &LineageId, waits: Option<&Handoff>) -> netsky_disk::Result<()> {
    let (dir, name) = (Dir::make(folder)?, name(lineage));
    let whose = waits.map(|handoff| handoff.generation);
    if dir.exists(&name)? && (whose.is_none() || whose != generation(&dir, &name)?) {
        dir.rename_over(&name, &dir, format!("{lineage}.handoff.prev.json"))?;
    }
    let Some(handoff) = waits else { return Ok(()) };
    let tmp = Dir::make(folder.join("tmp"))?;
    fs::write_durable(&tmp, &dir, &name, &handoff.to_bytes(lineage), Place::Over)
}

/// What an earlier generation wrote for this one, and nobody has acknowledged; for whoever drives its program.
///
/// # Errors
/// The system refuses, or what is there does not read.
pub fn waiting(
    layout: &KernelLayout,
    lineage: &LineageId,
    generation: Generation,
) -> netsky_disk::Result<Option<Handoff>> {
    let (folder, name) = (layout.drain(), name(lineage));
    let dir = match Dir::look_into(&folder) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened?,
    };
    let damaged = |why: String| netsky_disk::Error::damaged(folder.join(&name), why);
    let bytes = match dir.read(&name, MAX_BYTES) {
        Err(ReadError::Io(error)) if error.is_not_found() => return Ok(None),
        Err(ReadError::Io(error)) => return Err(error),
        read => read.map_err(|error| damaged(error.to_string()))?,
    };
    let handoff: Handoff = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    Ok(Some(handoff).filter(|handoff| handoff.generation < generation && handoff.text.is_some()))
}

/// Whose record a file is; none of what does not read, which is not written over either.
///
/// # Errors
/// It is the machine's trouble, and not the file's, that it was not read.
fn generation(dir: &Dir, name: &str) -> netsky_disk::Result<Option<Generation>> {
    match dir.read(name, MAX_BYTES) {
        Ok(bytes) => Ok(serde_json::from_slice::<Handoff>(&bytes).ok().map(|handoff| handoff.generation)),
        Err(ReadError::Io(error)) if !error.is_of_one_file() => Err(error),
        Err(_) => Ok(None),
    }
}

impl Handoff {
    fn to_bytes(&self, lineage: &LineageId) -> Vec<u8> {
        let file =
            File { v: VERSION, lineage_id: lineage, written_at: netsky_disk::clock::wall(), handoff: self };
        let mut bytes = serde_json::to_vec_pretty(&file).expect("plain data with string keys becomes JSON");
        bytes.push(b'\n');
        bytes
    }
}

impl State {
    /// What waits for a generation: left by an earlier one, and not acknowledged.
    pub fn waiting(&self, generation: Generation) -> Option<&Handoff> {
        self.handoff.as_ref().filter(|handoff| handoff.generation < generation)
    }

    /// What a generation goes on with: the program's own name for its conversation. One whose context is dead ends with it.
    pub(crate) fn conversation(&self, generation: Generation) -> Option<&str> {
        let is_over = self.generation < generation && self.lifecycle == LifecycleState::Dead;
        self.session_id.as_deref().filter(|_| !is_over)
    }

    /// What an earlier generation wrote for who comes after it, and nobody acknowledged: it gives its place to nothing.
    pub(super) fn unread(&self, generation: Generation) -> Option<&Handoff> {
        self.waiting(generation).filter(|handoff| handoff.text.is_some())
    }

    /// Brings the record up to date after a report of the newest generation. One of an earlier generation stands until what
    /// is written takes its place; over an unread one nothing is written but by a program of before.
    pub(super) fn prepare(&mut self, report: &Report) {
        let written = matches!(report, Report::Handoff { .. });
        let stands = !written && self.waiting(self.generation).is_some();
        if self.lifecycle == LifecycleState::Healthy || stands {
            return;
        }
        let own = self.handoff.take().filter(|handoff| handoff.generation == self.generation);
        let text = match report {
            Report::Handoff { text } => Some(text.clone()),
            _ => own.and_then(|handoff| handoff.text),
        };
        self.handoff = Some(Handoff {
            generation: self.generation,
            turn: self.turn,
            lifecycle: self.lifecycle,
            context_pct: self.context_pct,
            session_id: self.session_id.clone(),
            intents: self.intents.iter().map(|(id, intent)| (id.clone(), intent.tool.clone())).collect(),
            text,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::Misfit;

    fn context(used: u8) -> Report {
        Report::Context { used: used.try_into().expect("a percentage") }
    }

    fn handoff(text: &str) -> Report {
        Report::Handoff { text: text.to_owned() }
    }

    #[test]
    fn a_record_is_there_from_aging_on_and_stands_until_a_later_generation_acknowledges_it() {
        let mut state = State::default();
        let mut take = |generation, report| {
            let taken = state.take(Generation(generation), &report);
            (taken, state.handoff.clone().map(|handoff| (handoff.generation.0, handoff.turn, handoff.text)))
        };
        let turn = || Report::Turn(Box::default());
        assert_eq!(take(1, handoff("early")).0, Err(Misfit::NotAging));
        assert_eq!(take(1, turn()), (Ok(()), None));
        assert_eq!(take(1, context(60)), (Ok(()), None));
        assert_eq!(take(1, context(70)), (Ok(()), Some((1, 1, None))), "prepared");
        assert_eq!(take(1, turn()), (Ok(()), Some((1, 2, None))), "up to date");
        assert_eq!(take(1, Report::Acknowledge).0, Err(Misfit::NoHandoff), "its own");
        let written = Some((1, 2, Some("go on".to_owned())));
        assert_eq!(take(1, handoff("go on")), (Ok(()), written.clone()));
        assert_eq!(take(2, turn()), (Ok(()), written), "a turn of the next one acknowledges nothing");
        assert_eq!(take(2, Report::Acknowledge), (Ok(()), None));
        assert_eq!(take(2, Report::Acknowledge).0, Err(Misfit::NoHandoff), "once");
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(take(2, context(75)).0, Ok(()));
        assert_eq!(take(2, handoff(&long)).0, Err(Misfit::LongHandoff));
        assert_eq!(take(2, handoff("")).0, Err(Misfit::LongHandoff));
    }

    #[test]
    fn t18_what_nobody_acknowledged_is_not_lost_to_a_generation_that_ages_before_it_does() {
        let mut state = State::default();
        let mut take = |generation, report| {
            let taken = state.take(Generation(generation), &report);
            let kept = state.handoff.clone().map(|handoff| (handoff.generation.0, handoff.text));
            (taken, state.check_room(Generation(generation), &handoff("mine")), kept)
        };
        let left = Some((1, Some("go on".to_owned())));
        assert_eq!(take(1, context(75)).2, Some((1, None)));
        assert_eq!(take(1, handoff("go on")), (Ok(()), Ok(()), left.clone()));
        let refused = Err(Misfit::Unacknowledged { of: Generation(1) });
        for (generation, report) in
            [(2, context(75)), (2, Report::Turn(Box::default())), (3, context(95)), (3, Report::Finalization)]
        {
            assert_eq!(take(generation, report), (Ok(()), refused.clone(), left.clone()), "{generation}");
        }
        assert_eq!(take(3, Report::Acknowledge), (Ok(()), Ok(()), Some((3, None))), "its own is prepared");
        let mine = Some((3, Some("mine".to_owned())));
        assert_eq!(take(3, handoff("mine")), (Ok(()), Ok(()), mine.clone()));
        let refused = Err(Misfit::Unacknowledged { of: Generation(3) });
        assert_eq!(take(4, context(75)), (Ok(()), refused, mine), "and stands like any other");
        // A log of before, in which it was taken.
        let taken = take(4, handoff("the fourth's")).2;
        assert_eq!(taken, Some((4, Some("the fourth's".to_owned()))));
        assert_eq!(take(5, Report::Acknowledge).2, None);
    }

    #[test]
    fn t18_what_nobody_wrote_gives_its_place_to_what_is_written() {
        let mut state = State::default();
        state.take(Generation(1), &context(75)).expect("it fits");
        for report in [context(75), Report::Turn(Box::default())] {
            state.take(Generation(2), &report).expect("it fits");
            let waits = state.waiting(Generation(2)).map(|handoff| handoff.generation);
            assert_eq!(waits, Some(Generation(1)), "it can be acknowledged");
        }
        assert_eq!(state.check_room(Generation(2), &handoff("mine")), Ok(()));
        state.take(Generation(2), &handoff("mine")).expect("it fits");
        let left = state.waiting(Generation(3)).map(|left| (left.generation, left.text.as_deref()));
        assert_eq!(left, Some((Generation(2), Some("mine"))));
    }

    #[test]
    fn nothing_begins_in_a_dead_context() {
        let mut state = State::default();
        for report in [context(95), Report::Finalization, handoff("all of it"), Report::Turn(Box::default())]
        {
            state.take(Generation(1), &report).expect("it fits");
        }
        assert_eq!(state.lifecycle, LifecycleState::Dead);
        let intent = Report::Intent { id: "a".into(), tool: "sh".into(), input: serde_json::Value::Null };
        assert_eq!(state.take(Generation(1), &intent), Err(Misfit::Dead));
        assert_eq!(state.take(Generation(1), &handoff("more")), Err(Misfit::Dead));
        state.take(Generation(2), &intent).expect("the next one begins anew");
        let waiting = state.waiting(Generation(2)).and_then(|handoff| handoff.text.as_deref());
        assert_eq!(waiting, Some("all of it"));
    }

    #[test]
    fn a_conversation_is_gone_on_with_until_its_context_is_dead() {
        let mut state = State::default();
        let named = |name: &str| Report::SessionId { session_id: name.to_owned(), transcript: None };
        let turn = || Report::Turn(Box::default());
        for report in [named("conv-1"), context(95), Report::Finalization] {
            state.take(Generation(1), &report).expect("it fits");
            assert_eq!(state.conversation(Generation(2)), Some("conv-1"));
        }
        state.take(Generation(1), &turn()).expect("it fits");
        assert_eq!(state.conversation(Generation(1)), Some("conv-1"), "its own");
        assert_eq!(state.conversation(Generation(2)), None);
        assert_eq!(state.progress(Generation(2), false).session_id, None);
        let left = state.waiting(Generation(2)).and_then(|handoff| handoff.session_id.as_deref());
        assert_eq!(left, Some("conv-1"), "the record has it");
        state.take(Generation(2), &context(5)).expect("it fits");
        assert_eq!(state.conversation(Generation(3)), None, "nor is it the next one's");
        state.take(Generation(2), &named("conv-2")).expect("it fits");
        assert_eq!(state.conversation(Generation(3)), Some("conv-2"));
    }
}
