//! `wait`: until there is something to claim.

use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::watch::Watch;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;

use crate::bus::Bus;
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::queue::{Passed, Sight, sight};

/// How often the inbox is looked at without a wake-up: a claimant's death makes no event in our folders.
pub(crate) const RESCAN: Duration = Duration::from_secs(2);

impl Bus<'_> {
    /// Waits until the agent's inbox holds something that a drain by the generation `taker` would take out of it; true
    /// then, false after `timeout`.
    ///
    /// What dead owners held counts: it is given back while we wait. What a drain leaves where it is (of a newer format,
    /// or what the system lets nobody read or move) does not: whoever waits and drains in turn would never rest. What
    /// another process has in its hands counts, for it is free in a moment; beside one that was stopped each such turn takes
    /// as long as the drain waits for it.
    ///
    /// # Errors
    /// No such channel, a home that went away meanwhile, or what the file system refuses; also what a drain of what is
    /// there would be refused, where a folder lets nothing in or out.
    pub fn wait(&self, agent: &AgentId, taker: Generation, timeout: Option<Duration>) -> Result<bool> {
        let watch = Watch::default();
        let started = clock::boot();
        let mut known = Known::default();
        loop {
            if self.or_no_home(self.look_for_mail(agent, taker, &watch, &mut known))? {
                return Ok(true);
            }
            let waited = clock::boot().saturating_sub(started);
            let left = timeout.map_or(RESCAN, |timeout| timeout.saturating_sub(waited));
            if left.is_zero() {
                return Ok(false);
            }
            watch.wait(left.min(RESCAN))?;
        }
    }

    /// One look. The folder is opened and watched anew each time: another may have its name by now.
    fn look_for_mail(
        &self,
        agent: &AgentId,
        taker: Generation,
        watch: &Watch,
        known: &mut Known,
    ) -> Result<bool> {
        let channel = self.channel(agent)?;
        // Watching begins before the look, so nothing can arrive between the two unseen.
        watch.add(self.layout.folder(agent, State::Written))?;
        self.return_dead_claims(agent)?;
        let inbox = channel.dir(State::Written)?;
        let ways_on = let_change(&channel, &[State::Written, State::Claimed, State::Delivered]);
        let way_aside = let_change(&channel, &[State::Written, State::Poisoned]);
        known.is_kept_from_poison(way_aside.is_err());
        let found = first_sights(&inbox, taker, (ways_on.is_ok(), way_aside.is_ok()), &mut known.passed)?;
        match way_aside {
            // The drain would end with it, whatever else there is.
            Err(Error::Disk(error)) if found.aside && !error.is_of_one_file() => Err(error.into()),
            // And with this, at the first message that it would show; so would each turn of a loop of both.
            _ if found.takable => ways_on.map(|()| true),
            // It passes by what it cannot put aside.
            way_aside => Ok(found.aside && way_aside.is_ok()),
        }
    }
}

/// What is in the inbox and need not be read again.
#[derive(Default)]
struct Known {
    passed: Passed,
    /// What belongs into `poison/` is among it, for that lets nothing in.
    poison_is_shut: bool,
}

impl Known {
    fn is_kept_from_poison(&mut self, poison_is_shut: bool) {
        if self.poison_is_shut != poison_is_shut {
            *self = Known { poison_is_shut, ..Known::default() };
        }
    }
}

/// # Errors
/// That of the first of these folders that lets nothing in or out.
fn let_change(channel: &Channel, folders: &[State]) -> Result<()> {
    folders.iter().try_for_each(|state| Ok(channel.dir(*state)?.lets_change()?))
}

/// What a drain would move out of the inbox.
#[derive(Default)]
struct Sights {
    takable: bool,
    aside: bool,
}

/// Looks on until it is known what a drain would do: where both ways are open, until it would do anything.
fn first_sights(
    inbox: &Dir,
    taker: Generation,
    (ways_on, way_aside): (bool, bool),
    passed: &mut Passed,
) -> Result<Sights> {
    let mut found = Ok(Sights::default());
    inbox.each_name(|file| {
        let Ok(sights) = &mut found else { return };
        let is_enough = (sights.takable || sights.aside) && ways_on && way_aside;
        if is_enough || passed.contains(file) {
            return;
        }
        match sight(inbox, file, taker) {
            Ok(Sight::Takable) => sights.takable = true,
            Ok(Sight::Aside) => {
                sights.aside = true;
                if !way_aside {
                    passed.insert(file.to_owned());
                }
            }
            Ok(Sight::Left) => passed.insert(file.to_owned()),
            Ok(Sight::Stuck) => {}
            Err(error) => found = Err(error),
        }
    })?;
    found
}
