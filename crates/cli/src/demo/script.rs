//! What the demo does, step by step: up, an order, a kill while it is claimed, another in the middle of a harvest, the wait until
//! all work has landed, an order to sum up, and the wait for the end of everything.
//!
//! Promise: each step waits for what it is about, seen on disk or told by the kernel, and never for a time; one deadline
//! is over all of them, and its error says what was missing.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use netsky_bus::Bus;
use netsky_disk::fs::Dir;
use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::{clock, throwaway};
use netsky_kernel::client::Client;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;
use netsky_runtime::driver::Doing;

use crate::demo::account::{Account, Worker};
use crate::demo::agent::root::{SUMMARY, SURVEY};
use crate::demo::chaos::{self, Target};
use crate::demo::driven::{self, Runtime};
use crate::demo::janitor::{self, Janitor};
use crate::demo::landing;
use crate::demo::narrate::{self, Line};
use crate::demo::owner;
use crate::demo::place::Place;
use crate::demo::programs::owners_verb;
use crate::demo::repository::{self, Repository};
use crate::demo::sight::{Fact, Kill, Seen, Sight};
use crate::demo::story::Story;
use crate::demo::verdict;
use crate::error::{Error, Kind};
use crate::palette::Tone;

/// How long a run may take beyond its ticks, its work, and the faults that are asked for.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long the work of one clone may take, from its workspace to `main`.
const WORK: Duration = Duration::from_secs(15);
/// The same where a model takes its time.
const PATIENCE_WITH_MODELS: Duration = Duration::from_secs(300);
/// The pause before a second start of an agent0 that was never proved, with the time the start takes.
const BACKOFF: Duration = Duration::from_secs(15);

/// What agent0 does when it is killed.
pub(super) const CLAIM: &str = "while it held a claim";
pub(super) const HARVEST: &str = "in the middle of a harvest";
pub(super) const TURN: &str = "in the middle of a turn";

/// What is asked of the demo.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) repo: Option<PathBuf>,
    pub(crate) agents: u32,
    pub(crate) tick: Duration,
    pub(crate) keep: bool,
    /// Who else is killed, all at one moment.
    pub(crate) kill: Vec<Target>,
    pub(crate) seed: u64,
    /// How long the first restart's child stands still.
    pub(crate) pause_child: Option<Duration>,
    /// The real program in the slots; none for the demo's own.
    pub(crate) runtime: Option<Runtime>,
}

impl Wish {
    fn deadline(&self) -> Duration {
        let patience = match self.runtime {
            Some(_) => PATIENCE_WITH_MODELS,
            None => PATIENCE + WORK * self.agents,
        };
        let faults = self.pause_child.unwrap_or_default() + BACKOFF * u32::from(!self.kill.is_empty());
        patience + self.tick * 5 + faults
    }
}

/// Where a kill of agent0 goes; the numbers are those of the orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// While it has claimed an order.
    Claim(usize),
    /// While the first work lands.
    Harvest,
    /// While a model speaks about an order.
    Answer(usize),
}

impl Moment {
    fn word(self) -> &'static str {
        match self {
            Moment::Claim(_) => CLAIM,
            Moment::Harvest => HARVEST,
            Moment::Answer(_) => TURN,
        }
    }
}

/// Plays the demo to its end and cleans up after it; `say` is told each line as it happens.
pub(crate) fn play(wish: &Wish, say: &mut dyn FnMut(Timestamp, &Line)) -> Result<Account, Error> {
    // What is not installed makes nothing.
    let argv = wish.runtime.map(Runtime::argv).transpose()?;
    let place = Place::create()?;
    let janitor = match Janitor::hire(&place, wish.keep) {
        Ok(janitor) => janitor,
        Err(error) => return throwaway::remove(place.folder()).map_err(Error::from).and(Err(error)),
    };
    let played = perform(wish, argv, &place, say);
    // Whatever came of it: nothing that was started stays.
    let cleaned = janitor::clean(&place, wish.keep);
    let left = verdict::left_behind(&place);
    // One that could not be cleaned up after keeps its janitor, who tries again when we are gone.
    let dismissed = match &cleaned {
        Ok(()) => janitor.dismiss(),
        Err(_) => Ok(()),
    };
    let mut account = played?;
    cleaned?;
    dismissed?;
    account.problems.extend(left?);
    Ok(account)
}

