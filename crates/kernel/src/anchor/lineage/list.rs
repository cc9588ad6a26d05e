//! `lineage/list`: the logical identities of the root and where each stands.

use crate::anchor::list;
use crate::anchor::state::Anchor;
use crate::rpc::lineage::LineageView;
use crate::rpc::lineage::list::Answer;
use crate::rpc::{SessionState, SessionView};

/// Also those whose description was lost: the journal knows of them, and their next start is the generation after.
pub(in crate::anchor) fn list(anchor: &Anchor) -> Answer {
    let sessions = list::list(anchor).sessions;
    let lost = anchor.recall(|recall| {
        let lost = recall.sessions().filter(|(name, _)| sessions.iter().all(|known| known.name != **name));
        lost.map(|(name, known)| LineageView {
            id: known.lineage.clone(),
            session: name.clone(),
            generation: known.generation,
            state: SessionState::Unknown,
            turn: 0,
        })
        .collect::<Vec<_>>()
    });
    let mut lineages: Vec<LineageView> = sessions.into_iter().map(view).chain(lost).collect();
    lineages.sort_by(|one, other| one.session.place().cmp(&other.session.place()));
    Answer { lineages }
}

/// A session as the lineage it carries.
pub(super) fn view(session: SessionView) -> LineageView {
    LineageView {
        id: session.lineage,
        session: session.name,
        generation: session.generation,
        state: session.state,
        turn: session.progress.turn,
    }
}
