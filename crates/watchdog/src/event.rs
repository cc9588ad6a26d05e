//! Facts that the owner's feed is made of: what a tick repaired, who waits for an answer, what was missed.
//!
//! Promise: an occurrence is one fact, however often it is met. What the record refuses is told in the telemetry and fails
//! nothing; what lasts is tried again by the next tick.
//! Left to others: which facts are events and how soon the owner hears of them (`model::feed`), and what is worth a page (`page`).

use std::collections::{BTreeMap, BTreeSet};

use netsky_disk::state;
use netsky_ledger::Facts;
use netsky_model::desired::Want;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_runtime::driver::{Ask, is_driven};
use netsky_runtime::drivers::Book;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::observe::Observed;
use crate::reserve;
use crate::tick::Ticked;

/// A tick brought something back.
pub(crate) const REPAIRED: &str = "watchdog.repaired";
/// An agent keeps dying.
pub(crate) const CRASHLOOP: &str = "watchdog.crashloop";
/// A loop or a cron entry did not come when it should have.
pub(crate) const MISSED: &str = "loop.missed";
/// An agent waits for an answer.
const BLOCKED: &str = "agent.blocked";
/// An agent wrote to the owner.
const MESSAGE: &str = "owner.message";
/// Most messages to the owner that one tick looks at; the rest is behind them.
const MESSAGES: usize = 100;
/// Most bytes of what an agent asks that go into the record.
const SHOWN: usize = 300;

/// Records one; whether it is a fact now.
pub(crate) fn event(cx: &Context<'_>, kind: &str, key: &str, data: &Value) -> bool {
    let append = || Ok(Facts::new(cx.layout).append_once(kind, key, data.clone())?);
    let recorded = reserve::lend(cx, append);
    if let Err(error) = &recorded {
        cx.record.watchdog("unrecorded", None, &format!("{kind} {key}: {error}"));
    }
    recorded.is_ok()
}

/// Records that an agent runs again as a generation, and why it did not.
pub(crate) fn came_back(cx: &Context<'_>, agent: &AgentId, generation: Generation, why: &str) -> bool {
    let what = format!("{agent} runs again, as generation {generation}: {why}");
    let data = json!({ "agent": agent, "generation": generation, "what": what });
    event(cx, REPAIRED, &format!("{agent}/g{generation}"), &data)
}

/// `state/tick/events.json`: what was recorded of what lasts, so that the record is asked only when there is something else.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    v: u64,
    /// Who is kept by the anchor, for which wish, and as which generation.
    keepers: BTreeMap<AgentId, (String, Generation)>,
    /// What agents ask.
    asks: BTreeSet<String>,
    /// What waits in the mailbox of the owner.
    messages: BTreeSet<EnvelopeId>,
}

/// Looks at everybody, and records what is new.
pub(crate) fn tend(cx: &Context<'_>, seen: &Observed, ticked: &mut Ticked) -> Result<()> {
    let path = cx.layout.tick("events");
    let before: Kept = read_or_aside(&path, ticked)?.unwrap_or_default();
    let now = Kept {
        v: 1,
        keepers: keepers(cx, seen, &before),
        asks: asks(cx, seen, &before),
        messages: messages(cx, &before)?,
    };
    if now == before {
        return Ok(());
    }
    reserve::lend(cx, || Ok(state::write_json(&path, &now)?))
}

/// Whom the anchor keeps it also brings back, and says so to nobody: a later generation for the same wish is such a one.
fn keepers(cx: &Context<'_>, seen: &Observed, before: &Kept) -> BTreeMap<AgentId, (String, Generation)> {
    let wishes = seen.desired.iter().filter(|wish| wish.want == Want::Up && wish.agent.number().is_none());
    let mut now = BTreeMap::new();
    for wish in wishes {
        let (agent, since) = (&wish.agent, wish.since.to_string());
        let known = before.keepers.get(agent).filter(|(of, _)| *of == since);
        let session = seen.sessions.get(agent).filter(|session| crate::decide::runs(session));
        let generation = match (session.map(|session| session.generation), known) {
            (Some(now), Some((_, known))) if now > *known => {
                let is_told = came_back(cx, agent, now, "it had ended");
                if is_told { now } else { *known }
            }
            (Some(now), None) => now,
            (_, Some((_, known))) => *known,
            (None, None) => continue,
        };
        now.insert(agent.clone(), (since, generation));
    }
    now
}

