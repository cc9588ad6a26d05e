//! Claims that other processes have in their hands, as who releases one and stops before its move.
//!
//! Promise: nobody waits for them but what their senders sent after them, which keeps its order; what is never shown
//! waits as it did. A consumer keeps them, a drain puts each back at once. Of a consumer that is killed each counts as
//! shown, as every claim of who died does.

use std::collections::HashSet;
use std::time::Duration;

use netsky_model::id::Sender;
use netsky_model::name::Stage;

use crate::bus::Bus;
use crate::claim::{Claim, PATIENCE};
use crate::error::{Error, Result};
use crate::queue::{Aside, Queue, Stuck};

/// The claims of one reader that are not its alone.
#[derive(Default)]
pub(crate) struct Kept(Vec<Claim>);

impl Kept {
    /// The claim, if it is ours alone now. One that another process has in its hands is kept, or that nobody can look at.
    ///
    /// # Errors
    /// It was taken from this process, or what the file system refuses.
    pub(crate) fn reach(&mut self, mut claim: Claim) -> Result<Option<Claim>> {
        let reached = claim.reach(limit(self.0.is_empty()));
        match reached {
            Ok(true) => return Ok(Some(claim)),
            Err(lost @ Error::Fenced(_)) => return Err(lost),
            // It was not shown, and goes back with the others of that kind.
            Ok(false) | Err(_) => self.0.push(claim),
        }
        reached.map(|_| None)
    }

    /// The oldest claim that is ours alone by now, or the first that was taken away.
    ///
    /// # Errors
    /// As [`Kept::reach`]; what was taken away is kept no more.
    pub(crate) fn freed(&mut self) -> Result<Option<Claim>> {
        for at in 0..self.0.len() {
            match self.0[at].reach(Duration::ZERO) {
                Ok(true) => return Ok(Some(self.0.remove(at))),
                Ok(false) => {}
                Err(lost @ Error::Fenced(_)) => {
                    self.0.remove(at);
                    return Err(lost);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether a message of that sender would be shown before an older one of it.
    pub(crate) fn is_of(&self, from: &Sender) -> bool {
        self.0.iter().any(|claim| claim.envelope.from == *from)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn last(&self) -> Option<&Claim> {
        self.0.last()
    }

    /// Puts them back: never shown, so the same attempt.
    pub(crate) fn put_back(self, bus: &Bus<'_>) {
        for claim in self.0 {
            // What was taken away is none of ours.
            let _ = bus.put_back(claim);
        }
    }
}

/// The senders of what one drain could not reach for: what they sent after it is not shown before it.
#[derive(Default)]
pub(crate) struct Behind(HashSet<Sender>);

impl Behind {
    /// The next message that `reach` has; none when none is left.
    pub(crate) fn next(
        &mut self,
        queue: &mut Queue<'_>,
        aside: &mut Aside,
        reach: impl Fn(&mut Behind, Claim, &mut Aside) -> Result<Option<Claim>>,
    ) -> Result<Option<Claim>> {
        while let Some(taken) = queue.take_next_but(|_| false, |envelope| self.0.contains(&envelope.from))? {
            if let Some(claim) = aside.sort(taken)
                && let Some(claim) = reach(self, claim, aside)?
            {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    /// The claim, if it is ours alone now. Any other goes back as it was, unless it was taken away, and `aside` tells of it.
    ///
    /// # Errors
    /// What the file system refuses to all of them.
    pub(crate) fn reach(
        &mut self,
        bus: &Bus<'_>,
        mut claim: Claim,
        aside: &mut Aside,
    ) -> Result<Option<Claim>> {
        let reached = claim.reach(limit(self.0.is_empty()));
        if let Ok(true) = reached {
            return Ok(Some(claim));
        }
        let id = claim.id().clone();
        let file = claim.folders.inbox.path().join(claim.name.to(Stage::Waiting).to_string());
        self.0.insert(claim.envelope.from.clone());
        match (reached, bus.put_back(claim)) {
            (Err(Error::Fenced(_)), _) => aside.lost.push(id),
            (Ok(_), Err(Error::Disk(error))) if error.is_not_found() => aside.lost.push(id),
            (Ok(_), Ok(())) => aside.busy.push(id),
            (Err(Error::Disk(error)), Ok(())) if error.is_of_one_file() => {
                aside.skipped.push(Stuck { file, error });
            }
            (Err(error), _) | (Ok(_), Err(error)) => return Err(error),
        }
        Ok(None)
    }
}

/// How long to wait for who has a claim in its hands: for who is stuck with many, once.
fn limit(is_first: bool) -> Duration {
    if is_first { PATIENCE } else { Duration::ZERO }
}
