//! How full an inbox is, and whether one more message may come (faults A24).
//!
//! The folder is the truth. To list it for every send would make each send as slow as its target is late, so numbers that
//! are never too low are kept beside it, in memory shared by all senders of a boot: each send adds to them before it
//! writes, and nobody takes anything off. Only where they say that there is no room is the folder counted, and they
//! become what it holds. So a killed sender costs at most one count too soon, a lost or damaged file one count, and a
//! message that is accepted costs the same whether it is the first of a home or the hundred thousandth.
//!
//! Not exact: one that counts does not see what others have taken room for and not placed yet. A limit can be passed by
//! as many messages as are on their way in that moment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::words::Words;
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::{AgentId, EnvelopeId, Sender};
use netsky_model::life::State;
use netsky_model::quota::Load;
use serde::Deserialize;

use crate::bus::Bus;
use crate::channel::Channel;
use crate::error::{Error, Result};

/// Senders of one inbox that are told apart: a constellation has 256 clones at most. What comes after shares one share.
const SENDERS: usize = 512;
/// Words of the inbox itself: envelopes, bytes, and the version of the folder that was counted.
const HEAD: usize = 3;
const ALL: usize = 0;
const COUNTED: usize = 2;
/// Words of a sender: envelopes, bytes, pace, and who it is.
const EACH: usize = 4;
const PACE: usize = 2;
const WHO: usize = 3;
/// More than any limit, so that the first send of a boot counts.
const UNKNOWN: u64 = 1 << 62;

/// What is known of one inbox.
pub(crate) struct Usage {
    words: Words,
    /// What this process has taken room for and not placed yet, by place: no count sees it.
    on_their_way: RefCell<BTreeMap<usize, Load>>,
}

/// As much of an envelope as a count needs.
#[derive(Deserialize)]
struct Header {
    from: Sender,
}

impl Bus<'_> {
    /// Takes room for a message of so many bytes, before any of it is written.
    pub(crate) fn charge(&self, channel: &Channel, from: &Sender, bytes: usize) -> Result<()> {
        let mut open = self.usage.borrow_mut();
        let usage = self.usage_of(&mut open, channel)?;
        let own = usage.slot(from);
        self.keep_pace(channel, from, usage.at(own + PACE))?;
        self.admit((channel, usage), (from, own), bytes)?;
        usage.add(ALL, bytes as u64);
        usage.add(own, bytes as u64);
        Ok(())
    }

    /// Whether the inbox of `agent` would take so many bytes from this sender himself now; it takes none.
    ///
    /// # Errors
    /// It would not, or what the file system refuses.
    pub fn would_take(&self, agent: &AgentId, from: &Sender, bytes: usize) -> Result<()> {
        self.has_room(&self.channel(agent)?, from, bytes)
    }

    /// Whether [`Bus::charge`] would take room now; it takes none.
    pub(crate) fn has_room(&self, channel: &Channel, from: &Sender, bytes: usize) -> Result<()> {
        let mut open = self.usage.borrow_mut();
        let usage = self.usage_of(&mut open, channel)?;
        let own = usage.slot(from);
        let pace = usage.at(own + PACE).load(Relaxed);
        self.keep_pace(channel, from, &AtomicU64::new(pace))?;
        self.admit((channel, usage), (from, own), bytes)
    }

    /// The numbers of an inbox.
    fn usage_of<'u>(&self, open: &'u mut BTreeMap<AgentId, Usage>, channel: &Channel) -> Result<&'u Usage> {
        // Numbers whose file is gone or elsewhere are of no inbox any more: other senders have others.
        if open.get(&channel.agent).is_none_or(|usage| usage.words.is_lost()) {
            // Somebody may have tidied the home: what was counted is counted anew.
            Dir::make(self.layout.state())?;
            let former = open.remove(&channel.agent);
            let mut usage = Usage::open(&self.layout.usage(), channel)?;
            usage.on_their_way = former.map(|former| former.on_their_way).unwrap_or_default();
            open.insert(channel.agent.clone(), usage);
        }
        Ok(&open[&channel.agent])
    }

    fn admit(
        &self,
        (channel, usage): (&Channel, &Usage),
        (from, own): (&Sender, usize),
        bytes: usize,
    ) -> Result<()> {
        let bytes = bytes as u64;
        let admit = || self.limits.admit(from, usage.load(ALL), usage.load(own), bytes);
        if admit().is_err() {
            usage.count(&channel.dir(State::Written)?)?;
            let (agent, from) = (channel.agent.clone(), from.clone());
            let alone = self.limits.admit(&from, Load::default(), Load::default(), bytes);
            admit().map_err(|over| Error::Full { agent, from, over, for_good: alone.is_err() })?;
        }
        Ok(())
    }

    /// What room was taken for is placed, or never will be.
    pub(crate) fn settle(&self) {
        for usage in self.usage.borrow().values() {
            usage.on_their_way.borrow_mut().clear();
        }
    }

    fn keep_pace(&self, channel: &Channel, from: &Sender, pace: &AtomicU64) -> Result<()> {
        // Read after the pace: one that another sender has just kept is of no later moment.
        let next = |pace| self.limits.pace(from, pace, clock::boot());
        pace.fetch_update(Relaxed, Relaxed, next).map(drop).map_err(|_| Error::TooFast {
            agent: channel.agent.clone(),
            from: from.clone(),
            rate: self.limits.rate_per_second,
            burst: self.limits.burst,
        })
    }
}

