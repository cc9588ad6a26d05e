//! One line a fact: what a spectator should know of it, with the duration that matters.

use jiff::Timestamp;
use netsky_bus::Bus;
use netsky_kernel::rpc::{Event, EventKind};
use netsky_model::envelope::Envelope;
use netsky_model::feed::Event as OwnersEvent;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use crate::demo::agent::root::SUMMARY;
use crate::demo::landing;
use crate::demo::place::Place;
use crate::demo::sight::{Fact, Moved, Seen};
use crate::demo::story::{Outcome, Story};
use crate::output;
use crate::palette::Tone;

/// Longest text of a message on the screen.
const MAX_SAID: usize = 90;

/// A line of the narration.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    /// One word, the first column.
    pub(crate) what: &'static str,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

impl Line {
    pub(crate) fn new(at: Timestamp, what: &'static str, tone: Tone, text: impl Into<String>) -> Line {
        Line { at, what, tone, text: text.into() }
    }
}

/// Milliseconds as people read them.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    let ms = millis(from, to);
    if ms < 1000 { format!("{ms} ms") } else { format!("{}.{:02} s", ms / 1000, ms % 1000 / 10) }
}

/// From one instant to a later one.
pub(crate) fn millis(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_millisecond() - from.as_millisecond()).max(0)
}

/// The line of a fact that the story has been told; none for what is no news.
pub(crate) fn line(place: &Place, story: &Story, fact: &Fact) -> Option<Line> {
    let at = fact.at;
    match &fact.seen {
        Seen::Kernel(event) => kernel(story, at, event),
        Seen::Recorded(fact) => recorded(story, at, fact),
        Seen::Moved(moved) => moved_on(place, story, at, moved),
        Seen::Surfaced(moved) if moved.attempt > 1 => {
            let (name, generation) = (name(place, moved), moved.generation.unwrap_or(Generation::NONE));
            let text = format!(
                "{name} to {} generation {generation}, attempt {}, flagged as a repeat",
                moved.agent, moved.attempt
            );
            Some(Line::new(at, "redelivered", Tone::Note, text))
        }
        Seen::Watchdog { what, why } => watchdog(story, at, what, why),
        Seen::UpProof(agent) if *agent == AgentId::root() => {
            let restart = story.restarts.last().filter(|restart| restart.up == Some(at))?;
            let text = format!("agent0 handed its nonce back, {}", after(story, restart.of, at));
            Some(Line::new(at, "up proof", Tone::Plain, text))
        }
        Seen::Killed(kill) => {
            let text = format!("{} (pid {}) with SIGKILL, {}", kill.target, kill.process.pid, kill.moment);
            Some(Line::new(at, "killed", Tone::Bad, text))
        }
        Seen::Paused { child, stood: None } => {
            let text = format!("the restart's child (pid {}) with SIGSTOP", child.pid);
            Some(Line::new(at, "stopped", Tone::Bad, text))
        }
        Seen::Paused { child, stood: Some(stood) } => {
            let text =
                format!("the restart's child (pid {}) goes on after {} ms", child.pid, stood.as_millis());
            Some(Line::new(at, "continued", Tone::Note, text))
        }
        Seen::Surfaced(_) | Seen::UpProof(_) => None,
    }
}

/// How long after the death of a generation of agent0.
fn after(story: &Story, of: Generation, at: Timestamp) -> String {
    match story.roots.get(&of).and_then(|life| life.killed) {
        Some(killed) => format!("{} after the kill", span(killed, at)),
        None => match story.roots.get(&of).and_then(|life| life.ended) {
            Some(ended) => format!("{} after its end", span(ended, at)),
            None => "its predecessor's end is not known".to_owned(),
        },
    }
}

fn kernel(story: &Story, at: Timestamp, event: &Event) -> Option<Line> {
    if event.kind == EventKind::AnchorStarted && event.epoch > 1 {
        let text = format!("a new anchor serves, epoch {}", event.epoch);
        return Some(Line::new(at, "anchor", Tone::Good, text));
    }
    let (session, generation) = (event.session.as_ref()?, event.generation?);
    let root = *session == AgentId::root();
    if event.kind == EventKind::Started && generation.0 > 1 {
        let pid = &event.data["program"]["pid"];
        let text = format!("{session} generation {generation}, pid {pid}");
        return Some(match story.restarts.last() {
            Some(restart) if root => {
                let text = format!("{text}, {}", after(story, restart.of, at));
                Line::new(at, "respawned", Tone::Plain, text)
            }
            _ => Line::new(at, "revived", Tone::Good, format!("{text}, by its keeper")),
        });
    }
    if !event.is_end() {
        return None;
    }
    let life = story.roots.get(&generation).filter(|_| root);
    let late = life.and_then(|life| life.killed).map(|killed| format!(", {} after it", span(killed, at)));
    let text = format!("the kernel saw {session} generation {generation} end{}", late.unwrap_or_default());
    Some(Line::new(at, "detected", Tone::Plain, text))
}

