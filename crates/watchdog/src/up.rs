//! `netsky up`: write what should run, tick once, and wait for agent0's proof.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::{clock, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::Guard;
use netsky_model::desired::{Desired, VERSION, Want};
use netsky_model::id::AgentId;
use netsky_runtime::{Config, inherited};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::perform;
use crate::session_up::UpProof;
use crate::tick::{self, Held, Ticked};

/// Longest wait for agent0's proof.
const UP_LIMIT: Duration = Duration::from_secs(60);

/// What should be up.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// How many clones besides agent0.
    pub clones: u32,
    /// Runtime of all agents; the configuration's if none.
    pub runtime: Option<String>,
    /// Program of all agents; the configuration's if empty.
    pub argv: Vec<String>,
    /// Interval of the ticker.
    pub interval: Option<Duration>,
    /// Working folder of agents that have none configured.
    pub cwd: PathBuf,
}

/// A constellation that is up.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Upped {
    /// What the tick did.
    pub ticked: Ticked,
    /// agent0's proof.
    pub proof: UpProof,
}

/// Bring a constellation up; agents that live and are meant to are left as they are.
///
/// # Errors
/// Called inside a session, nothing says what to run, or agent0 did not prove itself in time (it is
/// left running, and the tick goes on with it).
pub fn up(cx: &Context<'_>, caller: &Caller, wish: &Wish) -> Result<Upped> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "up" });
    }
    let config = Config::load(cx.layout)?;
    let agents: Vec<AgentId> = (0..=wish.clones).map(AgentId::numbered).collect();
    // Everything is looked at before anything is wanted.
    let slots: Vec<Desired> =
        agents.iter().map(|agent| slot(cx, &config, wish, agent)).collect::<Result<_>>()?;
    let ticked = {
        let mut held = Held::take(cx)?;
        let mut client = cx.anchor()?;
        let mut notes = Vec::new();
        for desired in ours(cx, wish).iter().chain(&slots) {
            notes.extend(want(cx, &mut client, desired)?);
            cx.bus.create(&desired.agent)?;
        }
        let mut ticked = tick::run(cx, &mut held)?;
        ticked.done.extend(notes);
        ticked
    };
    let proof = wait_for_root(cx, &ticked)?;
    Ok(Upped { ticked, proof })
}

/// The two that keep the rest.
fn ours(cx: &Context<'_>, wish: &Wish) -> [Desired; 2] {
    let netsky = cx.netsky.display().to_string();
    let mut ticker = vec![netsky.clone(), "ticker".to_owned()];
    if let Some(interval) = wish.interval {
        ticker.extend(["--tick".to_owned(), format!("{}ms", interval.as_millis())]);
    }
    let serve = vec![netsky, "watchdog".to_owned(), "serve".to_owned()];
    [(AgentId::infinity(), serve), (AgentId::ticker(), ticker)].map(|(agent, argv)| Desired {
        runtime: "command".to_owned(),
        argv,
        cwd: cx.layout.home().to_owned(),
        env: inherited(),
        receipts: netsky_model::desired::Receipts::None,
        // What they write is the constellation's, not the user's.
        umask: None,
        ..blank(agent)
    })
}

fn blank(agent: AgentId) -> Desired {
    Desired {
        v: VERSION,
        agent,
        want: Want::Up,
        by: "up".to_owned(),
        since: clock::wall(),
        runtime: String::new(),
        argv: Vec::new(),
        cwd: PathBuf::new(),
        env: BTreeMap::new(),
        receipts: netsky_model::desired::Receipts::default(),
        umask: netsky_disk::process::users_umask(),
        extra: serde_json::Map::new(),
    }
}

/// What a slot should run: as said, else as configured, else as it ran before.
fn slot(cx: &Context<'_>, config: &Config, wish: &Wish, agent: &AgentId) -> Result<Desired> {
    let slot = config.slot(agent);
    let runtime = wish.runtime.clone().or(slot.runtime).unwrap_or_else(|| "command".to_owned());
    if runtime != "command" {
        return Err(Error::NoRuntime(runtime));
    }
    let argv = if wish.argv.is_empty() { slot.argv.unwrap_or_default() } else { wish.argv.clone() };
    if argv.is_empty() {
        // A damaged wish cannot be come back to; whoever said nothing else is told that there is no program.
        let before: Option<Desired> = state::read_json(cx.layout.desired(agent)).unwrap_or_default();
        let again = before.map(|before| Desired {
            want: Want::Up,
            by: "up".to_owned(),
            since: clock::wall(),
            ..before
        });
        return again.ok_or_else(|| Error::NoProgram { agent: agent.clone() });
    }
    let mut env = inherited();
    env.extend(slot.env);
    // Kept for every later start, from whatever folder that is.
    let cwd = slot.cwd.map_or_else(|| wish.cwd.clone(), |cwd| wish.cwd.join(cwd));
    let receipts = slot.receipts.unwrap_or_default();
    Ok(Desired { runtime, argv, cwd, env, receipts, ..blank(agent.clone()) })
}

/// Write a wish. An agent that lives for its wish keeps it, and a wish that says the same as before keeps its
/// date: what died for it is then brought back with a handoff, not begun anew.
fn want(cx: &Context<'_>, client: &mut Client, desired: &Desired) -> Result<Option<String>> {
    let path = cx.layout.desired(&desired.agent);
    let before = match state::read_json::<Desired>(&path) {
        Err(error) if error.is_damage() => {
            state::set_aside(&path)?;
            None
        }
        read => read?,
    };
    if let Some(before) = before.filter(|before| before.want == Want::Up) {
        let same =
            before.argv == desired.argv && before.cwd == desired.cwd && before.runtime == desired.runtime;
        let session = client.list()?.into_iter().find(|s| s.name == desired.agent && s.state.may_live());
        if same {
            if session.is_none() {
                // Said again by hand: it is tried now, with what else the settings say.
                perform::forget_attempts(cx, &desired.agent)?;
                state::write_json(&path, &Desired { since: before.since, ..desired.clone() })?;
            }
            return Ok(None);
        }
        match session {
            Some(session) if desired.agent == AgentId::ticker() => {
                client.kill(&session.name, None, &Guard::if_generation(session.generation))?;
            }
            Some(_) if desired.agent == AgentId::infinity() => return Ok(None),
            Some(_) => {
                let agent = &desired.agent;
                return Ok(Some(format!(
                    "{agent} is up with another program or folder; `netsky down` first to change it"
                )));
            }
            None => {}
        }
    }
    perform::forget_attempts(cx, &desired.agent)?;
    state::write_json(path, desired)?;
    Ok(None)
}

fn wait_for_root(cx: &Context<'_>, ticked: &Ticked) -> Result<UpProof> {
    let root = AgentId::root();
    let failed = &cx.layout.marker(&root, "revive-failed");
    UpProof::wait(cx, UP_LIMIT, || {
        // Asked anew each time: a restart may replace the one that we began to wait for.
        let session =
            Client::connect(&cx.layout.kernel_root()).and_then(|mut client| client.show(&root)).ok();
        let Some(session) = session else {
            let told = !ticked.problems.is_empty();
            return if told { Err(Error::Restart(ticked.problems.join("; "))) } else { Ok(None) };
        };
        if session.state.may_live() {
            return Ok(UpProof::of_session(cx, &session));
        }
        // Gone, and nobody is bringing it back right now: the next try may be minutes away.
        if !state::exists(cx.layout.restart_inflight())? && state::exists(failed)? {
            let how = session.end.map_or_else(|| session.state.to_string(), |end| end.to_string());
            return Err(Error::EndedBeforeUp(how));
        }
        Ok(None)
    })
}
