//! A newcomer on a home whose former programs are all dead: it does what any program of the product does, and each
//! answer is judged by what was promised.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use netsky_model::id::{AgentId, Generation};

use super::actor::{Actor, Done, Shown, layout};
use super::history::{History, Note};
use super::judge;
use super::stage::Recorded;
use crate::memory::{Image, Memory};

/// Longer than a stray file in `tmp/` may stay.
const STRAYS_ARE_OLD: Duration = Duration::from_secs(2 * 3600);

/// What else happened to the clock's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// Nothing.
    None,
    /// It is gone.
    Lost,
    /// It is all zeros.
    Zeroed,
    /// Its head is half of what was written.
    Torn,
    /// It is empty.
    Cut,
}

impl Damage {
    /// Does it to an image, if that has a clock.
    pub(super) fn strike(self, image: &mut Image) {
        let clock = layout().state().join("clock");
        let Some(mut bytes) = image.read(&clock).map(<[u8]>::to_vec) else { return };
        match self {
            Damage::None => return,
            Damage::Lost => return image.lose(&clock),
            Damage::Zeroed => bytes.fill(0),
            Damage::Torn if bytes.len() >= 32 => bytes[16..32].fill(0),
            Damage::Torn => {}
            Damage::Cut => bytes.clear(),
        }
        image.damage(&clock, bytes);
    }
}

/// Ways that recoveries must have gone, or the enumeration has shown nothing about them.
pub const BRANCHES: [&str; 15] = [
    "a dead process's claim goes back to the inbox",
    "a dead process's last attempt becomes a dead letter",
    "a dead generation's mail goes back to the inbox",
    "a dead generation's last attempt becomes a dead letter",
    "a dropped file is put aside",
    "a burial that had only its reason is finished",
    "a channel that was half made is completed",
    "a sent id is answered as a duplicate",
    "a reserved id is placed",
    "a placed id is found and marked",
    "an id whose entry says nothing is taken anew",
    "a stray file in tmp is swept",
    "a message that was sent to the end is in the inbox",
    "a message whose send was cut is whole",
    "the clock begins above its ceiling",
];

/// What one recovery went through.
pub(super) struct Recovered {
    pub(super) record: Recorded,
    pub(super) branches: Vec<&'static str>,
}

/// Recovers and judges.
pub(super) fn recover(memory: &Rc<Memory>, history: &History, generation: Generation) -> Done<Recovered> {
    let found = memory.disk().live().clone();
    judge::image(&found, &layout(), history)?;
    let next = Generation(generation.0 + 1);
    let mut actor = Actor::new(memory.clone(), history.clone(), next);
    actor.tell(Note::Ended)?;
    let record = Recorded::begin(&mut actor);
    let mut newcomer = Newcomer { branches: before(&found, history), found, actor };
    newcomer.read_everything()?;
    newcomer.repeat_chosen()?;
    newcomer.send_anew()?;
    newcomer.sweep()?;
    let Newcomer { mut actor, branches, .. } = newcomer;
    judge::settled(memory.disk().live(), &layout(), &actor.history)?;
    Ok(Recovered { record: record.end(&mut actor), branches })
}

struct Newcomer {
    actor: Actor,
    found: Image,
    branches: Vec<&'static str>,
}

impl Newcomer {
    fn took(&mut self, branch: usize) {
        self.branches.push(BRANCHES[branch]);
    }

    /// Agents that have a channel now, whole or not.
    fn agents(&self) -> Vec<AgentId> {
        judge::agents(self.actor.memory.disk().live(), &layout())
    }

    /// What waits or was taken in vain reaches its agent, in order, and is acked.
    fn read_everything(&mut self) -> Done {
        for agent in self.agents() {
            let [claims, taken] = self.actor.give_back(&agent, |_| true)?;
            let (drained, order) = self.actor.drain(&agent)?;
            in_order(&order, &self.actor.history)?;
            self.finish(&agent, &order)?;
            let took = [
                claims.inbox > 0,
                claims.poisoned > 0,
                taken.inbox > 0,
                taken.poisoned > 0,
                !drained.aside.quarantined.is_empty(),
            ];
            (0..took.len()).filter(|branch| took[*branch]).for_each(|branch| self.took(branch));
            if let Some(file) = drained.aside.newer.first() {
                return Err(format!("{file} is taken for a newer program's"));
            }
        }
        Ok(())
    }

