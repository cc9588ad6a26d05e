//! What is the owner's alone: whom a constellation keeps is ended, signalled or stopped serving by no agent of it, whatever
//! it asks by. Of itself an agent may have both; those who keep it (`keeper` is `anchor`) run ticks, which end agents.
//!
//! Only who asks for such a thing of a kept session pays for the look at who is above it.

use netsky_disk::{env, process, sweep};
use netsky_model::id::AgentId;

use super::dispatch::Call;
use super::state::Anchor;
use super::table::Life;
use super::whoami::whoami;
use crate::rpc::{Refusal, RefusalKind};
use crate::session::Keeper;

/// Refuses `what` of a session to an agent that is not it.
pub(super) fn may(call: &Call, what: &str, session: &AgentId) -> Result<(), Refusal> {
    // The child of a restart, which a tick below agent0 began, ends agents and outlives them. Who keeps them it leaves alone.
    let is_child = || keeper(&call.anchor, session) == Some(Keeper::Watchdog) && is_apart(call);
    let is_other = || match above(call) {
        Above::NoAgent => false,
        Above::Agent(agent) => agent != *session,
        Above::Unknown => true,
    };
    match is_kept(&call.anchor, session) && is_other() && !is_child() {
        true => Err(for_the_owner(&format!("{what} {session}"))),
        false => Ok(()),
    }
}

/// Refuses to an agent to have nobody serve those who are kept.
pub(super) fn may_stop(call: &Call) -> Result<(), Refusal> {
    let lives = |name: &AgentId| call.anchor.entry(name, |entry| entry.life != Life::Gone);
    let serves = |name: &AgentId| is_kept(&call.anchor, name) && lives(name).unwrap_or(false);
    match call.anchor.names().iter().any(serves) && above(call) != Above::NoAgent {
        true => Err(for_the_owner("kernel/shutdown")),
        false => Ok(()),
    }
}

/// Whether somebody above the kernel relies on it; the sessions of a bare root are their callers' own.
fn is_kept(anchor: &Anchor, session: &AgentId) -> bool {
    keeper(anchor, session).is_some_and(|keeper| keeper != Keeper::Policy)
}

fn keeper(anchor: &Anchor, session: &AgentId) -> Option<Keeper> {
    anchor.entry(session, |entry| entry.meta.spec.keeper)
}

/// What a caller is of.
#[derive(PartialEq)]
enum Above {
    /// The session of an agent.
    Agent(AgentId),
    /// None, or one that keeps others.
    NoAgent,
    /// Nobody can know: it is gone.
    Unknown,
}

/// Below which session the caller runs.
fn above(call: &Call) -> Above {
    let Some(caller) = &call.caller else { return Above::Unknown };
    let session = whoami(&call.anchor, Some(caller)).session;
    // Asked after the look: that was of a living caller.
    if !process::is_alive(caller) {
        return Above::Unknown;
    }
    match session.filter(|who| keeper(&call.anchor, &who.name) != Some(Keeper::Anchor)) {
        Some(who) => Above::Agent(who.name),
        None => Above::NoAgent,
    }
}

/// Whether the caller was started as no part of the tree it came from; its own word.
fn is_apart(call: &Call) -> bool {
    call.caller.as_ref().is_some_and(|caller| sweep::environment_of(caller.pid, env::APART).is_some())
}

fn for_the_owner(what: &str) -> Refusal {
    Refusal::new(RefusalKind::Refused, format!("{what} is for the owner, outside every session"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::rc::Rc;

    use netsky_model::process::ProcessId;

    use super::*;
    use crate::anchor::stage::{on_stage, session};

    const CONSTELLATION: [(&str, Keeper); 4] = [
        ("agent0", Keeper::Watchdog),
        ("agent1", Keeper::Watchdog),
        ("agentinfinity", Keeper::Anchor),
        ("plain", Keeper::Policy),
    ];

    /// What somebody is let do who runs below `above`, if anywhere: end agent0, agent1, agentinfinity, a plain session and
    /// one that is not there, and stop the anchor.
    fn let_do(all: [(&str, Keeper); 4], above: Option<&str>, apart: bool) -> Vec<bool> {
        let mut may_all = Vec::new();
        on_stage(async |anchor| {
            let mut child = Command::new("cat");
            let child = child.envs(apart.then_some((env::APART, "1"))).stdin(Stdio::piped());
            let mut child = child.spawn().expect("cat is there");
            let caller: ProcessId = process::identify(child.id()).expect("not waited for");
            for (name, keeper) in all {
                let mut meta = session(name, keeper);
                meta.program = (above == Some(name)).then(|| caller.clone());
                anchor.put(meta, Life::Live);
            }
            let call = Call { anchor: Rc::clone(&anchor), caller: Some(caller), seat: Rc::default() };
            let names = ["agent0", "agent1", "agentinfinity", "plain", "agent9"];
            may_all
                .extend(names.map(|name| may(&call, "the end of", &name.parse().expect("a name")).is_ok()));
            may_all.push(may_stop(&call).is_ok());
            drop(child.stdin.take());
            child.wait().expect("it ends");
            let kept = may(&call, "the end of", &"agent0".parse().expect("a name")).is_ok();
            let is_bare = !all.iter().any(|(_, keeper)| *keeper != Keeper::Policy);
            assert_eq!([kept, may_stop(&call).is_ok()], [is_bare; 2], "who is gone when it is looked at");
        });
        may_all
    }

    #[test]
    fn an_agent_ends_itself_and_nobody_else_who_is_kept_and_who_keeps_it_ends_all() {
        let all = vec![true; 6];
        assert_eq!(let_do(CONSTELLATION, None, false), all, "outside");
        assert_eq!(let_do(CONSTELLATION, Some("agentinfinity"), false), all, "a tick");
        assert_eq!(
            let_do(CONSTELLATION, Some("agent1"), false),
            [false, true, false, true, true, false],
            "an agent"
        );
        assert_eq!(
            let_do(CONSTELLATION, Some("plain"), false),
            [false, false, false, true, true, false],
            "what an agent starts of its own is no way round"
        );
        assert_eq!(
            let_do(CONSTELLATION, Some("agent1"), true),
            [true, true, false, true, true, false],
            "the child of a restart"
        );
        let bare = CONSTELLATION.map(|(name, _)| (name, Keeper::Policy));
        assert_eq!(let_do(bare, Some("agent1"), false), all, "a bare kernel");
    }
}
