//! Claims that other processes have in their hands, as who releases one and stops before its move.
//!
//! Promise: nobody waits for them but what their senders sent after them, which keeps its order; what is never shown
//! waits as it did.

use std::time::Duration;

use netsky_model::id::{EnvelopeId, Sender};

use crate::bus::Bus;
use crate::claim::{Claim, PATIENCE};
use crate::error::{Error, Result};
use crate::queue::Few;

/// The claims of one reader that are not its alone.
#[derive(Default)]
pub(crate) struct Kept(Vec<Claim>);

impl Kept {
    /// The claim, if it is ours alone now. One that another process has in its hands is kept, or that nobody can look at.
    ///
    /// # Errors
    /// It was taken from this process, or what the file system refuses.
    pub(crate) fn reach(&mut self, mut claim: Claim) -> Result<Option<Claim>> {
        // Who is stuck with many is waited for once.
        let limit = if self.0.is_empty() { PATIENCE } else { Duration::ZERO };
        match claim.reach(limit) {
            Ok(true) => return Ok(Some(claim)),
            Ok(false) => {}
            Err(lost @ Error::Fenced(_)) => return Err(lost),
            Err(error) => {
                // It was not shown, and goes back with the others of that kind.
                self.0.push(claim);
                return Err(error);
            }
        }
        self.0.push(claim);
        Ok(None)
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

    /// Puts them back: never shown, so the same attempt. Answers which they were.
    pub(crate) fn put_back(self, bus: &Bus<'_>) -> Few<EnvelopeId> {
        let mut busy = Few::default();
        for claim in self.0 {
            busy.push(claim.id().clone());
            // What was taken away is none of ours.
            let _ = bus.put_back(claim);
        }
        busy
    }
}
