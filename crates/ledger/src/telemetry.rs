//! `logs/telemetry-<date>.jsonl`: appended beside other writers, one write a line; synced only where the line is all that
//! is left of what it tells.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, process};
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use serde::Serialize;

use crate::facts::{Facts, files};
use crate::logs;
use crate::witness::PAGE;

/// Version of a line.
const VERSION: u64 = 1;

/// Longest reason in a line, in characters: it may quote a stranger's file.
const MAX_REASON: usize = 500;

/// Most pages that could not be recorded that are kept until the end: whoever runs for months heard of each at the time.
const UNPAGED: usize = 100;

/// Appends telemetry lines to one home.
#[derive(Debug)]
pub struct Telemetry {
    pub(crate) layout: Layout,
    /// Where the pages of dead letters go.
    pub(crate) facts: Facts,
    /// Until when, by the boot clock, the facts are left alone: somebody is stuck in them.
    pub(crate) left_alone: Cell<Duration>,
    /// The first pages that could not be recorded, by their keys, and why.
    unpaged: RefCell<Vec<(String, String)>>,
    /// Who hears of one at the time.
    hears: Cell<Option<fn(&str)>>,
    me: OnceCell<ProcessId>,
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
        let (facts, left_alone) = (Facts::new(layout), Cell::default());
        Telemetry {
            layout: layout.clone(),
            facts,
            left_alone,
            unpaged: RefCell::default(),
            hears: Cell::default(),
            me: OnceCell::new(),
        }
    }

    /// Which page of a dead letter this process could not record, and why; the first that nobody has recorded since. A tick
    /// records what is missing.
    pub fn first_unpaged(&self) -> Option<String> {
        let mut missing = self.unpaged.borrow().clone();
        if missing.is_empty() {
            return None;
        }
        // What does not read of the record tells of no page.
        for file in files(&self.layout).into_iter().flatten().flatten() {
            let is_in = |key: &String| file.facts.iter().any(|fact| fact.kind == PAGE && fact.key == *key);
            missing.retain(|(key, _)| !is_in(key));
        }
        missing.into_iter().next().map(|(_, what)| what)
    }

    /// Has somebody hear of each such page at the time: a process may run for months.
    pub fn tell_unpaged(&self, hears: fn(&str)) {
        self.hears.set(Some(hears));
    }

    pub(crate) fn unpaged(&self, key: String, what: String) {
        if let Some(hears) = self.hears.get() {
            hears(&what);
        }
        let mut unpaged = self.unpaged.borrow_mut();
        if unpaged.len() < UNPAGED {
            unpaged.push((key, what));
        }
    }

    /// Records one run of a program.
    pub fn invocation(&self, invocation: &Invocation) {
        self.append("invocation", invocation);
    }

    /// Records what the watchdog did: `what` in one word, and about whom.
    pub fn watchdog(&self, what: &str, agent: Option<&AgentId>, why: &str) {
        self.append("watchdog", &serde_json::json!({ "what": what, "agent": agent, "why": cut(why) }));
    }

    /// Records one tick of a driver of time: which, how it ended, how long it took.
    pub fn tick(&self, name: &str, outcome: &str, took: Duration) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.append("tick", &serde_json::json!({ "name": name, "outcome": cut(outcome), "millis": millis }));
    }

    pub(crate) fn append(&self, event: &'static str, body: &impl Serialize) {
        let now = clock::stamp();
        let Ok(bytes) = self.line(&now, event, body) else { return };
        // What it is about has happened and is on disk whether or not this succeeds.
        let _ = logs::append(&self.layout, logs::TELEMETRY, now.wall, &bytes);
    }

    /// As [`Telemetry::append`], a line each, for what is nowhere else on disk once it has happened.
    pub(crate) fn append_durable(
        &self,
        event: &'static str,
        bodies: impl Iterator<Item = impl Serialize>,
    ) -> io::Result<()> {
        let now = clock::stamp();
        let lines: Vec<Vec<u8>> =
            bodies.map(|body| self.line(&now, event, &body)).collect::<serde_json::Result<_>>()?;
        Ok(logs::append_durable(&self.layout, logs::TELEMETRY, now.wall, &lines)?)
    }

    fn line(&self, now: &Stamp, event: &'static str, body: &impl Serialize) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Line {
            v: VERSION,
            ts: now.wall.to_string(),
            boot_ms: now.boot_ms,
            event,
            process: self.me(),
            body,
        })
    }

    /// Who writes. Only what was read is kept: the next line may fare better.
    fn me(&self) -> Option<&ProcessId> {
        self.me.get().or_else(|| {
            let me = process::identity().ok()?;
            Some(self.me.get_or_init(|| me))
        })
    }
}

/// A reason that fits a line.
pub(crate) fn cut(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
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
