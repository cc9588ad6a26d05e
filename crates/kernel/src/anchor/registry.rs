//! `agents.jsonl`: every session of the root a line, for people and scripts that look without an anchor.
//!
//! A registration, a change of state and each period's heartbeats are lines appended; the last line of a name is what is
//! true of it. It says nothing that descriptions, heartbeats and the journal do not: an anchor writes it anew when it
//! starts, when a session got another name, when it was removed and when it has grown, and nobody reads it back. Unsynced.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_disk::lines::Lines;
use netsky_model::id::{AgentId, Generation, LineageId};
use serde::Serialize;

use super::state::Anchor;
use super::table::Entry;
use crate::log::say;
use crate::rpc::SessionState;

/// Version of a line.
const VERSION: u64 = 1;
/// Lines beyond those that are true before the file is written anew: hours of few sessions, minutes of hundreds.
const STALE: usize = 10_000;

/// The open file; none before the anchor serves, and after it could not be written.
#[derive(Default)]
pub(super) struct Registry {
    open: RefCell<Option<Open>>,
}

struct Open {
    file: Lines,
    lines: usize,
    last: BTreeMap<AgentId, Row>,
}

/// What is true of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    name: AgentId,
    lineage: LineageId,
    generation: Generation,
    status: SessionState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_pid: Option<u32>,
    runtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat: Option<Beat>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Beat {
    liveness: u64,
    progress: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u64,
    ts: Timestamp,
    #[serde(flatten)]
    row: &'a Row,
}

impl Row {
    fn of(entry: &Entry, status: SessionState) -> Row {
        let beat = entry.beat.as_ref().filter(|_| status.may_live());
        // A process that is gone has no number: it may be another's by now.
        let live = |process: &Option<netsky_model::process::ProcessId>| {
            process.as_ref().filter(|_| status.may_live()).map(|process| process.pid)
        };
        Row {
            name: entry.name().clone(),
            lineage: entry.meta.lineage.clone(),
            generation: entry.meta.generation,
            status,
            pid: live(&entry.meta.program),
            worker_pid: live(&entry.meta.worker),
            runtime: entry.meta.spec.runtime.clone(),
            model: entry.meta.spec.model.clone(),
            heartbeat: beat.map(|beat| Beat { liveness: beat.liveness, progress: beat.progress }),
        }
    }

    fn to_line(&self) -> Vec<u8> {
        let line = Line { v: VERSION, ts: netsky_disk::clock::wall(), row: self };
        serde_json::to_vec(&line).expect("plain data with string keys becomes JSON")
    }
}

impl Anchor {
    /// Writes down what is true of these sessions, where it is not what the file says.
    pub(super) fn register(&self, names: &[AgentId]) {
        let rows = names.iter().filter_map(|name| self.row(name));
        let open = &mut *self.registry.open.borrow_mut();
        let Some(of) = open else { return };
        let news: Vec<Row> = rows.filter(|row| of.last.get(&row.name) != Some(row)).collect();
        if news.is_empty() {
            return;
        }
        let lines: Vec<Vec<u8>> = news.iter().map(Row::to_line).collect();
        match of.file.append(&lines.join(&b'\n')) {
            Ok(()) => {
                of.lines += news.len();
                of.last.extend(news.into_iter().map(|row| (row.name.clone(), row)));
            }
            Err(error) => {
                say!("the registry is written anew with the next heartbeats: {error}");
                *open = None;
            }
        }
    }

    /// All sessions, once a period; the file anew where it is gone, was never begun or has grown.
    pub(super) fn register_all(&self) {
        let whole = self.registry.open.borrow().as_ref().is_some_and(|of| of.lines < of.last.len() + STALE);
        if whole && netsky_disk::state::exists(self.layout.registry()).unwrap_or(true) {
            return self.register(&self.names());
        }
        if !self.has_root() {
            return;
        }
        let written = self.write_registry();
        if let Err(error) = &written {
            say!("the registry is not written: {error}");
        }
        *self.registry.open.borrow_mut() = written.ok();
    }

    /// The file anew: a name in it is nobody's any more.
    pub(super) fn register_anew(&self) {
        // Where it is not open the next heartbeats write it anew.
        if self.registry.open.take().is_some() {
            self.register_all();
        }
    }

    fn row(&self, name: &AgentId) -> Option<Row> {
        let status = self.state_of(name)?;
        self.entry(name, |entry| Row::of(entry, status))
    }

    fn write_registry(&self) -> netsky_disk::Result<Open> {
        let rows = self.names().into_iter().filter_map(|name| Some((name.clone(), self.row(&name)?)));
        let last: BTreeMap<AgentId, Row> = rows.collect();
        let mut bytes: Vec<u8> = Vec::new();
        for row in last.values() {
            bytes.extend(row.to_line());
            bytes.push(b'\n');
        }
        netsky_disk::state::write(self.layout.registry(), &bytes)?;
        let (file, _torn) = Lines::open(&Dir::open(self.layout.root())?, "agents.jsonl")?;
        Ok(Open { file, lines: last.len(), last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, session};
    use crate::anchor::table::Life;
    use crate::session::Keeper;

    fn lines(anchor: &Anchor) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(anchor.layout.registry()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
    }

    #[test]
    fn what_is_true_is_the_last_line_of_a_name_and_nothing_is_said_twice() {
        on_stage(async |anchor| {
            let meta = session("agent0", Keeper::Watchdog);
            anchor.put(meta.clone(), Life::Starting);
            assert!(lines(&anchor).is_empty(), "it has not begun");
            anchor.register_all();
            for life in [Life::Live, Life::Live, Life::Gone, Life::Gone] {
                anchor.put(meta.clone(), life);
            }
            let words: Vec<_> = lines(&anchor).iter().map(|line| line["status"].clone()).collect();
            assert_eq!(words, ["starting", "active", "exited"]);
        });
    }

    #[test]
    fn a_file_that_was_removed_or_has_grown_is_written_anew() {
        on_stage(async |anchor| {
            let meta = session("agent0", Keeper::Watchdog);
            anchor.put(meta.clone(), Life::Gone);
            anchor.register_all();
            std::fs::remove_file(anchor.layout.registry()).expect("there");
            anchor.register_all();
            assert_eq!(lines(&anchor).len(), 1);
            for _ in 0..=STALE / 2 {
                anchor.put(meta.clone(), Life::Live);
                anchor.put(meta.clone(), Life::Gone);
            }
            assert!(lines(&anchor).len() > STALE);
            anchor.register_all();
            assert_eq!(lines(&anchor).len(), 1, "it is bounded");
        });
    }
}
