//! The folders of one agent.
//!
//! `tmp/` is made last, after everything else is durable: whoever finds it knows that an envelope placed in `inbox/`
//! needs no more than its own two syncs. A creation that was cut short is completed by the next one. The home itself is
//! never made here: what is left of a constellation whose home was moved does not put a ghost in its place.

use std::time::Duration;

use netsky_disk::fs::{Dir, is_folder, sweep_tmp};
use netsky_disk::layout::Layout;
use netsky_model::id::AgentId;
use netsky_model::life::{STATES, State};

use crate::error::Result;

/// No send takes this long: what is older in `tmp/` has no living writer.
const STRAY_AGE: Duration = Duration::from_secs(3600);

/// An agent's folders, opened when asked for.
pub(crate) struct Channel {
    pub(crate) agent: AgentId,
    layout: Layout,
}

impl Channel {
    /// The channel, made first where it is missing, was half made, or has lost what a send needs.
    pub(crate) fn open_or_create(layout: &Layout, agent: &AgentId) -> Result<Channel> {
        let channel = Channel { agent: agent.clone(), layout: layout.clone() };
        let needed =
            [layout.channel_tmp(agent), layout.folder(agent, State::Written), layout.channel_ids(agent)];
        let is_whole = needed.iter().all(is_folder);
        if is_whole { Ok(channel) } else { Channel::create(layout, agent) }
    }

    /// Makes what is missing and syncs every folder above it, whoever made them.
    pub(crate) fn create(layout: &Layout, agent: &AgentId) -> Result<Channel> {
        let root = layout.channel(agent);
        let mut down: Vec<_> = root.ancestors().take_while(|folder| *folder != layout.home()).collect();
        down.reverse();
        for folder in down {
            Dir::make(folder)?;
        }
        for state in STATES {
            Dir::make(layout.folder(agent, state))?;
        }
        Dir::make(layout.channel_ids(agent))?;
        // The owner's words come from no program.
        if *agent != AgentId::owner() {
            Dir::make(layout.outbox(agent))?;
        }
        for folder in root.ancestors().take_while(|folder| folder.starts_with(layout.home())) {
            Dir::open(folder)?.sync()?;
        }
        Dir::make(layout.channel_tmp(agent))?;
        Ok(Channel { agent: agent.clone(), layout: layout.clone() })
    }

    /// The folder of a state, made where a home from before it has none or somebody removed it.
    pub(crate) fn dir(&self, state: State) -> Result<Dir> {
        Ok(Dir::make(self.layout.folder(&self.agent, state))?)
    }

    /// The channel as it is, for who only looks.
    pub(crate) fn as_is(layout: &Layout, agent: &AgentId) -> Channel {
        Channel { agent: agent.clone(), layout: layout.clone() }
    }

    /// The folder of a state; none where nothing was put there yet.
    pub(crate) fn dir_if_there(&self, state: State) -> Result<Option<Dir>> {
        match Dir::open(self.layout.folder(&self.agent, state)) {
            Err(error) if error.is_not_found() => Ok(None),
            dir => Ok(Some(dir?)),
        }
    }

    /// Where files are written before they are placed.
    pub(crate) fn tmp(&self) -> Result<Dir> {
        Ok(Dir::open(self.layout.channel_tmp(&self.agent))?)
    }

    /// Removes what senders left in `tmp/` that died long ago.
    pub(crate) fn sweep(&self) {
        // Stray files are in nobody's way: what cannot be swept now is swept another time.
        let _ = self.tmp().map(|tmp| sweep_tmp(&tmp, STRAY_AGE));
    }

    /// Where chosen ids are remembered.
    pub(crate) fn ids(&self) -> Result<Dir> {
        Ok(Dir::open(self.layout.channel_ids(&self.agent))?)
    }
}
