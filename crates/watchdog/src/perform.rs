//! Performing effects. Each is safe to repeat: a tick that dies in the middle is followed by one that
//! sees what is, and decides again.

mod outcome;

use std::path::Path;
use std::time::Duration;

use netsky_bus::Returned;
use netsky_disk::lock::Lock;
use netsky_disk::spawn::Program;
use netsky_disk::{clock, fault, process, random, state, sweep};
use netsky_kernel::client::{Client, ROOM};
use netsky_kernel::rpc::{Guard, RefusalKind, SessionView};
use netsky_kernel::session::End;
use netsky_model::backoff::Attempts;
use netsky_model::desired::Desired;
use netsky_model::id::{AgentId, Generation, RestartId};
use netsky_model::process::ProcessId;
use netsky_model::restart::{Inflight, Kind, VERSION};
use netsky_model::stamp::Stamp;
use netsky_runtime::Launch;
use netsky_runtime::driver::{has_receipts, is_driven};

use crate::context::Context;
use crate::decide::Effect;
use crate::error::{Error, Result};
use crate::event;
use crate::handoff;
use crate::observe::Observed;

pub(crate) use outcome::{archive_request, put_away};

/// Longest sweep of strangers.
const STRANGERS: Duration = Duration::from_secs(5);
/// Longest wait for who sets or starts what is wanted.
const WISHES: Duration = Duration::from_secs(20);

/// Perform one effect; returns what to say about it.
pub(crate) fn perform(
    cx: &Context<'_>,
    client: &mut Client,
    seen: &Observed,
    effect: &Effect,
) -> Result<String> {
    match effect {
        Effect::ClaimRequest => {
            if !state::claim(cx.layout.restart_request(), cx.layout.restart_processing())? {
                return Err(Error::Restart("the restart request is gone".to_owned()));
            }
            Ok("restart request claimed".to_owned())
        }
        Effect::ExpireRequest => outcome::expired(cx),
        Effect::BeginRestart { kind, why } => begin(cx, seen, *kind, why),
        Effect::StartChild(inflight) => {
            start_child(cx, Inflight { epoch: inflight.epoch + 1, ..inflight.clone() })
        }
        Effect::KillChild(inflight) => {
            if let Some(child) = &inflight.child {
                process::signal(child, process::Signal::KILL)?;
            }
            state::write_json(cx.layout.restart_inflight(), inflight)?;
            Ok(format!("{}: child past its deadline killed", inflight.id))
        }
        Effect::Watch(inflight) => {
            state::write_json(cx.layout.restart_inflight(), inflight)?;
            let watched = inflight.observed.as_ref().map_or(0, |observed| observed.watched_ms);
            Ok(format!("{}: watched for {watched} ms", inflight.id))
        }
        Effect::Look(inflight) => {
            state::write_json(cx.layout.restart_inflight(), inflight)?;
            Ok(format!("{}: its restart is under way", AgentId::root()))
        }
        Effect::Verified(id) => outcome::verified(cx, seen, id),
        Effect::Failed { id, why } => outcome::failed(cx, seen, id, why),
        Effect::Start { agent, after, again } => {
            let desired = wish(seen, agent)?;
            if *again {
                add_attempt(cx, seen, agent, &seen.now)?;
            }
            let view = launch(cx, client, desired, *after, (false, None))?;
            cx.record.watchdog("started", Some(agent), if *again { "it had ended" } else { "wanted" });
            if *again {
                event::came_back(cx, agent, view.generation, "it had ended");
            }
            Ok(format!("{agent} generation {} started", view.generation))
        }
        Effect::Stop { agent, generation } => {
            client.kill(agent, None, &Guard::if_generation(*generation))?;
            cx.record.watchdog("stopped", Some(agent), "not wanted");
            Ok(format!("{agent} stopped"))
        }
        Effect::Succeed { agent, generation, soon } => {
            let desired = wish(seen, agent)?;
            client.kill(agent, None, &Guard::if_generation(*generation))?;
            if *soon {
                add_attempt(cx, seen, agent, &seen.now)?;
            }
            fault::point("watchdog.succeed.killed")
                .map_err(|e| netsky_disk::Error::new("succeed", agent.as_str(), e))?;
            let view = launch(cx, client, desired, *generation, (true, None))?;
            cx.record.watchdog("succeeded", Some(agent), "its context was used up");
            Ok(format!("{agent} generation {} takes over: the context was used up", view.generation))
        }
        Effect::Settled(agent) => {
            forget_attempts(cx, agent)?;
            Ok(format!("{agent} has stayed up; its restarts are forgotten"))
        }
        Effect::Wait { agent, why } => Ok(format!("{agent}: {why}")),
    }
}

fn wish<'a>(seen: &'a Observed, agent: &AgentId) -> Result<&'a Desired> {
    let found = seen.desired.iter().find(|desired| desired.agent == *agent);
    found.ok_or_else(|| Error::NoProgram { agent: agent.clone() })
}

