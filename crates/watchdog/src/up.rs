//! `netsky up`: write what should run, tick once, and wait for agent0's proof.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process, spawn, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Guard, SessionView};
use netsky_model::backoff::Attempts;
use netsky_model::desired::{Desired, VERSION, Want};
use netsky_model::id::{AgentId, Generation};
use netsky_model::process::Life;
use netsky_model::restart::Phase;
use netsky_runtime::{Config, TAG_SINCE, inherited};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::session_up::UpProof;
use crate::tick::{self, Held, Ticked};
use crate::{observe, perform, reserve};

/// Longest wait for agent0's proof.
pub(crate) const UP_LIMIT: Duration = Duration::from_secs(60);

/// Most bytes of a wish as JSON: the kernel takes a start of 256 KiB, and a start says more than a wish.
const MOST: usize = 192 << 10;

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

/// What a wish comes to in this home.
#[derive(Debug, Clone)]
pub struct Plan {
    /// agent0 and the clones.
    slots: Vec<Desired>,
    interval: Option<Duration>,
    config: Config,
}

/// Look at everything before anything is wanted: nothing is written, and there need not be a home yet.
///
/// # Errors
/// Called inside a session, the settings do not read, nothing says what to run, or what does can never be started.
pub fn plan(layout: &Layout, caller: &Caller, wish: &Wish) -> Result<Plan> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "up" });
    }
    let config = Config::load(layout)?;
    let slots = (0..=wish.clones)
        .map(|number| slot(layout, &config, wish, &AgentId::numbered(number)))
        .collect::<Result<_>>()?;
    Ok(Plan { slots, interval: wish.interval, config })
}

/// Bring a constellation up; agents that live and are meant to are left as they are. What was done is `said` before
/// agent0 is waited for.
///
/// # Errors
/// An agent lives with another program or a restart goes on starting agents (nothing was changed); a `down` or another
/// `up` came meanwhile; or agent0 did not prove itself in time (it is left to the tick, which goes on with it). That
/// another agent could not be started is a problem in the result.
pub fn up(cx: &Context<'_>, plan: &Plan, mut said: impl FnMut(&str)) -> Result<Upped> {
    let root = AgentId::root();
    let (before, ticked) = {
        let mut held = Held::take(cx)?;
        reserve::need(cx)?;
        let mut client = cx.anchor()?;
        held.got_on()?;
        let (sessions, unmade) = say_wishes(cx, plan, &mut client)?;
        held.got_on()?;
        let mut ticked = tick::run(cx, &mut held)?;
        ticked.problems.splice(0..0, unmade);
        let mut ticked = ticked.each_once();
        ticked.done.extend(kept(cx, plan)?);
        ticked.done.extend(unheeded(cx, plan)?);
        let before = sessions.into_iter().find(|session| session.name == root);
        (before.map_or(Generation::NONE, |session| session.generation), ticked)
    };
    for line in &ticked.done {
        said(line);
    }
    let proof = wait_for_root(cx, plan, &ticked, before)?;
    Ok(Upped { ticked, proof })
}

/// Write what should run, if nobody lives for something else; the sessions it was decided by, and whose mailbox could not
/// be made.
fn say_wishes(cx: &Context<'_>, plan: &Plan, client: &mut Client) -> Result<(Vec<SessionView>, Vec<String>)> {
    let _wishes = perform::hold_wishes(cx)?;
    let sessions = client.list()?;
    refuse_others(cx, plan, client, &sessions)?;
    // Without its mailbox no agent0 is started; then nothing is changed.
    cx.bus.create(&AgentId::root())?;
    let mut unmade = Vec::new();
    for desired in ours(cx, plan).iter().chain(&plan.slots) {
        // First: nobody is ever wanted without a mailbox but where it cannot be made, which keeps only that one down.
        if let Err(error) = cx.bus.create(&desired.agent) {
            unmade.push(format!("mail of {}: {error}", desired.agent));
        }
        want(cx, client, &sessions, desired)?;
    }
    Ok((sessions, unmade))
}

