//! Lineages: listed, shown, resolved.

mod list;
mod resolve;
mod show;

pub(super) use list::list;
pub(super) use resolve::resolve;
pub(super) use show::show;

use netsky_model::id::{AgentId, LineageId};

use super::recall::Recall;
use super::state::Anchor;
use crate::rpc::{Refusal, RefusalKind};

/// The session that carries a lineage.
pub(super) fn carrier(anchor: &Anchor, id: &LineageId) -> Result<AgentId, Refusal> {
    let carries = |name: &AgentId| anchor.entry(name, |entry| entry.meta.lineage == *id) == Some(true);
    let carrier = anchor.names().into_iter().find(carries);
    carrier.ok_or_else(|| {
        let known = |recall: &Recall| recall.carrier(id).map(|(name, _)| name.clone());
        match anchor.recall(known) {
            Some(name) => {
                let message =
                    format!("the description of {name} is lost; the next spawn of it goes on from there");
                Refusal::new(RefusalKind::Refused, message)
            }
            None => Refusal::new(RefusalKind::NotFound, format!("no lineage {id}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, session};
    use crate::anchor::state::about;
    use crate::rpc::{EventKind, event_data};
    use crate::session::{End, Keeper};

    #[test]
    fn a_lineage_whose_description_is_lost_is_told_from_one_that_never_was() {
        on_stage(async |anchor| {
            let lost = about(&session("agent1", Keeper::Policy));
            let kind = || carrier(&anchor, &lost.lineage).expect_err("nobody carries it").kind();
            assert_eq!(kind(), RefusalKind::NotFound);
            let data = event_data::Ended::by(End::Exited { code: 1 });
            anchor.observe(EventKind::Exited, Some(lost.clone()), data);
            assert_eq!(kind(), RefusalKind::Refused);
        });
    }
}
