//! What a client asks of lineages.

use netsky_model::id::LineageId;

use super::{Client, ClientError, PATIENCE};
use crate::rpc::lineage::resolve::Action;
use crate::rpc::{self, Guard, SessionView};

impl Client {
    /// The lineages of the root.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn lineages(&mut self) -> Result<Vec<rpc::lineage::LineageView>, ClientError> {
        let mut lineages = Vec::new();
        let ask = |page| rpc::lineage::list::Params { page };
        self.parts::<rpc::lineage::list::List>(ask, |part| {
            lineages.extend(part.lineages);
            part.next
        })?;
        // Parts come in the order of names.
        lineages.sort_by(|one, other| one.session.place().cmp(&other.session.place()));
        Ok(lineages)
    }

    /// One lineage, and what it has behind it.
    ///
    /// # Errors
    /// `not-found`.
    pub fn lineage(&mut self, id: &LineageId) -> Result<rpc::lineage::show::Answer, ClientError> {
        self.call::<rpc::lineage::show::Show>(&rpc::lineage::show::Params { id: id.clone() })
    }

    /// Says what becomes of a lineage that waits to be told.
    ///
    /// # Errors
    /// `not-found`, `stale-generation`, `refused` when it does not wait, `failed-to-start`.
    pub fn resolve(
        &mut self,
        id: &LineageId,
        action: Action,
        guard: &Guard,
    ) -> Result<SessionView, ClientError> {
        let params = rpc::lineage::resolve::Params { id: id.clone(), action, guard: guard.clone() };
        // As long as a start.
        self.connection.call_within::<rpc::lineage::resolve::Resolve>(&params, PATIENCE * 3)
    }
}
