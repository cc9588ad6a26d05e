//! How much agents may take in a day before their owner is told (faults A18, T13).
//!
//! Promise: a turn counts once, for the day that its fact says, whatever clocks do between turns and however often it is recorded or
//! read; a budget is reached once a day, by the turn that reaches it.
//!
//! Pure: `watchdog` reads the record, asks here, and tells.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::AgentId;

/// Days that are kept: today, one that is just over, and those that a wrong clock made meanwhile.
const KEPT: usize = 4;

/// `[budget]` of `config.toml`. Nothing is counted where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// Tokens a day of all agents together.
    pub tokens_a_day: Option<u64>,
    /// Tokens a day of single agents.
    pub agents: BTreeMap<AgentId, u64>,
}

impl Terms {
    /// Whether there is no budget.
    pub fn is_empty(&self) -> bool {
        self.tokens_a_day.is_none() && self.agents.is_empty()
    }

    /// What reads and is of no use.
    pub fn trouble(&self) -> Option<String> {
        if let Some(name) = self.agents.keys().find(|name| name.number().is_none()) {
            return Some(format!("[budget.agents] {name} is no slot: slots are agent0, agent1 and so on"));
        }
        let agents = self.agents.iter().map(|(name, limit)| (format!("[budget.agents] {name}"), *limit));
        let all = self.tokens_a_day.map(|limit| ("[budget] tokens_a_day".to_owned(), limit));
        let none = all.into_iter().chain(agents).find(|(_, limit)| *limit == 0);
        none.map(|(what, _)| format!("{what} is 0 and must be 1 or more"))
    }

    /// What a turn of an agent counts for, and how much that may be: all together, and the agent.
    fn limits(&self, agent: &AgentId) -> impl Iterator<Item = (Option<AgentId>, u64)> {
        let own = self.agents.get(agent).map(|limit| (Some(agent.clone()), *limit));
        self.tokens_a_day.map(|limit| (None, limit)).into_iter().chain(own)
    }
}

/// A turn that a driven agent finished, as its fact has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Whose.
    agent: AgentId,
    /// Lineage and generation.
    run: String,
    /// Where it ended in what that generation printed.
    at: u64,
    /// When it was over.
    ts: Timestamp,
    /// Tokens read and written, those that a cache took included; what comes out of a cache costs a tenth and is not counted.
    tokens: u64,
}

impl Turn {
    /// The turn that a fact is of; none for other facts.
    pub fn of(ts: Timestamp, kind: &str, key: &str, data: &Value) -> Option<Turn> {
        if kind != "turn.finished" {
            return None;
        }
        let (run, at) = key.rsplit_once('.')?;
        let tokens = ["input", "output", "cache_write"].map(|part| data["usage"][part].as_u64().unwrap_or(0));
        Some(Turn {
            agent: data["agent"].as_str()?.parse().ok()?,
            run: run.to_owned(),
            at: at.parse().ok()?,
            ts,
            tokens: tokens.into_iter().fold(0, u64::saturating_add),
        })
    }

    /// When it was over.
    pub fn ts(&self) -> Timestamp {
        self.ts
    }
}

/// What was taken lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    days: BTreeMap<Date, Day>,
    /// The last turn of each agent: which run, and where it ended.
    last: BTreeMap<AgentId, (String, u64)>,
    /// Budgets that were reached and that nobody was told of.
    due: Vec<Reached>,
}

/// What was taken in a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Day {
    tokens: BTreeMap<AgentId, u64>,
    /// The budgets that were reached: an agent's, or that of all.
    reached: BTreeSet<Option<AgentId>>,
}

/// A budget that a turn has reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Of which day.
    pub day: Date,
    /// Whose; none: that of all together.
    pub agent: Option<AgentId>,
    /// What was taken with that turn.
    pub spent: u64,
    /// What it was reached at.
    pub limit: u64,
}

impl Reached {
    /// The key of its fact.
    pub fn key(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{agent}/{}", self.day),
            None => self.day.to_string(),
        }
    }

    /// By how much, for people.
    pub fn why(&self) -> String {
        format!("{} of {} tokens on {}", self.spent, self.limit, self.day)
    }
}

