//! `netsky up`: write what should run, tick once, and wait for agent0's proof.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, state};
use netsky_kernel::client::Client;
use netsky_model::desired::{Desired, VERSION, Want};
use netsky_model::id::{AgentId, Nonce};
use netsky_runtime::{Config, TAG_NONCE, inherited};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::session_up::UpProof;
use crate::tick::{self, Ticked};

/// Longest wait for agent0's proof.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// Slow look while waiting.
const RESCAN: Duration = Duration::from_millis(500);

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

/// Bring a constellation up; agents that are meant to be up already are left as they are.
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
    let slots: Vec<Desired> = agents.iter().map(|agent| slot(&config, wish, agent)).collect::<Result<_>>()?;
    let ticked = {
        let _lock = tick::lock(cx)?;
        for desired in ours(cx, wish).iter().chain(&slots) {
            want(cx, desired)?;
            cx.bus.create(&desired.agent)?;
        }
        tick::run(cx)?
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
        extra: serde_json::Map::new(),
    }
}

fn slot(config: &Config, wish: &Wish, agent: &AgentId) -> Result<Desired> {
    let slot = config.slot(agent);
    let runtime = wish.runtime.clone().or(slot.runtime).unwrap_or_else(|| "command".to_owned());
    if runtime != "command" {
        return Err(Error::NoRuntime(runtime));
    }
    let argv = if wish.argv.is_empty() { slot.argv.unwrap_or_default() } else { wish.argv.clone() };
    if argv.is_empty() {
        return Err(Error::NoProgram { agent: agent.clone() });
    }
    let mut env = inherited();
    env.extend(slot.env);
    let cwd = slot.cwd.unwrap_or_else(|| wish.cwd.clone());
    let receipts = slot.receipts.unwrap_or_default();
    Ok(Desired { runtime, argv, cwd, env, receipts, ..blank(agent.clone()) })
}

/// Write a wish, unless the agent is wanted already.
fn want(cx: &Context<'_>, desired: &Desired) -> Result<()> {
    let path = cx.layout.desired(&desired.agent);
    let before: Option<Desired> = state::read_json(&path)?;
    if before.is_some_and(|before| before.want == Want::Up) {
        return Ok(());
    }
    state::remove(cx.layout.marker(&desired.agent, "restart-attempts"))?;
    Ok(state::write_json(path, desired)?)
}

fn wait_for_root(cx: &Context<'_>, ticked: &Ticked) -> Result<UpProof> {
    let root = AgentId::root();
    let watch = Watch::new(&[cx.layout.up_folder()])?;
    let until = clock::boot() + UP_LIMIT;
    while clock::boot() < until {
        // Asked anew each time: a restart may replace the one that we began to wait for.
        let session =
            Client::connect(&cx.layout.kernel_root()).and_then(|mut client| client.show(&root)).ok();
        if session.is_none() && !ticked.problems.is_empty() {
            return Err(Error::Restart(ticked.problems.join("; ")));
        }
        let proof = session.and_then(|session| {
            let nonce: Nonce = session.tags.get(TAG_NONCE)?.parse().ok()?;
            UpProof::of(cx, &nonce, &root, session.generation)
        });
        if let Some(proof) = proof {
            return Ok(proof);
        }
        watch.wait(RESCAN)?;
    }
    Err(Error::NotProved(UP_LIMIT))
}
