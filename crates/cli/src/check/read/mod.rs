//! One look at a home: everything the invariants are judged from, read in an order that keeps them from seeing ghosts.
//!
//! Files move while they are read. What is said of a thing is read before the thing itself: the record before the mailboxes
//! (what was written must then be there), the metas before the journal (what they speak of must then be in it), both before
//! `/proc` (what had ended must then be gone).

pub(super) mod files;
pub(super) mod kernel;
pub(super) mod mail;
pub(super) mod processes;
pub(super) mod restart;
mod strays;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, process};
use netsky_ledger::{Broken, Move, Moves, What};
use netsky_model::life::State;
use netsky_model::name::{Key, Stage};
use netsky_model::process::{Life, ProcessId};
use netsky_model::stamp::Stamp;
use netsky_runtime::Config;

use files::StateFile;
use kernel::Kernel;
use mail::Mailbox;
use processes::Bearer;
use restart::Restart;

/// What one look saw.
#[derive(Debug)]
pub(super) struct Seen {
    /// What telemetry tells of messages.
    pub(super) record: Moves,
    /// Lines of the facts that are not what they were.
    pub(super) broken_facts: Vec<Broken>,
    pub(super) mailboxes: Vec<Mailbox>,
    /// The folder of all mailboxes could not be looked into.
    pub(super) no_mailboxes: bool,
    pub(super) kernel: Kernel,
    pub(super) restart: Restart,
    /// Every file and folder of state that must read, and what could not be looked into.
    pub(super) files: Vec<StateFile>,
    /// Why nobody goes by the settings as they are.
    pub(super) config: Option<(String, String)>,
    /// Live processes that say they are of this home.
    pub(super) bearers: Vec<Bearer>,
    /// What lies about: where, and what.
    pub(super) strays: Vec<(String, String)>,
    /// Of every process whose life decides something.
    pub(super) lives: HashMap<ProcessId, Life>,
    pub(super) now: Stamp,
}

impl Seen {
    /// What is known of a process that was named on disk.
    pub(super) fn life(&self, process: &ProcessId) -> Life {
        self.lives.get(process).copied().unwrap_or(Life::Unknown)
    }
}

/// Looks once.
pub(super) fn look(layout: &Layout) -> netsky_disk::Result<Seen> {
    let mut files = Vec::new();
    let record = netsky_ledger::moves(layout)?;
    let broken_facts = netsky_ledger::broken_facts(layout).unwrap_or_else(|error| {
        files.push(StateFile::damaged(place(layout, layout.record()), format!("does not read: {error}")));
        Vec::new()
    });
    let mailboxes = mail::read(layout, &mut files)?;
    let no_mailboxes = mailboxes.is_empty() && !files.is_empty();
    files::folder(layout, layout.kernel_root(), &mut files)?;
    let kernel = kernel::read(layout, &mut files)?;
    let restart = restart::read(layout, &mut files)?;
    files::desired(layout, &mut files)?;
    let strays = strays::read(layout, &kernel, &mut files)?;
    let lives = lives(&record, &mailboxes, &restart);
    let bearers = processes::read(layout)?;
    Ok(Seen {
        record,
        broken_facts,
        mailboxes,
        no_mailboxes,
        kernel,
        restart,
        files,
        config: Config::trouble(layout).map(|trouble| (place(layout, trouble.file), trouble.why)),
        bearers,
        strays,
        lives,
        now: clock::stamp(),
    })
}

/// Below the home: how a finding names a file.
fn place(layout: &Layout, path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    path.strip_prefix(layout.home()).unwrap_or(path).display().to_string()
}

fn lives(record: &Moves, mailboxes: &[Mailbox], restart: &Restart) -> HashMap<ProcessId, Life> {
    let mut wanted: Vec<&ProcessId> = Vec::new();
    for piece in mailboxes.iter().flat_map(|mailbox| &mailbox.pieces) {
        if piece.state == State::Claimed
            && let Some(Stage::Claimed(owner)) = piece.name.as_ref().map(|name| &name.stage)
        {
            wanted.push(owner);
        }
    }
    // Who surfaced a message that was surfaced once decides nothing.
    let mut shown: BTreeMap<&Key, Vec<&Move>> = BTreeMap::new();
    for told in record.moves.iter().filter(|told| told.what == What::Surfaced) {
        shown.entry(&told.key).or_default().push(told);
    }
    let repeated = shown.into_values().filter(|told| told.len() > 1).flatten();
    wanted.extend(repeated.filter_map(|told| told.process.as_ref()));
    wanted.extend(restart.inflight.as_ref().and_then(|inflight| inflight.child.as_ref()));
    wanted.into_iter().map(|id| (id.clone(), process::probe(id))).collect()
}
