//! An anchor of a throwaway root, without socket and workers, for tests of what no real process can be made to time.

use std::rc::Rc;

use netsky_model::id::Generation;
use serde_json::json;

use super::state::Anchor;
use crate::journal::Draft;
use crate::rpc::EventKind;
use crate::session::{End, Keeper, Meta, Phase};

/// Runs a test on a fresh anchor.
pub(super) fn on_stage(test: impl AsyncFnOnce(Rc<Anchor>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let claim = super::root::claim(&folder.path().join("root")).expect("a fresh root");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test(Rc::new(Anchor::new(claim))));
}

/// A session whose program has ended by itself.
pub(super) fn session(name: &str, keeper: Keeper) -> Meta {
    let mut meta = Meta::parse(include_bytes!("../../samples/meta.v1.json")).expect("the sample loads");
    let at = netsky_disk::clock::stamp();
    meta.spec.name = name.parse().expect("a name");
    meta.spec.keeper = keeper;
    meta.generation = Generation(1);
    (meta.program, meta.worker) = (None, None);
    meta.phase = Phase::Ended { how: End::Exited { code: 1 }, at: at.clone(), started_at: Some(at) };
    meta
}

/// Writes so many rows that are about nobody.
pub(super) fn write(anchor: &Anchor, rows: usize) {
    for _ in 0..rows {
        let draft = Draft { kind: EventKind::Adopted, about: None, data: json!({}) };
        anchor.journal(|journal| journal.write(&draft, false)).expect("room");
    }
}

/// The kinds of every row of its journal.
pub(super) fn rows(anchor: &Anchor) -> Vec<EventKind> {
    let rows = anchor.journal(|journal| journal.after(0)).expect("reads");
    rows.iter().map(|event| event.kind).collect()
}
