//! Who makes no progress, and whether anything excuses that: pure, from one look and what was kept of the looks before.
//!
//! Promise: nothing is done about a single look, and no time counts in which nobody looked. What excuses silence stands here in
//! one list; whatever is not in it is a hang in the end, under its own name.
//! Left to others: what is done about it ([`tend`]).

mod tend;

use std::time::Duration;

use netsky_kernel::rpc::SessionState;
use netsky_model::id::Generation;
use netsky_model::restart::Observed;
use netsky_model::stamp::Stamp;
use netsky_runtime::driver::{Doing, Wedge};
use netsky_runtime::{Bounds, Hang};
use serde::{Deserialize, Serialize};

pub(crate) use tend::{still, tend, told};

/// What one look sees of an agent that is wanted and runs.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// Which incarnation.
    pub(crate) generation: Generation,
    /// The kernel's word: of a worker that does not beat it is `hung`.
    pub(crate) state: SessionState,
    /// What rises with whatever the program does.
    pub(crate) progress: Progress,
    /// Whether mail waits for it, is in its hands, or was taken and is not finished while it waits for no other.
    pub(crate) has_work: bool,
    /// What it says that it does, and until when at the latest.
    pub(crate) phase: Option<(String, Option<Stamp>)>,
    /// What its driver says, of one that is driven.
    pub(crate) doing: Option<Doing>,
    /// Why somebody lets it be silent.
    pub(crate) quiet: Option<String>,
}

/// Counters that only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Bytes in and out of the program.
    pub(crate) bytes: u64,
    /// Turns that are over.
    pub(crate) turns: u64,
}

/// What a look comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It moves, or has nothing to do.
    Fine,
    /// It does not move, and that is as it should be.
    Excused(String),
    /// It does not move, for less than a hang takes.
    Silent,
    /// It hangs.
    Hangs {
        /// In which way: a driver's word for it, or `silent`, or `unresponsive`.
        word: &'static str,
        /// For people.
        why: String,
    },
}

/// What is kept of an agent from look to look, for as long as it does not move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// Of which incarnation.
    pub(crate) generation: Generation,
    /// Where it stood.
    pub(crate) progress: Progress,
    /// How long it was watched standing there.
    pub(crate) observed: Observed,
    /// Since when it hangs; none while it is only silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hangs: Option<Hangs>,
}

/// One hang.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hangs {
    /// In which way, at the first look.
    pub(crate) word: String,
    /// When that was.
    pub(crate) since: Stamp,
    /// How long it has been watched hanging, in milliseconds.
    pub(crate) for_ms: u64,
    /// What was done last.
    pub(crate) did: Option<Act>,
}

/// What is done about a hang, one thing a look, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Act {
    /// It is written down.
    Suspect,
    /// The agent is told, where it is one that reads its mail by itself.
    Nudge,
    /// The owner is told.
    Page,
    /// It is ended, and comes back as after any death: only where the owner wants that.
    End,
}

/// Judges one look.
pub(crate) fn judge(
    seen: &Signals,
    before: Option<&Watch>,
    now: &Stamp,
    (terms, bounds): (&Hang, &Bounds),
) -> Verdict {
    if let Some(why) = &seen.quiet {
        return Verdict::Excused(format!("quiet: {why}"));
    }
    // Its worker is no part of what the program does, and answers in milliseconds.
    if seen.state == SessionState::Hung {
        return Verdict::Hangs { word: "unresponsive", why: "its worker gives no sign of life".to_owned() };
    }
    if let Some(doing) = &seen.doing {
        // The one thing that no driver bounds: that it comes to an agent at all.
        let watched =
            before.map_or(Duration::ZERO, |before| Duration::from_millis(before.observed.watched_ms));
        // And it says itself of whom it came to that there was no greeting within its own bound.
        let bound = terms.after.max(bounds.silence * 2);
        if *doing == Doing::Starting && watched >= bound {
            return Verdict::Hangs {
                word: Wedge::Undriven.word(),
                why: "no driver has come to it".to_owned(),
            };
        }
        return of_driven(doing);
    }
    let stands = before.filter(|before| before.progress == seen.progress);
    let Some(before) = stands else { return Verdict::Fine };
    if let Some((phase, Some(until))) = &seen.phase
        && !until.is_over(now)
    {
        return Verdict::Excused(format!("{phase}, as it said"));
    }
    if !seen.has_work {
        return Verdict::Excused("idle: it has no mail".to_owned());
    }
    if Duration::from_millis(before.observed.watched_ms) < terms.after {
        return Verdict::Silent;
    }
    let said = seen.phase.as_ref().map_or_else(String::new, |(phase, _)| format!("; it last said {phase:?}"));
    Verdict::Hangs { word: "silent", why: format!("it has mail, and neither reads nor prints{said}") }
}

