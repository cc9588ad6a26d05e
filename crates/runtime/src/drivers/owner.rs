//! What the owner tells an agent beside its mail: answers to what it asks, and that it is to stop.

use netsky_disk::state;

use super::slot::{Result, Slot};
use crate::answer::{self, Interrupt};
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
        if !self.has_news {
            return Ok(());
        }
        let path = answer::interrupt_path(self.shared.layout, self.agent);
        if self.answered.contains(&path) {
            return Ok(());
        }
        let asked = match state::read_json::<Interrupt>(&path) {
            Err(error) if error.is_damage() => {
                self.tell(error.to_string());
                return Ok(state::set_aside(&path)?);
            }
            read => read?,
        };
        let Some(asked) = asked else { return Ok(()) };
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
}
