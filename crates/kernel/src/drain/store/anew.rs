//! Logs that begin behind something: a snapshot of version 1, or a log that does not read, or could not be synced.
//!
//! Promise: whatever this dies of, it is done by whoever comes next, from the same files; what cannot be read stays beside
//! as evidence, and nothing that reads is given up for it but the messages, which are in there.

use netsky_disk::fs::{self, Dir, Place as Onto};
use netsky_disk::layout::KernelLayout;
use netsky_disk::lines;
use netsky_model::id::{Generation, LineageId};
use netsky_model::lifecycle::{ContextPct, LifecycleState};
use serde_json::Value;

use super::{Drain, DrainError, current, log, previous};
use crate::drain::snapshot::{Place, Read};
use crate::drain::{Handoff, Messages, Report, State, Turn};

/// Bytes of messages in one row, as they stand there: a row is read back up to 4 MiB.
const PART: usize = 1 << 20;

/// A log that is to take the place of one that does not read, or that is to be written anew before it is appended to.
pub(super) fn next(lineage: &LineageId) -> String {
    format!("{lineage}.turns.next.jsonl")
}

/// Where the log is to be read: under the other name while nobody has given it its own.
pub(super) fn there(dir: &Dir, lineage: &LineageId) -> netsky_disk::Result<String> {
    let (log, next) = (log(lineage), next(lineage));
    Ok(if !dir.exists(&log)? && dir.exists(&next)? { next } else { log })
}

/// Gives a log whose place was made free for it that place: who did so died before, or could not write it anew.
pub(super) fn take_place(dir: &Dir, lineage: &LineageId) -> netsky_disk::Result<()> {
    let next = next(lineage);
    if there(dir, lineage)? != next {
        return Ok(());
    }
    lines::renew(&Dir::make(dir.path().join("tmp"))?, dir, &next)?;
    dir.rename(next, dir, log(lineage))?;
    dir.sync()
}

impl Drain {
    /// Moves what a snapshot of version 1 held into the log, once, from where that was cut: its conversation's name, then
    /// the messages, some a row and all but the last of them before any turn, then with those the turn.
    pub(super) fn move_in(
        &mut self,
        mut turn: Box<Turn>,
        session_id: Option<String>,
    ) -> Result<(), DrainError> {
        let moved = usize::try_from(self.state.messages.count).unwrap_or(usize::MAX);
        let ours = turn.messages.get(..moved).is_some_and(|messages| {
            let mut there = Messages::default();
            messages.iter().for_each(|message| there.push(message));
            there == self.state.messages
        });
        if self.state.turn > 0 || !ours {
            return Ok(());
        }
        let generation = self.state.generation;
        if let Some(session_id) = session_id.filter(|_| self.state.session_id.is_none()) {
            // Synced with the row behind it. One that is no word is a name for nothing.
            let named = Report::SessionId { session_id, transcript: None };
            if self.state.check(generation, &named).is_ok() {
                self.append(generation, &named, None)?;
            }
        }
        let (mut part, mut bytes) = (Vec::new(), 0);
        for message in turn.messages.split_off(moved) {
            let size = Value::from(message.as_str()).to_string().len();
            if bytes + size > PART && !part.is_empty() {
                let messages = std::mem::take(&mut part);
                let before = Turn { turn: Some(0), messages, ..Turn::default() };
                self.append(generation, &Report::Turn(Box::new(before)), None)?;
                bytes = 0;
            }
            part.push(message);
            bytes += size;
        }
        turn.messages = part;
        self.append(generation, &Report::Turn(turn), None)
    }

