//! `netsky status`: what should be and what is. Looking starts nothing and changes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::process::probe;
use netsky_disk::{clock, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_kernel::session::End;
use netsky_model::desired::{Desired, Want};
use netsky_model::duration::human;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::lifecycle::LifecycleState;
use netsky_model::process::{Life, ProcessId};
use netsky_model::restart::{Kind, Phase};
use netsky_model::stamp::Stamp;
use netsky_owner::{Outlook, Unsent};
use netsky_runtime::driver::{AskKind, Doing, Trouble, is_driven};
use netsky_runtime::drivers::{Book, Undriven, Waits};
use netsky_runtime::{Config, UpProof, prompts};
use serde::Serialize;

use crate::context::Context;
use crate::error::Result;
use crate::held::{self, FailedTick};
use crate::keeper::is_held_by_service;
use crate::observe::{self, Underway, Wishes};
use crate::quiet::{Quiet, quiet_windows};
use crate::serve::is_overdue;
use crate::tick::LastTick;
use crate::ticker::{LastRun, last_runs};
use crate::up::is_used_up;
use crate::{hang, known, reach, silent};

mod plight;

pub use plight::Trying;
use plight::{
    Care, NextTick, cut_short, in_vain, kept_down, late, never_proved, no_room_for, plight, stalled, stopped,
    trying,
};

/// A constellation at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// Epoch of the anchor that serves; none if nobody does.
    pub anchor_epoch: Option<u64>,
    /// Whether somebody serves and gave no answer; `problems` says why.
    pub silent_anchor: bool,
    /// Whether anybody has to be kept: wanted, or alive for a wish that does not read.
    pub kept: bool,
    /// Everybody who is wanted or was.
    pub agents: Vec<AgentStatus>,
    /// Mail of who never was.
    pub others: Vec<Mailbox>,
    /// The restart that is under way.
    pub restart: Option<RestartView>,
    /// Whether a planned restart was asked for and is not verified.
    pub restart_queued: bool,
    /// How often the ticker ticks, in milliseconds.
    pub interval_ms: u64,
    /// The last tick; of its problems those that can still be true and are not said here better.
    pub last_tick: Option<LastTick>,
    /// The tick after that, if it failed.
    pub failed_tick: Option<FailedTick>,
    /// The last tick of cron and of loops, where there is any.
    pub schedules: BTreeMap<&'static str, LastRun>,
    /// Which pages the owner has not got, and whether anybody is reached; none where that cannot be known.
    pub pages: Option<Outlook>,
    /// What is not as it should be, a line each.
    pub problems: Vec<String>,
}

/// One agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentStatus {
    /// Its id.
    pub id: AgentId,
    /// What should be; none where that is not known: its wish does not read, or is gone.
    pub want: Option<Want>,
    /// What is: the kernel's word; none if it never ran or nobody serves.
    pub state: Option<String>,
    /// The program's pid while it lives.
    pub pid: Option<u32>,
    /// The process that holds it, while it lives.
    pub worker_pid: Option<u32>,
    /// Its incarnation.
    pub generation: Option<Generation>,
    /// Whether this incarnation proved that it is up.
    pub up: bool,
    /// What it does, and what it asks: of one that is driven.
    pub driven: Option<Driven>,
    /// When it was started.
    pub started_at: Option<Stamp>,
    /// When it is tried again, while it is down and was tried in vain.
    pub trying: Option<Trying>,
    /// The window in which its silence is no hang.
    pub quiet: Option<Quiet>,
    /// What it said last that it does, and until when that explains its silence.
    pub phase: Option<Declared>,
    /// Seconds that it was watched standing still with mail before it, where nothing explains that.
    pub still_s: Option<u64>,
    /// Envelopes that wait in its inbox.
    pub inbox: usize,
    /// Envelopes it was shown and has not finished.
    pub unfinished: usize,
    /// Its dead letters.
    pub poison: usize,
}

/// What an agent said that it does.
#[derive(Debug, Clone, Serialize)]
pub struct Declared {
    /// Its own word.
    pub word: String,
    /// Until when; none where it did not say.
    pub until: Option<Stamp>,
}

/// What an agent asks.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    /// To be answered by.
    pub id: String,
    /// For people.
    pub text: String,
    /// Whether the answer needs words.
    pub is_question: bool,
}

