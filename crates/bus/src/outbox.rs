//! The outbox: files that a program drops, carried as messages of its agent.
//!
//! Promise: what a program wrote whole is delivered once, under an id that derives from what it is, and its file removed
//! last; what is no reply goes to the agent's dead letters. Whoever the file says it is from, it is from this agent, and
//! nothing it claims of trust or proof counts.
//!
//! A file is taken out of the program's reach first (renamed within the folder): one that the program writes again under
//! the same name is another reply. One carrier an agent, by lock. However many files are at work or wait for room or for a
//! mailbox that cannot be used, those behind them for others get their turn, and none overtakes one that waits for the
//! same inbox; where it goes on is noted in the lock. What cannot be read waits for nobody: whom it is for is not known.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use netsky_disk::ReadError;
use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_disk::names::Names;
use netsky_model::envelope::{Envelope, Invalid, MAX_BYTES};
use netsky_model::id::{AgentId, EnvelopeId};
use serde::{Deserialize, Serialize};

use crate::bus::{Bus, point};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::poison::{Quarantined, bury, fit};
use crate::queue::Few;
use crate::send::Draft;

/// Files that become something in one go; the next go takes the next ones.
const BATCH: usize = 100;

/// Files looked at in one go, those that go on waiting with them; the next go begins behind them.
const LOOK: usize = 1_000;

/// In front of the name of a file that was taken. A name that begins with a dot is not looked at otherwise: programs may
/// write under one and rename.
const TAKEN: &str = ".taken.";

/// A file that does not read may be written to still, unless it has been quiet for as long.
const QUIET: Duration = Duration::from_secs(10);

/// Longest file name that has room for [`TAKEN`].
const LONGEST_NAME: usize = 255 - TAKEN.len();

/// What one go carried.
#[derive(Debug, Default)]
pub struct Carried {
    /// Replies that are messages now, and to whom.
    pub sent: Few<(EnvelopeId, AgentId)>,
    /// What was no reply and went to the agent's dead letters.
    pub quarantined: Few<Quarantined>,
    /// Files that are left for another time, and why.
    pub waiting: Few<String>,
    /// Those of them that no drain helps: a mailbox or a file that the system refuses.
    pub stuck: Few<String>,
}

/// Where the next go begins, as the lock notes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Behind {
    /// This file, which the last go ended with; from the start where none.
    file: Option<String>,
    /// For whose inbox a reply before it waits: those behind go there after it.
    full: BTreeSet<AgentId>,
}

/// What became of one file.
enum Fate {
    Sent(EnvelopeId, AgentId),
    Quarantined(Option<Quarantined>),
    Waits(String),
    Stuck(String),
    Gone,
}