/// Who lives with another program or folder is not changed under its feet.
fn refuse_others(cx: &Context<'_>, plan: &Plan, client: &mut Client, sessions: &[SessionView]) -> Result<()> {
    let mut others = Vec::new();
    // What the restart under way has just started and that proved nothing may end this very moment, and is no reason to
    // refuse the correction of a program that keeps ending. Who lives beside it may never say that it is up.
    let status = observe::underway(cx).unwrap_or_default().and_then(|underway| underway.status);
    let started = status.map_or_else(Vec::new, |status| status.agents);
    let is_new = |session: &SessionView| {
        started.iter().any(|new| new.name == session.name && new.generation == session.generation)
    };
    for desired in &plan.slots {
        let Some(session) = living(sessions, &desired.agent) else { continue };
        let stays = !is_new(session) || UpProof::of_session(cx, session).is_some();
        // Its own word, not its wish's: that may be gone, damaged, or taken back by a `down` that was cut short.
        if stays && !runs(&client.show(&desired.agent)?, desired) {
            others.push(desired.agent.clone());
        }
    }
    if others.is_empty() { Ok(()) } else { Err(Error::OtherProgram(others)) }
}

fn is_same(before: &Desired, desired: &Desired) -> bool {
    before.argv == desired.argv && before.cwd == desired.cwd && before.runtime == desired.runtime
}

/// Whether who lives is what is wanted.
fn runs(lives: &SessionView, desired: &Desired) -> bool {
    lives.argv == desired.argv && lives.cwd.as_ref() == Some(&desired.cwd) && lives.runtime == desired.runtime
}

fn living<'a>(sessions: &'a [SessionView], agent: &AgentId) -> Option<&'a SessionView> {
    sessions.iter().find(|session| session.name == *agent && session.state.may_live())
}

/// Clones beyond the number that was asked for stay: the number only grows.
fn kept(cx: &Context<'_>, plan: &Plan) -> Result<Option<String>> {
    let more: Vec<String> = observe::wishes(cx, &mut Vec::new())?
        .read
        .into_iter()
        .filter(|wish| wish.want == Want::Up && wish.agent.number().is_some())
        .filter(|wish| plan.slots.iter().all(|slot| slot.agent != wish.agent))
        .map(|wish| wish.agent.to_string())
        .collect();
    let say = || format!("also wanted: {} (`up` only adds, `netsky down` first for fewer)", more.join(", "));
    Ok((!more.is_empty()).then(say))
}

/// Whose wish keeps other settings than those that `config.toml` has added or changed since, because it lives: they are
/// taken after a `down`.
fn unheeded(cx: &Context<'_>, plan: &Plan) -> Result<Option<String>> {
    let differs = |wish: &Desired| {
        let slot = plan.config.slot(&wish.agent);
        slot.env.iter().any(|(name, value)| wish.env.get(name) != Some(value))
            || slot.receipts.is_some_and(|receipts| receipts != wish.receipts)
    };
    let wishes = observe::wishes(cx, &mut Vec::new())?.read;
    let others: Vec<&str> = wishes
        .iter()
        .filter(|wish| plan.slots.iter().any(|slot| slot.agent == wish.agent) && differs(wish))
        .map(|wish| wish.agent.as_str())
        .collect();
    let way = "what config.toml says now of environment or receipts is taken after a `netsky down`";
    let say = || format!("run on as they were started: {} ({way})", others.join(", "));
    Ok((!others.is_empty()).then(say))
}