impl Spent {
    /// A turn was over, on that day of the owner's. One that was counted counts no more.
    pub fn count(&mut self, terms: &Terms, turn: &Turn, date: Date) {
        let last = self.last.get(&turn.agent);
        if last.is_some_and(|(run, at)| *run == turn.run && *at >= turn.at) {
            return;
        }
        self.last.insert(turn.agent.clone(), (turn.run.clone(), turn.at));
        let day = self.days.entry(date).or_default();
        let own = day.tokens.entry(turn.agent.clone()).or_default();
        *own = own.saturating_add(turn.tokens);
        for (agent, limit) in terms.limits(&turn.agent) {
            let spent = day.spent(agent.as_ref());
            if spent >= limit && day.reached.insert(agent.clone()) {
                self.due.push(Reached { day: date, agent, spent, limit });
            }
        }
        // Not the oldest: days that a clock was wrong about may lie far ahead.
        let away = |day: &Date| date.duration_since(*day).abs();
        while self.days.len() > KEPT
            && let Some(farthest) = self.days.keys().copied().max_by_key(away)
        {
            self.days.remove(&farthest);
        }
    }

    /// The same without the days before one: whoever sets a budget now is not told of what was before.
    #[must_use]
    pub fn since(mut self, date: Date) -> Spent {
        self.days.retain(|day, _| *day >= date);
        self.due.retain(|reached| reached.day >= date);
        self
    }

    /// The budgets that were reached and that nobody was told of, in the order in which they were.
    pub fn due(&self) -> &[Reached] {
        &self.due
    }

    /// The owner will be told of the first of them.
    pub fn told(&mut self) {
        if !self.due.is_empty() {
            self.due.remove(0);
        }
    }
}

