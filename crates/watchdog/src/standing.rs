//! Conditions that last, as the looks of a tick find them: for how long each was watched standing, and whether the owner was told.
//!
//! Promise: it is a warning of the tick, which itself did all that it could, and a page once it was watched for as long as it may stand, one page for each time that it
//! stands, and forgotten by the look that does not find it. No time counts in which nobody looked.
//! Left to others: what is found (`room`, `backlog`, `between`, the configuration), and when its page is sent (`owner`).

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_model::restart::Observed;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::held::Held;
use crate::mail::read_or_aside;
use crate::page::{Raised, page, since};
use crate::reserve;
use crate::tick::Ticked;
use crate::ticker::DEADLINE;

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its kind, and behind a dot whom it is about.
    pub(crate) condition: String,
    /// What must stay the same for it to be the same one.
    pub(crate) of: String,
    /// For people.
    pub(crate) reason: String,
    /// How long it is watched until it is told; none: it is told elsewhere.
    pub(crate) tell: Option<Duration>,
    /// How long until it is a page; none: it is not bad enough.
    pub(crate) page: Option<Duration>,
}

/// `state/tick/standing.json`: what stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    v: u64,
    conditions: BTreeMap<String, Stands>,
}

/// One that stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stands {
    of: String,
    since: Stamp,
    observed: Observed,
    paged: bool,
}

impl Stands {
    fn look(before: Option<&Stands>, found: &Found, now: &Stamp, interval: Duration) -> Stands {
        let same = before.filter(|before| before.of == found.of);
        Stands {
            of: found.of.clone(),
            since: same.map_or_else(|| now.clone(), |same| same.since.clone()),
            observed: Observed::look(same.map(|same| &same.observed), now, pace(interval)),
            paged: same.is_some_and(|same| same.paged),
        }
    }

    fn is_over(&self, time: Option<Duration>) -> bool {
        time.is_some_and(|time| Duration::from_millis(self.observed.watched_ms) >= time)
    }
}

/// How far apart looks may be: a tick that takes its whole time looks no less.
pub(crate) fn pace(interval: Duration) -> Duration {
    interval.max(DEADLINE)
}

/// What this look `found` of these kinds; others are another look's.
pub(crate) fn tend(
    cx: &Context<'_>,
    (now, interval): (&Stamp, Duration),
    kinds: &[&str],
    found: &[Found],
    held: &mut Held,
    ticked: &mut Ticked,
) -> Result<()> {
    let path = cx.layout.tick("standing");
    let before: Kept = read_or_aside(&path, ticked)?.unwrap_or_default();
    let mut kept = Kept { v: 1, ..before.clone() };
    kept.conditions.retain(|condition, _| !kinds.contains(&kind(condition)));
    for found in found {
        let stands = Stands::look(before.conditions.get(&found.condition), found, now, interval);
        ticked.warnings.extend(stands.is_over(found.tell).then(|| found.reason.clone()));
        kept.conditions.insert(found.condition.clone(), stands);
    }
    // Since when it stands is kept before it is told: whoever dies in between tells of the same one again.
    let written = keep(cx, &before, &kept);
    let noted = kept.clone();
    for found in found {
        let Some(stands) = kept.conditions.get_mut(&found.condition) else { continue };
        if stands.paged || !stands.is_over(found.page) {
            continue;
        }
        // Each may wait for the record.
        held.got_on()?;
        // Of what cannot be kept nobody knows since when it stands: that is one page a boot.
        let occurrence = if written.is_ok() { since(&stands.since) } else { now.boot_id.clone() };
        let raised = Raised {
            condition: found.condition.clone(),
            occurrence,
            reason: found.reason.clone(),
            data: json!({ "since": stands.since }),
        };
        stands.paged = page(cx, &raised, ticked);
    }
    written?;
    keep(cx, &noted, &kept)
}