impl Bus<'_> {
    /// Carries what an agent's program has dropped: to whom it says, where that is somebody, else to `otherwise`.
    ///
    /// # Errors
    /// What the file system refuses; what was carried before is delivered.
    pub fn carry_outbox(&self, agent: &AgentId, otherwise: &AgentId) -> Result<Carried> {
        let mut carried = Carried::default();
        self.channel_as_is(agent)?;
        let outbox = match Dir::open(self.layout.outbox(agent)) {
            Err(error) if error.is_not_found() => return Ok(carried),
            opened => opened?,
        };
        let path = self.layout.outbox_lock(agent);
        let noted: Behind = Lock::noted(&path).unwrap_or_default();
        // Looked at before the lock is taken: an empty outbox, which most are, costs one listing.
        let (names, mut behind) = next_names(&outbox, &noted)?;
        if names.is_empty() {
            return Ok(carried);
        }
        let channel = self.channel(agent)?;
        let Some(mut lock) = Lock::try_take(path)? else {
            carried.waiting.push("another process is carrying them".to_owned());
            return Ok(carried);
        };
        let mut last = None;
        for file in names.iter() {
            if carried.sent.count() + carried.quarantined.count() >= BATCH {
                break;
            }
            last = Some(file);
            let fate = match take(&outbox, file) {
                Ok(Some(taken)) => self.carry(&channel, &outbox, &taken, otherwise, &mut behind.full),
                Ok(None) => self.aside(&channel, &outbox, file, "its name is too long"),
                Err(error) => Err(error),
            };
            match fate {
                Ok(Fate::Sent(id, to)) => carried.sent.push((id, to)),
                Ok(Fate::Quarantined(what)) => {
                    what.into_iter().for_each(|what| carried.quarantined.push(what))
                }
                Ok(Fate::Waits(why)) => carried.waiting.push(why),
                Ok(Fate::Stuck(why)) => carried.leave(why),
                Ok(Fate::Gone) => {}
                // Trouble that is its own must not stop those behind it; the machine's ends the go.
                Err(Error::Disk(error)) if error.is_not_found() => {}
                // The one before it under its name still waits, and goes first.
                Err(Error::Disk(error)) if error.is_exists() => {
                    carried.waiting.push(error.to_string());
                    behind.full.extend(self.whose(agent, &outbox, file, otherwise));
                }
                Err(Error::Disk(error)) if error.is_of_one_file() => {
                    carried.leave(format!("failed to {error}"))
                }
                Err(error) => return Err(error),
            }
        }
        let is_all = names.left_out() == 0 && last == names.last();
        let next = match last.filter(|_| !is_all) {
            Some(last) => Behind { file: Some(last.to_string_lossy().into_owned()), ..behind },
            None => Behind::default(),
        };
        if next != noted {
            // Lost, some are looked at again before the others.
            let _ = lock.note(&next);
        }
        Ok(carried)
    }

    fn carry(
        &self,
        channel: &Channel,
        outbox: &Dir,
        taken: &OsStr,
        otherwise: &AgentId,
        full: &mut BTreeSet<AgentId>,
    ) -> Result<Fate> {
        let bytes = match outbox.read(taken, MAX_BYTES as u64) {
            Ok(bytes) => bytes,
            Err(ReadError::Io(error)) if error.is_not_found() => return Ok(Fate::Gone),
            Err(ReadError::Io(error)) if !error.is_denied() => return Err(error.into()),
            Err(why) => return self.aside(channel, outbox, taken, &why.to_string()),
        };
        let reply = match Envelope::parse(&bytes) {
            Ok(reply) => reply,
            Err(why @ Invalid::Newer(_)) => {
                full.insert(self.target(&channel.agent, addressee(&bytes), otherwise));
                return Ok(Fate::Waits(why.to_string()));
            }
            Err(_) if !is_quiet(outbox, taken)? => {
                return Ok(Fate::Waits(format!("{} may be written to still", taken.to_string_lossy())));
            }
            Err(why) => return self.aside(channel, outbox, taken, &why.to_string()),
        };
        let mark = match outbox.file_mark(taken) {
            Err(error) if error.is_not_found() => return Ok(Fate::Gone),
            marked => marked?.unwrap_or_default(),
        };
        let draft = self.reply_of(&channel.agent, reply, (&bytes, taken, &mark), otherwise);
        let to = draft.to.clone();
        if full.contains(&to) {
            return Ok(Fate::Waits(format!(
                "{} goes after one that {to} has no room for",
                taken.to_string_lossy()
            )));
        }
        let sent = match self.send(draft) {
            Ok(sent) => sent,
            // Its own fault; nobody else's mail waits for it.
            Err(Error::Envelope(why)) => return self.aside(channel, outbox, taken, &why.to_string()),
            Err(why @ (Error::Full { for_good: true, .. } | Error::Sender { .. })) => {
                return self.aside(channel, outbox, taken, &why.to_string());
            }
            // The machine's trouble, which is that of every mailbox.
            Err(Error::Disk(error)) if error.is_busy() => return Err(error.into()),
            Err(Error::Disk(error)) => {
                let why = format!("{to} cannot be given {}: failed to {error}", taken.to_string_lossy());
                full.insert(to);
                return Ok(Fate::Stuck(why));
            }
            // No room for it now.
            Err(why) => {
                full.insert(to);
                return Ok(Fate::Waits(why.to_string()));
            }
        };
        point("bus.outbox.sent");
        outbox.remove(taken)?;
        Ok(Fate::Sent(sent.id, to))
    }

    /// The message that a reply becomes: its words and labels, from this agent and with no more trust than it asks for.
    fn reply_of(
        &self,
        agent: &AgentId,
        reply: Envelope,
        (bytes, taken, mark): (&[u8], &OsStr, &str),
        otherwise: &AgentId,
    ) -> Draft {
        let to = self.target(agent, reply.to.clone(), otherwise);
        let id = match &reply.id {
            // All who write to a target share its ids, so what one program calls "1" must not be what another does.
            Some(id) => EnvelopeId::derived(&["outbox", agent.as_str(), id.as_str()]),
            // By which file it is, what is in it and how it was called: met again after a crash, it is the same; the next
            // reply under that name is not, though it say the same.
            None => {
                let (name, text) = (taken.to_string_lossy(), String::from_utf8_lossy(bytes));
                EnvelopeId::derived(&["outbox", agent.as_str(), &name, &text, mark])
            }
        };
        let mut draft = Draft::new(agent.clone().into(), to, reply.text);
        draft.id = Some(id);
        draft.kind = reply.kind;
        draft.thread = reply.thread;
        draft.reply_to = reply.reply_to;
        draft.requires_ack = reply.requires_ack == Some(true);
        draft.ack_within = reply.ack_within_secs.map(Duration::from_secs).filter(|_| draft.requires_ack);
        // It only narrows; of another agent than it was said of it is another number.
        draft.for_generation =
            reply.for_generation.filter(|_| reply.to.as_ref().is_none_or(|meant| *meant == draft.to));
        draft.trust = reply.trust;
        draft
    }

    /// To whom a reply of an agent goes that says it is for `to`.
    fn target(&self, from: &AgentId, to: Option<AgentId>, otherwise: &AgentId) -> AgentId {
        // One whose mailbox is no folder would keep back all behind it; who may not reach somebody tells who may.
        let may_reach = |to: &AgentId| self.may_reach(&from.clone().into(), to).is_ok();
        let is_open = |to: &AgentId| self.knows(to) && !self.is_blocked(to) && may_reach(to);
        to.filter(is_open).unwrap_or_else(|| otherwise.clone())
    }

    /// To whom a file goes that is not looked at further now, as far as it can be read.
    fn whose(&self, from: &AgentId, outbox: &Dir, file: &OsStr, otherwise: &AgentId) -> Option<AgentId> {
        let bytes = outbox.read(file, MAX_BYTES as u64).ok()?;
        Some(self.target(from, addressee(&bytes), otherwise))
    }

    fn aside(&self, channel: &Channel, outbox: &Dir, file: &OsStr, why: &str) -> Result<Fate> {
        let plain = file.to_str().and_then(|file| file.strip_prefix(TAKEN)).map(OsStr::new);
        let why = format!("it is no reply: {why}");
        Ok(Fate::Quarantined(bury(channel, outbox, file, &fit(plain.unwrap_or(file)), &why)?))
    }
}