/// How work lands, and what agent0 writes to the owner.
fn recorded(story: &Story, at: Timestamp, fact: &netsky_ledger::Fact) -> Option<Line> {
    let event = OwnersEvent::of((fact.seq, fact.ts), &fact.kind, &fact.key, &fact.data)?;
    let work = landing::task_of(fact).and_then(|task| story.works.get(task));
    let whose = work.and_then(|work| work.agent.as_ref()).map_or("somebody", |agent| agent.as_str());
    let (what, tone, more) = match (fact.kind.as_str(), work) {
        ("harvest.started", _) => ("harvest", Tone::Plain, String::new()),
        ("harvest.landed", Some(work)) => {
            let again =
                if work.conflicts > 0 { format!("; {whose} resolved its conflict") } else { String::new() };
            let gate = work.landed.as_ref().map_or("none", |landed| landed.gate.as_str());
            ("landed", Tone::Good, format!(", by its gate (shut in: {gate}){again}"))
        }
        ("harvest.conflict", _) => ("conflict", Tone::Note, format!("; {whose} is told")),
        ("harvest.refused" | "gate.failed", _) => ("refused", Tone::Bad, String::new()),
        ("owner.message", _) => ("to you", Tone::Good, String::new()),
        _ => return None,
    };
    Some(Line::new(at, what, tone, format!("{}{more}", event.text)))
}

fn watchdog(story: &Story, at: Timestamp, what: &str, why: &str) -> Option<Line> {
    let restart = story.restarts.iter().find(|restart| why.starts_with(&restart.id))?;
    let late = after(story, restart.of, at);
    match (what, &restart.end) {
        ("restart-begun", _) => {
            let text = format!("crash handoff written, {} begun, {late}", restart.id);
            Some(Line::new(at, "handoff", Tone::Plain, text))
        }
        (_, Some((_, Outcome::Verified))) => {
            let generation = restart.generation.unwrap_or(Generation::NONE);
            let text = format!("agent0 generation {generation} by a later look, {late}");
            Some(Line::new(at, "verified", Tone::Good, text))
        }
        (_, Some((_, Outcome::Failed(reason)))) => {
            Some(Line::new(at, "not proved", Tone::Note, format!("{}: {reason}", restart.id)))
        }
        _ => None,
    }
}

fn moved_on(place: &Place, story: &Story, at: Timestamp, moved: &Moved) -> Option<Line> {
    let envelope = envelope(place, moved);
    let kind = envelope.as_ref().and_then(|envelope| envelope.kind.as_deref()).unwrap_or("message");
    if moved.is_to(State::Written) && moved.attempt == 1 {
        if let Some(restart) = story.restarts.iter().find(|restart| restart.handed_off == Some(at)) {
            let text = format!("in agent0's inbox, {}", after(story, restart.of, at));
            return Some(Line::new(at, "handed over", Tone::Plain, text));
        }
        let from = moved.from.as_deref().unwrap_or("?");
        let said = envelope.as_ref().map(|envelope| output::one_line(&envelope.text)).unwrap_or_default();
        let said: String = said.chars().take(MAX_SAID).collect();
        let word = match kind {
            "owner" => "order",
            "brief" => "brief",
            "report" => "report",
            // What is recorded has a line of its own.
            "harvest-landed" | "harvest-conflict" | SUMMARY => return None,
            _ => "message",
        };
        return Some(Line::new(at, word, Tone::Plain, format!("{from} → {}: {said}", moved.agent)));
    }
    let name = name(place, moved);
    if moved.is_to(State::Written) {
        let text = format!("{name} to the inbox of {}: its reader died", moved.agent);
        return Some(Line::new(at, "returned", Tone::Note, text));
    }
    if moved.is_to(State::Poisoned) {
        return Some(Line::new(at, "dead letter", Tone::Bad, name));
    }
    let told = moved.is_to(State::Acked) && matches!(kind, "owner" | "handoff");
    told.then(|| Line::new(at, "finished", Tone::Plain, format!("{} finished {name}", moved.agent)))
}

/// What a message is called: its kind and the beginning of its id.
fn name(place: &Place, moved: &Moved) -> String {
    let envelope = envelope(place, moved);
    let kind = match envelope.as_ref().and_then(|envelope| envelope.kind.as_deref()) {
        Some("owner") => "the order",
        Some(kind) => kind,
        None => "a message",
    };
    format!("{kind} {}", short(moved.id.as_str()))
}

/// Enough of an id to tell two of one demo apart; the end, since ids of one moment begin alike.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

fn envelope(place: &Place, moved: &Moved) -> Option<Envelope> {
    let layout = place.layout();
    Bus::open(&layout, &Nobody).show(&moved.agent, moved.id.as_str()).ok()?.envelope
}
