//! Which generations have ended, as the anchor says or, where none serves, as the kernel's files and locks do.

use std::collections::BTreeMap;

use netsky_disk::layout::Layout;
use netsky_kernel::anchor;
use netsky_kernel::client::Client;
use netsky_model::id::{AgentId, Generation};

use super::Result;

/// The newest generation of each session, and whether it may live.
pub(super) struct Sessions(BTreeMap<AgentId, (Generation, bool)>);

impl Sessions {
    /// Looks, now.
    pub(super) fn look(layout: &Layout) -> Result<Sessions> {
        let root = layout.kernel_root();
        let sessions = match Client::connect(&root).and_then(|mut client| client.list()) {
            Err(error) if error.passes() => anchor::unserved(&root)?.sessions,
            sessions => sessions?,
        };
        let known = |session: netsky_kernel::rpc::SessionView| {
            (session.name, (session.generation, session.state.may_live()))
        };
        Ok(Sessions(sessions.into_iter().map(known).collect()))
    }

    /// Whether that one is gone for ever. Of a session that the kernel does not know, and of no session, nothing can be said.
    pub(super) fn has_ended(&self, agent: &AgentId, generation: Generation) -> bool {
        let known = self.0.get(agent).filter(|_| generation != Generation::NONE);
        known.is_some_and(|(newest, lives)| generation < *newest || generation == *newest && !lives)
    }
}
