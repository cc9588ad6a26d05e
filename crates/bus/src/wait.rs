//! `wait`: until there is something to claim.

use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, process};
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;

use crate::bus::Bus;
use crate::consume::Holder;
use crate::error::{Error, Result};
use crate::queue::{InOrder, Passed, Sight, sight};

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
        let mut seat = None;
        loop {
            seat = seat.filter(|seat: &Lock| seat.has_its_name().unwrap_or(false));
            seat = seat.or_else(|| self.sits(agent, taker));
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

    /// Whether an incarnation of the agent waits for its mail now: it has nothing else to do.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn is_awaited(&self, agent: &AgentId, by: Generation) -> Result<bool> {
        let path = self.layout.waiter_lock(agent);
        let waiter: Option<Holder> = Lock::read_note(&path)?;
        Ok(waiter.is_some_and(|waiter| waiter.generation == by) && Lock::is_held(path)?)
    }

    /// The seat of who waits, as long as it does. It only tells of it: nobody is kept out, and who gets none waits all the same.
    fn sits(&self, agent: &AgentId, taker: Generation) -> Option<Lock> {
        if taker == Generation::NONE {
            return None;
        }
        let mut seat = Lock::try_take(self.layout.waiter_lock(agent)).ok().flatten()?;
        seat.note(&Holder { process: process::identity().ok()?, generation: taker }).ok()?;
        Some(seat)
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
        let mut files = InOrder::of(&inbox)?;
        // As the drain comes to them: what ends that at once would have a loop of both never rest.
        while let Some(file) = files.next(&inbox)? {
            if passed.contains(&file) {
                continue;
            }
            match sight(&inbox, &file, taker)? {
                Sight::Takable => {
                    inbox.lets_change()?;
                    channel.dir(State::Claimed)?.lets_change()?;
                    channel.dir(State::Delivered)?.lets_change()?;
                    return Ok(true);
                }
                Sight::Aside => {
                    inbox.lets_change()?;
                    if takes_in(channel.dir(State::Poisoned))? {
                        return Ok(true);
                    }
                }
                Sight::Left => passed.insert(file),
                Sight::Stuck => {}
            }
        }
        Ok(false)
    }
}

/// Whether a drain can put anything into `poison/`; where not, it passes by what belongs there.
///
/// # Errors
/// What would end the drain.
fn takes_in(poison: Result<Dir>) -> Result<bool> {
    match poison {
        Ok(poison) => Ok(poison.lets_change().is_ok()),
        Err(Error::Disk(error)) if error.is_of_one_file() => Ok(false),
        Err(error) => Err(error),
    }
}