/// A driver has bounds of its own for each thing that a program may wait for, and counts no time in which it did not run.
fn of_driven(doing: &Doing) -> Verdict {
    match doing {
        Doing::Wedged { how, why } => Verdict::Hangs { word: how.word(), why: why.clone() },
        Doing::Blocked { .. } | Doing::Throttled { .. } | Doing::FailedAuth { .. } => {
            Verdict::Excused(doing.to_string())
        }
        Doing::Starting
        | Doing::Idle
        | Doing::Working
        | Doing::WaitingForModel
        | Doing::ToolRunning { .. }
        | Doing::Down => Verdict::Fine,
    }
}

/// What is kept for the next look.
pub(crate) fn watch(
    seen: &Signals,
    before: Option<&Watch>,
    verdict: &Verdict,
    now: &Stamp,
    interval: Duration,
) -> Watch {
    // Of one that is driven its driver says what gets on: what it is asked meanwhile, and answers, moves its bytes.
    let stands_still = |before: &Watch| seen.doing.is_some() || before.progress == seen.progress;
    let same = before.filter(|before| stands_still(before) && before.generation == seen.generation);
    // And counts its time, but for the one in which it has not come to it.
    let is_counted = seen.doing.as_ref().is_none_or(|doing| *doing == Doing::Starting);
    let stands = is_counted && !matches!(verdict, Verdict::Excused(_));
    let observed = Observed::look(same.filter(|_| stands).map(|before| &before.observed), now, interval);
    let hangs = match verdict {
        Verdict::Hangs { word, .. } => Some(hang(same, word, now, interval)),
        Verdict::Fine | Verdict::Excused(_) | Verdict::Silent => None,
    };
    Watch { generation: seen.generation, progress: seen.progress, observed, hangs }
}

fn hang(before: Option<&Watch>, word: &str, now: &Stamp, interval: Duration) -> Hangs {
    // What may be ended is another hang than what never may: what was done about the one is no step towards the end of the other.
    let goes_on = |hangs: &&Hangs| may_mend(&hangs.word) == may_mend(word);
    let Some((watch, hangs)) = before.and_then(|watch| Some((watch, watch.hangs.as_ref().filter(goes_on)?)))
    else {
        return Hangs { word: word.to_owned(), since: now.clone(), for_ms: 0, did: None };
    };
    // Of a time in which nobody looked nothing is known.
    let seen = Observed { watched_ms: hangs.for_ms, last: watch.observed.last.clone() };
    Hangs { for_ms: Observed::look(Some(&seen), now, interval).watched_ms, ..hangs.clone() }
}

/// What is due about a hang at this look.
pub(crate) fn due(
    (hangs, word): (&Hangs, &str),
    is_driven: bool,
    interval: Duration,
    terms: &Hang,
) -> Option<Act> {
    let watched = Duration::from_millis(hangs.for_ms);
    match hangs.did {
        None => Some(Act::Suspect),
        // Two looks before anything is done, and ticks that something woke one after the other are one.
        Some(Act::Suspect) if watched < interval / 2 => None,
        // What a driver holds back for a program that hangs is no nudge.
        Some(Act::Suspect) if is_driven => Some(Act::Page),
        Some(Act::Suspect) => Some(Act::Nudge),
        Some(Act::Nudge) => (watched >= terms.nudge).then_some(Act::Page),
        Some(Act::Page) => (terms.restart && may_mend(word)).then_some(Act::End),
        Some(Act::End) => None,
    }
}

/// Whether another incarnation may fare better: it is spoken to as little, and what its program refused it refuses again.
fn may_mend(word: &str) -> bool {
    [Wedge::Undriven, Wedge::Refused].iter().all(|how| how.word() != word)
}

#[cfg(test)]
mod tests;
