//! Whether agentinfinity comes up: the anchor keeps it, and what it starts may end before it is ready, for ever.
//!
//! A look that finds it wanted and not ready is a failure, one an interval. Three in half an hour are a page, and
//! `agentinit-escalation` stands for the next agent0 to see. One look that finds it ready clears both.

use std::time::Duration;

use netsky_disk::{process, state};
use netsky_model::desired::Want;
use netsky_model::id::AgentId;
use netsky_model::process::{Life, ProcessId};
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::Context;
use crate::decide::runs;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::observe::Observed;
use crate::page::{Raised, page, since};
use crate::reach::AGENTINIT;
use crate::tick::Ticked;

/// Failures further back say nothing of now.
const WINDOW: Duration = Duration::from_secs(30 * 60);
/// So many within it are no chance.
const MOST: usize = 3;

/// `state/agentinit-failures`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Failures {
    v: u64,
    at: Vec<Stamp>,
}

/// `state/agentinfinity-ready`, as far as it matters here.
#[derive(Deserialize)]
struct Ready {
    process: ProcessId,
}

/// What a look comes to.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// It is ready, or nobody wants it.
    Well,
    /// It is not, and was found so within this interval.
    Known(Failures),
    /// It is not, once more.
    Failed(Failures),
}

fn judge(is_ready: bool, before: Failures, now: &Stamp, interval: Duration) -> Verdict {
    if is_ready {
        return Verdict::Well;
    }
    let mut failures = before;
    let is_within = |at: &Stamp, time| now.age_of(at).is_some_and(|age| age < time);
    failures.at.retain(|at| is_within(at, WINDOW));
    if failures.at.last().is_some_and(|last| is_within(last, interval)) {
        return Verdict::Known(failures);
    }
    failures.v = 1;
    failures.at.push(now.clone());
    Verdict::Failed(failures)
}

/// Looks, counts, and pages.
pub(crate) fn tend(cx: &Context<'_>, seen: &Observed, ticked: &mut Ticked) -> Result<()> {
    let infinity = AgentId::infinity();
    let is_wanted = seen.desired.iter().any(|wish| wish.agent == infinity && wish.want == Want::Up);
    let session = seen.sessions.get(&infinity).filter(|session| runs(session));
    let ready: Option<Ready> = state::read_json(cx.layout.infinity_ready()).unwrap_or_default();
    let is_ready =
        session.is_some() && ready.is_some_and(|ready| process::probe(&ready.process) != Life::Dead);
    let [failures, escalation] =
        ["agentinit-failures", "agentinit-escalation"].map(|name| cx.layout.state().join(name));
    let before: Failures = read_or_aside(&failures, ticked)?.unwrap_or_default();
    match judge(is_ready || !is_wanted, before, &seen.now, seen.interval) {
        Verdict::Well => {
            state::remove(failures)?;
            state::remove(escalation)?;
        }
        Verdict::Known(_) => {}
        Verdict::Failed(now) => {
            if now.at.len() >= MOST
                && let Some(first) = now.at.first()
                && !state::exists(&escalation)?
            {
                let reason =
                    format!("agentinfinity is not ready: {} looks since {:.0}", now.at.len(), first.wall);
                let raised = Raised {
                    condition: AGENTINIT.to_owned(),
                    occurrence: since(first),
                    reason: reason.clone(),
                    data: json!({ "agent": infinity }),
                };
                // The next failure tries it again.
                if page(cx, &raised, ticked) {
                    state::write_json(escalation, &json!({ "v": 1, "at": seen.now, "why": reason }))?;
                }
            }
            state::write_json(failures, &now)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Stamp {
        let wall = jiff::Timestamp::from_second(1_790_000_000).expect("in range");
        Stamp { wall, boot_ms: secs * 1000, boot_id: "b".to_owned() }
    }

    #[test]
    fn looks_of_one_interval_are_one_failure_and_old_ones_are_none() {
        let minute = Duration::from_secs(60);
        let (mut kept, mut counts) = (Failures::default(), Vec::new());
        for secs in [0, 10, 59, 60, 125, 200, 4000] {
            match judge(false, kept.clone(), &at(secs), minute) {
                Verdict::Failed(now) | Verdict::Known(now) => kept = now,
                Verdict::Well => unreachable!("it is not ready"),
            }
            counts.push(kept.at.len());
        }
        assert_eq!(counts, [1, 1, 1, 2, 3, 4, 1]);
        assert_eq!(judge(true, kept, &at(4001), minute), Verdict::Well);
    }
}
