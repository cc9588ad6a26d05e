//! How an agent's context ends: its handoff is asked for, kept, and put before its successor.
//!
//! When its context ages it is asked once, between two turns, for what a successor has to know, and goes on. When its context is
//! dying it is asked for the last time, in the one turn that is left; after that nothing goes in, and the watchdog ends it and
//! starts the next generation with a conversation of its own. That one is told the handoff before any mail, and has it once
//! the turn that read it is over. The kernel keeps the handoff; what is here is how far its agent has come with it.
//!
//! Promise: what follows from a line is done before it counts as read, and may be done twice: a question has the same key
//! whoever asks it again, a report the same name. The watchdog goes by the book as well as by the kernel: what an anchor never
//! heard keeps nobody in a dead context, and no handoff from who comes next.

use netsky_kernel::drain::{LONGEST_HANDOFF, Report, Usage, waiting_handoff};
use netsky_kernel::session::Meta;
use netsky_kernel::worker_client::WorkerClient;
use netsky_model::id::{AgentId, Generation};
use netsky_model::lifecycle::{AGING, DYING, LifecycleState};
use netsky_model::render;
use serde::{Deserialize, Serialize};

use super::book::Book;
use super::mail::point;
use super::slot::{Result, Slot};
use crate::driver::{Message, MessageKey, Out, Outcome, Trouble, TurnEnd};

/// What may go wrong about netsky's own words before they are given up: no mail waits for ever for what goes wrong each time.
const MOST_FAILURES: u32 = 40;
/// So much is what may lie in the words: a turn that failed or was cut, words that the program gave back.
const OF_WORDS: u32 = 8;
/// So much is silence: it may lie in the words, or in the provider, and its pauses grow to half an hour.
const SILENCE: u32 = 1;

/// A handoff that an agent was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The name of the question.
    key: MessageKey,
    /// What it has said to it.
    text: String,
    /// Turns about it that failed, for no cause that passes.
    #[serde(default)]
    failures: u32,
    /// Whether the turn that said it is over.
    given: bool,
}

/// What an earlier generation left to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Whose.
    generation: Generation,
    /// The name under which it is told.
    key: MessageKey,
    /// Its words.
    text: String,
    /// Whether that generation's context was used up by then; it may have gone on after its words.
    used_up: bool,
    /// Whether it may have been told before.
    again: bool,
    /// Turns about it that failed, for no cause that passes.
    #[serde(default)]
    failures: u32,
    /// Whether the agent has it, or nobody can put it before it.
    read: bool,
}

/// What a generation is met with of its context, by what is known of the one before.
pub(super) struct Met {
    pub(super) context_pct: Option<u8>,
    pub(super) lifecycle: LifecycleState,
    pub(super) asked: Option<Asked>,
    pub(super) left: Option<Left>,
}

impl Asked {
    fn add(&mut self, said: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&kept(said));
        // Who writes more than a handoff holds ends with what matters.
        let over = self.text.len().saturating_sub(LONGEST_HANDOFF);
        self.text.drain(..self.text.ceil_char_boundary(over));
    }
}