/// Where our programs are.
pub(crate) fn folder_of(netsky: &Path) -> &Path {
    netsky.parent().unwrap_or(Path::new("/"))
}

/// Why the program of a wish cannot be found, among ours or wherever else it would be looked for, or not be told its words.
pub(crate) fn no_program(desired: &Desired, programs: &Path) -> Option<String> {
    let program = desired.argv.first().map_or("", String::as_str);
    if Launch::program(desired, programs).is_none() {
        return Some(format!("program {program:?} is not there or not executable"));
    }
    // No shell passes such a word, but a file can say one.
    let torn = desired.argv.iter().find(|word| word.contains('\0'))?;
    Some(format!("program {program:?} cannot be told {torn:?}, which has a NUL"))
}

/// Why the folder of a wish is none to work in.
pub(crate) fn no_folder(desired: &Desired) -> Option<String> {
    (!desired.cwd.is_dir()).then(|| format!("working folder {:?} is not there", desired.cwd))
}

/// What a wish itself lacks for a start.
pub(crate) fn not_startable(cx: &Context<'_>, desired: &Desired) -> Option<String> {
    // First: a program may be looked for in it.
    no_folder(desired).or_else(|| no_program(desired, folder_of(&cx.netsky)))
}

/// Whether the disk is too full for any start.
pub(crate) fn no_room(cx: &Context<'_>) -> Option<String> {
    no_room_for(cx, ROOM)
}

/// Whether the disk is too full for so many bytes.
pub(crate) fn no_room_for(cx: &Context<'_>, bytes: u64) -> Option<String> {
    let home = cx.layout.home();
    let left = netsky_disk::room(home).ok().filter(|left| *left < bytes)?;
    Some(format!("the disk of {} is full ({left} bytes left)", home.display()))
}

/// Keep what is wanted and what lives for it together: an `up` between a child's look at a wish and its start of an
/// agent would find nobody to refuse or replace, and the program of before would run on.
pub(crate) fn hold_wishes(cx: &Context<'_>) -> Result<Lock> {
    Lock::take_within(cx.layout.wishes_lock(), WISHES)?.ok_or(Error::Wishing(WISHES))
}

/// Start the generation after `after`, the one that was seen; its predecessor's mail is back in the inbox before. `anew`:
/// with a conversation of its own, where it has one at all.
pub(crate) fn launch(
    cx: &Context<'_>,
    client: &mut Client,
    desired: &Desired,
    after: Generation,
    (anew, request_id): (bool, Option<String>),
) -> Result<SessionView> {
    let programs = folder_of(&cx.netsky);
    if let Some(why) = no_program(desired, programs) {
        return Err(Error::Restart(format!("{}: {why}", desired.agent)));
    }
    // Looked at before anything is done in the name of this start: the kernel refuses a late one by itself, but
    // by then mail would be back and strangers would be gone.
    // A generation is taken before it is described: of one whose anchor died in between, or whose description was lost, the
    // number is known all the same. Asked first: whoever is started after that is not the one that this start follows.
    let lineage = client.lineages()?.into_iter().find(|lineage| lineage.session == desired.agent);
    let (seen, stopped) = match client.show(&desired.agent) {
        Ok(session) if session.state.may_live() => {
            return Err(Error::Restart(format!(
                "{} lives as generation {}",
                desired.agent, session.generation
            )));
        }
        Ok(session) => (session.generation, stopped(&session)),
        Err(error) if error.kind() == Some(RefusalKind::NotFound) => (Generation::NONE, None),
        Err(error) => return Err(error.into()),
    };
    let newest = lineage.map_or(seen, |lineage| lineage.generation.max(seen));
    if seen != after {
        return Err(Error::Restart(format!("{} is at generation {seen}, not {after}", desired.agent)));
    }
    cx.bus.create(&desired.agent)?;
    // What had to stay where it was this tick has told already.
    return_mail(cx, desired, stopped, |generation| generation <= newest)?;
    evict(cx, &desired.agent)?;
    let launch = Launch {
        layout: cx.layout,
        desired,
        generation: newest.next(),
        nonce: random::nonce(),
        programs,
        anew,
    };
    let guard = Guard { if_generation: Some(newest), request_id };
    Ok(client.spawn(&launch.spec()?, &guard)?)
}

/// End what says to be this agent of this home and is no part of its kernel: what is left of a home that was
/// removed and made again, say. What the kernel knows of earlier generations it sweeps itself.
/// Returns whether there was any.
pub(crate) fn evict(cx: &Context<'_>, agent: &AgentId) -> Result<bool> {
    let home = cx.layout.home().display().to_string();
    let bears = [(netsky_disk::env::HOME, home.as_str()), (netsky_disk::env::AGENT, agent.as_str())];
    let swept = sweep::sweep_bearing(&bears, STRANGERS)?;
    match swept.left.first() {
        None => Ok(swept.killed > 0),
        Some(left) => Err(Error::Restart(format!("another {agent} of this home lives as pid {}", left.pid))),
    }
}