fn keep(cx: &Context<'_>, before: &Kept, kept: &Kept) -> Result<()> {
    let path = cx.layout.tick("standing");
    match before.conditions == kept.conditions {
        true => Ok(()),
        false if kept.conditions.is_empty() => Ok(state::remove(path).map(drop)?),
        false => reserve::lend(cx, || Ok(state::write_json(&path, kept)?)),
    }
}

fn kind(condition: &str) -> &str {
    condition.split('.').next().unwrap_or_default()
}

/// Conditions that stand and were paged for.
pub(crate) fn paged(layout: &Layout) -> Vec<String> {
    let kept: Kept = state::read_json(layout.tick("standing")).ok().flatten().unwrap_or_default();
    kept.conditions.into_iter().filter(|(_, stands)| stands.paged).map(|(condition, _)| condition).collect()
}

#[cfg(test)]
mod tests {
    use netsky_disk::clock;
    use netsky_ledger::facts;

    use super::*;
    use crate::context::in_a_home;

    const MINUTE: Duration = Duration::from_secs(60);

    fn found(of: &str) -> Found {
        Found {
            condition: "between.agent1".to_owned(),
            of: of.to_owned(),
            reason: "it is so".to_owned(),
            tell: Some(2 * MINUTE),
            page: Some(3 * MINUTE),
        }
    }

    #[test]
    fn t9_i10_what_stands_is_told_once_it_was_watched_and_paged_for_once_each_time() {
        in_a_home(|cx| {
            let start = clock::stamp();
            let held = || Held::take(cx).expect("nobody else acts");
            let look = |minute: u64, found: &[Found]| {
                let now = Stamp { boot_ms: start.boot_ms + minute * 60_000, ..start.clone() };
                let mut ticked = Ticked::default();
                tend(cx, (&now, MINUTE), &["between", "backlog"], found, &mut held(), &mut ticked)
                    .expect("kept");
                assert_eq!(ticked.problems, [""; 0]);
                (ticked.warnings.len(), ticked.done.len())
            };
            let each = |minutes: std::ops::Range<u64>, of: &str| {
                minutes.map(|minute| look(minute, &[found(of)])).collect::<Vec<_>>()
            };
            assert_eq!(each(0..6, "ending"), [(0, 0), (0, 0), (1, 0), (1, 1), (1, 0), (1, 0)]);
            assert_eq!(paged(cx.layout), ["between.agent1"], "it lasts");
            // The machine slept: nobody watched it, and it is the same one.
            assert_eq!(each(600..605, "ending"), [(0, 0), (0, 0), (1, 0), (1, 0), (1, 0)]);
            // Another one, and then none.
            assert_eq!(each(605..609, "unknown"), [(0, 0), (0, 0), (1, 0), (1, 1)]);
            let mut ticked = Ticked::default();
            tend(cx, (&start, MINUTE), &["disk"], &[], &mut held(), &mut ticked).expect("another look's");
            assert_eq!(paged(cx.layout).len(), 1);
            assert_eq!((look(609, &[]), paged(cx.layout).len()), ((0, 0), 0));
            assert!(!state::exists(cx.layout.tick("standing")).expect("looked"));
            assert_eq!(facts(cx.layout).expect("they read").len(), 2);
        });
    }

    #[test]
    fn i10_slow_ticks_of_a_short_interval_watch_all_the_same() {
        in_a_home(|cx| {
            let start = clock::stamp();
            let paged = |minute: u64| {
                let now = Stamp { boot_ms: start.boot_ms + minute * 61_000, ..start.clone() };
                let (mut held, mut ticked) = (Held::take(cx).expect("nobody else acts"), Ticked::default());
                let looked = (&now, Duration::from_secs(10));
                tend(cx, looked, &["between"], &[found("ending")], &mut held, &mut ticked).expect("kept");
                ticked.done.len()
            };
            assert_eq!((0..5).map(paged).collect::<Vec<_>>(), [0, 0, 0, 1, 0]);
        });
    }
}
