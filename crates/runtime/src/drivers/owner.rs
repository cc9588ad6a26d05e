//! What the owner tells an agent beside its mail: answers to what it asks, that it is to stop, that mail waits no longer.

use std::path::Path;

use netsky_disk::state;
use serde::de::DeserializeOwned;

use super::slot::{Result, Slot};
use crate::answer::{self, Interrupt, Retry};
use crate::driver::{Answer, Out};

impl Slot<'_> {
    /// What the owner says to what it asks.
    pub(super) fn answers(&mut self) -> Result<()> {
        if self.driver.asks().is_empty() {
            return Ok(());
        }
        for ask in self.driver.asks().to_vec() {
            let path = answer::path(self.shared.layout, self.agent, self.book.generation, &ask.id);
            let Some(answer) = state::read_json::<Answer>(&path)? else { continue };
            let mut step = Out::default();
            self.driver.answer(&answer, &mut step);
            self.take(step, self.book.offset)?;
            self.is_unwritten = true;
            self.answered.push(path);
        }
        Ok(())
    }

    /// The turn that the owner wants stopped.
    pub(super) fn interrupts(&mut self) -> Result<()> {
        let path = answer::interrupt_path(self.shared.layout, self.agent);
        let Some(asked) = self.asked_for::<Interrupt>(&path)? else { return Ok(()) };
        let is_of_now = (asked.generation, asked.turns) == (self.book.generation, self.book.turns);
        if is_of_now && self.driver.doing().is_busy() {
            let mut step = Out::default();
            self.driver.interrupt(&mut step);
            self.take(step, self.book.offset)?;
        }
        self.is_unwritten = true;
        self.answered.push(path);
        Ok(())
    }
    /// The wait that the owner wants no longer, as its cause is mended.
    pub(super) fn retries(&mut self) -> Result<()> {
        let path = answer::retry_path(self.shared.layout, self.agent);
        let Some(asked) = self.asked_for::<Retry>(&path)? else { return Ok(()) };
        if self.book.waits.as_ref().is_some_and(|waits| waits.until == asked.until) {
            self.hold.end();
            self.book.waits = None;
        }
        self.is_unwritten = true;
        self.answered.push(path);
        Ok(())
    }

    /// What was asked for in a file, the first time it is seen.
    fn asked_for<T: DeserializeOwned>(&mut self, path: &Path) -> Result<Option<T>> {
        if !self.has_news || self.answered.iter().any(|seen| seen == path) {
            return Ok(None);
        }
        match state::read_json::<T>(path) {
            Err(error) if error.is_damage() => {
                self.tell(error.to_string());
                state::set_aside(path)?;
                Ok(None)
            }
            read => Ok(read?),
        }
    }
}
