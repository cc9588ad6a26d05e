//! What the facts add up to: the lives of agent0, its restarts with their durations, the lives of envelopes, and the work.
//!
//! A pure fold. It is told the facts as they come, for the screen, and once more from the first to the last in the
//! order of their times, for the account: an anchor that was away tells late.

use std::collections::BTreeMap;

use jiff::Timestamp;
use netsky_kernel::rpc::{Event, EventKind};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::process::ProcessId;

use crate::demo::landing::{self, Works};
use crate::demo::sight::{Fact, Kill, Moved, Seen};

/// One life of agent0.
#[derive(Debug, Clone, Default)]
pub(crate) struct RootLife {
    pub(crate) program: Option<ProcessId>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) killed: Option<Timestamp>,
    pub(crate) moment: Option<String>,
    pub(crate) ended: Option<Timestamp>,
}

/// One restart of agent0.
#[derive(Debug, Clone)]
pub(crate) struct Restart {
    pub(crate) id: String,
    /// Which generation died.
    pub(crate) of: Generation,
    pub(crate) began: Timestamp,
    /// The generation that was started, once one was.
    pub(crate) generation: Option<Generation>,
    pub(crate) up: Option<Timestamp>,
    pub(crate) handed_off: Option<Timestamp>,
    pub(crate) end: Option<(Timestamp, Outcome)>,
}

/// How a restart ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Verified,
    Failed(String),
}

/// One step of an envelope's life.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) at: Timestamp,
    pub(crate) what: String,
    pub(crate) attempt: u32,
    pub(crate) generation: Option<Generation>,
}

/// One envelope.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) to: AgentId,
    pub(crate) id: EnvelopeId,
    pub(crate) from: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Life {
    /// One of which telemetry says nothing.
    pub(crate) fn unknown(to: &AgentId, id: &EnvelopeId) -> Life {
        Life { to: to.clone(), id: id.clone(), from: None, steps: Vec::new() }
    }

    /// How often it was put before its agent.
    pub(crate) fn surfacings(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.what == "surfaced")
    }
}

/// Everything so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) roots: BTreeMap<Generation, RootLife>,
    pub(crate) restarts: Vec<Restart>,
    pub(crate) lives: Vec<Life>,
    pub(crate) kills: Vec<(Timestamp, Kill)>,
    pub(crate) works: Works,
    /// What no constellation may show.
    pub(crate) violations: Vec<String>,
}

impl Story {
    /// The whole of it, from facts in any order.
    pub(crate) fn of(facts: &[Fact]) -> Story {
        let mut sorted: Vec<&Fact> = facts.iter().collect();
        sorted.sort_by_key(|fact| fact.at);
        let mut story = Story::default();
        for fact in sorted {
            story.tell(fact);
        }
        story
    }

    /// One more fact.
    pub(crate) fn tell(&mut self, fact: &Fact) {
        let at = fact.at;
        match &fact.seen {
            Seen::Kernel(event) => self.kernel(at, event),
            Seen::Recorded(fact) => landing::tell(&mut self.works, fact),
            Seen::Moved(moved) => self.moved(at, moved, &moved.to),
            Seen::Surfaced(moved) => self.moved(at, moved, "surfaced"),
            Seen::Watchdog { what, why } => self.watchdog(at, what, why),
            Seen::UpProof(agent) if *agent == AgentId::root() => {
                if let Some(restart) = self.open_restart() {
                    restart.up = Some(at);
                }
            }
            Seen::Killed(kill) => {
                if let Some(generation) = kill.generation {
                    let life = self.roots.entry(generation).or_default();
                    life.killed.get_or_insert(at);
                    life.moment.get_or_insert_with(|| kill.moment.clone());
                }
                self.kills.push((at, kill.clone()));
            }
            Seen::UpProof(_) | Seen::Paused { .. } => {}
        }
    }

    /// The newest life of agent0.
    pub(crate) fn newest(&self) -> Generation {
        self.roots.last_key_value().map_or(Generation::NONE, |(generation, _)| *generation)
    }

    /// When the death that a restart answers was caused, as far as the demo knows.
    pub(crate) fn death(&self, restart: &Restart) -> Timestamp {
        let life = self.roots.get(&restart.of);
        life.and_then(|life| life.killed.or(life.ended)).unwrap_or(restart.began)
    }

    /// Whether the present agent0 is the first one or the proved outcome of a restart.
    pub(crate) fn is_proved(&self, generation: Generation) -> bool {
        let proved = |restart: &Restart| {
            restart.generation == Some(generation) && matches!(restart.end, Some((_, Outcome::Verified)))
        };
        generation.0 == 1 || self.restarts.iter().any(proved)
    }

    fn open_restart(&mut self) -> Option<&mut Restart> {
        self.restarts.last_mut().filter(|restart| restart.end.is_none())
    }

    fn kernel(&mut self, at: Timestamp, event: &Event) {
        let root = event.session.as_ref() == Some(&AgentId::root());
        let Some(generation) = event.generation.filter(|_| root) else { return };
        if event.kind == EventKind::Started {
            let program: Option<ProcessId> = serde_json::from_value(event.data["program"].clone()).ok();
            let life = self.roots.entry(generation).or_default();
            (life.program, life.started) = (program, Some(at));
            if let Some(restart) = self.open_restart() {
                // A child that was replaced had started another one, and that one's proof is none of this one's.
                if restart.generation.replace(generation).is_some_and(|before| before != generation) {
                    restart.up = None;
                }
            }
        } else if event.is_end() {
            self.roots.entry(generation).or_default().ended = Some(at);
        }
    }

    fn watchdog(&mut self, at: Timestamp, what: &str, why: &str) {
        let id = why.split([' ', ':']).next().unwrap_or_default();
        let reason = || why.split_once(": ").map_or("", |(_, reason)| reason).to_owned();
        match what {
            "restart-begun" => self.restarts.push(Restart {
                id: id.to_owned(),
                of: self.newest(),
                began: at,
                generation: None,
                up: None,
                handed_off: None,
                end: None,
            }),
            "repaired" | "restart-failed" => {
                let outcome = if what == "repaired" { Outcome::Verified } else { Outcome::Failed(reason()) };
                let found = self.restarts.iter_mut().find(|restart| restart.id == id);
                if let Some(restart) = found {
                    restart.end.get_or_insert((at, outcome));
                }
            }
            _ => {}
        }
    }

    fn moved(&mut self, at: Timestamp, moved: &Moved, what: &str) {
        let handoff = |restart: &Restart| EnvelopeId::derived(&["handoff", &restart.id]) == moved.id;
        if moved.is_to(State::Written)
            && moved.attempt == 1
            && let Some(restart) = self.restarts.iter_mut().find(|restart| handoff(restart))
        {
            restart.handed_off.get_or_insert(at);
        }
        let step = Step { at, what: what.to_owned(), attempt: moved.attempt, generation: moved.generation };
        let known = self.lives.iter_mut().find(|life| life.to == moved.agent && life.id == moved.id);
        match known {
            Some(life) => {
                life.from = life.from.take().or_else(|| moved.from.clone());
                life.steps.push(step);
            }
            None => self.lives.push(Life {
                to: moved.agent.clone(),
                id: moved.id.clone(),
                from: moved.from.clone(),
                steps: vec![step],
            }),
        }
    }
}