    /// Begins the log anew, behind one that does not read, with what does: the newest snapshot, and the rows behind it up
    /// to the first that does not follow. All of the former files but the handoff's are set aside, the snapshots last:
    /// until then they tell of another log, which is asked about again.
    ///
    /// # Errors
    /// The disk refuses, or a later program wrote what there is; then nothing was set aside.
    pub(crate) fn begin_anew(layout: &KernelLayout, lineage: &LineageId) -> Result<(), DrainError> {
        let mut known = Drain::new(layout, lineage);
        let Some(dir) = known.dir()? else { return Ok(()) };
        take_place(&dir, lineage)?;
        let mut former = None;
        let base = known.base(&dir)?;
        if let Some(error) = base.refused {
            return Err(error.into());
        }
        match base.read {
            Some(Read::Whole(snapshot)) => {
                (known.state, known.place) = (snapshot.state(), snapshot.log.clone());
            }
            Some(Read::Upgraded { turn, session_id }) => former = Some((turn, session_id)),
            None => {}
        }
        if let Err(error @ DrainError::Disk(_)) = known.follow(&dir, |_, _| {}) {
            return Err(error);
        }
        if let Some((turn, session_id)) = former.filter(|_| known.state.turn == 0) {
            known.state.session_id = session_id.or(known.state.session_id);
            known.state.take_turn(Generation::NONE, &Turn { messages: Vec::new(), ..*turn });
        }
        let bytes = Drain::new(layout, lineage).lines(known.state.told());
        let (log, next) = (log(lineage), next(lineage));
        if bytes.is_empty() {
            // One that nobody came to name says what was known then.
            dir.remove(&next)?;
        } else {
            let tmp = Dir::make(known.folder.join("tmp"))?;
            fs::write_durable(&tmp, &dir, &next, &bytes, Onto::Over)?;
        }
        for name in [&log, &previous(lineage), &current(lineage)] {
            if dir.exists(name)? {
                netsky_disk::state::set_aside(known.folder.join(name))?;
            }
            take_place(&dir, lineage)?;
        }
        Ok(())
    }

    /// The lines of a log of these reports, of those that fit.
    fn lines(mut self, reports: Vec<(Generation, Report)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (generation, report) in reports {
            if self.state.take(generation, &report).is_err() {
                continue;
            }
            let (line, hash) = self.line(generation, &report, None);
            bytes.extend([&line[..], b"\n"].concat());
            self.place = Place { rows: self.place.rows + 1, bytes: bytes.len() as u64, hash };
        }
        bytes
    }
}

impl State {
    /// The reports by which a log says what this does, but for messages, and names of calls that are over.
    fn told(&self) -> Vec<(Generation, Report)> {
        if *self == State::default() {
            return Vec::new();
        }
        // Whoever finished the last turn closed what earlier ones had open.
        let finished = self.intents.values().map(|intent| intent.generation).min().unwrap_or(self.generation);
        let waits = self.handoff.as_ref();
        let by = waits.map_or(finished, |waits| waits.generation.min(finished));
        let upto = waits.map_or(self.turn, |waits| waits.turn.min(self.turn));
        let mut told = Vec::new();
        let named = |session_id: &Option<String>, transcript: &Option<String>| {
            let (session_id, transcript) = (session_id.clone()?, transcript.clone());
            Some(Report::SessionId { session_id, transcript })
        };
        told.extend(waits.and_then(|waits| Some((waits.generation, named(&waits.session_id, &None)?))));
        told.extend(named(&self.session_id, &self.transcript).map(|named| (self.generation, named)));
        let turn = Turn {
            turn: Some(upto),
            usage: self.usage.clone(),
            model: self.model.clone(),
            loop_config: Some(self.loop_config.clone()),
            ..Turn::default()
        };
        told.push((by, Report::Turn(Box::new(turn))));
        if let Some(waits) = waits.filter(|_| upto < self.turn) {
            // Closed by the turn behind it; its record names them.
            told.extend(waits.intents.iter().map(|(id, tool)| {
                let (id, tool) = (id.clone(), tool.clone());
                (waits.generation, Report::Intent { id, tool, input: Value::Null })
            }));
        }
        if upto < self.turn {
            let turn = Turn { turn: Some(self.turn), ..Turn::default() };
            told.push((finished, Report::Turn(Box::new(turn))));
        }
        told.extend(self.intents.iter().map(|(id, intent)| {
            let (id, tool, input) = (id.clone(), intent.tool.clone(), intent.input.clone());
            (intent.generation, Report::Intent { id, tool, input })
        }));
        told.extend(waits.into_iter().flat_map(left));
        // What one generation told stays in order.
        told.sort_by_key(|(generation, _)| *generation);
        told
    }
}

/// What leads to a record.
fn left(waits: &Handoff) -> impl Iterator<Item = (Generation, Report)> {
    // It may have told of less since.
    let least = if waits.lifecycle == LifecycleState::Aging { 70 } else { 90 };
    let least = ContextPct::try_from(least).ok();
    let used = least.into_iter().chain(waits.context_pct).map(|used| Report::Context { used });
    let text = waits.text.clone().map(|text| Report::Handoff { text });
    let generation = waits.generation;
    used.chain(text).map(move |report| (generation, report))
}
