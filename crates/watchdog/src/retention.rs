//! What has reached its end and was kept for as long as the settings say goes, and the telemetry of old days; and an id
//! that a sender chose, later. None of it by a wall clock that has just stepped.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use netsky_bus::Removed;
use netsky_disk::{clock, state};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::stamp::Stamp;
use netsky_model::tending::{Steady, Terms};
use netsky_runtime::Config;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::pages::Paged;
use crate::reserve;
use crate::tick::Ticked;

/// Messages that one tick removes in all, under the watchdog's lock: one with a chosen id costs two synced writes.
const REMOVE: usize = 200;

/// Entries of ids that are looked at in one go.
const LOOK: usize = 1_000;

/// How long one tick removes: a backlog must not hold up what has to be repaired.
const LONGEST: Duration = Duration::from_secs(5);

/// How often it is looked for what may go.
const CADENCE: Duration = Duration::from_secs(60 * 60);

/// How long an id is remembered at least: longer than any retry.
const IDS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// `state/tick/retention.json`: what the last look knew.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    v: u64,
    /// For how long the wall clock can be trusted.
    steady: Steady,
    /// When everything that may go was gone.
    clean: Option<Stamp>,
    /// Where the look through the ids goes on.
    ids: BTreeMap<AgentId, String>,
    /// Whose mail this pass has not been through yet, the next one first.
    #[serde(default)]
    left: VecDeque<AgentId>,
}

/// What this tick may still do.
struct Budget {
    messages: usize,
    until: Duration,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.messages == 0 || clock::boot() >= self.until
    }
}

/// Removes what may go, every [`CADENCE`] and on as long as there is more; only dead letters that are `paged`: the page is
/// what is left of one.
pub(crate) fn clean(cx: &Context<'_>, terms: &Terms, paged: &Paged, ticked: &mut Ticked) -> Result<()> {
    let (path, now) = (cx.layout.tick("retention"), clock::stamp());
    let known: Option<Known> = read_or_aside(&path, ticked)?;
    let mut known = match known {
        Some(known) => Known { steady: known.steady.look(&now), ..known },
        None => Known {
            v: 1,
            steady: Steady::new(&now),
            clean: None,
            ids: BTreeMap::new(),
            left: VecDeque::new(),
        },
    };
    let shortest = [Some(terms.keep_acked), Some(terms.keep_forwarded), terms.keep_poison];
    let cadence = shortest.into_iter().flatten().min().map_or(CADENCE, |keep| keep.min(CADENCE));
    if known.clean.as_ref().and_then(|clean| now.age_of(clean)).is_some_and(|age| age < cadence) {
        return Ok(());
    }
    let keep = Config::last_good(cx.layout).record.keep_telemetry;
    if let Err(error) = netsky_ledger::prune(cx.layout, |ended| known.steady.is_past(ended, keep)) {
        ticked.problems.push(format!("old telemetry: {error}"));
    }
    let agents = cx.bus.agents()?;
    known.ids.retain(|agent, _| agents.contains(agent));
    known.left.retain(|agent| agents.contains(agent));
    if known.left.is_empty() {
        known.left.extend(agents);
    }
    let mut budget = Budget { messages: REMOVE, until: clock::boot() + LONGEST };
    // A restart is judged by its handoff in agent0's mailbox, however soon that was acked and may go.
    let is_restarting = state::exists(cx.layout.restart_inflight())?;
    let mut waits = false;
    for _ in 0..known.left.len() {
        let Some(agent) = known.left.pop_front() else { break };
        if is_restarting && agent == AgentId::root() {
            waits = true;
            continue;
        }
        // Telling what goes needs room, and what goes makes room: a full disk must not keep itself full.
        match reserve::lend(cx, || remove(cx, &agent, (terms, paged), &mut known, &mut budget, ticked)) {
            // Behind the others: whoever has a lot keeps nobody from their turn.
            Ok(true) => known.left.push_back(agent),
            Ok(false) => {}
            // The next pass tries it again; this one comes to its end without.
            Err(error) => ticked.problems.push(format!("finished mail of {agent}: {error}")),
        }
        if budget.is_spent() {
            break;
        }
    }
    known.left.extend(waits.then(AgentId::root));
    known.clean = known.left.is_empty().then_some(now);
    Ok(state::write_json(&path, &known)?)
}

/// Says what stays although it may go.
fn warn(agent: &AgentId, removed: &Removed, ticked: &mut Ticked) {
    if let Some(why) = removed.stuck.first() {
        let count = removed.stuck.count();
        ticked.warnings.push(format!("finished mail of {agent}: {count} files that may go stay: {why}"));
    }
}

/// Removes what may go of one agent; true if there is more of it.
fn remove(
    cx: &Context<'_>,
    agent: &AgentId,
    (terms, paged): (&Terms, &Paged),
    known: &mut Known,
    budget: &mut Budget,
    ticked: &mut Ticked,
) -> Result<bool> {
    let steady = &known.steady;
    let kept = [
        (State::Acked, Some(terms.keep_acked)),
        (State::Forwarded, Some(terms.keep_forwarded)),
        (State::Poisoned, terms.keep_poison),
    ];
    let mut gone = 0;
    let mut more = false;
    for (state, keep) in kept.into_iter().filter_map(|(state, keep)| Some((state, keep?))) {
        let is_past = |changed| steady.is_past(changed, keep);
        let removed = match state {
            State::Poisoned => {
                cx.bus.remove_dead_letters(agent, budget.messages, |id| paged.has(agent, id), is_past)?
            }
            _ => cx.bus.remove_finished(agent, state, budget.messages, is_past)?,
        };
        budget.messages -= removed.envelopes.min(budget.messages);
        gone += removed.envelopes;
        // Where nothing goes any more, the next look has time.
        more |= removed.more && removed.envelopes > 0;
        warn(agent, &removed, ticked);
        if budget.is_spent() {
            more = true;
            break;
        }
    }
    if more {
        say(agent, gone, 0, ticked);
        return Ok(true);
    }
    let after = known.ids.get(agent).map(String::as_str);
    let (removed, next) = cx.bus.forget_ids(agent, after, LOOK, |changed| steady.is_past(changed, IDS))?;
    say(agent, gone, removed.ids, ticked);
    warn(agent, &removed, ticked);
    let more = next.is_some();
    match next {
        Some(next) => known.ids.insert(agent.clone(), next),
        None => known.ids.remove(agent),
    };
    Ok(more)
}