/// What netsky-drivers knows of an agent.
#[derive(Debug, Clone, Serialize)]
pub struct Driven {
    /// What it does.
    pub doing: Doing,
    /// Since when.
    pub since: Stamp,
    /// Whether a turn of this generation ended well: it does not only live.
    pub answered: bool,
    /// Where its context stands.
    pub lifecycle: LifecycleState,
    /// How much of its context is used, in per cent.
    pub context_pct: Option<u8>,
    /// What it asks and nobody has answered.
    pub asks: Vec<Asked>,
    /// Why its mail waits though it is free.
    pub waits: Option<Waits>,
}

impl AgentStatus {
    fn is_there(&self) -> bool {
        self.pid.is_some() || self.state.as_deref() == Some(SessionState::Starting.word())
    }

    fn is_wanted(&self) -> bool {
        self.want == Some(Want::Up)
    }
}

/// Mail that nobody was ever wanted for.
#[derive(Debug, Clone, Serialize)]
pub struct Mailbox {
    /// Whose.
    pub id: AgentId,
    /// Envelopes that wait in its inbox.
    pub inbox: usize,
    /// Its dead letters.
    pub poison: usize,
}

/// The restart that is under way.
#[derive(Debug, Clone, Serialize)]
pub struct RestartView {
    /// Its id.
    pub id: String,
    /// Asked for or not.
    pub kind: Kind,
    /// How far its child got.
    pub phase: Option<Phase>,
    /// Which child.
    pub epoch: u64,
    /// Milliseconds that the new agent0 was watched.
    pub watched_ms: u64,
}

impl RestartView {
    fn of(under: Underway) -> RestartView {
        RestartView {
            id: under.inflight.id.to_string(),
            kind: under.inflight.kind,
            phase: under.status.map(|status| status.phase),
            epoch: under.inflight.epoch,
            watched_ms: under.inflight.observed.map_or(0, |observed| observed.watched_ms),
        }
    }
}

/// Look.
///
/// # Errors
/// The home cannot be read.
pub fn status(cx: &Context<'_>) -> Result<StatusReport> {
    let mut problems = Vec::new();
    let is_worked_on = || Lock::is_held(cx.layout.watchdog_lock());
    let worked_on = is_worked_on()?;
    let served = Served::ask(cx, &mut problems);
    let restart_queued = observe::is_asked(cx.layout)?;
    let underway = observe::underway(cx).unwrap_or_else(|error| {
        problems.push(format!("the restart that is under way: {error}"));
        None
    });
    let interval = observe::interval(cx);
    let wishes = observe::wishes(cx, &mut problems)?;
    let kept = wishes.is_any_kept(cx);
    let (agents, missing) = everybody(cx, wishes, &served, underway.as_ref(), &mut problems);
    let Served { anchor_epoch, silent_anchor, .. } = served;
    let late = late(cx, &agents, interval);
    let anchors = missing.iter().any(|missing| matches!(missing.care, Care::Anchor { .. }));
    // What no tick came to its end for a while, or failed the last time, is not promised of the next.
    let failed_tick = held::failed(cx);
    let is_in_vain = late.is_some() || failed_tick.is_some() || is_overdue(cx);
    let next = NextTick::of(&agents, (anchors, is_held_by_service(cx)), interval, is_in_vain);
    problems.extend(late.filter(|_| !worked_on));
    problems.extend(missing.iter().filter_map(|Missing { desired, trying, ended, care }| match care {
        Care::Anchor { next_in } => Some(kept_down(&desired.agent, *next_in)),
        Care::Child => None,
        Care::Tick => {
            Some(plight(cx, desired, (trying.as_ref(), ended.as_deref()), &next, underway.as_ref()))
        }
    }));
    problems.extend(silent::stopped(cx).into_iter().map(|(_, _, said)| said));
    let down: Vec<AgentId> = missing.into_iter().map(|missing| missing.desired.agent).collect();
    let runs_on = agents.iter().any(|agent| agent.id == AgentId::root() && agent.is_there());
    problems.extend(in_vain(cx, underway.as_ref(), restart_queued).filter(|_| runs_on));
    let no_anchor = anchor_epoch.is_none() && !silent_anchor && kept;
    problems.extend(no_room_for(cx, &down, &next));
    problems.extend(no_anchor.then(|| format!("the anchor: nobody serves; it is started {next}")));
    // An `up`, a `down` or a tick that is at work has not been cut short.
    if !worked_on && !is_worked_on()? {
        problems.extend(cut_short(&agents));
    }
    let pages = pages(cx, &mut problems);
    let others = others(cx, &agents, &mut problems);
    let schedules: BTreeMap<_, _> = last_runs(cx.layout).collect();
    problems.extend(schedules.iter().filter_map(|(kind, last)| stalled(kind, last, interval)));
    problems.extend(plight::schedules(cx, &schedules));
    let trouble = Config::trouble(cx.layout).map(|trouble| trouble.to_string());
    let last_tick = last_tick(cx, &agents, &down, &problems, trouble.as_ref());
    // What the last tick told stands there already.
    let told = |what: &String| last_tick.as_ref().is_some_and(|last| last.problems.contains(what));
    let (_, prompts) = prompts::layers(cx.layout, None, &[]);
    problems.extend(prompts.iter().map(ToString::to_string));
    problems.extend(trouble.filter(|trouble| !told(trouble)));
    Ok(StatusReport {
        anchor_epoch,
        silent_anchor,
        others,
        kept,
        agents,
        restart: underway.map(RestartView::of),
        restart_queued,
        interval_ms: interval.as_millis() as u64,
        last_tick,
        failed_tick,
        schedules,
        pages,
        problems,
    })
}