    fn finish(&mut self, agent: &AgentId, shown: &[Shown]) -> Done {
        shown.iter().try_for_each(|Shown { key, id, .. }| self.actor.ack(agent, key, id))
    }

    /// Whoever chose an id and does not know whether it was sent sends it again.
    fn repeat_chosen(&mut self) -> Done {
        let promises = self.actor.history.promises.clone();
        for promise in promises.values() {
            let Some(id) = &promise.chosen else { continue };
            let first = self.actor.send(&promise.agent, Some(id.as_str()), true)?;
            let entry = self.found.read(&layout().channel_ids(&promise.agent).join(id.as_str()));
            let done = self.found.has(&layout().channel_ids(&promise.agent).join(format!("{id}.done")));
            match entry.map(<[u8]>::is_empty) {
                _ if promise.sent => self.took(7),
                Some(true) => self.took(10),
                Some(false) if !first.duplicate => self.took(8),
                Some(false) if !done => self.took(9),
                _ => {}
            }
            let again = self.actor.send(&promise.agent, Some(id.as_str()), true)?;
            if !again.duplicate {
                return Err(format!("{id} was sent and sent again, and the second is no duplicate"));
            }
        }
        Ok(())
    }

    /// A new message comes after everything that is there, and arrives.
    fn send_anew(&mut self) -> Done {
        let highest = judge::highest(self.actor.memory.disk().live(), &layout());
        for agent in self.agents() {
            let sent = self.actor.send(&agent, None, true)?;
            if sent.hlc.is_none_or(|hlc| hlc <= highest) {
                return Err(format!("a new message is {:?}, not after {highest}", sent.hlc));
            }
            let (_, order) = self.actor.drain(&agent)?;
            self.finish(&agent, &order)?;
        }
        Ok(())
    }

    /// Hours later nothing is left of what was cut.
    fn sweep(&mut self) -> Done {
        self.actor.memory.pass(STRAYS_ARE_OLD);
        for agent in self.agents() {
            let stray =
                || self.actor.memory.disk().live().list(&layout().channel_tmp(&agent)).next().is_some();
            let strays = stray();
            if self.actor.claim(&agent, usize::MAX)? > 0 {
                return Err("something waits after everything was drained".to_owned());
            }
            if strays {
                self.took(11);
            }
        }
        Ok(())
    }
}

/// What can be seen before anything is done.
fn before(image: &Image, history: &History) -> Vec<&'static str> {
    let layout = layout();
    let mut seen = Vec::new();
    let has = |path: &Path| image.has(path);
    for agent in judge::agents(image, &layout) {
        let poison = layout.folder(&agent, netsky_model::life::State::Poisoned);
        let widow = image.list(&poison).any(|name| {
            let name = name.to_string_lossy();
            name.strip_suffix(".reason").is_some_and(|file| !has(&poison.join(file)))
        });
        if widow {
            seen.push(BRANCHES[5]);
        }
        if !has(&layout.channel_tmp(&agent)) {
            seen.push(BRANCHES[6]);
        }
    }
    let places = judge::image(image, &layout, history).unwrap_or_default();
    for key in places.keys() {
        let sent = history.promises.get(key).is_some_and(|promise| promise.sent);
        seen.push(BRANCHES[if sent { 12 } else { 13 }]);
    }
    if has(&layout.state().join("clock")) {
        seen.push(BRANCHES[14]);
    }
    seen
}

/// What is shown for the first time comes in the order in which it was sent.
fn in_order(shown: &[Shown], history: &History) -> Done {
    let first = shown.iter().filter(|shown| shown.attempt == 1);
    let orders: Vec<(usize, &str)> = first
        .filter_map(|Shown { key, .. }| Some((history.promises.get(key)?.order?, key.as_str())))
        .collect();
    match orders.windows(2).find(|pair| pair[0].0 > pair[1].0) {
        Some(pair) => Err(format!("{} was sent after {} and is shown before it", pair[0].1, pair[1].1)),
        None => Ok(()),
    }
}