/// What driven agents ask and nobody has answered, each question once.
fn asks(cx: &Context<'_>, seen: &Observed, before: &Kept) -> BTreeSet<String> {
    let mut now = BTreeSet::new();
    let wishes = seen.desired.iter().filter(|wish| wish.want == Want::Up && is_driven(&wish.runtime));
    for wish in wishes {
        let agent = &wish.agent;
        // A book that does not read is netsky-drivers' own trouble, and is told there.
        let Some(book) = Book::read(cx.layout, agent).ok().flatten() else { continue };
        let lives = seen.sessions.get(agent).is_some_and(|session| session.generation == book.generation);
        for ask in book.asks.iter().filter(|_| lives) {
            let key = question(agent, book.generation, ask);
            let data = json!({
                "agent": agent, "generation": book.generation, "kind": ask.kind, "tool": ask.tool,
                "on": shown(&ask.text),
            });
            if before.asks.contains(&key) || event(cx, BLOCKED, &key, &data) {
                now.insert(key);
            }
        }
    }
    now
}

/// What agents wrote to the owner and nobody has read, each message once.
fn messages(cx: &Context<'_>, before: &Kept) -> Result<BTreeSet<EnvelopeId>> {
    let owner = AgentId::owner();
    let mut now = BTreeSet::new();
    if !state::exists(cx.layout.channel(&owner))? {
        return Ok(now);
    }
    for entry in cx.bus.listing(&owner, Some(State::Written), MESSAGES)?.entries() {
        let (Some(name), Some(envelope)) = (&entry.name, &entry.envelope) else { continue };
        let id = &name.key.id;
        let data = json!({ "id": id, "from": envelope.from, "text": shown(&envelope.text) });
        if before.messages.contains(id) || event(cx, MESSAGE, id.as_str(), &data) {
            now.insert(id.clone());
        }
    }
    Ok(now)
}

/// One question of one generation: its id is the program's word.
fn question(agent: &AgentId, generation: Generation, ask: &Ask) -> String {
    let id = EnvelopeId::derived(&[agent.as_str(), &generation.to_string(), &ask.id]);
    format!("{agent}/{id}")
}

fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN)]
}

#[cfg(test)]
mod tests {
    use netsky_disk::lock::Lock;
    use netsky_ledger::facts;

    use super::*;
    use crate::context::{in_a_home, observed};

    fn recorded(cx: &Context<'_>) -> Vec<String> {
        let facts = facts(cx.layout).expect("they read");
        facts.into_iter().map(|fact| format!("{} {}", fact.kind, fact.key)).collect()
    }

    #[test]
    fn whom_the_anchor_brought_back_is_an_event_once_and_whom_somebody_started_is_none() {
        in_a_home(|cx| {
            let ticker = AgentId::ticker();
            let look = |generation: u64, since: &str| {
                let mut seen = observed(&ticker, "active");
                seen.desired[0].since = since.parse().expect("a time");
                seen.sessions.get_mut(&ticker).expect("there").generation = Generation(generation);
                tend(cx, &seen, &mut Ticked::default()).expect("kept");
            };
            let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
            [1, 1, 2, 2].into_iter().for_each(|generation| look(generation, first));
            look(3, second);
            assert_eq!(recorded(cx), ["watchdog.repaired netsky-ticker/g2"]);
        });
    }

    #[test]
    fn fm_owner_event_locked_what_the_record_refuses_is_no_problem_and_is_recorded_by_a_later_tick() {
        in_a_home(|cx| {
            let ticker = AgentId::ticker();
            let look = |generation: u64| {
                let mut seen = observed(&ticker, "active");
                seen.sessions.get_mut(&ticker).expect("there").generation = Generation(generation);
                let mut ticked = Ticked::default();
                tend(cx, &seen, &mut ticked).expect("it goes on");
                ticked
            };
            look(1);
            let held = Lock::try_take(cx.layout.record_lock()).expect("ours").expect("free");
            assert_eq!(look(2), Ticked::default());
            drop(held);
            look(2);
            look(2);
            assert_eq!(recorded(cx), ["watchdog.repaired netsky-ticker/g2"]);
        });
    }
}