fn say(agent: &AgentId, gone: usize, ids: usize, ticked: &mut Ticked) {
    if gone + ids > 0 {
        ticked.done.push(format!("{agent}: {gone} messages and {ids} ids were kept long enough"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    fn acked(cx: &Context<'_>, agent: &AgentId) -> usize {
        cx.bus.list(agent, Some(State::Acked)).expect("listed").len()
    }

    #[test]
    fn one_tick_has_one_bound_for_all_and_a_backlog_keeps_nobody_from_their_turn() {
        in_a_home(|cx| {
            let [much, little] = [1, 2].map(AgentId::numbered);
            for (agent, count) in [(&much, 3 * REMOVE), (&little, 1)] {
                cx.bus.create(agent).expect("a channel");
                let folder = cx.layout.folder(agent, State::Acked);
                for number in 0..count {
                    std::fs::write(folder.join(format!("{number:020}-old-{number}.json")), "")
                        .expect("written");
                }
            }
            let written = clock::wall().as_second();
            while clock::wall().as_second() <= written + 1 {
                clock::pause(Duration::from_millis(20));
            }
            let terms = Terms { keep_acked: Duration::ZERO, ..Terms::default() };
            let tick = || {
                let mut ticked = Ticked::default();
                clean(cx, &terms, &Paged::default(), &mut ticked).expect("cleaned");
                assert!(ticked.problems.is_empty(), "{ticked:?}");
            };
            tick();
            assert_eq!(acked(cx, &much) + acked(cx, &little), 2 * REMOVE + 1);
            tick();
            assert!(acked(cx, &little) == 0 && acked(cx, &much) > 0, "behind the others");
        });
    }

    #[test]
    fn i7_no_finished_mail_of_agent0_goes_while_its_restart_is_judged_by_it() {
        in_a_home(|cx| {
            let [root, one] = [AgentId::root(), AgentId::numbered(1)];
            for agent in [&root, &one] {
                cx.bus.create(agent).expect("a channel");
                let folder = cx.layout.folder(agent, State::Acked);
                std::fs::write(folder.join("00000000000000000001-old.json"), "").expect("written");
            }
            let written = clock::wall().as_second();
            while clock::wall().as_second() <= written + 1 {
                clock::pause(Duration::from_millis(20));
            }
            let terms = Terms { keep_acked: Duration::ZERO, ..Terms::default() };
            let tick = || clean(cx, &terms, &Paged::default(), &mut Ticked::default()).expect("cleaned");
            std::fs::write(cx.layout.restart_inflight(), "").expect("written");
            tick();
            assert_eq!([acked(cx, &root), acked(cx, &one)], [1, 0]);
            std::fs::remove_file(cx.layout.restart_inflight()).expect("over");
            tick();
            assert_eq!(acked(cx, &root), 0, "its turn comes");
        });
    }

    #[test]
    fn t9_a_boot_whose_wall_clock_is_behind_puts_no_pass_off() {
        in_a_home(|cx| {
            let now = clock::stamp();
            let ahead = now.wall + jiff::SignedDuration::from_hours(9);
            let clean_at = Stamp { boot_id: "another".to_owned(), wall: ahead, ..now.clone() };
            let (ids, left) = (BTreeMap::new(), VecDeque::new());
            let known = Known { v: 1, steady: Steady::new(&now), clean: Some(clean_at), ids, left };
            state::write_json(cx.layout.tick("retention"), &known).expect("written");
            clean(cx, &Terms::default(), &Paged::default(), &mut Ticked::default()).expect("cleaned");
            let known: Option<Known> = state::read_json(cx.layout.tick("retention")).expect("reads");
            assert_eq!(known.and_then(|known| known.clean).expect("a pass").boot_id, now.boot_id);
        });
    }

    #[test]
    fn t9_old_telemetry_goes_by_a_clock_that_was_steady_for_a_day() {
        in_a_home(|cx| {
            let now = clock::stamp();
            let [old, new] = ["1970-01-01", "1970-01-02"].map(|day| format!("telemetry-{day}.jsonl"));
            for name in [&old, &new] {
                std::fs::write(cx.layout.logs().join(name), "{}\n").expect("written");
            }
            let look = |ms: u64| {
                let steady = Steady { ms, ..Steady::new(&now) };
                let known = Known { v: 1, steady, clean: None, ids: BTreeMap::new(), left: VecDeque::new() };
                state::write_json(cx.layout.tick("retention"), &known).expect("written");
                let mut ticked = Ticked::default();
                clean(cx, &Terms::default(), &Paged::default(), &mut ticked).expect("cleaned");
                assert!(ticked.problems.is_empty(), "{ticked:?}");
                [&old, &new].map(|name| cx.layout.logs().join(name).exists())
            };
            assert_eq!(look(0), [true, true], "it stepped a moment ago, perhaps far ahead");
            assert_eq!(look(24 * 60 * 60 * 1000), [false, true], "and the newest stays");
        });
    }
}
