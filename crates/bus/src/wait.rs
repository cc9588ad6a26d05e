//! `wait`: until there is something to claim.

use std::cell::OnceCell;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::watch::Watch;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;

use crate::bus::Bus;
use crate::channel::Channel;
use crate::error::Result;
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
        let mut passed = Passed::default();
        loop {
            if self.or_no_home(self.look_for_mail(agent, taker, &watch, &mut passed))? {
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
        passed: &mut Passed,
    ) -> Result<bool> {
        let channel = self.channel(agent)?;
        // Watching begins before the look, so nothing can arrive between the two unseen.
        watch.add(self.layout.folder(agent, State::Written))?;
        self.return_dead_claims(agent)?;
        let inbox = channel.dir(State::Written)?;
        // A drain would end with what such a folder says at once, and so would each turn of a loop of both.
        let ways_on = match any_takable(&channel, &inbox, taker, passed)? {
            Sight::Takable => &[State::Claimed, State::Delivered][..],
            Sight::Aside => &[],
            Sight::Left | Sight::Stuck => return Ok(false),
        };
        inbox.lets_change()?;
        for state in ways_on {
            channel.dir(*state)?.lets_change()?;
        }
        Ok(true)
    }
}

/// What a drain would do with the first file that it would take; stuck where there is none.
fn any_takable(channel: &Channel, inbox: &Dir, taker: Generation, passed: &mut Passed) -> Result<Sight> {
    // Where that lets nothing in a drain passes by what should go there.
    let poison = OnceCell::new();
    let takes_in = || channel.dir(State::Poisoned).is_ok_and(|poison| poison.lets_change().is_ok());
    let mut found = Ok(Sight::Stuck);
    inbox.each_name(|file| {
        if !matches!(found, Ok(Sight::Stuck)) || passed.contains(file) {
            return;
        }
        found = sight(inbox, file, taker).map(|sight| match sight {
            Sight::Left => {
                passed.insert(file.to_owned());
                Sight::Stuck
            }
            Sight::Aside if !poison.get_or_init(takes_in) => Sight::Stuck,
            sight => sight,
        });
    })?;
    found
}
