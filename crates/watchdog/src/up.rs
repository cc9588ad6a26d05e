//! `netsky up`: write what should run, tick once, and wait for agent0's proof.

mod clones;
mod slot;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Guard, RefusalKind, SessionView};
use netsky_model::backoff::Attempts;
use netsky_model::desired::{Desired, VERSION, Want};
use netsky_model::id::{AgentId, Generation};
use netsky_model::lifecycle::LifecycleState;
use netsky_model::process::Life;
use netsky_model::restart::Phase;
use netsky_runtime::driver::{Doing, Wedge};
use netsky_runtime::drivers::Book;
use netsky_runtime::{
    Config, TAG_SINCE, UpProof, conversation, converses, driver, inherited, wished_argv, writes_to,
};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::session_up::wait_for_proof;
use crate::tick::{self, By, Ticked};
use crate::{known, observe, perform, reserve};

/// Most clones of one constellation: far above what one machine runs, far below what hurts it.
pub const MAX_CLONES: u32 = 256;

/// Longest wait for agent0's proof.
pub(crate) const UP_LIMIT: Duration = Duration::from_secs(60);

/// What should be up.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Which agents.
    pub which: Which,
    /// Runtime of all agents; the configuration's if none.
    pub runtime: Option<String>,
    /// A conversation from before that the one agent goes on with.
    pub resume: Option<String>,
    /// Model of all agents; the configuration's if none.
    pub model: Option<String>,
    /// Program of all agents; the configuration's if empty.
    pub argv: Vec<String>,
    /// Interval of the ticker.
    pub interval: Option<Duration>,
    /// Working folder of agents that have none configured.
    pub cwd: PathBuf,
    /// The folder of a task that the one agent is started for, whatever the settings say.
    pub place: Option<PathBuf>,
    /// Whether the one agent is started for a task.
    pub for_task: bool,
}

/// Which agents should be up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// agent0, and so many clones besides.
    All(u32),
    /// This one, in a constellation that is up.
    One(AgentId),
}

impl Default for Which {
    fn default() -> Which {
        Which::All(0)
    }
}

/// A constellation that is up.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Upped {
    /// What the tick did.
    pub ticked: Ticked,
    /// The proof of agent0, or of the one that was meant.
    pub proof: UpProof,
    /// The clones that ended at once, or run and will not take part, a sentence each.
    pub unwell: Vec<String>,
}

/// What a wish comes to in this home.
#[derive(Debug, Clone)]
pub struct Plan {
    /// agent0 and the clones, or the one that was meant.
    slots: Vec<Desired>,
    /// Whose proof is waited for.
    first: AgentId,
    interval: Option<Duration>,
    config: Config,
    /// Whether the command itself names a kind, a model or a program.
    is_said: bool,
}

/// Look at everything before anything is wanted: nothing is written, and there need not be a home yet.
///
/// # Errors
/// Called inside a session, the settings do not read, nothing says what to run, or what does can never be started.
pub fn plan(layout: &Layout, caller: &Caller, wish: &Wish) -> Result<Plan> {
    if *caller != Caller::Outside {
        return Err(Error::OwnerOnly { verb: "up" });
    }
    planned(layout, wish)
}

/// As [`plan`], whoever asks.
pub(crate) fn planned(layout: &Layout, wish: &Wish) -> Result<Plan> {
    let config = Config::load(layout)?;
    let (first, agents) = match &wish.which {
        Which::All(clones) => (AgentId::root(), (0..=*clones).map(AgentId::numbered).collect()),
        Which::One(agent) => {
            if agent.number().is_none_or(|number| number > MAX_CLONES) {
                return Err(Error::NoSlot(agent.clone()));
            }
            let root: Option<Desired> = state::read_json(layout.desired(&AgentId::root()))?;
            if *agent != AgentId::root() && root.is_none_or(|root| root.want != Want::Up) {
                return Err(Error::NotUp);
            }
            (agent.clone(), vec![agent.clone()])
        }
    };
    let slots = agents.iter().map(|agent| slot::slot(layout, &config, wish, agent)).collect::<Result<_>>()?;
    Ok(Plan { slots, first, interval: wish.interval, config, is_said: slot::is_said(wish) })
}