/// The generation of a session that was ended on purpose: a `down`, a planned restart, a kill that somebody asked for.
pub(crate) fn stopped(session: &SessionView) -> Option<Generation> {
    (session.end == Some(End::Killed)).then_some(session.generation)
}

/// What dead processes and dead generations had taken goes back to the inbox, or to the dead letters; what the
/// generation that was `stopped` on purpose had taken always goes to the inbox. A line for each pass that had to leave
/// something where it was.
pub(crate) fn return_mail(
    cx: &Context<'_>,
    desired: &Desired,
    stopped: Option<Generation>,
    is_dead: impl Fn(Generation) -> bool,
) -> Result<Vec<String>> {
    let claims = match stopped {
        // netsky-drivers takes mail for whom it drives, and dies of none.
        None if !is_driven(&desired.runtime) => cx.bus.return_dead_claims(&desired.agent)?,
        _ => cx.bus.return_stopped_claims(&desired.agent)?,
    };
    let mut passes = vec![claims];
    if has_receipts(desired) {
        if let Some(stopped) = stopped {
            passes.push(cx.bus.return_stopped(&desired.agent, stopped)?);
        }
        passes.push(cx.bus.return_generations(&desired.agent, is_dead)?);
    }
    let left = |pass: &Returned| {
        let first = pass.skipped.first()?;
        Some(format!("{} messages could not go back: failed to {first}", pass.skipped.count()))
    };
    Ok(passes.iter().filter_map(left).collect())
}

fn begin(cx: &Context<'_>, seen: &Observed, kind: Kind, why: &str) -> Result<String> {
    let id = random::restart_id();
    let agent0 = AgentId::root();
    let generation = seen.sessions.get(&agent0).map_or(Generation::NONE, |session| session.generation);
    match handoff::claimed(cx) {
        Ok(Some(_)) if kind == Kind::Planned => {}
        // One that outlived its agent0 says nothing of its end.
        Ok(_) => handoff::draft_without(cx, &id, why, Some(generation))?,
        Err(error) => {
            let why = format!("{why}; {}", handoff::unread(&error));
            handoff::draft_without(cx, &id, &why, Some(generation))?;
            handoff::refuse(cx, &id, error)?;
        }
    }
    // One that somebody asked for is held against agent0 only if it fails.
    if kind == Kind::Crash {
        add_attempt(cx, seen, &agent0, &seen.now)?;
    }
    cx.record.watchdog("restart-begun", Some(&agent0), &format!("{id} {}: {why}", kind.word()));
    let now = clock::stamp();
    start_child(
        cx,
        Inflight {
            v: VERSION,
            id,
            kind,
            clones: seen.clones,
            epoch: 1,
            began: now.clone(),
            child_since: now,
            child: None,
            observed: None,
            owed: None,
            looked: None,
        },
    )
}

/// The marker first, the child second, its identity third: whatever dies in between, the next tick
/// knows that there may be a child of this epoch, and a child that is not in the marker fences itself.
fn start_child(cx: &Context<'_>, mut inflight: Inflight) -> Result<String> {
    inflight.child = None;
    inflight.child_since = clock::stamp();
    inflight.observed = None;
    state::write_json(cx.layout.restart_inflight(), &inflight)?;
    fault::point("watchdog.child.marked").map_err(|e| netsky_disk::Error::new("start", &cx.netsky, e))?;
    let child = detach_child(cx, &inflight.id, inflight.epoch)?;
    inflight.child = Some(child);
    state::write_json(cx.layout.restart_inflight(), &inflight)?;
    Ok(format!("{}: {} restart of agent0, child {}", inflight.id, inflight.kind.word(), inflight.epoch))
}

fn detach_child(cx: &Context<'_>, id: &RestartId, epoch: u64) -> Result<ProcessId> {
    let args = ["restart", "--child", id.as_str(), "--epoch", &epoch.to_string()].map(str::to_owned);
    let home = cx.layout.home().display().to_string();
    let program = Program {
        path: cx.netsky.clone(),
        args: args.to_vec(),
        set: [(netsky_disk::env::HOME.to_owned(), home)].into(),
        log: Some(cx.layout.restart_log(id)),
        ..Program::default()
    };
    Ok(program.detach()?)
}

fn add_attempt(cx: &Context<'_>, seen: &Observed, agent: &AgentId, at: &Stamp) -> Result<()> {
    let mut attempts: Attempts = seen.attempts.get(agent).cloned().unwrap_or_default();
    attempts.add(at);
    Ok(state::write_json(cx.layout.marker(agent, "restart-attempts"), &attempts)?)
}

/// Forget what was counted against an agent.
pub(crate) fn forget_attempts(cx: &Context<'_>, agent: &AgentId) -> Result<()> {
    for what in ["restart-attempts", "revive-failed", "crashloop-suspected"] {
        let marker = cx.layout.marker(agent, what);
        // What stands in its place and is no file goes out of the way.
        state::remove(&marker).map(drop).or_else(|_| state::set_aside(&marker))?;
    }
    Ok(())
}
