//! `--facts FILE`: what only the harness of a test knows, one JSON object a line (docs/check.md).

use std::path::Path;

use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::process::ProcessId;
use serde::Deserialize;

/// Everything a facts file said.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Somebody speaks who knows of every kill, and that no line of telemetry is missing.
    pub(super) whole: bool,
    pub(super) acknowledged: Vec<Acknowledged>,
    pub(super) surfaced: Vec<Surfaced>,
    pub(super) killed: Vec<Killed>,
}

/// A send that ended with exit 0.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acknowledged {
    pub(super) agent: AgentId,
    pub(super) id: EnvelopeId,
}

/// A surfacing that somebody saw with own eyes, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Surfaced {
    pub(super) agent: AgentId,
    pub(super) id: EnvelopeId,
    pub(super) attempt: u32,
}

/// A process that the harness killed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Killed {
    pid: u32,
    start_time: u64,
}

impl Killed {
    pub(super) fn is(&self, process: &ProcessId) -> bool {
        (self.pid, self.start_time) == (process.pid, process.start_time)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Acknowledged(Acknowledged),
    Surfaced(Surfaced),
    Killed(Killed),
}

/// A facts file that cannot be used.
#[derive(Debug)]
pub(crate) enum BadFact {
    /// It cannot be read.
    File(std::io::Error),
    /// A line, counted from 1, is not a fact.
    Line(usize, serde_json::Error),
}

impl Facts {
    /// Reads a facts file.
    pub(crate) fn read(path: &Path) -> Result<Facts, BadFact> {
        Facts::parse(&std::fs::read_to_string(path).map_err(BadFact::File)?)
    }

    fn parse(text: &str) -> Result<Facts, BadFact> {
        let mut facts = Facts { whole: true, ..Facts::default() };
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line).map_err(|e| BadFact::Line(index + 1, e))? {
                Line::Acknowledged(fact) => facts.acknowledged.push(fact),
                Line::Surfaced(fact) => facts.surfaced.push(fact),
                Line::Killed(fact) => facts.killed.push(fact),
            }
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fact_reads_and_an_unknown_one_names_its_line() {
        let facts = Facts::parse(concat!(
            "{\"acknowledged\":{\"agent\":\"agent1\",\"id\":\"a\"}}\n\n",
            "{\"surfaced\":{\"agent\":\"agent1\",\"id\":\"a\",\"attempt\":2}}\n",
            "{\"killed\":{\"pid\":7,\"start_time\":8}}\n",
        ))
        .expect("three facts");
        assert_eq!((facts.acknowledged.len(), facts.surfaced[0].attempt, facts.killed[0].pid), (1, 2, 7));
        for bad in ["{\"wished\":{}}", "x", "{\"killed\":{\"pid\":7}}", "{\"killed\":{\"pid\":7,\"x\":1}}"] {
            assert!(matches!(Facts::parse(&format!("\n{bad}\n")), Err(BadFact::Line(2, _))), "{bad}");
        }
    }
}
