//! agent0 of the demo: makes tasks of the owner's order and hands them out, lands what is reported done, and sums up when it is
//! asked to.
//!
//! Every message is acknowledged when its turn ended, so one that was cut by a kill comes again. A turn that is taken twice
//! does once what it does: tasks have ids, what was handed out or has landed stays so, and what is sent has an id that derives
//! from the message which caused it.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use netsky_bus::{Bus, Claim, Put};
use netsky_disk::lock::Lock;
use netsky_disk::{clock, env, state};
use netsky_ledger::Telemetry;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::task::{How, State};

use super::task::{FOLDER, LIST, TASKS, Task, standing};
use super::{Agent, think};
use crate::demo::programs::own_answer;
use crate::error::{Error, Kind};
use crate::output;

/// Thread of the order that starts the work; agent0 lingers between claiming and surfacing it.
pub(crate) const SURVEY: &str = "survey";
/// Thread of the order that ends it.
pub(crate) const SUMMARY: &str = "summary";

/// How long agent0 dwells on the order that starts the work, and on the first work that lands, when it sees them for the first
/// time. The demo strikes there, also on a machine that is busy; a repeat is taken without lingering.
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
            turn(agent, &taken)?;
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

fn turn(agent: &Agent, Taken { envelope, id, attempt }: &Taken) -> Result<(), Error> {
    think();
    let task = envelope.thread.as_deref().and_then(Task::of);
    match (envelope.kind.as_deref(), task) {
        _ if is_order(envelope, SURVEY) => hand_out(agent),
        _ if is_order(envelope, SUMMARY) => sum_up(agent, id),
        (Some("report"), Some(task)) => {
            let is_first = *attempt == 1 && !stands()?.values().any(State::is_closed);
            harvest(task)?;
            if is_first {
                clock::pause(LINGER);
            }
            Ok(())
        }
        // A handoff asks for no more than to be read.
        _ => Ok(()),
    }
}

/// One task for each clone.
fn hand_out(agent: &Agent) -> Result<(), Error> {
    let before = stands()?;
    let origin = agent.place.origin().display().to_string();
    for (number, task) in (1..=agent.clones).zip(TASKS) {
        let (id, clone) = (task.word(), AgentId::numbered(number));
        let state = before.get(id);
        if state.is_none() {
            let brief = format!("Commit {FOLDER}/{}.", task.file());
            let what = ["--repo", &origin, "--brief", &brief, "--assign", clone.as_str()];
            own_answer(&[&["task", "create", task.asks(), "--id", id][..], &what].concat(), &[0, 4])?;
        }
        // What a turn before this one has begun to hand out, and could not end, a tick ends; or its verb lives on and is first.
        if state.is_none_or(|state| *state == State::Open) {
            own_answer(&["clone", "brief", id, "--agent", clone.as_str()], &[0, 4])?;
        }
    }
    Ok(())
}

/// Lands what a clone reports; what landed before is said to have, and whose work does not land (1) is told by the harvest.
fn harvest(task: Task) -> Result<(), Error> {
    let Output { stdout, stderr, .. } = own_answer(&["task", "harvest", task.word()], &[0, 1])?;
    output::say(&output::one_line(&String::from_utf8_lossy(&[stdout, stderr].concat())))
}

/// Tells the owner what became of the tasks.
fn sum_up(agent: &Agent, order: &EnvelopeId) -> Result<(), Error> {
    let lines = stands()?.into_iter().map(|(id, state)| match state {
        State::Closed { how: How::Landed { sha, main }, .. } => format!("{id} is on {main} as {sha:.12}"),
        state => format!("{id} is {}", state.word()),
    });
    let text = lines.collect::<Vec<_>>().join(", ");
    let id = EnvelopeId::derived(&["demo", SUMMARY, order.as_str()]);
    let head =
        ["--from", agent.me.as_str(), "--kind", SUMMARY, "--id", id.as_str(), "--reply-to", order.as_str()];
    own_answer(&[&["channel", "send", "owner", &text][..], &head].concat(), &[0]).map(drop)
}

fn stands() -> Result<BTreeMap<String, State>, Error> {
    standing(&own_answer(&LIST, &[0])?.stdout)
}