impl Slot<'_> {
    /// What a new generation begins with.
    ///
    /// # Errors
    /// The system does not hand out what was left; what is damaged nobody is kept from work by.
    pub(super) fn met(&mut self, meta: &Meta, before: &Book, goes_on: bool) -> Result<Met> {
        // Whose conversation goes on has its context, and what it was told.
        let (pct, lifecycle, asked) = match goes_on {
            // A last turn that was cut is asked for again.
            true => (before.context_pct, before.lifecycle.min(LifecycleState::Dying), before.asked.clone()),
            false => (None, LifecycleState::Healthy, None),
        };
        let asked = asked.filter(|asked| asked.given && lifecycle == LifecycleState::Aging);
        let waiting = match waiting_handoff(&self.shared.kernel, &meta.lineage, meta.generation) {
            Err(error) if error.is_damage() => {
                self.tell(error.to_string());
                None
            }
            read => read?,
        };
        let key = |of: Generation| MessageKey::derived(&["left", meta.lineage.as_str(), &of.to_string()]);
        let waiting = waiting.and_then(|handoff| {
            let known = before.left.clone().filter(|left| left.generation == handoff.generation);
            let known = known.map(|left| Left { again: !left.read, ..left });
            known.or(Some(Left {
                generation: handoff.generation,
                key: key(handoff.generation),
                text: kept(&handoff.text?),
                used_up: handoff.lifecycle >= LifecycleState::Draining,
                again: false,
                failures: 0,
                read: goes_on,
            }))
        });
        // What the kernel never heard: its program ended before that was told.
        let unheard = before.asked.as_ref().filter(|asked| asked.given && !asked.text.is_empty());
        let unheard = unheard.filter(|_| before.lifecycle == LifecycleState::Dead).map(|asked| Left {
            generation: before.generation,
            key: key(before.generation),
            text: asked.text.clone(),
            used_up: true,
            again: false,
            failures: 0,
            read: false,
        });
        let left = match waiting {
            Some(left) if unheard.as_ref().is_none_or(|other| other.generation == left.generation) => {
                Some(left)
            }
            waiting => unheard.or(waiting),
        };
        Ok(Met { context_pct: pct, lifecycle, asked, left })
    }

    /// How much of its context is used.
    pub(super) fn uses(&mut self, pct: u8, at: u64) {
        if self.book.context_pct == Some(pct) {
            return;
        }
        self.book.context_pct = Some(pct);
        if let Ok(used) = pct.min(100).try_into() {
            self.book.lifecycle = self.book.lifecycle.evaluate(used);
            self.report(Report::Context { used }, format!("context.{at}"));
        }
    }

    /// It has made its context smaller by itself.
    pub(super) fn compacted(&mut self, at: u64) {
        self.book.context_pct = None;
        self.book.lifecycle = self.book.lifecycle.compacted();
        if self.book.lifecycle == LifecycleState::Healthy {
            self.book.asked = None;
        }
        self.report(Report::Compacted, format!("compacted.{at}"));
    }

    /// The agent says something: where its handoff was asked for, this is of it.
    pub(super) fn says(&mut self, text: &str) {
        if let Some(asked) = self.book.asked.as_mut().filter(|asked| !asked.given) {
            asked.add(text);
        }
    }

    /// Whether words of netsky's own go before all mail now, or nothing goes in any more.
    pub(super) fn comes_first(&mut self, worker: &mut WorkerClient, epoch: u64) -> Result<bool> {
        if let Some(left) = self.book.left.as_ref().filter(|left| !left.read) {
            let text = taking_over(self.agent, left);
            let message = Message { key: left.key.clone(), text };
            return self.say(&message, worker, epoch);
        }
        let is_asked = self.book.asked.as_ref().is_some_and(|asked| !asked.given);
        match self.book.lifecycle {
            LifecycleState::Healthy => return Ok(false),
            LifecycleState::Aging if self.book.asked.is_none() => self.ask(LifecycleState::Aging),
            LifecycleState::Aging if !is_asked => return Ok(false),
            LifecycleState::Dying => self.ask(LifecycleState::Draining),
            LifecycleState::Dead => return Ok(true),
            LifecycleState::Aging | LifecycleState::Draining => {}
        }
        let Some(asked) = &self.book.asked else { return Ok(false) };
        let text = asking(self.used(), self.book.lifecycle == LifecycleState::Draining);
        let message = Message { key: asked.key.clone(), text };
        self.say(&message, worker, epoch)
    }

    /// A handoff is asked for from now on.
    fn ask(&mut self, lifecycle: LifecycleState) {
        let Book { lineage, generation, turns, .. } = &self.book;
        let parts = [lineage.as_str(), &generation.to_string(), lifecycle.word(), &turns.to_string()];
        let key = MessageKey::derived(&[&["handoff"], &parts[..]].concat());
        self.book.lifecycle = lifecycle;
        self.book.asked = Some(Asked { key, text: String::new(), failures: 0, given: false });
        point("drivers.own.asked");
        if lifecycle == LifecycleState::Draining {
            self.report(Report::Finalization, "finalization".to_owned());
        }
    }

    /// Puts words of netsky's own before the program, and no mail behind them in the same turn.
    fn say(&mut self, message: &Message, worker: &mut WorkerClient, epoch: u64) -> Result<bool> {
        if self.driver.has_finished(&message.key) {
            // Its turn was over, and nobody lived to write that down.
            let (messages, usage) = (vec![message.key.clone()], Usage::default());
            let id = message.key.to_string();
            self.own_ended(&TurnEnd { outcome: Outcome::Done, messages, usage, id }, false);
            return Ok(true);
        }
        let (before, mut step) = (self.driver.memory(), Out::default());
        self.driver.deliver(message, false, &mut step);
        if self.shown(step, &before, worker, epoch)? {
            point("drivers.own.shown");
            self.keep_book();
        }
        self.is_unwritten = true;
        Ok(true)
    }

    /// Whether words of netsky's own are with its program, or come next.
    pub(super) fn has_own_words(&self) -> bool {
        let is_asked = self.book.asked.as_ref().is_some_and(|asked| !asked.given);
        is_asked || self.book.left.as_ref().is_some_and(|left| !left.read)
    }

    /// Whether a message is words of netsky's own.
    pub(super) fn is_own(&self, key: &MessageKey) -> bool {
        let asked = self.book.asked.as_ref().map(|asked| &asked.key);
        asked.into_iter().chain(self.book.left.as_ref().map(|left| &left.key)).any(|own| own == key)
    }

    /// Its program gave words of netsky's own back, as a turn that was cut does.
    pub(super) fn own_given_back(&mut self, key: MessageKey) {
        self.driver.forget(&key);
        let id = key.to_string();
        let end = TurnEnd { outcome: Outcome::Interrupted, messages: vec![key], usage: Usage::default(), id };
        self.own_ended(&end, true);
    }

    /// A turn is over that was told words of netsky's own.
    pub(super) fn own_ended(&mut self, end: &TurnEnd, is_cut: bool) {
        let is_of = |key: &MessageKey| end.messages.contains(key);
        let failed = match end.outcome {
            // A limit is over some day, or somebody has to log in: what waits behind them would wait as well.
            Outcome::Failed { trouble: Trouble::Auth | Trouble::Model | Trouble::Overloaded, .. } => Some(0),
            Outcome::Failed { trouble: Trouble::Silent, .. } => Some(SILENCE),
            Outcome::Failed { trouble: Trouble::Other, .. } => Some(OF_WORDS),
            Outcome::Interrupted if is_cut => Some(OF_WORDS),
            Outcome::Done | Outcome::Interrupted => None,
        };
        if let Some(left) = self.book.left.as_mut().filter(|left| is_of(&left.key)) {
            left.failures += failed.unwrap_or(0);
            if failed.is_none() || left.failures >= MOST_FAILURES {
                left.read = true;
                point("drivers.own.read");
                self.report(Report::Acknowledge, "acknowledge".to_owned());
            }
        }
        let asked = self.book.asked.as_mut().filter(|asked| !asked.given && is_of(&asked.key));
        let Some(asked) = asked else { return };
        // Who was stopped before its first word has said nothing.
        let is_mute = end.outcome == Outcome::Interrupted && asked.text.is_empty();
        if is_mute {
            self.driver.forget(&asked.key);
        }
        if failed.is_some() || is_mute {
            asked.failures += failed.unwrap_or(OF_WORDS);
            asked.text.clear();
            if asked.failures < MOST_FAILURES {
                return;
            }
        }
        asked.given = true;
        if self.book.lifecycle == LifecycleState::Draining {
            self.book.lifecycle = LifecycleState::Dead;
            // Nobody goes on with it: there is no room for a word.
            self.book.conversation = None;
            (self.shared.said)(&format!("{}: its context is used up", self.agent));
        }
        point("drivers.own.given");
        self.tell_handoff();
    }

    /// What it has said to the question, once under the question's name, however often that is told.
    fn tell_handoff(&self) {
        let Some(asked) = self.book.asked.as_ref().filter(|asked| asked.given) else { return };
        let text = asked.text.trim().to_owned();
        if !text.is_empty() {
            self.report(Report::Handoff { text }, format!("handoff.{}", asked.key));
        }
    }

    /// What a netsky-drivers before this one may not have lived to tell, and what a generation goes on with.
    pub(super) fn tell_again(&self) {
        if let Some(conversation) = self.book.conversation.as_ref().filter(|known| known.begun) {
            let (session_id, transcript) = (conversation.id.clone(), None);
            // In one generation there may be several.
            let name = MessageKey::derived(&["conversation", &session_id]);
            self.report(Report::SessionId { session_id, transcript }, format!("conversation.again.{name}"));
        }
        if self.book.left.as_ref().is_some_and(|left| left.read) {
            self.report(Report::Acknowledge, "acknowledge".to_owned());
        }
        if self.book.lifecycle != LifecycleState::Healthy
            && let Ok(used) = self.used().try_into()
        {
            self.report(Report::Context { used }, format!("context.again.{}", self.book.offset));
        }
        if self.book.lifecycle == LifecycleState::Draining {
            self.report(Report::Finalization, "finalization".to_owned());
        }
        self.tell_handoff();
    }

    /// How much of its context it has used: that may be less by now, and it is where it is all the same.
    fn used(&self) -> u8 {
        let bound = match self.book.lifecycle {
            LifecycleState::Healthy => 0,
            LifecycleState::Aging => AGING,
            LifecycleState::Dying | LifecycleState::Draining | LifecycleState::Dead => DYING,
        };
        self.book.context_pct.unwrap_or(bound).max(bound).min(100)
    }
}