/// Bring a constellation up; agents that live and are meant to are left as they are. What was done is `said` before
/// agent0 is waited for.
///
/// # Errors
/// An agent lives with another program or a restart goes on starting agents (nothing was changed); a `down` or another
/// `up` came meanwhile; or agent0 did not prove itself in time (it is left to the tick, which goes on with it). That
/// another agent could not be started is a problem in the result.
pub fn up(cx: &Context<'_>, plan: &Plan, mut said: impl FnMut(&str)) -> Result<Upped> {
    let (before, ticked) = {
        let mut held = Held::take(cx)?;
        reserve::need(cx)?;
        let mut client = cx.anchor()?;
        held.got_on()?;
        let (sessions, unmade) = say_wishes(cx, plan, &mut client)?;
        held.got_on()?;
        let mut ticked = tick::run(cx, &mut held, By::Hand)?;
        if plan.first == AgentId::root() && is_given_up(cx)? {
            // What was counted before is forgotten with the wish: it was given up by this very look. Who asks by hand waits for no
            // later one.
            perform::forget_attempts(cx, &AgentId::root())?;
            held.got_on()?;
            ticked.and(tick::run(cx, &mut held, By::Hand)?);
        }
        ticked.problems.splice(0..0, unmade);
        let mut ticked = ticked.each_once();
        if plan.first == AgentId::root() {
            ticked.done.extend(kept(cx, plan)?);
        }
        ticked.done.extend(unheeded(cx, plan)?);
        ticked.done.extend(by_hand(plan));
        (sessions, ticked)
    };
    for line in &ticked.done {
        said(line);
    }
    let first = before.iter().find(|session| session.name == plan.first);
    let first = first.map_or(Generation::NONE, |session| session.generation);
    let proof = wait_for_first(cx, plan, &ticked, first)?;
    let unwell = clones::unwell(cx, plan.slots.iter().filter(|slot| slot.agent != plan.first), &before);
    Ok(Upped { ticked, proof, unwell })
}

/// Whether the restart that was under way is given up, and nobody is bringing back an agent0 that is gone.
fn is_given_up(cx: &Context<'_>) -> Result<bool> {
    let root = AgentId::root();
    if !state::exists(cx.layout.marker(&root, "revive-failed"))?
        || state::exists(cx.layout.restart_inflight())?
    {
        return Ok(false);
    }
    match Client::connect(&cx.layout.kernel_root())?.show(&root) {
        Err(error) if error.kind() == Some(RefusalKind::NotFound) => Ok(false),
        session => Ok(!session?.state.may_live()),
    }
}

/// Write what should run, if nobody lives for something else; the sessions it was decided by, and whose mailbox could not
/// be made.
fn say_wishes(cx: &Context<'_>, plan: &Plan, client: &mut Client) -> Result<(Vec<SessionView>, Vec<String>)> {
    let _wishes = perform::hold_wishes(cx)?;
    let sessions = client.list()?;
    refuse_others(cx, plan, client, &sessions)?;
    refuse_second_writers(cx, plan, &sessions)?;
    // Without its mailbox it is not started; then nothing is changed.
    cx.bus.create(&plan.first)?;
    let mut unmade = Vec::new();
    for desired in ours(cx, plan).iter().chain(&plan.slots) {
        // First: nobody is ever wanted without a mailbox but where it cannot be made, which keeps only that one down.
        if let Err(error) = cx.bus.create(&desired.agent) {
            unmade.push(format!("mail of {}: {error}", desired.agent));
        }
        want(cx, client, &sessions, desired)?;
    }
    // Who asks for agent0 asks for everybody that is wanted and down: they are tried at once too.
    let down = |agent: &AgentId| living(&sessions, agent).is_none();
    if plan.first == AgentId::root() {
        for agent in cx.layout.desired_agents()?.iter().filter(|agent| down(agent)) {
            perform::forget_attempts(cx, agent)?;
        }
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
        let stays = !is_new(session) || UpProof::of_session(cx.layout, session).is_some();
        // Its own word, not its wish's: that may be gone, damaged, or taken back by a `down` that was cut short.
        if stays && !runs(&client.show(&desired.agent)?, desired) {
            others.push(desired.agent.clone());
        }
    }
    if others.is_empty() { Ok(()) } else { Err(Error::OtherProgram(others)) }
}