impl Usage {
    fn open(folder: &Path, channel: &Channel) -> Result<Usage> {
        let mut first = [0; HEAD + EACH * SENDERS];
        first[..2].fill(UNKNOWN);
        let words = Words::open(&Dir::make(folder)?, channel.agent.as_str(), &first)?;
        Ok(Usage { words, on_their_way: RefCell::default() })
    }

    fn at(&self, place: usize) -> &AtomicU64 {
        self.words.at(place)
    }

    fn load(&self, place: usize) -> Load {
        Load { envelopes: self.at(place).load(Relaxed), bytes: self.at(place + 1).load(Relaxed) }
    }

    fn add(&self, place: usize, bytes: u64) {
        self.at(place).fetch_add(1, Relaxed);
        self.at(place + 1).fetch_add(bytes, Relaxed);
        self.on_their_way.borrow_mut().entry(place).or_default().add(bytes as usize);
        // Whoever takes room may die before it fills it, and no change of the folder would tell.
        self.at(COUNTED).store(0, Relaxed);
    }

    fn store(&self, place: usize, load: Load) {
        let ours = self.on_their_way.borrow().get(&place).copied().unwrap_or_default();
        self.at(place).store(load.envelopes + ours.envelopes, Relaxed);
        self.at(place + 1).store(load.bytes + ours.bytes, Relaxed);
    }

    /// Where the words of a sender are, found or taken; the last ones where all are taken.
    fn slot(&self, from: &Sender) -> usize {
        let who = hash(from.as_str());
        let begin = (who >> 1) as usize % SENDERS;
        let mine = |slot: &usize| {
            let taken = self.at(place_of(*slot) + WHO).compare_exchange(0, who, Relaxed, Relaxed);
            taken.is_ok() || taken == Err(who)
        };
        place_of((begin..SENDERS).chain(0..begin).find(mine).unwrap_or(SENDERS - 1))
    }

    /// Makes the numbers what the folder holds; they are that already where neither has changed since the last time.
    fn count(&self, inbox: &Dir) -> Result<()> {
        let version = inbox.version()?.map(|version| hash(&version));
        if version == Some(self.at(COUNTED).load(Relaxed)) {
            return Ok(());
        }
        let (mut all, mut each) = (Load::default(), BTreeMap::<usize, Load>::new());
        for file in inbox.raw_names()? {
            // What cannot be read is no message; the next drain puts it aside.
            let Ok(bytes) = inbox.read(&file, MAX_BYTES as u64) else { continue };
            all.add(bytes.len());
            if let Ok(Header { from }) = serde_json::from_slice(&bytes) {
                each.entry(self.slot(&from)).or_default().add(bytes.len());
            }
        }
        for place in (0..SENDERS).map(place_of) {
            self.store(place, each.get(&place).copied().unwrap_or_default());
        }
        self.store(ALL, all);
        self.at(COUNTED).store(version.unwrap_or(0), Relaxed);
        Ok(())
    }
}

/// One word for a text; never 0, which stands for nobody and nothing.
fn hash(text: &str) -> u64 {
    let digits = EnvelopeId::derived(&[text]);
    u64::from_str_radix(&digits.as_str()[..16], 16).expect("hex digits") | 1
}

fn place_of(slot: usize) -> usize {
    HEAD + EACH * slot
}
