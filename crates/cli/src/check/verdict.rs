//! What one invariant came to: how much was looked at, what is wrong, and what is merely worth saying.

use std::collections::HashSet;

use netsky_model::process::ProcessId;
use serde::Serialize;

/// One thing that is wrong, or worth saying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Which file below the home, or which process.
    #[serde(rename = "where")]
    pub(crate) place: String,
    /// What is the matter with it. The same in every look (no ages, no counts that grow) unless it has a [`Finding::key`].
    pub(crate) what: String,
    /// What it is about, where that outlives the process that was seen: a chain of short-lived ones is one thing.
    #[serde(skip)]
    key: Option<String>,
}

impl Finding {
    /// What is the same in every look at the same thing.
    fn identity(&self) -> [&str; 2] {
        match &self.key {
            Some(key) => ["", key],
            None => [&self.place, &self.what],
        }
    }
}

/// What one look says about one invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// `I1` …
    pub(crate) id: &'static str,
    /// The invariant in one phrase.
    pub(crate) says: &'static str,
    /// How many things were looked at.
    pub(crate) looked_at: usize,
    /// Damage.
    pub(crate) findings: Vec<Finding>,
    /// No damage: what the next drain or tick puts right, or what was put aside already.
    pub(crate) notes: Vec<Finding>,
}

impl Verdict {
    pub(crate) fn new(id: &'static str, says: &'static str) -> Verdict {
        Verdict { id, says, looked_at: 0, findings: Vec::new(), notes: Vec::new() }
    }

    /// Whether nothing is wrong.
    pub(crate) fn holds(&self) -> bool {
        self.findings.is_empty()
    }

    /// Counts one more thing that was looked at.
    pub(super) fn saw(&mut self, how_many: usize) {
        self.looked_at += how_many;
    }

    /// Says what is wrong.
    pub(super) fn broken(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Finding { place: place.into(), what: what.into(), key: None });
    }

    /// Says that a living process is wrong; whichever process the next look sees, it is the same finding by its `key`.
    pub(super) fn lives(&mut self, process: &ProcessId, key: impl Into<String>, what: impl Into<String>) {
        let place = format!("process {}", process.pid);
        self.findings.push(Finding { place, what: what.into(), key: Some(key.into()) });
    }

    /// Says what is worth saying.
    pub(super) fn note(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.notes.push(Finding { place: place.into(), what: what.into(), key: None });
    }

    /// This look, with only those findings that the look before had too.
    pub(super) fn confirming(mut self, before: &Verdict) -> Verdict {
        let before: HashSet<[&str; 2]> = before.findings.iter().map(Finding::identity).collect();
        self.findings.retain(|finding| before.contains(&finding.identity()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_looks_show_is_a_finding() {
        let look = |places: &[&str]| {
            let mut verdict = Verdict::new("I1", "…");
            places.iter().for_each(|place| verdict.broken(*place, "gone"));
            verdict
        };
        let places = |verdict: Verdict| verdict.findings.into_iter().map(|f| f.place).collect::<Vec<_>>();
        assert_eq!(places(look(&["b", "c"]).confirming(&look(&["a", "b"]))), ["b"]);
        assert!(look(&["c"]).confirming(&look(&["a"])).holds());
    }
}