fn perform(
    wish: &Wish,
    argv: Option<Vec<String>>,
    place: &Place,
    say: &mut dyn FnMut(Timestamp, &Line),
) -> Result<Account, Error> {
    let (began, started) = (clock::wall(), clock::boot());
    let (repository, line) = match wish.runtime {
        Some(runtime) => (None, Line::new(clock::wall(), driven::PRICE, Tone::Note, runtime.price())),
        None => {
            say(began, &Line::new(clock::wall(), "agents", Tone::Plain, driven::offers()));
            let repository = repository::prepare(place, wish.repo.as_deref())?;
            owner::settle(place)?;
            let line = Line::new(clock::wall(), "repository", Tone::Plain, described(&repository));
            (Some(repository), line)
        }
    };
    say(began, &line);
    let home = format!("{} (its own, nothing of yours is touched)", place.layout().home().display());
    say(began, &Line::new(clock::wall(), "home", Tone::Plain, home));
    up(wish, argv, place)?;
    let sight = Sight::open(&place.layout())?;
    let mut show = Show::new(wish, place, sight, began, say);
    show.lines.push(line);
    show.tell_up()?;
    let before = show.workers()?;
    let missing = if wish.runtime.is_some() { show.act_driven() } else { show.act() };
    // The reason for stopping is told with everything that was seen until then.
    show.look()?;
    let after = show.workers()?;
    let mut account = verdict::judge(show.report(repository, before, after))?;
    if let Err(missing) = missing {
        account.missing = Some(missing.to_string());
    }
    account.took = clock::boot().saturating_sub(started);
    Ok(account)
}

fn described(repository: &Repository) -> String {
    let source = match &repository.source {
        Some(source) => format!("copied from {}", source.display()),
        None => "made for this demo".to_owned(),
    };
    let commit: String = repository.head.chars().take(8).collect();
    format!("{} files at {commit}, {source}", repository.files)
}

fn up(wish: &Wish, argv: Option<Vec<String>>, place: &Place) -> Result<(), Error> {
    let netsky = netsky_disk::spawn::sibling("netsky")?.display().to_string();
    let (folder, agents) = (place.folder().display().to_string(), wish.agents.to_string());
    let tick = format!("{}ms", wish.tick.as_millis());
    let runtime = wish.runtime.map_or("command", Runtime::word);
    let mut words = vec!["up", &agents, "--tick", &tick, "--runtime", runtime, "--"];
    match &argv {
        Some(argv) => {
            Dir::create(place.work())?;
            words.extend(argv.iter().map(String::as_str));
        }
        None => words.extend([netsky.as_str(), "demo-agent", &folder, "--clones", &agents]),
    }
    owners_verb(place, words).map(drop)
}

/// The demo while it runs.
pub(super) struct Show<'a> {
    wish: &'a Wish,
    pub(super) place: &'a Place,
    sight: Sight,
    say: &'a mut dyn FnMut(Timestamp, &Line),
    began: Timestamp,
    started: Duration,
    facts: Vec<Fact>,
    lines: Vec<Line>,
    story: Story,
    orders: Vec<EnvelopeId>,
    /// agent0's, before and after its death; none of a program of the demo's own.
    pub(super) conversations: Option<(String, String)>,
    /// Extra kills that are still to come, and when.
    due: Option<Duration>,
    paused: Paused,
}

/// The restart's child, while and after it stands still.
enum Paused {
    NotAsked,
    Waiting,
    Standing { child: ProcessId, since: Duration },
    Over,
}

