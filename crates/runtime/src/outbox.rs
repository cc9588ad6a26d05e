//! What programs drop into their outboxes becomes mail: whatever kind of program runs in a slot, the bus stays the same.

use netsky_bus::{Bus, Carried};
use netsky_model::id::AgentId;

/// Carries the replies of every agent; those without an addressee go to agent0. What went wrong is told per agent, and
/// the others go on.
pub fn carry_all(bus: &Bus<'_>) -> Result<Vec<(AgentId, netsky_bus::Result<Carried>)>, netsky_bus::Error> {
    let root = AgentId::root();
    let agents = bus.agents()?;
    Ok(agents
        .into_iter()
        .map(|agent| {
            let carried = bus.carry_outbox(&agent, &root);
            (agent, carried)
        })
        .collect())
}