fn is_same(before: &Desired, desired: &Desired) -> bool {
    before.argv == desired.argv
        && before.cwd == desired.cwd
        && before.runtime == desired.runtime
        && before.model == desired.model
        // To name a conversation is to ask for another start.
        && (desired.resume.is_none() || before.resume == desired.resume)
}

/// Whether who lives is what is wanted.
fn runs(lives: &SessionView, desired: &Desired) -> bool {
    wished_argv(lives) == desired.argv
        && lives.cwd.as_ref() == Some(&desired.cwd)
        && lives.runtime == desired.runtime
        && lives.model == desired.model
        && desired.resume.as_ref().is_none_or(|id| converses(lives, id))
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

/// Who runs what was said of it before and not what the settings say of all.
fn by_hand(plan: &Plan) -> Option<String> {
    if plan.is_said {
        return None;
    }
    let differs = |slot: &&Desired| {
        let settings = plan.config.slot(&slot.agent);
        settings.runtime.is_some_and(|runtime| runtime != slot.runtime)
            || settings.model.is_some_and(|model| Some(model) != slot.model)
            || settings.argv.is_some_and(|argv| argv != slot.argv)
    };
    let slots = plan.slots.iter().filter(|slot| slot.by_hand).filter(differs);
    let names: Vec<String> = slots.map(|slot| format!("{} ({})", slot.agent, slot.runtime)).collect();
    let way = "[agents.<name>] there outweighs it";
    let say = || format!("as said by hand, not as the defaults of config.toml: {} ({way})", names.join(", "));
    (!names.is_empty()).then(say)
}

/// Those that keep the rest, and, where a slot is driven, the one that drives.
fn ours(cx: &Context<'_>, plan: &Plan) -> Vec<Desired> {
    let netsky = cx.netsky.display().to_string();
    let mut ticker = vec![netsky.clone(), "ticker".to_owned()];
    if let Some(interval) = plan.interval.or_else(|| interval_before(cx.layout)) {
        ticker.extend(["--tick".to_owned(), format!("{}ms", interval.as_millis())]);
    }
    let serve = vec![netsky.clone(), "watchdog".to_owned(), "serve".to_owned()];
    let drivers = (AgentId::drivers(), vec![netsky, "drivers".to_owned()]);
    let is_driven = plan.slots.iter().any(|slot| driver::is_driven(&slot.runtime));
    let ours = [(AgentId::infinity(), serve), (AgentId::ticker(), ticker)].into_iter();
    ours.chain(is_driven.then_some(drivers)).map(|(agent, argv)| own(cx, agent, argv)).collect()
}

fn own(cx: &Context<'_>, agent: AgentId, argv: Vec<String>) -> Desired {
    Desired {
        runtime: driver::COMMAND.to_owned(),
        argv,
        cwd: cx.layout.home().to_owned(),
        env: inherited(),
        receipts: netsky_model::desired::Receipts::None,
        // What they write is the constellation's, not the user's.
        umask: None,
        ..blank(agent)
    }
}

/// How often the ticker ticks by the last `up`.
pub fn ticker_interval(layout: &Layout) -> Duration {
    interval_before(layout).unwrap_or(observe::DEFAULT_INTERVAL)
}

/// The interval that an earlier `up` gave the ticker.
fn interval_before(layout: &Layout) -> Option<Duration> {
    let before: Option<Desired> = state::read_json(layout.desired(&AgentId::ticker())).unwrap_or_default();
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
        model: None,
        by_hand: false,
        resume: None,
        argv: Vec::new(),
        cwd: PathBuf::new(),
        placed: false,
        env: BTreeMap::new(),
        receipts: netsky_model::desired::Receipts::default(),
        umask: netsky_disk::process::users_umask(),
        extra: serde_json::Map::new(),
    }
}