/// What the owner has not got is a problem, whoever looks.
fn pages(cx: &Context<'_>, problems: &mut Vec<String>) -> Option<Outlook> {
    let seen = match reach::look(cx.layout) {
        Ok(seen) => seen,
        Err(error) => {
            problems.push(format!("pages: {error}"));
            return None;
        }
    };
    if let Some(Unsent { count, due, oldest, why }) = &seen.unsent {
        let age = Duration::try_from(clock::wall().duration_since(*oldest)).unwrap_or_default();
        let (pages, why) =
            (if *count == 1 { "page" } else { "pages" }, why.as_deref().unwrap_or("not tried yet"));
        let then = match due {
            0 => "you may have it, so it is tried again ever later",
            _ => "every tick tries again",
        };
        problems.push(format!("{count} {pages} unsent, the oldest for {}: {why}; {then}", human(age)));
    }
    problems.extend(reach::untold(cx.layout));
    problems.extend(seen.failed_test.iter().map(|failed| format!("the last test page: {failed}")));
    Some(seen)
}

/// Somebody who is wanted and does not run.
struct Missing {
    desired: Desired,
    trying: Option<Trying>,
    /// How its last program ended.
    ended: Option<String>,
    /// Who starts it.
    care: Care,
}

/// Everybody who is wanted or was, agent0 first, and who of them is missing.
fn everybody(
    cx: &Context<'_>,
    wishes: Wishes,
    served: &Served,
    underway: Option<&Underway>,
    problems: &mut Vec<String>,
) -> (Vec<AgentStatus>, Vec<Missing>) {
    let (mut agents, mut missing) = (Vec::new(), Vec::new());
    for desired in wishes.read {
        let session = served.session(&desired.agent);
        let mut agent = agent_status(cx, &desired.agent, Some(desired.want), session, problems);
        problems.extend(never_proved(&agent, &clock::stamp()));
        problems.extend(session.and_then(stopped));
        let generation = agent.generation.filter(|_| agent.is_there());
        problems.extend(generation.and_then(|generation| hang::told(cx.layout, &agent.id, generation)));
        if desired.want == Want::Up && !agent.is_there() {
            let care =
                Care::of(&agent.id, session.filter(|_| served.anchor_epoch.is_some()).cloned(), underway);
            agent.trying = (care == Care::Tick).then(|| trying(cx, &agent.id)).flatten();
            // Who was ended on purpose has no cause to be told.
            let end = session.and_then(|session| session.end.as_ref()).filter(|end| **end != End::Killed);
            let ended = end.map(ToString::to_string);
            missing.push(Missing { desired, trying: agent.trying.clone(), ended, care });
        }
        problems.extend(used_up(cx, &mut agent, session));
        agents.push(agent);
    }
    for id in wishes.unread {
        agents.push(agent_status(cx, &id, None, served.session(&id), problems));
    }
    for id in wishes.unwished {
        problems.push(observe::unwished(cx, &id));
        agents.push(agent_status(cx, &id, None, served.session(&id), problems));
    }
    let mut quiet = quiet_windows(cx.layout, &clock::stamp());
    agents.iter_mut().for_each(|agent| agent.quiet = quiet.remove(&agent.id));
    let still = hang::still(cx.layout);
    // Who has nothing to do stands still as it should, and of one that is driven its driver says what it does.
    let has_work = |agent: &&mut AgentStatus| agent.driven.is_none() && agent.inbox + agent.unfinished > 0;
    for agent in agents.iter_mut().filter(has_work).filter(|agent| agent.pid.is_some()) {
        let watched = still.get(&agent.id).filter(|(generation, _)| agent.generation == Some(*generation));
        agent.still_s = watched.map(|(_, watched)| watched.as_secs());
    }
    agents.sort_by(|one, other| one.id.place().cmp(&other.id.place()));
    (agents, missing)
}

