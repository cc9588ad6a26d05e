//! The operations of the bus that are enumerated, each on one agent's channel as a process would do it.

use std::fmt;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;

use super::actor::{Actor, Done};
use super::history::Note;

/// Longer than the clock's ceiling runs ahead: the next reading raises it.
const PAST_THE_CEILING: Duration = Duration::from_secs(11 * 60);

/// Messages of a group: enough for one to be there without another.
const A_GROUP: usize = 3;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A message to agent7, its channel made where it is missing.
    Send,
    /// The same after a while, so that the clock's ceiling is raised.
    SendLater,
    /// A message to agent0, whose channel is made on demand.
    SendRoot,
    /// A group of messages.
    SendAll,
    /// A message under an id of the sender's choice.
    SendChosen(&'static str),
    /// A new agent's channel.
    Create,
    /// One message is claimed and held.
    Claim,
    /// All that wait are claimed and held.
    ClaimAll,
    /// What is held is put before the agent.
    Surface,
    /// Everything is claimed and put before the agent, one by one.
    Drain,
    /// What is held goes back as it was.
    PutBack,
    /// What is held goes back with one attempt more.
    Release,
    /// The first message that was delivered is released by hand.
    TakeBack,
    /// The first message in a state is acked.
    Ack(State),
    /// The process dies with what it holds, and another one acts.
    Die,
    /// What dead processes held goes back.
    Return,
    /// The agent's generation ends: what it took goes back.
    EndGeneration,
    /// Somebody puts a file into the inbox that is no message.
    Drop,
}

/// All operations.
pub const OPS: [Op; 23] = [
    Op::Send,
    Op::SendLater,
    Op::SendRoot,
    Op::SendAll,
    Op::SendChosen("new"),
    Op::SendChosen("done"),
    Op::SendChosen("reserved"),
    Op::SendChosen("placed"),
    Op::Create,
    Op::Claim,
    Op::ClaimAll,
    Op::Surface,
    Op::Drain,
    Op::PutBack,
    Op::Release,
    Op::TakeBack,
    Op::Ack(State::Written),
    Op::Ack(State::Delivered),
    Op::Ack(State::Poisoned),
    Op::Die,
    Op::Return,
    Op::EndGeneration,
    Op::Drop,
];

pub(super) fn seven() -> AgentId {
    "agent7".parse().expect("a valid name")
}

pub(super) fn nine() -> AgentId {
    "agent9".parse().expect("a valid name")
}

impl Op {
    /// Does it; what cannot be done now does nothing.
    pub(super) fn act(self, mut actor: Actor) -> Done<Actor> {
        let seven = seven();
        match self {
            Op::Send => drop(actor.send(&seven, None, true)?),
            Op::SendLater => {
                actor.memory.pass(PAST_THE_CEILING);
                actor.send(&seven, None, true)?;
            }
            Op::SendRoot => drop(actor.send(&AgentId::root(), None, false)?),
            Op::SendChosen(id) => drop(actor.send(&seven, Some(id), true)?),
            Op::Create => actor.create(&nine())?,
            Op::Die if actor.held.is_empty() => {}
            Op::Die => return actor.die(),
            _ if !actor.bus.knows(&seven) => {}
            Op::Claim => drop(actor.claim(&seven, 1)?),
            Op::ClaimAll => drop(actor.claim(&seven, usize::MAX)?),
            Op::Surface => actor.surface()?,
            Op::SendAll => actor.send_all(&seven, A_GROUP)?,
            Op::TakeBack => drop(actor.take_back(&seven)?),
            Op::Drain => drop(actor.drain(&seven)?),
            Op::PutBack => actor.put_back()?,
            Op::Release if actor.held.is_empty() => {}
            Op::Release => actor.release()?,
            Op::Ack(state) => drop(actor.ack_first(&seven, state)?),
            Op::Return => drop(actor.give_back(&seven, |_| false)?),
            Op::EndGeneration => {
                actor.tell(Note::Ended)?;
                actor.give_back(&seven, |_| true)?;
                actor.generation = Generation(actor.generation.0 + 1);
            }
            Op::Drop => drop_file(&mut actor, &seven)?,
        }
        Ok(actor)
    }
}

/// As any program may: in place, synced by nobody.
fn drop_file(actor: &mut Actor, agent: &AgentId) -> Done {
    let name = format!("dropped-{}.json", actor.history.dropped.len());
    actor.tell(Note::Dropped(name.clone()))?;
    let inbox = actor.layout.folder(agent, State::Written);
    let dropped = Dir::open(&inbox).and_then(|inbox| {
        let (mut lines, _) = netsky_disk::lines::Lines::open(&inbox, &name)?;
        lines.append(b"{\"from\":\"nobody\"")
    });
    dropped.map_err(|e| format!("drop a file: {e}"))
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::SendChosen(id) => write!(f, "send --id {id}"),
            Op::Ack(state) => write!(f, "ack what is {state}"),
            other => write!(f, "{}", format!("{other:?}").to_lowercase()),
        }
    }
}