/// Of two that go on with one conversation each would write over the other.
fn refuse_second_writers(cx: &Context<'_>, plan: &Plan, sessions: &[SessionView]) -> Result<()> {
    let mut writers: BTreeMap<String, AgentId> = BTreeMap::new();
    // What is wanted of one whose wish does not read the tick tells.
    let wanted = |agent: &AgentId| known::wanted(cx.layout, agent).unwrap_or_default();
    let is_planned = |agent: &AgentId| plan.slots.iter().any(|slot| slot.agent == *agent);
    for agent in cx.layout.desired_agents()?.into_iter().filter(|agent| !is_planned(agent)) {
        let wish = wanted(&agent);
        // What cannot be known of whom nobody asks for keeps nobody else down.
        let goes_on = wish.and_then(|wish| conversation(cx.layout, &wish).ok().flatten());
        writers.extend(goes_on.map(|conversation| (conversation.id, agent)));
    }
    // Who lives writes, whatever its wish says by now, and whether that reads or not.
    for lives in sessions.iter().filter(|session| session.state.may_live() && !is_planned(&session.name)) {
        writers.extend(writes_to(cx.layout, lives).map(|id| (id, lives.name.clone())));
    }
    let before = |slot: &Desired| wanted(&slot.agent).filter(|before| is_same(before, slot));
    let mut slots: Vec<_> = plan.slots.iter().map(|slot| (slot, before(slot))).collect();
    // Whoever is wanted already goes on as that wish says, and is the first.
    slots.sort_by_key(|(_, before)| before.is_none());
    for (slot, before) in slots {
        let goes_on = conversation(cx.layout, before.as_ref().unwrap_or(slot))?;
        let Some(id) = goes_on.map(|conversation| conversation.id) else { continue };
        if let Some(other) = writers.insert(id.clone(), slot.agent.clone()) {
            return Err(Error::SecondWriter { agent: slot.agent.clone(), other, id });
        }
    }
    Ok(())
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
    // Of another program file it does the same work.
    let is_as_good = [AgentId::infinity(), AgentId::drivers()].contains(&desired.agent);
    if let Some(session) = lives
        && !is_as_good
        && !runs(&client.show(&session.name)?, desired)
    {
        // The ticker, or what a restart has just started and proved nothing; the others were refused before.
        client.kill(&session.name, None, &Guard::if_generation(session.generation))?;
        lives = None;
    }
    if let Some(before) = before {
        if let Some(session) = lives.filter(|_| is_same(&before, desired) || is_as_good) {
            // Somebody asks for it: its successor waits no longer.
            if is_used_up(cx.layout, session) {
                perform::forget_attempts(cx, &desired.agent)?;
            }
            // That it was said outlives who lives now.
            if desired.by_hand && !before.by_hand {
                state::write_json(&path, &Desired { by_hand: true, ..before })?;
            }
            return Ok(());
        }
        if is_same(&before, desired) {
            // Said again by hand: it is tried now, with what else the settings say.
            perform::forget_attempts(cx, &desired.agent)?;
            let resume = desired.resume.clone().or(before.resume);
            let again = Desired { since: before.since, resume, ..desired.clone() };
            return Ok(state::write_json(&path, &again)?);
        }
    }
    perform::forget_attempts(cx, &desired.agent)?;
    // Who lives for a wish that was lost lives for this one: should it die, it is brought back with a handoff.
    let lives_for = lives.and_then(|session| session.tags.get(TAG_SINCE)?.parse().ok());
    Ok(state::write_json(path, &Desired { since: lives_for.unwrap_or(desired.since), ..desired.clone() })?)
}

