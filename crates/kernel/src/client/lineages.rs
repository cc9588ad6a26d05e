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
        Ok(self.call::<rpc::lineage::list::List>(&rpc::lineage::list::Params {})?.lineages)
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
