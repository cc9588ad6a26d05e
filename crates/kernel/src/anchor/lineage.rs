//! `lineage/list`: the logical identities of the root and where each stands.

use super::list;
use super::state::Anchor;
use crate::rpc::SessionState;
use crate::rpc::lineage::{Answer, LineageView};

/// Also those whose description was lost: the journal knows of them, and their next start is the generation after.
pub(super) fn list(anchor: &Anchor) -> Answer {
    let sessions = list::list(anchor).sessions;
    let lost = anchor.recall(|recall| {
        let lost = recall.sessions().filter(|(name, _)| sessions.iter().all(|known| known.name != **name));
        lost.map(|(name, known)| LineageView {
            id: known.lineage.clone(),
            session: name.clone(),
            generation: known.generation,
            state: SessionState::Unknown,
        })
        .collect::<Vec<_>>()
    });
    let view = |session: crate::rpc::SessionView| LineageView {
        id: session.lineage,
        session: session.name,
        generation: session.generation,
        state: session.state,
    };
    let mut lineages: Vec<LineageView> = sessions.into_iter().map(view).chain(lost).collect();
    lineages.sort_by(|one, other| one.session.place().cmp(&other.session.place()));
    Answer { lineages }
}
