//! `send` for many messages at once: each as durable as a single one, the waits for the disk shared (group commit).
//!
//! Promise: the order of the drafts is the order of their names; one that is refused stops none behind it; each answer is
//! given only when that message is durable. Nothing is placed for a message that is answered with an error, unless the
//! very last sync failed.

use std::collections::BTreeMap;

use netsky_disk::fs::Dir;
use netsky_disk::group::{self, Item};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::name::Name;

use crate::bus::{Bus, point};
use crate::error::Result;
use crate::send::{Draft, Ready, Sent};

/// Most messages that wait for one another: beyond some hundred the share of a sync in each is small, and who waits for
/// the answers waits for all of them.
pub const MAX_GROUP: usize = 256;

/// A message with its place in the order.
struct Named {
    ready: Ready,
    name: Name,
}

/// The folders of one target.
struct Folders {
    tmp: Dir,
    inbox: Dir,
}

impl Bus<'_> {
    /// Places messages in their order; one answer each, all given at the end.
    pub fn send_all(&self, drafts: Vec<Draft>) -> Vec<Result<Sent>> {
        let mut answers = Vec::with_capacity(drafts.len());
        let mut group = Vec::new();
        for draft in drafts {
            // An id that may have been sent before is looked up under a lock of its own, which is not held for others.
            if draft.id.is_some() {
                answers.extend(self.place_all(std::mem::take(&mut group)));
                answers.push(self.send(draft));
                continue;
            }
            group.push(self.named(draft));
            if group.len() == MAX_GROUP {
                answers.extend(self.place_all(std::mem::take(&mut group)));
            }
        }
        answers.extend(self.place_all(group));
        answers
    }

    fn named(&self, draft: Draft) -> Result<Named> {
        let ready = self.ready(draft)?;
        self.charge(&ready.channel, &ready.envelope.from, ready.bytes.len())?;
        Ok(Named { name: ready.name(self)?, ready })
    }

    fn place_all(&self, group: Vec<Result<Named>>) -> Vec<Result<Sent>> {
        let mut folders: BTreeMap<AgentId, Folders> = BTreeMap::new();
        let group: Vec<Result<Named>> = group
            .into_iter()
            .map(|named| {
                let named = named?;
                let channel = &named.ready.channel;
                if !folders.contains_key(&channel.agent) {
                    let opened = Folders { tmp: channel.tmp()?, inbox: channel.dir(State::Written)? };
                    folders.insert(channel.agent.clone(), opened);
                }
                Ok(named)
            })
            .collect();
        let items: Vec<Item<'_>> = group.iter().flatten().map(|named| item(named, &folders)).collect();
        point("bus.batch.begin");
        let placed = group::place(&items);
        point("bus.batch.placed");
        self.settle();
        let mut outcomes = placed.into_iter();
        group
            .into_iter()
            .map(|named| {
                let Named { ready, name } = named?;
                outcomes.next().expect("one answer for each that was placed")?;
                let inbox = &folders[&ready.channel.agent].inbox;
                Ok(self.sent(&ready.channel, &ready.envelope, &name, inbox))
            })
            .collect()
    }
}

fn item<'a>(named: &Named, folders: &'a BTreeMap<AgentId, Folders>) -> Item<'a> {
    let Folders { tmp, inbox } = &folders[&named.ready.channel.agent];
    Item { tmp, target: inbox, name: named.name.to_string(), bytes: named.ready.bytes.clone() }
}