fn wait_for_first(cx: &Context<'_>, plan: &Plan, ticked: &Ticked, before: Generation) -> Result<UpProof> {
    let first = &plan.first;
    let failed = &cx.layout.marker(first, "revive-failed");
    let planned = plan.slots.iter().find(|slot| slot.agent == *first);
    wait_for_proof(cx, first, UP_LIMIT, || {
        let wish: Desired = state::read_json(cx.layout.desired(first))?
            .ok_or_else(|| Error::Overtaken("its wish was removed"))?;
        if wish.want != Want::Up {
            return Err(Error::Overtaken("`netsky down` came"));
        }
        if !planned.is_some_and(|planned| is_same(&wish, planned)) {
            return Err(Error::Overtaken("another `netsky up` with another program or folder came"));
        }
        // Asked anew each time: a restart may replace the one that we began to wait for.
        let session =
            Client::connect(&cx.layout.kernel_root()).and_then(|mut client| client.show(first)).ok();
        let Some(session) = session else {
            let told = !ticked.problems.is_empty();
            return if told { Err(Error::Restart(ticked.problems.join("; "))) } else { Ok(None) };
        };
        let proof = UpProof::of_session(cx.layout, &session);
        if session.state.may_live() {
            // The kernel's word may be older than the death of what it speaks of, and a restart replaces who lives.
            let stays = session.program.as_ref().is_some_and(|id| process::probe(id) != Life::Dead)
                && !is_to_be_replaced(cx, first, session.generation)?;
            if let Some(why) = refusal(cx.layout, &session).filter(|_| stays) {
                return Err(Error::Refuses(first.clone(), why));
            }
            return Ok(proof.filter(|_| stays));
        }
        // Its end says nothing about the program that is wanted now: a restart was under way with the one before.
        if wish.argv != wished_argv(&session) {
            return Ok(None);
        }
        // What this call started ended by itself.
        let ours = session.generation > before && perform::stopped(&session).is_none();
        let no_room = || perform::no_room(cx).filter(|_| !ours);
        if let Some(why) = perform::not_startable(cx, &wish).or_else(no_room) {
            return Err(Error::NotStarted(first.clone(), why));
        }
        let how = || session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string);
        // Nobody is bringing it back right now: the next try may be minutes away. In this order: a tick that has counted
        // its try still holds the lock, or has noted its restart.
        let later = (state::exists(failed)? || has_to_wait(cx, first)?)
            && !Lock::is_held(cx.layout.watchdog_lock())?
            && !is_to_be_replaced(cx, first, session.generation)?
            && !state::exists(cx.layout.restart_inflight())?;
        if proof.is_some() {
            return if later { Err(Error::EndedAfterUp(first.clone(), how())) } else { Ok(None) };
        }
        if ours || later { Err(Error::EndedBeforeUp(first.clone(), how())) } else { Ok(None) }
    })
}

/// Whether nothing goes into its context any more.
pub(crate) fn is_used_up(layout: &Layout, session: &SessionView) -> bool {
    let book = Book::read(layout, &session.name).unwrap_or_default();
    let is_told = book
        .is_some_and(|book| book.generation == session.generation && book.lifecycle == LifecycleState::Dead);
    is_told || session.progress.lifecycle == LifecycleState::Dead
}

/// Why its program will not take part, where it says so.
fn refusal(layout: &Layout, session: &SessionView) -> Option<String> {
    let book = Book::read(layout, &session.name).ok().flatten()?;
    match book.doing {
        Doing::Wedged { how: Wedge::Refused, why } if book.generation == session.generation => Some(why),
        _ => None,
    }
}

/// Whether a restart was asked for, or is under way, that ends this agent0; nobody else is waited for through one.
fn is_to_be_replaced(cx: &Context<'_>, agent: &AgentId, generation: Generation) -> Result<bool> {
    if *agent != AgentId::root() {
        return Ok(false);
    }
    let asked = observe::is_asked(cx.layout)?;
    let Some(underway) = observe::underway(cx)? else { return Ok(asked) };
    let Some(status) = underway.status else { return Ok(true) };
    let started = status.agents.iter().find(|started| started.name == AgentId::root());
    Ok(status.phase != Phase::Failed && started.is_none_or(|started| generation < started.generation))
}

fn has_to_wait(cx: &Context<'_>, agent: &AgentId) -> Result<bool> {
    let attempts: Attempts =
        state::read_json(cx.layout.marker(agent, "restart-attempts"))?.unwrap_or_default();
    Ok(!attempts.wait(&clock::stamp()).is_zero())
}