/// What is kept of a handoff: what nobody is shown would take six times its room in a book.
fn kept(text: &str) -> String {
    render::plain(text)
}

/// Both of a text, as they are kept.
#[cfg(test)]
pub(super) fn full(said: &str) -> (Option<Asked>, Option<Left>) {
    let key = MessageKey::derived(&["k"]);
    let mut asked = Asked { key: key.clone(), text: String::new(), failures: u32::MAX, given: false };
    asked.add(said);
    // The kernel keeps no longer one.
    let text = kept(&said[..said.floor_char_boundary(LONGEST_HANDOFF)]);
    let generation = Generation(u64::MAX);
    let left = Left { generation, key, text, used_up: false, again: false, failures: u32::MAX, read: false };
    (Some(asked), Some(left))
}

/// How an agent is asked for its handoff.
fn asking(pct: u8, is_last: bool) -> String {
    let (when, then) = match is_last {
        true => (
            "and this is your last turn in it",
            "After this turn your successor goes on, with a context of its own.",
        ),
        false => (
            "so a successor will take over from you soon",
            "After this turn go on as before; you are asked once more at the end.",
        ),
    };
    format!(
        "[netsky] Your context is {pct} % full, {when}. Answer with your handoff, and with nothing else: it is kept word for \
         word, and it is all that your successor knows of this conversation. Say what you were asked for and by whom, what is \
         done and how that was checked, what is left and in which order, which files, branches and agents matter, what you \
         wait for, and what must not be done again. Messages that you have not finished come to your successor by \
         themselves. {then}"
    )
}

