//! What agentinfinity is asked goes on to agent0: it answers nobody, and no model ever reads its mail.
//!
//! Promise: once for each message, in their order, whoever dies in between: the copy's id derives from the message, and the
//! original is finished when the copy is durable. agentinfinity does it as mail comes, the tick where it does not run.

use netsky_bus::Error as Bus;
use netsky_disk::state;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Sender};
use netsky_model::life::State;

use crate::context::Context;
use crate::error::Result;

/// Kinds that ask for something; so does what has none.
const ASKING: [&str; 3] = ["prompt", "brief", "owner"];

/// Whether a message asks for something: no answer, no word of a component, and not agent0's own.
pub(crate) fn is_prompt(envelope: &Envelope) -> bool {
    let asks = envelope.kind.as_deref().is_none_or(|kind| ASKING.contains(&kind));
    asks && envelope.reply_to.is_none() && envelope.from != Sender::from(AgentId::root())
}

/// Passes on what waits, and what agentinfinity has read and had no time to; how many.
pub(crate) fn prompts(cx: &Context<'_>) -> Result<usize> {
    let (me, mut passed) = (AgentId::infinity(), 0);
    if !state::exists(cx.layout.channel(&me))? {
        return Ok(0);
    }
    // What was read came before what waits.
    for folder in [State::Delivered, State::Written] {
        for entry in cx.bus.listing(&me, Some(folder), usize::MAX)?.entries() {
            let prompt = entry.envelope.as_ref().is_some_and(is_prompt);
            let Some(name) = entry.name.filter(|_| prompt) else { continue };
            match cx.bus.forward(&me, name.key.id.as_str(), &AgentId::root(), &me.clone().into()) {
                Ok(forwarded) => passed += usize::from(!forwarded.already),
                // It is in other hands by now: those go on with it.
                Err(Bus::Held { .. } | Bus::Busy { .. } | Bus::NoEnvelope { .. } | Bus::Illegal(_)) => {}
                // What stands behind it waits with it.
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(passed)
}
