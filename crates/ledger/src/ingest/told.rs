//! What lines tell of envelopes.

use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{STATES, State};
use rusqlite::Statement;

use super::batch::Batch;
use super::lines::{At, Line};
use crate::error::{Result, sql};

/// Statements for the lines about envelopes.
pub(super) struct Told<'db> {
    event: Statement<'db>,
    /// In the order of [`STATES`].
    moves: Vec<Statement<'db>>,
    /// The same for lines about removals.
    ends: Vec<Statement<'db>>,
}

impl<'db> Told<'db> {
    pub(super) fn prepare(batch: &Batch<'db>) -> Result<Told<'db>> {
        let event = batch.prepare(
            "INSERT INTO envelope_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?;
        let moves = STATES.into_iter().map(|state| batch.prepare(&moved(state))).collect::<Result<_>>()?;
        let ends = STATES.into_iter().map(|state| batch.prepare(&ended(state))).collect::<Result<_>>()?;
        Ok(Told { event, moves, ends })
    }

    /// False for a line that lacks what it should say.
    pub(super) fn put(&mut self, line: &Line<'_>, at: At) -> Result<bool> {
        let (Some(agent), Some(id), Some(hlc), Some(to), Some(attempt)) =
            (line.agent, line.id, line.hlc.and_then(Hlc::parse), line.to, line.attempt)
        else {
            return Ok(false);
        };
        let Some(which) = STATES.into_iter().position(|state| state.word() == to) else { return Ok(false) };
        let Ok(hlc) = i64::try_from(hlc.0) else { return Ok(false) };
        if agent.parse::<AgentId>().is_err() || id.parse::<EnvelopeId>().is_err() {
            return Ok(false);
        }
        let Line { ts, event, boot_ms, from, generation, reason, cause, .. } = line;
        let (At { src, pos }, pid) = (at, line.pid());
        // A removal is no move: it only says how the last one ended.
        if *event != "removed" {
            self.event
                .execute((
                    ts, event, agent, id, hlc, to, attempt, from, generation, reason, cause, pid, boot_ms,
                    src, pos,
                ))
                .map_err(sql("write to"))?;
        }
        let told = match *event {
            "transition" => Some(&mut self.moves[which]),
            "removed" => Some(&mut self.ends[which]),
            _ => None,
        };
        if let Some(told) = told {
            let sort = from.map(sort_of);
            told.execute((ts, agent, id, hlc, to, attempt, from, sort, generation, reason, src, pos))
                .map_err(sql("write to"))?;
        }
        Ok(true)
    }
}

/// What a line about a move does to its envelope. The newest line is the one that is furthest in the files, which are
/// named by the day of the wall clock; it decides where no file of the envelope is seen.
fn moved(to: State) -> String {
    let at = format!("{to}_at");
    let time = match to {
        State::Written => format!("coalesce({at}, excluded.{at})"),
        _ => format!("excluded.{at}"),
    };
    let newer = "(excluded.told_src, excluded.told_pos) > (coalesce(told_src, 0), coalesce(told_pos, 0))";
    let told = |column: &str| format!("told_{column} = iif({newer}, excluded.told_{column}, told_{column})");
    let seen =
        |column: &str| format!("{column} = iif(file IS NULL AND {newer}, excluded.{column}, {column})");
    let sets: Vec<String> = ["src", "pos", "state", "attempt", "reason"].map(told).into();
    let seens: Vec<String> = ["state", "attempt", "generation", "reason"].map(seen).into();
    format!(
        "INSERT INTO envelopes (id, from_agent, to_agent, source, state, attempt, generation, reason, hlc, {at},
             told_src, told_pos, told_state, told_attempt, told_reason)
         VALUES (?3, ?7, ?2, ?8, ?5, ?6, ?9, ?10, ?4, ?1, ?11, ?12, ?5, ?6, ?10)
         ON CONFLICT (to_agent, hlc, id) DO UPDATE SET {at} = {time},
             from_agent = coalesce(from_agent, excluded.from_agent), source = coalesce(source, excluded.source),
             {}, {}",
        seens.join(", "),
        sets.join(", "),
    )
}

/// What a line about a removal does: it was kept for good, and the line about the move to that end may have been lost
/// with the power, or is in a file that goes before this one. Only when that move was, it says better.
fn ended(end: State) -> String {
    let at = format!("{end}_at");
    moved(end).replace(&format!("{at} = excluded.{at}"), &format!("{at} = coalesce({at}, excluded.{at})"))
}

/// What sort of sender it is.
pub(super) fn sort_of(sender: &str) -> &'static str {
    match sender {
        "owner" => "owner",
        peer if peer.starts_with("peer:") => "peer",
        _ => "agent",
    }
}