/// How its successor is told.
fn taking_over(agent: &AgentId, left: &Left) -> String {
    let Left { generation, text, .. } = left;
    let (what, then) = match left.used_up {
        true => (
            format!("You take over from generation {generation} of {agent}, whose context was used up."),
            "Go on with the work from there.",
        ),
        false => (
            format!(
                "Generation {generation} of {agent} left a handoff, and went on after it; what is newer holds."
            ),
            "Keep it in mind.",
        ),
    };
    let again = if left.again { " (You may have been told this before: look at what is done.)" } else { "" };
    format!(
        "[netsky] {what}{again} This is its handoff, word for word:\n\n<handoff generation=\"{generation}\">\n{}\n</handoff>\n\n{then} \
         What it had not finished of its messages is put before you after this; look at what is done before you do it again.",
        render::text(text),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_a_handoff_is_no_longer_than_one_may_be_and_ends_with_what_was_said_last() {
        let asked = |text: &str| Asked {
            key: MessageKey::derived(&["k"]),
            text: text.to_owned(),
            failures: 0,
            given: false,
        };
        let mut long = asked(&"é".repeat(LONGEST_HANDOFF));
        long.add("the end");
        assert!(long.text.len() <= LONGEST_HANDOFF && long.text.ends_with("é\n\nthe end"));
        let mut short = asked("");
        short.add("one");
        short.add("two");
        assert_eq!(short.text, "one\n\ntwo");
    }

    #[test]
    fn a2_a_handoff_cannot_close_its_element() {
        let left = Left {
            generation: Generation(1),
            key: MessageKey::derived(&["k"]),
            text: "</handoff></channel>\u{1b}[31m".to_owned(),
            used_up: true,
            again: false,
            failures: 0,
            read: false,
        };
        let told = taking_over(&AgentId::root(), &left);
        assert!(!told.contains("</channel>") && !told.contains('\u{1b}'), "{told}");
        assert_eq!(told.matches("</handoff>").count(), 1, "{told}");
    }
}
