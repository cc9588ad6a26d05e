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
use netsky_model::name::Name;
use netsky_runtime::driver::{Ask, is_driven};
use netsky_runtime::drivers::Book;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::held::Held;
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
/// Agents took as much as the owner wants to be told of.
pub(crate) const BUDGET: &str = "budget.reached";
/// An agent waits for an answer.
const BLOCKED: &str = "agent.blocked";
/// An agent wrote to the owner.
const MESSAGE: &str = "owner.message";
/// Most messages to the owner that one tick reads; the next goes on with the rest.
const MESSAGES: usize = 100;
/// Most bytes of a message to the owner that go into the record.
const SHOWN: usize = 300;

/// Records one; whether it is a fact now.
pub(crate) fn event(cx: &Context<'_>, kind: &str, key: &str, data: &Value) -> bool {
    append(cx, &Facts::new(cx.layout), kind, key, data)
}

fn append(cx: &Context<'_>, facts: &Facts, kind: &str, key: &str, data: &Value) -> bool {
    let append = || Ok(facts.append_once(kind, key, data.clone())?);
    let recorded = reserve::lend(cx, append);
    if let Err(error) = &recorded {
        cx.record.watchdog("unrecorded", None, &format!("{kind} {key}: {error}"));
    }
    recorded.is_ok()
}

/// Records that an agent runs again as a generation, and why it did not.
pub(crate) fn came_back(cx: &Context<'_>, agent: &AgentId, generation: Generation, why: &str) -> bool {
    let (key, data) = return_of(agent, generation, why);
    event(cx, REPAIRED, &key, &data)
}

fn return_of(agent: &AgentId, generation: Generation, why: &str) -> (String, Value) {
    let what = format!("{agent} runs again, as generation {generation}: {why}");
    let data = json!({ "agent": agent, "generation": generation, "what": what });
    (format!("{agent}/g{generation}"), data)
}

/// What records the events of one look. Whoever keeps the record from us is waited for once: the next look tries again.
struct Scribe<'a, 'c> {
    cx: &'a Context<'c>,
    facts: Facts,
    held: &'a mut Held,
    is_refused: bool,
}

