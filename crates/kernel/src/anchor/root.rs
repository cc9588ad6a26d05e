//! Claiming a root: whose folder it is, the lock, the journal, the epoch.
//!
//! Promise: whoever loses has touched nothing. The lock is a flock that dies with its process and is never unlinked, so
//! neither a leaked name nor a leaked number can stand for an anchor (faults T16).

use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::identity::FileId;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_model::process::{Life, ProcessId};
use serde::Serialize;

use super::owed::{self, Owed};
use super::recall::Recall;
use super::{AnchorError, settle};
use crate::journal::{About, Chain, Fold, Journal};
use crate::log::say;
use crate::meta_file;

/// The role whose epochs anchors draw from.
const ROLE: &str = "anchor";

/// A claimed root.
pub(super) struct Claim {
    pub(super) layout: KernelLayout,
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) me: ProcessId,
    pub(super) journal: Journal,
    pub(super) chain: Chain,
    pub(super) recall: Recall,
    /// Held for as long as this anchor serves.
    pub(super) lock: Lock,
    pub(super) owed: Owed,
    /// Of kills whose rows are owed to the journal.
    pub(super) wishes: Vec<About>,
}

/// What the lock file tells people; the lock itself is the truth.
#[derive(Serialize)]
struct Holder<'a> {
    #[serde(flatten)]
    me: &'a ProcessId,
    anchor_id: &'a str,
    epoch: u64,
    version: &'a str,
}

/// Claims `root`, making it when it is not there; the folder that holds it must be.
pub(super) fn claim(root: &Path) -> Result<Claim, AnchorError> {
    claim_within(root, settle::LOOKERS)
}

/// As [`claim`]; whoever holds the lock is waited for so long.
fn claim_within(root: &Path, limit: Duration) -> Result<Claim, AnchorError> {
    let layout = KernelLayout::new(root);
    // Refuses a link, another owner's folder and one that is open to others (faults A4).
    Dir::make(layout.root())?;
    let Some(mut lock) = Lock::take_within(layout.lock(), limit)? else {
        return Err(AnchorError::Taken { root: root.to_owned(), by: named(&layout) });
    };
    Dir::make(layout.agents())?;
    let (owed, wishes) = Owed::open(Dir::open(layout.root())?)?;
    let (mut journal, chain, mut recall) = Journal::open::<Recall>(&layout.journal())?;
    let above = recall.epoch().max(described(&layout)?);
    let epoch = match netsky_disk::state::next_epoch(layout.epoch(ROLE), above) {
        // Its first row takes the number; without room for that nothing bears it, and the next one may have it as well.
        Err(error) if error.is_full() => {
            say!("{error}; this anchor looks and kills, until there is room");
            netsky_disk::state::epoch_after(layout.epoch(ROLE), above)?
        }
        drawn => drawn?,
    };
    journal.begin(epoch, chain.heads.is_damage());
    wishes.iter().for_each(|about| recall.fold(&owed::killed(about, epoch)));
    let me = netsky_disk::process::identity()?;
    let id = netsky_disk::random::short();
    let version = env!("CARGO_PKG_VERSION");
    match lock.note(&Holder { me: &me, anchor_id: &id, epoch, version }) {
        // For people only.
        Err(error) if error.is_full() => say!("{error}"),
        noted => noted?,
    }
    Ok(Claim { layout, id, epoch, me, journal, chain, recall, lock, owed, wishes })
}

/// The highest epoch that a description of a session names, where the number itself is lost: the journal may be too, beside
/// workers that live. Of what does not read nothing is known.
fn described(layout: &KernelLayout) -> Result<u64, AnchorError> {
    if FileId::at(layout.epoch(ROLE))?.is_some() {
        return Ok(0);
    }
    let files = Dir::open(layout.agents())?.names()?;
    let names = files.iter().filter_map(|file| file.strip_suffix(".meta")?.parse().ok());
    let metas = names.filter_map(|name| meta_file::read(layout, &name).ok().flatten());
    Ok(metas.map(|meta| meta.anchor_epoch).max().unwrap_or(0))
}

/// Who holds the lock, for people: it may be so fresh that what is there was said by the one before.
fn named(layout: &KernelLayout) -> String {
    match Lock::noted::<ProcessId>(layout.lock()).filter(|holder| probe(holder) != Life::Dead) {
        Some(holder) => format!("pid {}", holder.pid),
        None => "just starting".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use netsky_disk::clock;

    use super::*;
    use crate::anchor::stage::session;
    use crate::session::Keeper;

    #[test]
    fn i5_where_journal_and_number_are_lost_an_anchor_is_above_every_session_that_was_described() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        assert_eq!(claim(&path).expect("a fresh root").epoch, 1);
        let layout = KernelLayout::new(&path);
        for (name, anchor_epoch) in [("agent1", 7), ("agent2", 3)] {
            let mut meta = session(name, Keeper::Policy);
            meta.anchor_epoch = anchor_epoch;
            meta_file::write(&layout, &meta).expect("written");
        }
        assert_eq!(claim(&path).expect("nobody serves it").epoch, 2, "the number is there");
        std::fs::write(layout.meta(&"agent3".parse().expect("a name")), "half").expect("written");
        for lost in [layout.epoch(ROLE), layout.journal()] {
            std::fs::remove_file(lost).expect("it was there");
        }
        assert_eq!(claim(&path).expect("nobody serves it").epoch, 8);
    }

    /// However busy the machine is, a look that ends is waited out within this.
    const LONG: Duration = Duration::from_secs(90);

    #[test]
    fn t16_who_looks_at_the_lock_of_a_root_keeps_no_anchor_out_and_a_dead_one_is_not_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        drop(claim(&path).expect("a fresh root"));
        let mut dead = netsky_disk::process::me();
        dead.start_time -= 1;
        let file = KernelLayout::new(&path).lock();
        std::fs::write(&file, serde_json::to_vec(&dead).expect("plain")).expect("written");
        let look = std::fs::File::open(&file).expect("there");
        look.lock_shared().expect("nobody has it");
        let since = clock::boot();
        let Err(AnchorError::Taken { by, .. }) = claim(&path) else { panic!("somebody has it") };
        assert_eq!(by, "just starting");
        assert!(clock::boot() - since >= settle::LOOKERS, "a look is waited for");
        let (begins, begun) = mpsc::channel();
        let claims = std::thread::spawn(move || {
            begins.send(()).expect("heard");
            claim_within(&path, LONG).map(drop)
        });
        begun.recv().expect("it claims");
        // By then it has usually met the look; where it has not, it only has less to wait for.
        clock::pause(settle::LOOKERS / 4);
        drop(look);
        claims.join().expect("it claimed").expect("a look is waited out");
    }
}