/// Whose context is used up and whose successor waits, as that came to pass too often.
fn used_up(cx: &Context<'_>, agent: &mut AgentStatus, session: Option<&SessionView>) -> Option<String> {
    session.filter(|session| agent.is_there() && is_used_up(cx.layout, session))?;
    let trying = trying(cx, &agent.id).filter(|trying| trying.next_in_s > 0)?;
    let (left, times) = (human(Duration::from_secs(trying.next_in_s)), trying.recent);
    agent.trying = Some(trying);
    let up = match agent.id.number() {
        Some(number) if number > 0 => format!("netsky agent {number}"),
        _ => "netsky up".to_owned(),
    };
    Some(format!(
        "{}: its context is used up, so soon after {times} others that its successor waits {left} yet; `{up}` starts it at once",
        agent.id
    ))
}

/// Who serves, and what it says.
struct Served {
    anchor_epoch: Option<u64>,
    silent_anchor: bool,
    /// What the anchor says; where none answers, what the disk knows.
    sessions: Vec<SessionView>,
}

impl Served {
    fn ask(cx: &Context<'_>, problems: &mut Vec<String>) -> Served {
        let answer = Client::connect(&cx.layout.kernel_root())
            .and_then(|mut client| Ok((client.hello().epoch, client.list()?)));
        let (anchor_epoch, silent_anchor, listed) = match answer {
            Ok((epoch, sessions)) => (Some(epoch), false, Some(sessions)),
            Err(ClientError::NotServing { .. }) => (None, false, None),
            Err(error) => {
                problems.push(silence(cx, &error));
                (None, true, None)
            }
        };
        let sessions = listed.unwrap_or_else(|| match known::sessions(cx) {
            Ok(known) => known.into_values().collect(),
            Err(error) => {
                problems.push(error.to_string());
                Vec::new()
            }
        });
        Served { anchor_epoch, silent_anchor, sessions }
    }

    fn session(&self, agent: &AgentId) -> Option<&SessionView> {
        self.sessions.iter().find(|session| session.name == *agent)
    }
}

fn silence(cx: &Context<'_>, error: &ClientError) -> String {
    let holder: Option<ProcessId> = Lock::noted(KernelLayout::new(cx.layout.kernel_root()).lock());
    let pid = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
    let silent = match error {
        // It answers others, and has said why not us.
        ClientError::Full { .. } => error.to_string(),
        _ => format!("the anchor{pid} does not answer: {error}"),
    };
    format!("{silent}; what stands here of the agents is what the disk knows")
}

/// The last tick, without what it told of the start of an agent that is not wanted or not down any more, of settings that
/// are others by now (`trouble`: what is wrong with them), or that stands in `problems` already.
fn last_tick(
    cx: &Context<'_>,
    agents: &[AgentStatus],
    down: &[AgentId],
    problems: &[String],
    trouble: Option<&String>,
) -> Option<LastTick> {
    let mut last: LastTick = state::read_json(cx.layout.tick("watchdog")).ok()??;
    let settings = cx.layout.config();
    let settings = format!("{}: ", settings.file_name().unwrap_or_default().display());
    last.problems.retain(|told| {
        if told.starts_with(&settings) && trouble != Some(told) {
            return false;
        }
        let is_about = |agent: &&AgentStatus| told.starts_with(&format!("{}: ", agent.id));
        let mail =
            told.split_once(": ").map(|(about, _)| about).filter(|about| about.starts_with("mail of "));
        let is_same = |said: &String| {
            said.contains(told.as_str()) || mail.is_some_and(|mail| said.split(": ").next() == Some(mail))
        };
        let is_said = problems.iter().any(is_same);
        !is_said && agents.iter().find(is_about).is_none_or(|agent| down.contains(&agent.id))
    });
    Some(last)
}

/// How much mail is in each of these states. What cannot be looked into is none, and a problem: one mailbox that somebody
/// broke hides no other.
fn counts<const N: usize>(
    cx: &Context<'_>,
    agent: &AgentId,
    states: [State; N],
    problems: &mut Vec<String>,
) -> [usize; N] {
    let mut why = None;
    let counted = states.map(|state| match cx.bus.count(agent, state) {
        Ok(count) => count,
        Err(error) => {
            why.get_or_insert_with(|| format!("mail of {agent}: {error}"));
            0
        }
    });
    problems.extend(why);
    counted
}

