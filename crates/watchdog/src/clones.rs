//! Clones that are handed tasks: who there is, and how one is started for a task or stopped.
//!
//! Left to others: whose turn it is (`netsky_model::dispatch`), and what a task is (`work`).

use std::path::PathBuf;
use std::time::Duration;

use netsky_bus::Bus;
use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{Guard, SessionView};
use netsky_model::desired::{Desired, Want};
use netsky_model::dispatch::Seen;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_runtime::UpProof;
use netsky_runtime::driver::has_receipts;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::stop::stop;
use crate::up::{Plan, Which, Wish, planned};
use crate::{known, observe};

/// Refuses who may not hand out work, nor take it back: that is the owner's and agent0's.
///
/// # Errors
/// Called inside any other session.
pub fn may_hand_out(caller: &Caller, verb: &'static str) -> Result<()> {
    match caller {
        Caller::Outside => Ok(()),
        Caller::Inside { agent: Some(agent), .. } if *agent == AgentId::root() => Ok(()),
        Caller::Inside { .. } => Err(Error::NoDispatcher { verb }),
    }
}

/// Every numbered agent but agent0, and whether the constellation is up at all: while it is down nobody's end is for good.
///
/// # Errors
/// Wishes or sessions cannot be read: nobody is taken for gone because of that.
pub fn clones(cx: &Context<'_>) -> Result<(Vec<Seen>, bool)> {
    let sessions: Vec<SessionView> =
        match Client::connect(&cx.layout.kernel_root()).and_then(|mut client| client.list()) {
            Err(ClientError::NotServing { .. }) => known::sessions(cx)?.into_values().collect(),
            listed => listed?,
        };
    // Of whom the wish does not read nothing is known: it is taken for wanted, and is in nobody's hands.
    let wishes = observe::wishes(cx, &mut Vec::new())?;
    let is_up = wishes.read.iter().any(|wish| wish.agent == AgentId::root() && wish.want == Want::Up);
    let mut agents: Vec<&AgentId> =
        wishes.read.iter().map(|wish| &wish.agent).chain(&wishes.unread).collect();
    agents.extend(sessions.iter().map(|session| &session.name));
    agents.retain(|agent| agent.number().is_some_and(|number| number > 0));
    agents.sort_by_key(|agent| agent.number());
    agents.dedup();
    let seen = agents.into_iter().map(|agent| {
        let wish = wishes.read.iter().find(|wish| wish.agent == *agent);
        let session = sessions.iter().find(|session| session.name == *agent);
        let lives = session.filter(|session| session.state.may_live());
        let is_wanted = wishes.unread.contains(agent) || wish.is_some_and(|wish| wish.want == Want::Up);
        Seen {
            agent: agent.clone(),
            is_wanted,
            is_stopped: wish.is_some_and(|wish| wish.want == Want::Stopped),
            generation: session.map_or(Generation::NONE, |session| session.generation),
            lives: lives.is_some(),
            is_up: lives.is_some_and(|session| UpProof::of_session(cx.layout, session).is_some()),
            mail: mail(&cx.bus, agent, wish),
            runtime: lives.map(|s| s.runtime.clone()).or_else(|| wish.map(|wish| wish.runtime.clone())),
        }
    });
    Ok((seen.collect(), is_up))
}

/// How much it has to do yet. A mailbox that does not read is no empty one.
fn mail(bus: &Bus<'_>, agent: &AgentId, wish: Option<&Desired>) -> usize {
    let open: &[State] = match wish {
        Some(wish) if !has_receipts(wish) => &[State::Written, State::Claimed],
        _ => &[State::Written, State::Claimed, State::Delivered],
    };
    if !bus.knows(agent) {
        return 0;
    }
    open.iter().map(|state| bus.count(agent, *state).unwrap_or(1)).sum()
}

/// What starting a clone for a task comes to: in the task's folder, where it has one.
///
/// # Errors
/// As [`crate::plan`], but for who asks: see [`may_hand_out`].
pub fn plan_clone(
    layout: &Layout,
    agent: &AgentId,
    runtime: Option<String>,
    (cwd, place): (PathBuf, Option<PathBuf>),
) -> Result<Plan> {
    let which = Which::One(agent.clone());
    planned(layout, &Wish { which, runtime, cwd, place, for_task: true, ..Wish::default() })
}

/// As [`crate::stop`], for whoever [`may_hand_out`].
///
/// # Errors
/// As there.
pub fn stop_clone(
    cx: &Context<'_>,
    caller: &Caller,
    agent: &AgentId,
    grace: Option<Duration>,
) -> Result<bool> {
    may_hand_out(caller, "clone stop")?;
    stop(cx, &Caller::Outside, agent, grace, &Guard::none())
}
