//! What has reached its end and was kept for as long as the settings say goes; and an id that a sender chose, later.

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_disk::{clock, state};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::stamp::Stamp;
use netsky_model::tending::{Steady, Terms};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::tick::Ticked;

/// Files of one folder that one tick removes.
const REMOVE: usize = 500;

/// Entries of ids that one tick looks at, for each agent.
const LOOK: usize = 1_000;

/// How often it is looked for what may go.
const CADENCE: Duration = Duration::from_secs(60 * 60);

/// How long an id is remembered at least: longer than any retry.
const IDS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// `state/tick/retention.json`: what the last look knew.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    v: u64,
    /// For how long the wall clock can be trusted.
    steady: Steady,
    /// When everything that may go was gone.
    clean: Option<Stamp>,
    /// Where the look through the ids goes on.
    ids: BTreeMap<AgentId, String>,
}

/// Removes what may go, every [`CADENCE`] and on as long as there is more.
pub(crate) fn clean(cx: &Context<'_>, terms: &Terms, ticked: &mut Ticked) -> Result<()> {
    let (path, now) = (cx.layout.tick("retention"), clock::stamp());
    let known: Option<Known> = read_or_aside(&path, ticked)?;
    let mut known = match known {
        Some(known) => Known { steady: known.steady.look(&now), ..known },
        None => Known { v: 1, steady: Steady::new(&now), clean: None, ids: BTreeMap::new() },
    };
    let shortest = [Some(terms.keep_acked), Some(terms.keep_forwarded), terms.keep_poison];
    let cadence = shortest.into_iter().flatten().min().map_or(CADENCE, |keep| keep.min(CADENCE));
    if known.clean.as_ref().is_some_and(|clean| now.since(clean) < cadence) {
        return Ok(());
    }
    let agents = cx.bus.agents()?;
    known.ids.retain(|agent, _| agents.contains(agent));
    let mut more = false;
    for agent in &agents {
        more |= remove(cx, agent, terms, &mut known, ticked)?;
    }
    known.clean = (!more).then_some(now);
    Ok(state::write_json(&path, &known)?)
}

/// One pass over what may go of one agent; true if there is more of it.
fn remove(
    cx: &Context<'_>,
    agent: &AgentId,
    terms: &Terms,
    known: &mut Known,
    ticked: &mut Ticked,
) -> Result<bool> {
    let steady = &known.steady;
    let kept = [
        (State::Acked, Some(terms.keep_acked)),
        (State::Forwarded, Some(terms.keep_forwarded)),
        (State::Poisoned, terms.keep_poison),
    ];
    let (mut gone, mut more) = (0, false);
    for (state, keep) in kept.into_iter().filter_map(|(state, keep)| Some((state, keep?))) {
        let is_past = |changed| steady.is_past(changed, keep);
        let removed = cx.bus.remove_finished(agent, state, REMOVE, is_past)?;
        gone += removed.envelopes;
        more |= removed.more;
    }
    let after = known.ids.get(agent).map(String::as_str);
    let (removed, next) = cx.bus.forget_ids(agent, after, LOOK, |changed| steady.is_past(changed, IDS))?;
    more |= next.is_some();
    match next {
        Some(next) => known.ids.insert(agent.clone(), next),
        None => known.ids.remove(agent),
    };
    if gone + removed.ids > 0 {
        ticked.done.push(format!("{agent}: {gone} messages and {} ids were kept long enough", removed.ids));
    }
    Ok(more)
}
