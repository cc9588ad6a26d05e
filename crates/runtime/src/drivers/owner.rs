//! What the owner tells an agent beside its mail: answers to what it asks, that it is to stop, that mail waits no longer.

use std::path::Path;

use netsky_disk::state;

use super::book::Book;
use super::mail::point;
use super::slot::{Result, Slot};
use crate::answer;
use crate::driver::{Answer, Out, Room};

impl Slot<'_> {
    /// What the owner says to what it asks.
    pub(super) fn answers(&mut self) -> Result<()> {
        if self.driver.asks().is_empty() {
            return Ok(());
        }
        for ask in self.driver.asks().to_vec() {
            let path = answer::path(self.shared.layout, self.agent, self.book.generation, &ask.id);
            let answer = match state::read_json::<Answer>(&path) {
                // The owner may say it again, and is kept from nothing else.
                Err(error) if error.is_damage() => {
                    self.tell(error.to_string());
                    state::set_aside(&path)?;
                    continue;
                }
                read => read?,
            };
            let Some(answer) = answer else { continue };
            let mut step = Out::default();
            self.driver.answer(&answer, &mut step);
            self.take(step, self.book.offset)?;
            point("drivers.answer.taken");
            // It lies there as long as its generation: of two answers to one question the first holds, however late the other is.
            self.is_unwritten = true;
        }
        Ok(())
    }

    /// The turn that the owner wants stopped.
    pub(super) fn interrupts(&mut self) -> Result<()> {
        let Book { generation, turns, .. } = self.book;
        let path = answer::interrupt_path(self.shared.layout, self.agent, generation, turns);
        if !self.is_asked(&path)? {
            return Ok(());
        }
        if self.driver.doing().is_busy() || self.driver.room() == Room::Steers {
            self.book.stopped = Some(turns);
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
        let Some(waits) = &self.book.waits else { return Ok(()) };
        let path = answer::retry_path(self.shared.layout, self.agent, waits.until);
        if !self.is_asked(&path)? {
            return Ok(());
        }
        self.hold.end();
        self.book.waits = None;
        self.is_unwritten = true;
        self.answered.push(path);
        Ok(())
    }

    /// Whether something is asked for in a file that was not seen before.
    fn is_asked(&self, path: &Path) -> Result<bool> {
        Ok(self.has_news && self.answered.iter().all(|seen| seen != path) && state::exists(path)?)
    }
}
