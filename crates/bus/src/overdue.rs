//! Mail that was delivered, asks for an ack, and has none: found here, judged elsewhere, and given back here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use netsky_model::duration;
use netsky_model::envelope::{Envelope, MAX_BYTES};
use netsky_model::id::AgentId;
use netsky_model::life::{Cause, State};
use netsky_model::name::{Name, Stage};

use crate::bus::Bus;
use crate::error::Result;

/// What a look into `delivered/` found.
#[derive(Debug, Default)]
pub struct Unacked {
    /// Of the names asked about, those that are there no more.
    pub gone: Vec<String>,
    /// Files not asked about that ask for an ack, and within what time if they say.
    pub new: Vec<(String, Option<Duration>)>,
    /// Where the next look goes on; from the start if none.
    pub after: Option<String>,
}

impl Bus<'_> {
    /// Looks which of `known` are still delivered, and at most at `bound` other files behind `after` for what asks for an
    /// ack. Changes nothing.
    ///
    /// # Errors
    /// No such channel, or what the file system refuses.
    pub fn unacked(
        &self,
        agent: &AgentId,
        known: &BTreeSet<&str>,
        after: Option<&str>,
        bound: usize,
    ) -> Result<Unacked> {
        let mut found = Unacked::default();
        let Some(delivered) = self.channel_as_is(agent)?.dir_if_there(State::Delivered)? else {
            found.gone = known.iter().map(|name| (*name).to_owned()).collect();
            return Ok(found);
        };
        let mut missing = known.clone();
        delivered.each_name(|name| {
            if let Some(name) = name.to_str() {
                missing.remove(name);
            }
        })?;
        found.gone = missing.into_iter().map(str::to_owned).collect();
        let names = delivered.lowest_names(after.map(OsStr::new), bound)?;
        for file in names.iter().filter_map(OsStr::to_str).filter(|name| !known.contains(name)) {
            if !Name::parse(file).is_some_and(|name| matches!(name.stage, Stage::Taken(_))) {
                continue;
            }
            // What does not read asks for nothing; it is not for this look to say so.
            let Ok(bytes) = delivered.read(file, MAX_BYTES as u64) else { continue };
            let Ok(envelope) = Envelope::parse(&bytes) else { continue };
            if envelope.requires_ack == Some(true) {
                found.new.push((file.to_owned(), envelope.ack_within_secs.map(Duration::from_secs)));
            }
        }
        if names.left_out() > 0 {
            found.after = names.last().and_then(OsStr::to_str).map(str::to_owned);
        }
        Ok(found)
    }

    /// Gives a delivered envelope back whose ack did not come in time, or buries it when that was its last attempt. False
    /// if it was somewhere else by then.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn give_back_overdue(&self, agent: &AgentId, file: &str, within: Duration) -> Result<bool> {
        let Some(name) = Name::parse(file) else { return Ok(false) };
        let channel = self.channel(agent)?;
        let mut way_back = self.way_back(&channel)?;
        let why = format!("no ack came within {}", duration::human(within));
        let delivered = channel.dir(State::Delivered)?;
        let moved = way_back.take(&delivered, State::Delivered, &name, (Cause::Overdue, &why))?;
        way_back.end()?;
        Ok(moved)
    }
}
