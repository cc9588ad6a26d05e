//! What asks for an ack and has none in its time waits again, flagged; the time is that in which ticks came.

use std::collections::BTreeSet;

use netsky_disk::{clock, state};
use netsky_model::desired::Desired;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::tending::{Awaiting, Terms};
use netsky_runtime::driver::has_receipts;

use crate::context::Context;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::observe::interval;
use crate::tick::Ticked;

/// Delivered files of one agent that are read for an ack that they may ask for: a few milliseconds. What is behind them
/// is met by later ticks, so its time begins later.
const READ: usize = 500;

/// What asked for an ack and had none in time goes back.
pub(crate) fn give_back(cx: &Context<'_>, terms: &Terms, ticked: &mut Ticked) -> Result<()> {
    let (path, now) = (cx.layout.tick("awaiting"), clock::stamp());
    let known: Option<Awaiting> = read_or_aside(&path, ticked)?;
    let mut awaiting = known.unwrap_or_else(|| Awaiting::new(&now));
    awaiting.pass(&now, interval(cx));
    look_for_unacked(cx, terms, &mut awaiting, ticked)?;
    for (agent, file, within) in awaiting.overdue() {
        match cx.bus.give_back_overdue(&agent, &file, within) {
            Ok(true) => ticked.done.push(format!("{agent}: {file} had no ack in time")),
            Ok(false) => {}
            Err(error) => {
                ticked.problems.push(format!("overdue mail of {agent}: {error}"));
                continue;
            }
        }
        if let Some(mail) = awaiting.mail.get_mut(&agent) {
            mail.remove(&file);
        }
    }
    if awaiting.mail.is_empty() && awaiting.after.is_empty() {
        // Nothing to count for: most ticks of most homes write nothing here.
        state::remove(&path)?;
        return Ok(());
    }
    Ok(state::write_json(&path, &awaiting)?)
}

fn look_for_unacked(
    cx: &Context<'_>,
    terms: &Terms,
    awaiting: &mut Awaiting,
    ticked: &mut Ticked,
) -> Result<()> {
    // Of hundreds most have nothing there, and then no wish is read.
    let awaits =
        |agent: &AgentId| !cx.bus.is_empty(agent, State::Delivered).unwrap_or(false) && knows_acks(cx, agent);
    let agents: Vec<AgentId> = cx.bus.agents()?.into_iter().filter(awaits).collect();
    awaiting.mail.retain(|agent, _| agents.contains(agent));
    awaiting.after.retain(|agent, _| agents.contains(agent));
    for agent in agents {
        let mail = awaiting.mail.get(&agent).cloned().unwrap_or_default();
        let known: BTreeSet<&str> = mail.keys().map(String::as_str).collect();
        let after = awaiting.after.get(&agent).map(String::as_str);
        let found = match cx.bus.unacked(&agent, &known, after, READ) {
            Ok(found) => found,
            Err(error) => {
                ticked.problems.push(format!("mail of {agent} that waits for acks: {error}"));
                continue;
            }
        };
        if let Some(mail) = awaiting.mail.get_mut(&agent) {
            mail.retain(|name, _| !found.gone.contains(name));
        }
        for (name, within) in found.new {
            let within = within.unwrap_or(terms.ack_within).as_millis();
            // Whoever wrote the file may have written any number.
            awaiting.keep(&agent, name, within.try_into().unwrap_or(u64::MAX));
        }
        match found.after {
            Some(after) => awaiting.after.insert(agent, after),
            None => awaiting.after.remove(&agent),
        };
    }
    awaiting.mail.retain(|_, mail| !mail.is_empty());
    Ok(())
}

/// Whether an agent's program is one that acks: of any other, what it was shown is done with.
fn knows_acks(cx: &Context<'_>, agent: &AgentId) -> bool {
    match state::read_json::<Desired>(cx.layout.desired(agent)) {
        Ok(wish) => wish.is_none_or(|wish| has_receipts(&wish)),
        Err(_) => false,
    }
}