impl Carried {
    fn leave(&mut self, why: String) {
        self.waiting.push(why.clone());
        self.stuck.push(why);
    }
}

/// Whom a reply says it is for, of whatever format it is.
fn addressee(bytes: &[u8]) -> Option<AgentId> {
    let reply: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    reply.get("to")?.as_str()?.parse().ok()
}

/// Whether a file is one to carry: it was taken already, or has no dot in front and no suffix of a file at work.
fn is_reply(file: &OsStr) -> bool {
    let bytes = file.as_encoded_bytes();
    let at_work = bytes.starts_with(b".") || bytes.ends_with(b"~") || bytes.ends_with(b".tmp");
    bytes.starts_with(TAKEN.as_bytes()) || !at_work
}

/// What is to be carried next: behind where the last go ended, and from the start again where nothing is there.
fn next_names(outbox: &Dir, noted: &Behind) -> Result<(Names, Behind)> {
    if let Some(file) = &noted.file {
        let names = outbox.lowest_of(Some(file.as_ref()), LOOK, is_reply)?;
        if !names.is_empty() {
            return Ok((names, noted.clone()));
        }
    }
    Ok((outbox.lowest_of(None, LOOK, is_reply)?, Behind::default()))
}

/// Takes a file out of its program's reach; none if its name is too long for that.
fn take(outbox: &Dir, file: &OsStr) -> Result<Option<OsString>> {
    if file.as_encoded_bytes().starts_with(TAKEN.as_bytes()) {
        return Ok(Some(file.to_owned()));
    }
    if file.len() > LONGEST_NAME {
        return Ok(None);
    }
    let mut taken = OsString::from(TAKEN);
    taken.push(file);
    outbox.rename(file, outbox, &taken)?;
    point("bus.outbox.taken");
    Ok(Some(taken))
}

/// Whether nobody has written to a file for a while, by a wall clock that may have stepped either way.
fn is_quiet(outbox: &Dir, file: &OsStr) -> Result<bool> {
    let now = clock::wall().as_second();
    Ok(outbox.times(file)?.is_none_or(|times| now.abs_diff(times.written) >= QUIET.as_secs()))
}