impl Day {
    /// What an agent took, or all.
    fn spent(&self, agent: Option<&AgentId>) -> u64 {
        match agent {
            Some(agent) => self.tokens.get(agent).copied().unwrap_or(0),
            None => self.tokens.values().copied().fold(0, u64::saturating_add),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use serde_json::json;

    use super::*;

    fn terms(json: &str) -> Terms {
        serde_json::from_str(json).expect("terms")
    }

    /// Of 100 tokens that count, and 1,000 that do not.
    fn turn(agent: &str, generation: u64, at: u64) -> Turn {
        let usage = json!({ "input": 60, "output": 30, "cache_read": 1000, "cache_write": 10 });
        let data = json!({ "agent": agent, "usage": usage });
        let key = format!("{agent}-00000001.g{generation}.{at}");
        Turn::of(Timestamp::UNIX_EPOCH, "turn.finished", &key, &data).expect("a turn")
    }

    fn day(day: i8) -> Date {
        date(2026, 11, day)
    }

    fn due(spent: &Spent) -> Vec<String> {
        spent.due().iter().map(|reached| format!("{}: {}", reached.key(), reached.why())).collect()
    }

    #[test]
    fn a18_a_budget_is_reached_once_a_day_by_the_turn_that_reaches_it() {
        let terms = terms(r#"{"tokens_a_day": 500, "agents": {"agent3": 200}}"#);
        let mut spent = Spent::default();
        (1..=7).for_each(|at| spent.count(&terms, &turn("agent1", 1, at), day(1)));
        assert_eq!(due(&spent), ["2026-11-01: 500 of 500 tokens on 2026-11-01"]);
        spent.told();
        (1..=4).for_each(|at| spent.count(&terms, &turn("agent3", 1, at), day(1)));
        assert_eq!(due(&spent), ["agent3/2026-11-01: 200 of 200 tokens on 2026-11-01"]);
        spent.told();
        (5..=6).for_each(|at| spent.count(&terms, &turn("agent3", 1, at), day(2)));
        assert_eq!(due(&spent), ["agent3/2026-11-02: 200 of 200 tokens on 2026-11-02"]);
    }

    #[test]
    fn a18_t13_a_turn_that_is_met_again_counts_once_and_a_later_generation_goes_on_with_the_sum() {
        let terms = terms(r#"{"tokens_a_day": 300}"#);
        let mut spent = Spent::default();
        for at in [10, 20, 20, 10, 20] {
            spent.count(&terms, &turn("agent1", 1, at), day(1));
        }
        // Recorded again a day later.
        spent.count(&terms, &turn("agent1", 1, 20), day(2));
        assert_eq!(due(&spent), [""; 0]);
        spent.count(&terms, &turn("agent1", 2, 10), day(1));
        assert_eq!(due(&spent), ["2026-11-01: 300 of 300 tokens on 2026-11-01"]);
    }

    #[test]
    fn a18_a_clock_that_steps_loses_and_doubles_no_day() {
        let terms = terms(r#"{"tokens_a_day": 300}"#);
        let mut spent = Spent::default();
        // Ahead and back; for some days ahead and back; and every day goes on with its sum.
        let far = |day| date(2036, 1, day);
        let stepped =
            [day(1), day(1), far(1), far(2), day(1), far(3), far(4), day(2), day(2), day(2), day(2)];
        for (at, day) in (1..).zip(stepped) {
            spent.count(&terms, &turn("agent1", 1, at), day);
            assert!(spent.days.len() <= KEPT, "{spent:?}");
        }
        let dates: Vec<String> = spent.due().iter().map(Reached::key).collect();
        assert_eq!(dates, ["2026-11-01", "2026-11-02"], "{spent:?}");
    }

    #[test]
    fn whoever_sets_a_budget_is_not_told_of_what_was_before() {
        let terms = terms(r#"{"tokens_a_day": 100}"#);
        let mut spent = Spent::default();
        spent.count(&terms, &turn("agent1", 1, 1), day(1));
        spent.count(&terms, &turn("agent1", 1, 2), day(2));
        let mut spent = spent.since(day(2));
        assert_eq!(spent.due().len(), 1);
        // What was before is known all the same.
        spent.count(&terms, &turn("agent1", 1, 1), day(3));
        assert_eq!(spent.due().len(), 1);
    }

    #[test]
    fn what_is_kept_reads_back_and_other_facts_are_no_turns() {
        let mut spent = Spent::default();
        let terms = terms(r#"{"tokens_a_day": 1, "agents": {"agent1": 1}}"#);
        spent.count(&terms, &turn("agent1", 1, 1), day(1));
        let text = serde_json::to_string(&spent).expect("JSON");
        assert_eq!(serde_json::from_str::<Spent>(&text).expect("reads"), spent, "{text}");
        let of = |kind, key, data| Turn::of(Timestamp::UNIX_EPOCH, kind, key, &data);
        assert_eq!(of("page", "a.g1.1", json!({ "agent": "agent1" })), None);
        for (key, data) in
            [("x", json!({ "agent": "agent1" })), ("a.g1.1", json!({})), ("a.g1.1", json!(null))]
        {
            assert_eq!(of("turn.finished", key, data), None);
        }
        let most = json!({ "agent": "agent1", "usage": { "input": u64::MAX, "output": u64::MAX } });
        let most = of("turn.finished", "a.g2.1", most).expect("a turn");
        spent.count(&terms, &most, day(1));
        assert_eq!(spent.days[&day(1)].spent(None), u64::MAX);
    }

    #[test]
    fn a_budget_of_nothing_or_of_nobody_is_told() {
        for (json, said) in [
            (r#"{"tokens_a_day": 0}"#, "[budget] tokens_a_day is 0 and must be 1 or more"),
            (r#"{"agents": {"agent3": 0}}"#, "[budget.agents] agent3 is 0 and must be 1 or more"),
            (
                r#"{"agents": {"agnet3": 1}}"#,
                "[budget.agents] agnet3 is no slot: slots are agent0, agent1 and so on",
            ),
        ] {
            assert_eq!(terms(json).trouble().as_deref(), Some(said));
        }
        assert_eq!(terms(r#"{"tokens_a_day": 1, "agents": {"agent3": 1}}"#).trouble(), None);
        assert!(Terms::default().is_empty() && !terms(r#"{"agents": {"agent3": 1}}"#).is_empty());
    }
}
