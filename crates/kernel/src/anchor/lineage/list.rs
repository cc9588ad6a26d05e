//! `lineage/list`: the logical identities of the root and where each stands.

use std::collections::BTreeSet;

use netsky_model::id::AgentId;

use crate::anchor::list;
use crate::anchor::recall::Remembered;
use crate::anchor::state::Anchor;
use crate::rpc::lineage::LineageView;
use crate::rpc::lineage::list::{Answer, Params};
use crate::rpc::{SessionState, SessionView};

/// Also those whose description was lost: the journal knows of them, and their next start is the generation after.
pub(in crate::anchor) fn list(anchor: &Anchor, params: &Params) -> Answer {
    let mut names = BTreeSet::from_iter(anchor.names());
    anchor.recall(|recall| names.extend(recall.sessions().map(|(name, _)| name.clone())));
    let (mut lineages, next) = list::part(params.page.as_ref(), names, |name| {
        let known = anchor.recall(|recall| recall.session(name).cloned());
        match anchor.view(name) {
            Ok(session) => Some(view(session, known.as_ref())),
            Err(_) => known.map(|known| lost(anchor, name, &known)),
        }
    });
    if params.page.is_none() {
        lineages.sort_by(|one, other| one.session.place().cmp(&other.session.place()));
    }
    Answer { lineages, next }
}

/// A session as the lineage it carries. A generation is taken before it is described: its anchor may have died in between.
fn view(session: SessionView, known: Option<&Remembered>) -> LineageView {
    let taken = known.filter(|known| known.lineage == session.lineage).map(|known| known.generation);
    LineageView {
        id: session.lineage,
        session: session.name,
        generation: session.generation.max(taken.unwrap_or_default()),
        state: session.state,
        turn: session.progress.turn,
    }
}

fn lost(anchor: &Anchor, name: &AgentId, known: &Remembered) -> LineageView {
    LineageView {
        id: known.lineage.clone(),
        session: name.clone(),
        generation: known.generation,
        state: SessionState::Unknown,
        turn: anchor.drain(&known.lineage, |drain| drain.state().turn).unwrap_or(0),
    }
}
