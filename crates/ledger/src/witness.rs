//! What the bus tells the record: a telemetry line for every move, and a page for every dead letter.

use std::io;

use netsky_model::life::{Cause, State};
use netsky_model::witness::{Transition, Witness};
use serde::Serialize;
use serde_json::json;

use crate::telemetry::{Telemetry, cut};

/// The kind of the facts that must reach the owner.
pub const PAGE: &str = "page";

/// The condition of a dead letter: one page each, however often it is found.
pub fn poison_key(agent: &str, id: &str) -> String {
    format!("poison/{agent}/{id}")
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
        if let Err(error) = self.facts.append_once(PAGE, &key, data) {
            self.append("unrecorded", &json!({ "kind": PAGE, "key": key, "why": cut(&error.to_string()) }));
        }
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
