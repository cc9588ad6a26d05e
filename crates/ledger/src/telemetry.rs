//! `logs/telemetry-<date>.jsonl`: appended beside other writers, one write a line, not synced.

use std::cell::OnceCell;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lines::Lines;
use netsky_disk::{clock, process};
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;
use netsky_model::witness::{Transition, Witness};
use serde::Serialize;

/// Version of a line.
const VERSION: u64 = 1;

/// Most bytes of a reason in a line: it may quote a stranger's file.
const MAX_REASON: usize = 500;

/// Appends telemetry lines to one home.
#[derive(Debug)]
pub struct Telemetry {
    layout: Layout,
    me: OnceCell<Option<ProcessId>>,
}

/// One run of a program, after it ended.
#[derive(Debug, Clone, Serialize)]
pub struct Invocation {
    /// `netsky`.
    pub program: &'static str,
    /// The verb with its group: `channel send`.
    pub verb: String,
    /// Its arguments by name; bodies and secrets are not among them.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Which agent it ran for, where it ran inside a session.
    pub agent: Option<String>,
    /// Its exit code.
    pub exit: u8,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

impl Telemetry {
    /// The telemetry of the home at `layout`; opens nothing yet.
    pub fn new(layout: &Layout) -> Telemetry {
        Telemetry { layout: layout.clone(), me: OnceCell::new() }
    }

    /// Records one run of a program.
    pub fn invocation(&self, invocation: &Invocation) {
        self.append("invocation", invocation);
    }

    /// Records what the watchdog did: `what` in one word, and about whom.
    pub fn watchdog(&self, what: &str, agent: Option<&AgentId>, why: &str) {
        let why: String = why.chars().take(MAX_REASON).collect();
        self.append("watchdog", &serde_json::json!({ "what": what, "agent": agent, "why": why }));
    }

    fn transition(&self, event: &'static str, seen: &Transition) {
        let cut = |reason: &String| reason.chars().take(MAX_REASON).collect::<String>();
        self.append(
            event,
            &Move {
                agent: seen.agent.as_str(),
                id: seen.id.as_str(),
                hlc: seen.hlc.to_string(),
                to: seen.to.word(),
                attempt: seen.attempt,
                from: seen.from.as_ref().map(|from| from.as_str()),
                generation: seen.generation.map(|generation| generation.0),
                reason: seen.reason.as_ref().map(cut),
            },
        );
    }

    fn append(&self, event: &'static str, body: &impl Serialize) {
        let now = clock::stamp();
        let line = Line {
            v: VERSION,
            ts: now.wall.to_string(),
            boot_ms: now.boot_ms,
            event,
            process: self.me.get_or_init(|| process::identity().ok()).as_ref(),
            body,
        };
        // Telemetry is a help to people; what it is about has happened and is on disk whether or not this succeeds.
        let _ = self.try_append(&now.wall.strftime("%Y-%m-%d").to_string(), &line);
    }

    fn try_append(&self, date: &str, line: &impl Serialize) -> netsky_disk::Result<()> {
        let logs = Dir::open(self.layout.logs())?;
        let name = format!("telemetry-{date}.jsonl");
        let bytes = serde_json::to_vec(line).map_err(|e| {
            netsky_disk::Error::new("encode line of", logs.path().join(&name), std::io::Error::from(e))
        })?;
        Lines::open_shared(&logs, &name)?.append(&bytes)
    }
}

impl Witness for Telemetry {
    fn saw(&self, transition: &Transition) {
        self.transition("transition", transition);
    }

    fn surfaced(&self, transition: &Transition) {
        self.transition("surfaced", transition);
    }
}

/// What every line begins with.
#[derive(Serialize)]
struct Line<'a, T> {
    v: u64,
    ts: String,
    boot_ms: u64,
    event: &'static str,
    process: Option<&'a ProcessId>,
    #[serde(flatten)]
    body: &'a T,
}

/// One move of one envelope.
#[derive(Serialize)]
struct Move<'a> {
    agent: &'a str,
    id: &'a str,
    hlc: String,
    to: &'static str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}
