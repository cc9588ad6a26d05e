//! `lineage/list`: the logical identities of the root and where each stands.

use super::list;
use super::state::Anchor;
use crate::rpc::lineage::{Answer, LineageView};

pub(super) fn list(anchor: &Anchor) -> Answer {
    let sessions = list::list(anchor).sessions;
    let view = |session: crate::rpc::SessionView| LineageView {
        id: session.lineage,
        session: session.name,
        generation: session.generation,
        state: session.state,
    };
    Answer { lineages: sessions.into_iter().map(view).collect() }
}