impl<'a> Show<'a> {
    fn new(
        wish: &'a Wish,
        place: &'a Place,
        sight: Sight,
        began: Timestamp,
        say: &'a mut dyn FnMut(Timestamp, &Line),
    ) -> Show<'a> {
        let now = clock::boot();
        Show {
            wish,
            place,
            sight,
            say,
            began,
            started: now,
            facts: Vec::new(),
            lines: Vec::new(),
            story: Story::default(),
            orders: Vec::new(),
            conversations: None,
            due: (!wish.kill.is_empty()).then(|| now + chaos::moment(wish.seed, wish.tick)),
            paused: if wish.pause_child.is_some() { Paused::Waiting } else { Paused::NotAsked },
        }
    }

    fn act(&mut self) -> Result<(), Error> {
        self.order(SURVEY, "look this repository over: one task for each clone")?;
        self.strike(Moment::Claim(0))?;
        self.settle("the first restart was not verified")?;
        self.strike(Moment::Harvest)?;
        self.settle("the second restart was not verified")?;
        self.until("not all work landed", |show| Ok(show.is_all_landed()))?;
        self.order(SUMMARY, "tell me what became of it")?;
        self.until("a fault that was asked for did not come", |show| Ok(show.faults_are_over()))?;
        self.settle("the last restart was not verified")?;
        self.until("not every message was finished", |show| show.all_finished())?;
        self.until("the owner was not told of everything", |show| owner::is_told(show.place))
    }

    pub(super) fn tell(&mut self, line: Line) {
        (self.say)(self.began, &line);
        self.lines.push(line);
    }

    fn tell_up(&mut self) -> Result<(), Error> {
        self.look()?;
        let names: Vec<String> = (0..=self.wish.agents).map(|n| AgentId::numbered(n).to_string()).collect();
        let text = format!("{}, agentinfinity, netsky-ticker", names.join(", "));
        let at = self.story.roots.get(&Generation(1)).and_then(|life| life.started);
        self.tell(Line::new(at.unwrap_or_else(clock::wall), "up", Tone::Good, text));
        Ok(())
    }

    pub(super) fn order(&mut self, thread: &str, text: &str) -> Result<(), Error> {
        let order = self.send(&AgentId::root(), thread, text)?;
        self.orders.push(order);
        Ok(())
    }

    pub(super) fn send(&self, to: &AgentId, thread: &str, text: &str) -> Result<EnvelopeId, Error> {
        let mut words = vec!["--json", "channel", "send", to.as_str(), text, "--from", "owner"];
        words.extend(["--kind", "owner", "--thread", thread, "--requires-ack"]);
        let answer = owners_verb(self.place, words)?;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
        let id = answer["id"].as_str().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Error::new(Kind::Failed, "channel send said no id"))
    }

    /// Looks, tells what is new, and lets the extra faults come when they are due.
    fn look(&mut self) -> Result<(), Error> {
        for fact in self.sight.look()? {
            self.take(fact);
        }
        self.second_root();
        self.pause_child()?;
        self.kill_more()
    }

    fn take(&mut self, fact: Fact) {
        self.story.tell(&fact);
        let line = narrate::line(self.place, &self.story, &fact);
        self.facts.push(fact);
        if let Some(line) = line {
            self.tell(line);
        }
    }

    pub(super) fn until(
        &mut self,
        missing: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        loop {
            self.look()?;
            if holds(self)? {
                return Ok(());
            }
            if clock::boot() > self.started + self.wish.deadline() {
                let limit = self.wish.deadline().as_secs();
                return Err(Error::new(Kind::Busy, format!("{missing} within {limit} s")));
            }
            self.sight.wait();
        }
    }

    /// Kills agent0 at the wanted moment of its work.
    pub(super) fn strike(&mut self, moment: Moment) -> Result<(), Error> {
        self.until("agent0 did not come to it", |show| match show.victim(moment)? {
            Some((process, generation)) => show.kill_root(&process, generation, moment.word()),
            // Another kill came first, and its successor was faster than we.
            None => show.is_over(moment),
        })
    }

    /// The agent0 that is at it.
    fn victim(&self, moment: Moment) -> Result<Option<(ProcessId, Generation)>, Error> {
        match moment {
            Moment::Claim(order) => self.claimant(&self.orders[order]),
            Moment::Harvest if !self.story.works.is_empty() => self.reader(None),
            Moment::Answer(order) if self.is_speaking()? => self.reader(Some(&self.orders[order])),
            Moment::Harvest | Moment::Answer(_) => Ok(None),
        }
    }

    fn is_over(&self, moment: Moment) -> Result<bool, Error> {
        match moment {
            Moment::Harvest => Ok(self.is_all_landed()),
            Moment::Claim(order) | Moment::Answer(order) => {
                let id = &self.orders[order];
                Ok(self.names(State::Acked)?.iter().any(|name| name.key.id == *id))
            }
        }
    }

    fn is_all_landed(&self) -> bool {
        landing::is_all_landed(&self.story.works, self.wish.agents)
    }

    fn kill_root(&mut self, process: &ProcessId, generation: Generation, doing: &str) -> Result<bool, Error> {
        let at = clock::wall();
        if !process::signal(process, Signal::KILL)? {
            return Ok(false);
        }
        let kill = Kill {
            target: "agent0".to_owned(),
            process: process.clone(),
            generation: Some(generation),
            moment: doing.to_owned(),
        };
        self.take(Fact { at, seen: Seen::Killed(kill) });
        Ok(true)
    }

    /// The agent0 that holds the envelope claimed.
    fn claimant(&self, id: &EnvelopeId) -> Result<Option<(ProcessId, Generation)>, Error> {
        let owner = self.names(State::Claimed)?.into_iter().find_map(|name| match name.stage {
            Stage::Claimed(owner) if name.key.id == *id => Some(owner),
            _ => None,
        });
        let Some(owner) = owner else { return Ok(None) };
        let life = self.story.roots.iter().find(|(_, life)| life.program.as_ref() == Some(&owner));
        Ok(life.map(|(generation, _)| (owner, *generation)))
    }

    /// Whether agent0's model says something.
    fn is_speaking(&self) -> Result<bool, Error> {
        Ok(self.book(&AgentId::root())?.is_some_and(|book| book.doing == Doing::Working))
    }

    /// The agent0 that was shown an envelope, that one where one is named, and has not finished it.
    fn reader(&self, id: Option<&EnvelopeId>) -> Result<Option<(ProcessId, Generation)>, Error> {
        let generation = self.names(State::Delivered)?.into_iter().find_map(|name| match name.stage {
            Stage::Taken(generation) if id.is_none_or(|id| name.key.id == *id) => Some(generation),
            _ => None,
        });
        let Some(generation) = generation else { return Ok(None) };
        let program = self.story.roots.get(&generation).and_then(|life| life.program.clone());
        Ok(program.map(|program| (program, generation)))
    }

    fn names(&self, state: State) -> Result<Vec<Name>, Error> {
        let folder = Dir::open(self.place.layout().folder(&AgentId::root(), state))?;
        Ok(folder.names()?.iter().filter_map(|name| Name::parse(name)).collect())
    }

    /// Waits until no restart is under way and the agent0 that lives is a proved one.
    pub(super) fn settle(&mut self, missing: &str) -> Result<(), Error> {
        self.until(missing, |show| {
            let newest = show.story.newest();
            let life = show.story.roots.get(&newest);
            // What was killed a moment ago may still be on its way out.
            let spared = life.filter(|life| life.killed.is_none());
            let lives = spared.and_then(|life| life.program.as_ref()).is_some_and(process::is_alive);
            Ok(lives && show.story.is_proved(newest) && show.sight.inflight()?.is_none())
        })
    }

    pub(super) fn all_finished(&mut self) -> Result<bool, Error> {
        let layout = self.place.layout();
        let bus = Bus::open(&layout, &Nobody);
        for agent in (0..=self.wish.agents).map(AgentId::numbered) {
            for state in [State::Written, State::Claimed, State::Delivered] {
                if bus.count(&agent, state)? > 0 {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// A program of agent0 that lives beside its successor.
    fn second_root(&mut self) {
        let alive =
            self.story.roots.iter().filter(|(_, life)| life.program.as_ref().is_some_and(process::is_alive));
        let alive: Vec<String> = alive.map(|(generation, _)| generation.to_string()).collect();
        if alive.len() > 1 {
            let what = format!("agent0 generations {} live at once", alive.join(" and "));
            if !self.story.violations.contains(&what) {
                self.story.violations.push(what);
            }
        }
    }

    fn faults_are_over(&self) -> bool {
        self.due.is_none() && matches!(self.paused, Paused::NotAsked | Paused::Over)
    }

    /// Kills everybody who is asked for at one moment, once all of them live.
    fn kill_more(&mut self) -> Result<(), Error> {
        if self.due.is_none_or(|due| clock::boot() < due) {
            return Ok(());
        }
        let layout = self.place.layout();
        let mut held = Vec::new();
        for target in &self.wish.kill {
            let Some((process, generation)) = target.find(&layout) else { return Ok(()) };
            let Some(pidfd) = PidFd::open(&process)? else { return Ok(()) };
            held.push((*target, process, generation, pidfd));
        }
        let at = clock::wall();
        for (_, _, _, pidfd) in &held {
            pidfd.signal(Signal::KILL)?;
        }
        self.due = None;
        for (target, process, generation, _) in held {
            let kill = Kill {
                target: target.word().to_owned(),
                process,
                generation,
                moment: format!("at the moment of seed {}", self.wish.seed),
            };
            self.take(Fact { at, seen: Seen::Killed(kill) });
        }
        Ok(())
    }

    /// Stops the first restart's child as soon as it is there, and lets it go on after its time.
    fn pause_child(&mut self) -> Result<(), Error> {
        match &self.paused {
            Paused::NotAsked | Paused::Over => {}
            Paused::Waiting => {
                let child = self.sight.inflight()?.and_then(|inflight| inflight.child);
                if let Some(child) = child
                    && process::signal(&child, Signal::STOP)?
                {
                    let seen = Seen::Paused { child: child.clone(), stood: None };
                    self.take(Fact { at: clock::wall(), seen });
                    self.paused = Paused::Standing { child, since: clock::boot() };
                }
            }
            Paused::Standing { child, since } => {
                let stood = clock::boot().saturating_sub(*since);
                if self.wish.pause_child.is_none_or(|limit| stood >= limit) {
                    let child = child.clone();
                    process::signal(&child, Signal::CONT)?;
                    self.take(Fact { at: clock::wall(), seen: Seen::Paused { child, stood: Some(stood) } });
                    self.paused = Paused::Over;
                }
            }
        }
        Ok(())
    }

    /// Every session's worker as the kernel has it.
    fn workers(&mut self) -> Result<Vec<Worker>, Error> {
        let root = self.place.layout().kernel_root();
        let mut sessions = None;
        // Between two anchors nobody serves for a moment.
        self.until("no anchor serves", |_| {
            sessions = Client::connect(&root).and_then(|mut client| client.list()).ok();
            Ok(sessions.is_some())
        })?;
        let views = sessions.unwrap_or_default().into_iter();
        Ok(views
            .map(|view| Worker { session: view.name, worker: view.worker, program: view.program })
            .collect())
    }

    fn report(
        &mut self,
        repository: Option<Repository>,
        before: Vec<Worker>,
        after: Vec<Worker>,
    ) -> verdict::Evidence {
        verdict::Evidence {
            place: self.place.clone(),
            began: self.began,
            repository,
            clones: self.wish.agents,
            runtime: self.wish.runtime,
            conversations: self.conversations.take(),
            killed: self.wish.kill.clone(),
            facts: std::mem::take(&mut self.facts),
            lines: std::mem::take(&mut self.lines),
            violations: std::mem::take(&mut self.story.violations),
            orders: self.orders.clone(),
            before,
            after,
        }
    }
}
