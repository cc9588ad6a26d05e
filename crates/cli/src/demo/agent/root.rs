//! agent0 of the demo: turns the owner's order into briefs, takes reports, and sums up when it is asked to.
//!
//! Every message is acknowledged when its turn ended, so one that was cut by a kill comes again. Whatever a turn sends
//! has an id derived from the message that caused it: a turn that is taken twice sends once.

use std::time::Duration;

use netsky_bus::{Bus, Claim, Put};
use netsky_disk::lock::Lock;
use netsky_disk::{clock, env, state};
use netsky_ledger::Telemetry;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::State;

use super::task::{TASKS, Task};
use super::{Agent, Letter, think};
use crate::error::{Error, Kind};
use crate::output;

/// Thread of the order that starts the work; agent0 lingers between claiming and surfacing it.
pub(crate) const SURVEY: &str = "survey";
/// Thread of the order that ends it; agent0 lingers in the middle of its turn.
pub(crate) const SUMMARY: &str = "summary";

/// How long agent0 dwells on an order that it sees for the first time. The demo strikes there, also on a machine that
/// is busy; a repeat is taken without lingering.
const LINGER: Duration = Duration::from_secs(5);

/// What was claimed, and how often it had been.
struct Taken {
    envelope: Envelope,
    id: EnvelopeId,
    attempt: u32,
}

pub(super) fn live(agent: &Agent) -> Result<(), Error> {
    // Kept for life, and free again the moment this process is gone: whoever cannot take it is a second agent0.
    let Some(_only) = Lock::try_take(agent.place.root_lock())? else {
        let note = serde_json::json!({ "second": netsky_disk::process::identity()?, "at": clock::stamp() });
        state::write_json(agent.place.second_root(), &note)?;
        return Err(Error::new(Kind::Failed, "another agent0 is alive"));
    };
    agent.prove_up()?;
    let layout = agent.place.layout();
    let telemetry = Telemetry::new(&layout);
    let bus = Bus::open(&layout, &telemetry);
    let generation = match env::caller() {
        env::Caller::Inside { generation, .. } => generation,
        env::Caller::Outside => Generation::NONE,
    };
    loop {
        agent.wait()?;
        let mut taken: Option<Taken> = None;
        bus.drain(&agent.me, 1, generation, |claim| {
            taken = Some(Taken {
                envelope: claim.envelope().clone(),
                id: claim.id().clone(),
                attempt: claim.attempt(),
            });
            show(claim)
        })?;
        if let Some(taken) = taken {
            turn(agent, &bus, &taken)?;
            agent.ack(&taken.id)?;
        }
    }
}

/// Between claim and record: what the bus calls surfacing.
fn show(claim: &Claim) -> Put {
    if is_order(claim.envelope(), SURVEY) && claim.attempt() == 1 {
        clock::pause(LINGER);
    }
    output::element(&claim.rendered())
}

fn is_order(envelope: &Envelope, thread: &str) -> bool {
    envelope.from == Sender::owner() && envelope.thread.as_deref() == Some(thread)
}

fn turn(agent: &Agent, bus: &Bus<'_>, taken: &Taken) -> Result<(), Error> {
    think();
    if is_order(&taken.envelope, SURVEY) {
        for (number, task) in (1..=agent.clones).zip(TASKS) {
            brief(agent, &taken.id, &AgentId::numbered(number), task)?;
        }
    } else if is_order(&taken.envelope, SUMMARY) {
        if taken.attempt == 1 {
            clock::pause(LINGER);
        }
        sum_up(agent, bus)?;
    }
    // A report or a handoff asks for no more than to be read.
    Ok(())
}

fn brief(agent: &Agent, order: &EnvelopeId, clone: &AgentId, task: Task) -> Result<(), Error> {
    let text = format!("{}; commit {} on {}", task.asks(), task.file(), task.branch());
    agent.send(&Letter {
        to: clone,
        text: &text,
        kind: "brief",
        thread: task.word(),
        id: EnvelopeId::derived(&["demo", "brief", order.as_str(), task.word()]),
        answers: order,
    })
}

/// Puts the reports that were read side by side; written over by a repeat of the same turn.
fn sum_up(agent: &Agent, bus: &Bus<'_>) -> Result<(), Error> {
    let mut lines = vec!["# What the clones found".to_owned(), String::new()];
    for entry in bus.list(&agent.me, Some(State::Acked))? {
        let report = entry.envelope.filter(|envelope| envelope.kind.as_deref() == Some("report"));
        lines.extend(report.map(|report| format!("- {}: {}", report.from, output::one_line(&report.text))));
    }
    lines.push(String::new());
    Ok(state::write(agent.place.summary(), lines.join("\n").as_bytes())?)
}