/// The two that keep the rest.
fn ours(cx: &Context<'_>, plan: &Plan) -> [Desired; 2] {
    let netsky = cx.netsky.display().to_string();
    let mut ticker = vec![netsky.clone(), "ticker".to_owned()];
    if let Some(interval) = plan.interval.or_else(|| interval_before(cx)) {
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

/// The interval that an earlier `up` gave the ticker.
fn interval_before(cx: &Context<'_>) -> Option<Duration> {
    let before: Option<Desired> = state::read_json(cx.layout.desired(&AgentId::ticker())).unwrap_or_default();
    let argv = before?.argv;
    let said = argv.iter().skip_while(|word| *word != "--tick").nth(1)?;
    netsky_model::duration::parse(said).ok()
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
fn slot(layout: &Layout, config: &Config, wish: &Wish, agent: &AgentId) -> Result<Desired> {
    let slot = config.slot(agent);
    let runtime = wish.runtime.clone().or(slot.runtime).unwrap_or_else(|| "command".to_owned());
    if runtime != "command" {
        return Err(Error::NoRuntime(runtime));
    }
    let (before, damage) = match state::read_json::<Desired>(layout.desired(agent)) {
        Ok(Some(other)) if other.agent != *agent => {
            let why = format!("it is about {}; move it away", other.agent);
            let why = netsky_disk::Error::because("trust", layout.desired(agent), why);
            return Err(Error::BadWish { agent: agent.clone(), why });
        }
        Ok(before) => (before, None),
        Err(error) if error.is_damage() => (None, Some(error)),
        // What cannot be set aside keeps the new wish out: nothing is begun.
        Err(why) => return Err(Error::BadWish { agent: agent.clone(), why }),
    };
    let configured =
        Configured { program: wish.argv.is_empty() && slot.argv.is_some(), folder: slot.cwd.is_some() };
    let is_said = !wish.argv.is_empty();
    let mut desired = match slot.argv {
        argv if is_said || argv.is_some() => {
            let argv = argv.filter(|_| !is_said).unwrap_or_else(|| wish.argv.clone());
            Desired { argv, cwd: wish.cwd.clone(), env: inherited(), ..blank(agent.clone()) }
        }
        _ => {
            if let Some(why) = damage {
                return Err(Error::BadWish { agent: agent.clone(), why });
            }
            let before = before.clone().ok_or_else(|| Error::NoProgram { agent: agent.clone() })?;
            Desired { want: Want::Up, by: "up".to_owned(), since: clock::wall(), ..before }
        }
    };
    desired.runtime = runtime;
    desired.env.extend(slot.env);
    // Kept for every later start, from whatever folder that is.
    desired.cwd = slot.cwd.map_or(desired.cwd, |cwd| wish.cwd.join(cwd));
    desired.receipts = slot.receipts.unwrap_or(desired.receipts);
    let unstartable = |why| Error::Unstartable { agent: agent.clone(), why };
    if let Some(why) = too_large(&desired) {
        return Err(unstartable(why));
    }
    let is_wanted = before.is_some_and(|before| before.want == Want::Up && is_same(&before, &desired));
    // What was not said now but is wanted may live, and is the tick's to try again; so is a clone: agent0 runs without.
    let is_ticks = (!is_said || configured.folder) && (is_wanted || *agent != AgentId::root());
    let why = if is_ticks { None } else { no_start(&desired, &configured)? };
    why.map_or(Ok(desired), |why| Err(unstartable(why)))
}

/// Which words of a wish are the settings', not said with `up`.
struct Configured {
    program: bool,
    folder: bool,
}

/// Why no start has room for a wish.
fn too_large(desired: &Desired) -> Option<String> {
    match serde_json::to_vec(desired) {
        Ok(bytes) if bytes.len() <= MOST => None,
        Ok(bytes) => {
            Some(format!("its program and environment take {} bytes of at most {MOST}", bytes.len()))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Why a wish could never be started, after where that is said.
fn no_start(desired: &Desired, configured: &Configured) -> Result<Option<String>> {
    let said = |configured: bool, why| format!("{}{why}", if configured { "config.toml: " } else { "" });
    // First: a program may be looked for in it.
    if let Some(why) = perform::no_folder(desired) {
        return Ok(Some(said(configured.folder, why)));
    }
    let netsky = spawn::sibling("netsky")?;
    let why = perform::no_program(desired, perform::folder_of(&netsky));
    Ok(why.map(|why| said(configured.program, why)))
}

/// Write a wish. An agent that lives for its wish keeps it, and a wish that says the same as before keeps its
/// date: what died for it is then brought back with a handoff, not begun anew.
fn want(cx: &Context<'_>, client: &mut Client, sessions: &[SessionView], desired: &Desired) -> Result<()> {
    let path = cx.layout.desired(&desired.agent);
    let before = match state::read_json::<Desired>(&path) {
        Err(error) if error.is_damage() => {
            state::set_aside(&path)?;
            None
        }
        read => read?,
    };
    let before = before.filter(|before| before.want == Want::Up);
    let mut lives = living(sessions, &desired.agent);
    if let Some(session) = lives
        // Of another program file it does the same work.
        && desired.agent != AgentId::infinity()
        && !runs(&client.show(&session.name)?, desired)
    {
        // The ticker, or what a restart has just started and proved nothing; the others were refused before.
        client.kill(&session.name, None, &Guard::if_generation(session.generation))?;
        lives = None;
    }
    if let Some(before) = before {
        if lives.is_some() && (is_same(&before, desired) || desired.agent == AgentId::infinity()) {
            return Ok(());
        }
        if is_same(&before, desired) {
            // Said again by hand: it is tried now, with what else the settings say.
            perform::forget_attempts(cx, &desired.agent)?;
            return Ok(state::write_json(&path, &Desired { since: before.since, ..desired.clone() })?);
        }
    }
    perform::forget_attempts(cx, &desired.agent)?;
    // Who lives for a wish that was lost lives for this one: should it die, it is brought back with a handoff.
    let lives_for = lives.and_then(|session| session.tags.get(TAG_SINCE)?.parse().ok());
    Ok(state::write_json(path, &Desired { since: lives_for.unwrap_or(desired.since), ..desired.clone() })?)
}

fn wait_for_root(cx: &Context<'_>, plan: &Plan, ticked: &Ticked, before: Generation) -> Result<UpProof> {
    let root = AgentId::root();
    let failed = &cx.layout.marker(&root, "revive-failed");
    let planned = plan.slots.iter().find(|slot| slot.agent == root);
    UpProof::wait(cx, UP_LIMIT, || {
        let wish: Desired = state::read_json(cx.layout.desired(&root))?
            .ok_or_else(|| Error::Overtaken("its wish was removed"))?;
        if wish.want != Want::Up {
            return Err(Error::Overtaken("`netsky down` came"));
        }
        if !planned.is_some_and(|planned| is_same(planned, &wish)) {
            return Err(Error::Overtaken("another `netsky up` with another program or folder came"));
        }
        // Asked anew each time: a restart may replace the one that we began to wait for.
        let session =
            Client::connect(&cx.layout.kernel_root()).and_then(|mut client| client.show(&root)).ok();
        let Some(session) = session else {
            let told = !ticked.problems.is_empty();
            return if told { Err(Error::Restart(ticked.problems.join("; "))) } else { Ok(None) };
        };
        let proof = UpProof::of_session(cx, &session);
        if session.state.may_live() {
            // The kernel's word may be older than the death of what it speaks of, and a restart replaces who lives.
            let stays = session.program.as_ref().is_some_and(|id| process::probe(id) != Life::Dead)
                && !is_to_be_replaced(cx, session.generation)?;
            return Ok(proof.filter(|_| stays));
        }
        // Its end says nothing about the program that is wanted now: a restart was under way with the one before.
        if wish.argv != session.argv {
            return Ok(None);
        }
        // What this call started ended by itself.
        let ours = session.generation > before && perform::stopped(&session).is_none();
        let no_room = || perform::no_room(cx).filter(|_| !ours);
        if let Some(why) = perform::not_startable(cx, &wish).or_else(no_room) {
            return Err(Error::NotStarted(why));
        }
        let how = || session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string);
        // Nobody is bringing it back right now: the next try may be minutes away. In this order: a tick that has counted
        // its try still holds the lock, or has noted its restart.
        let later = (state::exists(failed)? || has_to_wait(cx)?)
            && !Lock::is_held(cx.layout.watchdog_lock())?
            && !is_to_be_replaced(cx, session.generation)?
            && !state::exists(cx.layout.restart_inflight())?;
        if proof.is_some() {
            return if later { Err(Error::EndedAfterUp(how())) } else { Ok(None) };
        }
        if ours || later { Err(Error::EndedBeforeUp(how())) } else { Ok(None) }
    })
}

/// Whether a restart was asked for, or is under way, that ends this agent0.
fn is_to_be_replaced(cx: &Context<'_>, generation: Generation) -> Result<bool> {
    let asked = observe::is_asked(cx.layout)?;
    let Some(underway) = observe::underway(cx)? else { return Ok(asked) };
    let Some(status) = underway.status else { return Ok(true) };
    let started = status.agents.iter().find(|started| started.name == AgentId::root());
    Ok(status.phase != Phase::Failed && started.is_none_or(|started| generation < started.generation))
}

fn has_to_wait(cx: &Context<'_>) -> Result<bool> {
    let attempts: Attempts =
        state::read_json(cx.layout.marker(&AgentId::root(), "restart-attempts"))?.unwrap_or_default();
    Ok(!attempts.wait(&clock::stamp()).is_zero())
}
