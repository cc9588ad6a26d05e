//! `kernel/hello`: who serves this root.

use super::state::Anchor;
use crate::rpc::hello::Answer;
use crate::rpc::{METHODS, PROTOCOL};

pub(super) fn hello(anchor: &Anchor) -> Answer {
    Answer {
        protocol: PROTOCOL,
        anchor_id: anchor.id.clone(),
        epoch: anchor.epoch,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        anchor: anchor.me.clone(),
        capabilities: METHODS.iter().map(|method| method.name.to_owned()).collect(),
        stopping: anchor.is_stopping(),
        waiting: anchor.journal(|journal| journal.waits()),
    }
}
