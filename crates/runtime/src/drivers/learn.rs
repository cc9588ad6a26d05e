//! What was learnt from a program, written down where it belongs: the mail, the record, the kernel, the book.

use netsky_bus::PassedBy;
use netsky_disk::clock;
use netsky_kernel::drain::{Report, Turn};
use netsky_ledger::{Appended, Facts};
use netsky_model::lifecycle::LifecycleState;

use super::mail::point;
use super::slot::{Result, Slot};
use crate::driver::{Doing, Entry, Learnt, Outcome, TurnEnd};
use crate::up_proof;

/// Most names of things that a driver does not know that are kept.
pub(super) const UNKNOWN: usize = 32;

impl Slot<'_> {
    /// `at`: behind the line that taught it.
    pub(super) fn learn(&mut self, learnt: Learnt, at: u64) -> Result<()> {
        // What is new to a driver comes as often as words, and is kept once.
        self.is_unwritten |= !matches!(learnt, Learnt::Unknown(_));
        match learnt {
            Learnt::Up { version } => {
                self.book.version = version.or(self.book.version.take());
                up_proof::hand_back(
                    self.shared.layout,
                    &self.shared.kernel,
                    self.agent,
                    self.book.generation,
                )?;
            }
            // What nobody began, in a program that has not greeted.
            Learnt::Conversation(_)
            | Learnt::TurnBegan
            | Learnt::TurnEnded(_)
            | Learnt::Context(_)
            | Learnt::Compacted
                if !self.is_met() =>
            {
                self.tell("it tells of its work and has not greeted: that counts for nothing".to_owned());
            }
            Learnt::Conversation(conversation) => {
                if self.book.conversation.as_ref() != Some(&conversation) {
                    let (session_id, transcript) = (conversation.id.clone(), None);
                    self.report(Report::SessionId { session_id, transcript }, format!("conversation.{at}"));
                }
                self.book.conversation = Some(conversation);
            }
            Learnt::Model(model) => self.book.model = Some(model),
            Learnt::TurnBegan => {
                // What is taken back from here on is no part of an earlier turn.
                self.book.stopped = self.book.stopped.filter(|stopped| *stopped == self.book.turns);
                self.has_news = true;
                self.passed_by = PassedBy::default();
                self.report(Report::Begun, format!("begun.{at}"));
            }
            Learnt::TurnEnded(end) => self.turn_ended(&end, at)?,
            Learnt::Context(pct) => self.uses(pct, at),
            Learnt::Compacted => self.compacted(at),
            Learnt::Unknown(name) => {
                if self.book.unknown.len() < UNKNOWN && !self.book.unknown.contains(&name) {
                    (self.shared.said)(&format!(
                        "{}: says {name}, which this driver does not know",
                        self.agent
                    ));
                    self.book.unknown.push(name);
                    self.is_unwritten = true;
                }
            }
            Learnt::NoConversation(why) => {
                (self.shared.said)(&format!("{}: {why}; the next start begins another", self.agent));
                if let Some(known) = self.book.conversation.take().filter(|known| known.begun) {
                    self.conversation_lost(&known.id, self.book.generation);
                }
            }
            Learnt::Asked(ask) => {
                (self.shared.said)(&format!("{} asks: {}", self.agent, ask.text));
            }
            Learnt::Doing => {}
            Learnt::Settled(key) | Learnt::Untaken(key) if self.is_own(&key) => {
                self.untaken(std::slice::from_ref(&key), "words of netsky's own were not kept")?;
                self.own_given_back(key);
            }
            // Told to end, a program takes back what waits in it as well: nobody wanted that.
            Learnt::Settled(key) => match self.is_stopped_turn() {
                true => self.finished(&[key])?,
                false => self.cut(&[key])?,
            },
            Learnt::Untaken(key) => self.untaken(&[key], "its program did not keep it")?,
            // A start that fails says why in no other way.
            Learnt::Said(Entry::Note { text }) if self.book.doing == Doing::Starting => {
                (self.shared.said)(&format!("{}: {text}", self.agent));
            }
            Learnt::Said(Entry::Agent { text }) => self.says(&text),
            Learnt::Withdrawn { .. } | Learnt::Said(_) => {}
        }
        // What somebody says of itself who has not greeted is looked at with its health.
        if self.is_met() {
            let doing = self.driver.doing().clone();
            self.set_doing(doing);
        }
        Ok(())
    }

    /// Whether the owner wanted the turn stopped that is under way, or was until now: the program may tell of what waited behind
    /// it when that is over.
    fn is_stopped_turn(&self) -> bool {
        self.book.stopped.is_some_and(|stopped| stopped + 1 >= self.book.turns)
    }

    fn turn_ended(&mut self, end: &TurnEnd, at: u64) -> Result<()> {
        // A program that is told to end says so too: nobody wanted that turn stopped.
        let is_cut = end.outcome == Outcome::Interrupted && self.book.stopped != Some(self.book.turns);
        match &end.outcome {
            Outcome::Interrupted if is_cut => self.cut(&end.messages)?,
            Outcome::Done | Outcome::Interrupted => self.finished(&end.messages)?,
            Outcome::Failed { trouble, why } => self.failed(&end.messages, *trouble, why)?,
        }
        point("drivers.turn.settled");
        self.book.answered |= end.outcome == Outcome::Done;
        self.book.turns += 1;
        self.book.turn_ended = Some(clock::stamp());
        self.spent(end, at);
        self.own_ended(end, is_cut);
        // A last turn that failed is none: to the kernel its end would be the context's.
        let is_last = self.book.lifecycle == LifecycleState::Draining;
        if !is_last || end.outcome == Outcome::Done {
            let turn = Turn { usage: end.usage.clone(), ..Turn::default() };
            self.report(Report::Turn(Box::new(turn)), format!("turn.{at}"));
        }
        Ok(())
    }

    /// What a turn took, as a fact: once, however often its end is read.
    fn spent(&mut self, end: &TurnEnd, at: u64) {
        let key = format!("{}.g{}.{at}", self.book.lineage, self.book.generation);
        let data = serde_json::json!({
            "agent": self.agent,
            "lineage": self.book.lineage,
            "generation": self.book.generation,
            "runtime": self.book.runtime,
            "model": self.book.model,
            "turn": end.id,
            "outcome": end.outcome,
            "messages": end.messages,
            "usage": end.usage,
        });
        // The sums are of the lines up to the book's offset: who reads one again has a book without it.
        self.book.usage.add(&end.usage);
        // One that is not there is missed by the sums of the record alone. An end that is read twice is so after a death, soon: there is
        // one for each turn of everybody, and the record is not searched for it from its beginning.
        self.recorded(self.shared.facts.append_once_lately("turn.finished", &key, data));
    }

    /// A fact, once under its key; false where the record does not take it within its time, which is told. Nothing else is kept
    /// from going on.
    pub(super) fn record(&self, kind: &str, key: &str, data: serde_json::Value) -> bool {
        self.recorded(Facts::new(self.shared.layout).append_once(kind, key, data))
    }

    fn recorded(&self, recorded: netsky_ledger::Result<Appended>) -> bool {
        if let Err(error) = &recorded {
            self.telemetry.watchdog("unrecorded", Some(self.agent), &error.to_string());
        }
        recorded.is_ok()
    }

    pub(super) fn report(&self, report: Report, once: String) {
        self.shared.reporter.tell(self.agent, self.book.generation, report, once);
    }
}
