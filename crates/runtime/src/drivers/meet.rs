//! Meeting another generation: what the former one printed last is dealt with, and what had become of its messages is looked up.

use std::collections::BTreeMap;

use netsky_disk::clock;
use netsky_disk::input::{Input, Line};
use netsky_kernel::output_log::{Chunk, LogError, LogReader};
use netsky_kernel::session::Meta;
use netsky_model::id::Generation;

use super::book::Book;
use super::context::Met;
use super::health::Health;
use super::lines::{LONGEST, Lines};
use super::mail::point;
use super::slot::{Result, Slot};
use crate::driver::{Doing, Driver, driver_of, keeps_conversation};
use crate::launch;

/// Bytes of a dead generation's output that are read at once.
const PIECE: usize = 256 << 10;
/// Most bytes of a transcript that are looked through, from its end: what was under way stands there.
const TRANSCRIPT: u64 = 64 << 20;

impl Slot<'_> {
    /// What the former generation printed is dealt with; from here on this one's is read.
    pub(super) fn turn_to(&mut self, meta: &Meta) -> Result<()> {
        let goes_on = meta.lineage == self.book.lineage;
        if let Some(from) = meta.output_from.filter(|_| goes_on) {
            self.read_rest(from)?;
        }
        // What was said to an earlier generation is said to nobody.
        crate::answer::forget(self.shared.layout, self.agent)?;
        let Some(mut driver) = driver_of(&meta.spec.runtime, &self.driver.memory()) else { return Ok(()) };
        let conversation = launch::conversation_of(&meta.spec.tags);
        driver.begin(conversation.as_ref());
        if let Err(error) = recall(&mut *driver, &meta.spec.env) {
            // Mail without a receipt comes again, flagged.
            self.tell(error.to_string());
        }
        let before = if goes_on { self.book.clone() } else { Book::blank(self.agent, meta) };
        if before.generation == Generation::NONE {
            // What an earlier book knew of is known to nobody: it comes again, flagged; what was answered is in the transcript.
            self.bus.return_generations(self.agent, |generation| generation <= meta.generation)?;
        }
        let both = conversation.as_ref().zip(before.conversation.as_ref());
        let is_same = both.is_some_and(|(now, before)| now.id == before.id);
        // Before the book says another: told twice it is one page.
        match lost(meta, &before, is_same) {
            Ok(Some(id)) => self.conversation_lost(&id, meta.generation),
            Ok(None) => {}
            Err(error) => self.tell(format!("whether its conversation is there: {error}")),
        }
        let Met { context_pct, lifecycle, asked, left } = self.met(meta, &before, is_same)?;
        let book = Book {
            runtime: meta.spec.runtime.clone(),
            generation: meta.generation,
            offset: meta.output_from.unwrap_or(before.offset),
            wish: meta.spec.tags.get(launch::TAG_SINCE).cloned(),
            conversation,
            doing: Doing::Starting,
            since: clock::stamp(),
            asks: Vec::new(),
            waits: None,
            answered: false,
            context_pct,
            lifecycle,
            asked,
            left,
            memory: driver.memory(),
            ..before
        };
        point("drivers.met.looked");
        // All or nothing: a generation that is half met would be driven by its predecessor's driver.
        book.write(self.shared.layout)?;
        (self.book, self.driver) = (book, driver);
        self.pending.clear();
        self.is_unwritten = false;
        self.health = Health::default();
        self.hold.end();
        Ok(())
    }

    /// Reads what a program that is gone has printed, up to `end`. What its driver would say to it nobody hears.
    pub(super) fn read_rest(&mut self, end: u64) -> Result<()> {
        let mut lines = Lines::at(self.book.offset);
        let mut at = self.book.offset;
        while at < end {
            let max = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
            let path = self.shared.kernel.out(self.agent);
            let read = LogReader::open(&path).and_then(|log| log.read_from(at, max));
            let chunk = match read {
                // What cannot be read any more keeps nobody from going on: mail without a receipt comes again.
                Err(error @ (LogError::Gone { .. } | LogError::Damaged { .. } | LogError::Newer { .. })) => {
                    self.tell(format!("the last words of generation {}: {error}", self.book.generation));
                    Chunk::End
                }
                read => read?,
            };
            match chunk {
                Chunk::Bytes { offset, bytes } => {
                    at = offset + bytes.len() as u64;
                    self.read(&mut lines, offset, &bytes)?;
                    self.pending.clear();
                }
                Chunk::Gap { to, .. } => {
                    at = to;
                    lines.skip_to(to.min(end));
                }
                Chunk::End => break,
            }
        }
        self.pending.clear();
        self.book.offset = lines.done();
        Ok(())
    }
}

/// The conversation that was there and that nobody could go on with, for it is gone. One in which nothing was answered may never
/// have been kept.
fn lost(meta: &Meta, before: &Book, is_same: bool) -> Result<Option<String>> {
    let known = before.conversation.as_ref().filter(|known| known.begun && before.answered && !is_same);
    let Some(known) = known.filter(|_| before.runtime == meta.spec.runtime) else { return Ok(None) };
    let is_there = keeps_conversation(&meta.spec.runtime, &meta.spec.env, &known.id)?;
    Ok((!is_there).then(|| known.id.clone()))
}

/// Looks up what had become of messages that an earlier generation took: what it wrote down outlives what it said.
fn recall(driver: &mut dyn Driver, env: &BTreeMap<String, String>) -> Result<()> {
    let Some(path) = driver.transcript(env)? else { return Ok(()) };
    let mut transcript = Input::open(&path, LONGEST)?;
    transcript.skip_to_last(TRANSCRIPT)?;
    while let Some(line) = transcript.next_line()? {
        if let Line::Whole(line) = line {
            driver.recall(&line);
        }
    }
    driver.recalled();
    Ok(())
}
