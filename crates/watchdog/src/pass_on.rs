//! What agentinfinity is asked goes on to agent0: it answers nobody, and no model ever reads its mail.
//!
//! Promise: once for each message, in their order, whoever dies in between: the copy's id derives from the message, and the
//! original is finished when the copy is durable. agentinfinity does it as mail comes, the tick where it does not run.

use netsky_bus::Error as Bus;
use netsky_disk::state;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Sender};
use netsky_model::life::State;
use netsky_model::name::Stage;

use crate::context::Context;
use crate::error::Result;

/// Kinds that ask for something; so does what has none.
const ASKING: [&str; 5] = ["prompt", "brief", "owner", "loop-tick", "cron-tick"];

/// Most of one look: agent0's own mail comes in between.
const MOST: usize = 16;

/// Whether a message asks for something: no answer, no word of a component, and not agent0's own.
pub(crate) fn is_prompt(envelope: &Envelope) -> bool {
    let asks = envelope.kind.as_deref().is_none_or(|kind| ASKING.contains(&kind));
    asks && envelope.reply_to.is_none() && envelope.from != Sender::from(AgentId::root())
}

/// What one look came to.
#[derive(Default)]
pub(crate) struct Passed {
    /// How many were passed on.
    pub(crate) count: usize,
    /// What was not, and why.
    pub(crate) troubles: Vec<String>,
}

/// Passes on what waits, and what agentinfinity has read and had no time to. Only what agent0 would take from its sender
/// himself: in our name it would fill the room that is kept for those that keep the constellation.
pub(crate) fn prompts(cx: &Context<'_>) -> Result<Passed> {
    let (me, root, mut passed) = (AgentId::infinity(), AgentId::root(), Passed::default());
    if !state::exists(cx.layout.channel(&me))? {
        return Ok(passed);
    }
    cx.bus.return_dead_claims(&me)?;
    let mut wait: Vec<Sender> = Vec::new();
    // What was read came before what waits, and so did what is being read.
    for folder in [State::Delivered, State::Written] {
        if folder == State::Written && is_reading(cx, &me)? {
            break;
        }
        for entry in cx.bus.listing(&me, Some(folder), usize::MAX)?.entries() {
            let prompt = entry.envelope.filter(is_prompt);
            let Some((name, prompt)) = entry.name.zip(prompt) else { continue };
            if wait.contains(&prompt.from) {
                continue;
            }
            if passed.count == MOST {
                return Ok(passed);
            }
            let id = name.key.id.as_str();
            let taken = cx.bus.would_take(&root, &prompt.from, prompt.text.len());
            let is_himself = taken.is_err();
            match taken.and_then(|()| cx.bus.forward(&me, id, &root, &me.clone().into())) {
                Ok(forwarded) => passed.count += usize::from(!forwarded.already),
                // It is in other hands by now: those go on with it.
                Err(Bus::Held { .. } | Bus::Busy { .. } | Bus::NoEnvelope { .. } | Bus::Illegal(_)) => {}
                // It never can be.
                Err(error @ (Bus::TooFar(_) | Bus::Full { for_good: true, .. } | Bus::Envelope(_))) => {
                    let done = cx
                        .bus
                        .ack(&me, id)
                        .map_or_else(|error| error.to_string(), |_| "done with".to_owned());
                    passed
                        .troubles
                        .push(format!("{id} of {} cannot be passed on: {error}; {done}", prompt.from));
                }
                // What else he said waits with it.
                Err(error @ (Bus::Full { .. } | Bus::TooFast { .. })) if is_himself => {
                    passed.troubles.push(format!("what {} asks agentinfinity waits: {error}", prompt.from));
                    wait.push(prompt.from);
                }
                // It concerns everybody: what stands behind it waits with it.
                Err(error @ (Bus::Full { .. } | Bus::UnknownTarget(_) | Bus::NoHome(_))) => {
                    passed.troubles.push(error.to_string());
                    return Ok(passed);
                }
                Err(Bus::Disk(error)) if !error.is_of_one_file() => {
                    passed.troubles.push(error.to_string());
                    return Ok(passed);
                }
                Err(error) => passed.troubles.push(format!("{id} is not passed on: {error}")),
            }
        }
    }
    Ok(passed)
}

/// Whether anybody has something of it in his hands; what is there under no name of ours nobody has.
fn is_reading(cx: &Context<'_>, me: &AgentId) -> Result<bool> {
    let claimed = cx.bus.listing(me, Some(State::Claimed), usize::MAX)?;
    let is_held =
        |entry: netsky_bus::Entry| entry.name.is_some_and(|name| matches!(name.stage, Stage::Claimed(_)));
    Ok(claimed.entries().any(is_held))
}