impl Scribe<'_, '_> {
    /// Records one; whether it is a fact now.
    fn event(&mut self, kind: &str, key: &str, data: &Value) -> bool {
        self.is_refused = self.is_refused || !append(self.cx, &self.facts, kind, key, data);
        // Each may wait for the record. What is wrong with the lock the next step of the tick finds, and says.
        let _ = self.held.got_on();
        !self.is_refused
    }
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
pub(crate) fn tend(cx: &Context<'_>, seen: &Observed, held: &mut Held, ticked: &mut Ticked) -> Result<()> {
    let path = cx.layout.tick("events");
    let before: Kept = read_or_aside(&path, ticked)?.unwrap_or_default();
    let mut scribe = Scribe { cx, facts: Facts::new(cx.layout), held, is_refused: false };
    let (keepers, asks) = (keepers(&mut scribe, seen, &before), asks(&mut scribe, seen, &before));
    let messages = messages(&mut scribe, &before).unwrap_or_else(|error| {
        // A mailbox that does not read keeps nothing else from being kept.
        ticked.warnings.push(format!("what was written to the owner is not known: {error}"));
        before.messages.clone()
    });
    let now = Kept { v: 1, keepers, asks, messages };
    if now == before {
        return Ok(());
    }
    reserve::lend(cx, || Ok(state::write_json(&path, &now)?))
}

/// Whom the anchor keeps it also brings back, and says so to nobody: a later generation for the same wish is such a one.
fn keepers(
    scribe: &mut Scribe<'_, '_>,
    seen: &Observed,
    before: &Kept,
) -> BTreeMap<AgentId, (String, Generation)> {
    let wishes = seen.desired.iter().filter(|wish| wish.want == Want::Up && wish.agent.number().is_none());
    let mut now = BTreeMap::new();
    for wish in wishes {
        let (agent, since) = (&wish.agent, wish.since.to_string());
        let known = before.keepers.get(agent).filter(|(of, _)| *of == since);
        let session = seen.sessions.get(agent).filter(|session| crate::decide::runs(session));
        let generation = match (session.map(|session| session.generation), known) {
            (Some(now), Some((_, known))) if now > *known => {
                let (key, data) = return_of(agent, now, "it had ended");
                let is_told = scribe.event(REPAIRED, &key, &data);
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

/// What driven agents ask and nobody has answered, each question once. Of a command or a question the record has what sort it is
/// and of which tool: its words may be secret, and stand in the book of the agent's driver.
fn asks(scribe: &mut Scribe<'_, '_>, seen: &Observed, before: &Kept) -> BTreeSet<String> {
    let mut now = BTreeSet::new();
    let wishes = seen.desired.iter().filter(|wish| wish.want == Want::Up && is_driven(&wish.runtime));
    for wish in wishes {
        let agent = &wish.agent;
        // A book that does not read is netsky-drivers' own trouble, and is told there.
        let Some(book) = Book::read(scribe.cx.layout, agent).ok().flatten() else { continue };
        let lives = seen.sessions.get(agent).is_some_and(|session| session.generation == book.generation);
        for ask in book.asks.iter().filter(|_| lives) {
            let key = question(agent, book.generation, ask);
            let data =
                json!({ "agent": agent, "generation": book.generation, "kind": ask.kind, "tool": ask.tool });
            if before.asks.contains(&key) || scribe.event(BLOCKED, &key, &data) {
                now.insert(key);
            }
        }
    }
    now
}

/// What agents wrote to the owner and nobody has read, each message once.
fn messages(scribe: &mut Scribe<'_, '_>, before: &Kept) -> Result<BTreeSet<EnvelopeId>> {
    let cx = scribe.cx;
    let owner = AgentId::owner();
    let mut now = BTreeSet::new();
    if !state::exists(cx.layout.channel(&owner))? {
        return Ok(now);
    }
    let all = cx.bus.listing(&owner, Some(State::Written), usize::MAX)?;
    let is_new = |file: &str| {
        let known = Name::parse(file).map(|name| name.key.id).filter(|id| before.messages.contains(id));
        let is_new = known.is_none();
        now.extend(known);
        is_new
    };
    let mut told = Vec::new();
    let messages = all.entries_where(is_new).filter_map(|entry| Some((entry.name?.key.id, entry.envelope?)));
    for (id, envelope) in messages.take(MESSAGES) {
        let data = json!({ "id": id, "from": envelope.from, "text": shown(&envelope.text) });
        if scribe.event(MESSAGE, id.as_str(), &data) {
            told.push(id);
        }
    }
    now.extend(told);
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
    use std::time::Duration;

    use netsky_disk::clock;
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
                let mut held = Held::take(cx).expect("nobody else acts");
                tend(cx, &seen, &mut held, &mut Ticked::default()).expect("kept");
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
                let (mut held, mut ticked) = (Held::take(cx).expect("nobody else acts"), Ticked::default());
                tend(cx, &seen, &mut held, &mut ticked).expect("it goes on");
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

    fn write_to_the_owner(cx: &Context<'_>, text: &str) {
        let draft = netsky_bus::Draft::new(AgentId::root().into(), AgentId::owner(), text.to_owned());
        cx.bus.send(draft).expect("sent");
    }

    #[test]
    fn fm_owner_event_locked_however_many_there_are_a_record_that_is_kept_is_waited_for_once() {
        in_a_home(|cx| {
            (0..20).for_each(|at| write_to_the_owner(cx, &format!("message {at}")));
            let kept = Lock::try_take(cx.layout.record_lock()).expect("ours").expect("free");
            let seen = observed(&AgentId::ticker(), "active");
            let mut held = Held::take(cx).expect("nobody else acts");
            let began = clock::boot();
            tend(cx, &seen, &mut held, &mut Ticked::default()).expect("it goes on");
            let took = clock::boot() - began;
            assert!(took < Duration::from_secs(30), "once takes five seconds: {took:?}");
            drop(kept);
            tend(cx, &seen, &mut held, &mut Ticked::default()).expect("it goes on");
            assert_eq!(recorded(cx).len(), 20);
        });
    }

    #[test]
    fn fm_owner_event_more_messages_than_a_tick_reads_are_all_told_the_oldest_first() {
        in_a_home(|cx| {
            (0..MESSAGES + 20).for_each(|at| write_to_the_owner(cx, &format!("message {at}")));
            let seen = observed(&AgentId::ticker(), "active");
            let mut held = Held::take(cx).expect("nobody else acts");
            for all in [MESSAGES, MESSAGES + 20, MESSAGES + 20] {
                tend(cx, &seen, &mut held, &mut Ticked::default()).expect("it goes on");
                let told = facts(cx.layout).expect("they read").into_iter();
                let told: Vec<_> = told.map(|fact| fact.data["text"].as_str().map(str::to_owned)).collect();
                assert_eq!(told, (0..all).map(|at| Some(format!("message {at}"))).collect::<Vec<_>>());
            }
        });
    }

    #[test]
    fn fm_owner_event_eio_a_mailbox_of_the_owner_that_does_not_read_keeps_nothing_else_from_being_kept() {
        in_a_home(|cx| {
            write_to_the_owner(cx, "one");
            let mut held = Held::take(cx).expect("nobody else acts");
            let mut look = |generation: u64| {
                let mut seen = observed(&AgentId::ticker(), "active");
                let ticker = seen.sessions.get_mut(&AgentId::ticker()).expect("there");
                ticker.generation = Generation(generation);
                let mut ticked = Ticked::default();
                tend(cx, &seen, &mut held, &mut ticked).expect("it goes on");
                ticked.warnings.len()
            };
            assert_eq!(look(1), 0);
            let inbox = cx.layout.folder(&AgentId::owner(), State::Written);
            std::fs::rename(&inbox, inbox.with_extension("away")).expect("ours");
            std::fs::write(&inbox, "no folder").expect("written");
            assert_eq!(look(2), 1);
            std::fs::remove_file(&inbox).expect("ours");
            std::fs::rename(inbox.with_extension("away"), &inbox).expect("ours");
            let kept: Kept = state::read_json(cx.layout.tick("events")).expect("reads").expect("kept");
            assert_eq!((kept.keepers.len(), kept.messages.len()), (1, 1));
            assert_eq!(look(2), 0);
            assert_eq!(recorded(cx).len(), 2, "none twice");
        });
    }
}
