//! What the bus tells the record: a telemetry line for every move, and a page for every dead letter.

use std::io;
use std::time::Duration;

use netsky_disk::clock;
use netsky_model::id::EnvelopeId;
use netsky_model::life::{Cause, State};
use netsky_model::witness::{Transition, Witness};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::facts::Appended;
use crate::telemetry::{Telemetry, cut};

pub use netsky_model::paging::PAGE;

/// How long a page waits for the lock of the facts: the mail behind the dead letter waits as long.
const LOCK_WAIT: Duration = Duration::from_millis(250);

/// How long no page is tried once one was in vain: each would wait for the same one who is stuck.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// Longest id in a key, in bytes: what bears no name of the bus may have one of any bytes, printed in three for each.
const MAX_ID: usize = 400;

/// The condition of a dead letter: one page each, however often it is found.
pub fn poison_key(agent: &str, id: &str) -> String {
    if id.len() <= MAX_ID {
        return format!("poison/{agent}/{id}");
    }
    let (shown, mark) = (&id[..id.floor_char_boundary(MAX_ID - 9)], EnvelopeId::derived(&[id]));
    format!("poison/{agent}/{shown}~{}", &mark.as_str()[..8])
}

impl Witness for Telemetry {
    fn saw(&self, seen: &Transition) {
        self.moved("transition", seen);
        if seen.to == State::Poisoned {
            self.page(seen);
        }
    }

    fn returning(&self, seen: &Transition) {
        self.moved("returning", seen);
    }

    fn surfaced(&self, seen: &Transition) {
        self.moved("surfaced", seen);
    }

    fn removed(&self, seen: &[Transition]) -> io::Result<()> {
        self.append_durable("removed", seen.iter().map(Move::of))
    }
}

impl Telemetry {
    fn moved(&self, event: &'static str, seen: &Transition) {
        self.append(event, &Move::of(seen));
    }

    fn page(&self, seen: &Transition) {
        let reason = seen.reason.as_deref().map(cut);
        let data = json!({
            "agent": seen.agent, "id": seen.id, "hlc": seen.hlc.to_string(), "attempt": seen.attempt,
            "reason": reason,
        });
        let key = poison_key(seen.agent.as_str(), seen.id.as_str());
        // The dead letter stands in its folder with its reason, so whoever looks there can still page for it.
        if let Err(error) = self.record_page(&key, data) {
            self.append("unrecorded", &json!({ "kind": PAGE, "key": key, "why": cut(&error.to_string()) }));
            let what = format!("the page of {key} could not be recorded: {error}");
            self.unpaged(key, what);
        }
    }

    fn record_page(&self, key: &str, data: Value) -> Result<Appended> {
        if clock::boot() < self.left_alone.get() {
            return Err(Error::Busy(self.layout.record_lock()));
        }
        let recorded = self.facts.append_once_within(LOCK_WAIT, PAGE, key, data);
        if let Err(Error::Busy(_)) = recorded {
            self.left_alone.set(clock::boot() + LEFT_ALONE);
        }
        recorded
    }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
}

impl Move<'_> {
    fn of(seen: &Transition) -> Move<'_> {
        Move {
            agent: seen.agent.as_str(),
            id: seen.id.as_str(),
            hlc: seen.hlc.to_string(),
            to: seen.to.word(),
            attempt: seen.attempt,
            from: seen.from.as_ref().map(|from| from.as_str()),
            generation: seen.generation.map(|generation| generation.0),
            reason: seen.reason.as_deref().map(cut),
            cause: seen.cause.map(Cause::word),
        }
    }
}

#[cfg(test)]
mod tests {
    use netsky_disk::fs::Dir;
    use netsky_disk::layout::Layout;
    use netsky_disk::lock::Lock;
    use netsky_model::hlc::Hlc;
    use netsky_model::id::AgentId;

    use super::*;
    use crate::facts::Facts;

    /// Less than one wait of who appends for its own sake, and far more than many waits that are not made.
    const SOON: Duration = Duration::from_secs(3);

    fn home() -> (tempfile::TempDir, Layout) {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(folder.path().join("home"));
        for folder in [layout.record(), layout.logs()] {
            Dir::create(folder).expect("made");
        }
        (folder, layout)
    }

    fn bury(telemetry: &Telemetry, n: u64) {
        telemetry.saw(&Transition {
            agent: AgentId::root(),
            id: format!("torn-{n}").parse().expect("an id"),
            hlc: Hlc(n),
            to: State::Poisoned,
            attempt: 1,
            from: None,
            generation: None,
            reason: None,
            cause: None,
        });
    }

    #[test]
    fn fm_owner_page_a_page_that_was_recorded_since_is_missing_no_more() {
        let (_folder, layout) = home();
        let telemetry = Telemetry::new(&layout);
        let stuck = Lock::take(layout.record_lock()).expect("free");
        (1..=2).for_each(|n| bury(&telemetry, n));
        let missing = |n: u64| {
            let what = telemetry.first_unpaged().expect("one is missing");
            assert!(what.starts_with(&format!("the page of poison/agent0/torn-{n} could not")), "{what}");
        };
        missing(1);
        drop(stuck);
        let facts = Facts::new(&layout);
        let record = |kind: &str, n: u64| {
            facts.append(kind, &poison_key("agent0", &format!("torn-{n}")), json!({})).expect("recorded");
        };
        record("other", 1);
        missing(1);
        record(PAGE, 1);
        missing(2);
        record(PAGE, 2);
        assert_eq!(telemetry.first_unpaged(), None);
    }

    #[test]
    fn a5_who_is_stuck_in_the_record_keeps_no_mail_behind_dead_letters() {
        let (_folder, layout) = home();
        let telemetry = Telemetry::new(&layout);
        let buried = |n: u64| bury(&telemetry, n);
        let paged = || -> Vec<String> {
            crate::facts(&layout).expect("they read").into_iter().map(|fact| fact.key).collect()
        };
        let stuck = Lock::take(layout.record_lock()).expect("free");
        let started = clock::boot();
        (1..=100).for_each(buried);
        let took = clock::boot() - started;
        assert!(took < SOON, "{took:?}");
        drop(stuck);
        assert_eq!(paged(), [""; 0]);
        buried(101);
        assert_eq!(paged(), [""; 0], "left alone");
        telemetry.left_alone.set(clock::boot());
        buried(102);
        assert_eq!(paged(), ["poison/agent0/torn-102"], "and tried again");
    }
}
