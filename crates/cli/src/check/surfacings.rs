//! I2: a message is shown again only after a death, and then it says so.
//!
//! Each surfacing of one message has an attempt of its own, in the order of time, and a repeat is explained by the death of
//! the process that had surfaced it before it recorded that, by the end of the generation that took it, by a kill that the
//! harness tells of, or by a way back that no death caused (released, no ack in time, retried, a turn that failed or was stopped). So there are never more
//! repeats than these; the line about one may be missing, so that without a harness the rest is a note. What waits does so
//! under a number not used yet.

use std::collections::{BTreeMap, HashSet};

use netsky_ledger::{Move, What};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::{Cause, State};
use netsky_model::name::Key;
use netsky_model::process::Life;

use super::facts::Facts;
use super::read::Seen;
use super::verdict::Verdict;

type Surfacings<'a> = BTreeMap<(&'a AgentId, &'a Key), Vec<&'a Move>>;

pub(super) fn check(seen: &Seen, facts: &Facts) -> Verdict {
    let mut verdict = Verdict::new("I2", "every repeat is flagged and follows a death");
    let mut surfacings: Surfacings<'_> = BTreeMap::new();
    for told in seen.record.moves.iter().filter(|told| told.what == What::Surfaced) {
        verdict.saw(1);
        surfacings.entry((&told.agent, &told.key)).or_default().push(told);
    }
    let recorded: HashSet<(&AgentId, &Key, u32)> = seen
        .record
        .moves
        .iter()
        .filter(|told| told.what == What::Moved(State::Delivered))
        .map(|told| (&told.agent, &told.key, told.attempt))
        .collect();
    let asked_back: HashSet<(&AgentId, &Key, u32)> = seen
        .record
        .moves
        .iter()
        .filter(|told| matches!(told.what, What::Moved(State::Written) | What::Returning))
        .filter(|told| {
            matches!(told.cause, Some(Cause::Released | Cause::Overdue | Cause::Retried | Cause::Stopped))
        })
        .map(|told| (&told.agent, &told.key, told.attempt.saturating_sub(1)))
        .collect();
    for ((agent, key), shown) in &mut surfacings {
        shown.sort_by_key(|told| told.attempt);
        let place = format!("channels/agent/{agent}");
        for pair in shown.windows(2) {
            let (earlier, later) = (pair[0], pair[1]);
            let (m, n) = (earlier.attempt, later.attempt);
            if m == n {
                verdict.broken(&place, format!("{key} was surfaced twice as attempt {n}"));
            } else if is_before(later, earlier) {
                verdict.broken(&place, format!("{key} was surfaced as attempt {n} before attempt {m}"));
            } else if asked_back.contains(&(*agent, *key, m)) {
                // It came back without a death.
            } else if !is_explained(seen, facts, earlier, recorded.contains(&(*agent, *key, m))) {
                let what = format!("{key} was surfaced as attempt {n}, and whoever had attempt {m} lives");
                if facts.whole {
                    verdict.broken(&place, what);
                } else {
                    // It bears its flag, and the line about a way back may be missing: none waits for telemetry.
                    verdict.note(&place, format!("{what}: no line tells why"));
                }
            }
        }
    }
    waiting(seen, &surfacings, &mut verdict);
    witnessed(facts, &mut verdict);
    verdict
}

/// Whether `one` was before `other`, where one clock can tell.
fn is_before(one: &Move, other: &Move) -> bool {
    match (&one.process, &other.process) {
        (Some(p), Some(q)) if p.boot_id == q.boot_id => one.boot_ms < other.boot_ms,
        _ => false,
    }
}

/// Whether the surfacing `told` came to nothing by a death.
fn is_explained(seen: &Seen, facts: &Facts, told: &Move, recorded: bool) -> bool {
    let killed = |process| facts.killed.iter().any(|killed| killed.is(process));
    let died = match &told.process {
        Some(process) => killed(process) || (seen.life(process) != Life::Alive && !recorded),
        // Nobody knows who it was, so nobody can say that it lives.
        None => !recorded,
    };
    let generation = told.generation.unwrap_or(Generation::NONE);
    let is_over = || {
        seen.kernel.has_ended(&told.agent, generation)
            || seen.kernel.began_after(&told.agent, generation, told)
    };
    died || (generation > Generation::NONE && is_over())
}

/// A file that would be shown under an attempt that was used: the repeat would bear no flag, or the same one twice.
fn waiting(seen: &Seen, surfacings: &Surfacings<'_>, verdict: &mut Verdict) {
    for mailbox in &seen.mailboxes {
        for piece in mailbox.pieces.iter().filter(|piece| piece.state == State::Written) {
            let Some(name) = &piece.name else { continue };
            let shown = surfacings.get(&(&mailbox.agent, &name.key));
            let used = shown.and_then(|shown| shown.last()).map_or(0, |told| told.attempt);
            if used >= name.attempt {
                let what = format!("waits as attempt {}, and attempt {used} was surfaced", name.attempt);
                verdict.broken(&piece.place, what);
            }
        }
    }
}

/// What the harness saw with its own eyes.
fn witnessed(facts: &Facts, verdict: &mut Verdict) {
    let mut last: BTreeMap<(&AgentId, &EnvelopeId), u32> = BTreeMap::new();
    verdict.saw(facts.surfaced.len());
    for fact in &facts.surfaced {
        let before = last.insert((&fact.agent, &fact.id), fact.attempt).unwrap_or(0);
        if fact.attempt <= before {
            let what = format!("{} was seen as attempt {} after attempt {before}", fact.id, fact.attempt);
            verdict.broken(format!("channels/agent/{}", fact.agent), what);
        }
    }
}