fn others(cx: &Context<'_>, agents: &[AgentStatus], problems: &mut Vec<String>) -> Vec<Mailbox> {
    let mut others = Vec::new();
    let all = cx.bus.agents().unwrap_or_else(|error| {
        problems.push(format!("mail: {error}"));
        Vec::new()
    });
    for id in all.into_iter().filter(|id| agents.iter().all(|agent| agent.id != *id)) {
        let [inbox, poison] = counts(cx, &id, [State::Written, State::Poisoned], problems);
        if inbox + poison > 0 {
            others.push(Mailbox { id, inbox, poison });
        }
    }
    others
}

/// To whom netsky-drivers cannot speak.
fn undriven(cx: &Context<'_>, agent: &AgentId) -> Option<String> {
    let Undriven { why, since, .. } = Undriven::read(cx.layout, agent)?;
    let age = human(clock::stamp().since(&since));
    Some(format!("{agent} is not driven for {age}: {why}; its mail waits, and what stands here of it is old"))
}

/// What keeps an agent that is up from its work, with the remedy.
fn cannot_work(book: &Book) -> Option<String> {
    let waits = book.waits.as_ref().filter(|waits| waits.until > clock::wall());
    let (remedy, why) =
        match (waits.and_then(|waits| Some((waits.trouble?.remedy()?, &waits.why))), &book.doing) {
            (Some(failed), _) => failed,
            // Its program tries again for minutes before it says that its turn failed.
            (None, Doing::FailedAuth { why }) => (Trouble::Auth.remedy()?, why),
            _ => return None,
        };
    Some(format!("{remedy}: {why}"))
}

fn agent_status(
    cx: &Context<'_>,
    agent: &AgentId,
    want: Option<Want>,
    session: Option<&SessionView>,
    problems: &mut Vec<String>,
) -> AgentStatus {
    // The kernel's word may be older than the death of what it speaks of.
    let is_gone = |session: &SessionView| session.program.as_ref().is_some_and(|id| probe(id) == Life::Dead);
    let gone = session.is_some_and(|session| session.state.may_live() && is_gone(session));
    let alive = session.filter(|session| session.state.may_live() && !gone);
    let up = alive.is_some_and(|session| UpProof::of_session(cx.layout, session).is_some());
    let states = [State::Written, State::Delivered, State::Poisoned];
    let [inbox, unfinished, poison] = match state::exists(cx.layout.channel(agent)) {
        // Who was never started has none, and to these two a send makes one.
        Ok(false) => {
            if want == Some(Want::Up) && !cx.bus.knows(agent) {
                problems.push(format!("mail of {agent}: it has no channel; `netsky up` once more makes it"));
            }
            [0; 3]
        }
        _ => counts(cx, agent, states, problems),
    };
    // What netsky-drivers noted of it while it was of another kind is nobody's business.
    let is_driven = alive.is_some_and(|session| is_driven(&session.runtime));
    problems.extend(undriven(cx, agent).filter(|_| is_driven));
    // Of a generation that is over nothing is told.
    let book = Book::read(cx.layout, agent).unwrap_or_else(|error| {
        problems.push(format!("what {agent} does is not known: {error}"));
        None
    });
    let book = book.filter(|book| alive.is_some_and(|session| session.generation == book.generation));
    problems.extend(
        book.as_ref().and_then(cannot_work).map(|why| format!("{agent} is up and cannot work: {why}")),
    );
    let driven = book.map(|book| Driven {
        doing: book.doing,
        since: book.since,
        answered: book.answered,
        lifecycle: book.lifecycle,
        waits: book.waits,
        context_pct: book.context_pct,
        asks: book
            .asks
            .into_iter()
            .map(|ask| Asked { is_question: ask.kind == AskKind::Question, id: ask.id, text: ask.text })
            .collect(),
    });
    AgentStatus {
        id: agent.clone(),
        driven,
        want,
        state: session.map(|session| if gone { "gone".to_owned() } else { session.state.to_string() }),
        pid: alive.and_then(|session| session.pid),
        worker_pid: alive.and_then(|session| session.worker.as_ref()).map(|worker| worker.pid),
        generation: session.map(|session| session.generation),
        up,
        trying: None,
        quiet: None,
        phase: alive.and_then(|session| {
            let progress = &session.progress;
            Some(Declared { word: progress.phase.clone()?, until: progress.phase_until.clone() })
        }),
        still_s: None,
        started_at: alive.and_then(|session| session.started_at.clone()),
        inbox,
        unfinished,
        poison,
    }
}
