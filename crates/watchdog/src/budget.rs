//! What agents take in a day, as the record has it, and the page once that is as much as the owner wants to be told of.
//!
//! Promise: the record is read on from where it was read, and what was told is kept after it is a fact under a key of its day: whoever
//! dies in between counts and tells the same again, which is one fact and one page. Without a budget nothing is read.
//! Left to others: when one is reached (`model::budget`), and who records turns (`runtime`). Nobody is stopped for it.

use jiff::tz::TimeZone;
use netsky_disk::{clock, fault, state};
use netsky_ledger::{Mark, facts_after};
use netsky_model::budget::{Reached, Spent, Terms, Turn};
use netsky_runtime::Config;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::event;
use crate::held::Held;
use crate::mail::read_or_aside;
use crate::page::{Raised, page};
use crate::reserve;
use crate::tick::Ticked;

/// The condition that a budget is reached; of an agent's, behind a dot, whose.
const BUDGET: &str = "budget";

/// `state/tick/budget.json`: what was taken lately, and how far the record was read for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    v: u64,
    mark: Mark,
    spent: Spent,
}

/// Counts what is new, and tells what is reached.
pub(crate) fn tend(cx: &Context<'_>, held: &mut Held, ticked: &mut Ticked) -> Result<()> {
    let (path, config) = (cx.layout.tick("budget"), Config::last_good(cx.layout));
    if config.budget.is_empty() {
        // What was counted for a budget that is gone is nothing to go on from.
        state::remove(&path)?;
        return Ok(());
    }
    let before: Option<Kept> = read_or_aside(&path, ticked)?;
    let mut kept = count(cx, &config.budget, &netsky_owner::zone(&config.owner), before.as_ref())?;
    while let Some(reached) = kept.spent.due().first().cloned() {
        // Each may wait for the record; one that waited in vain has the others wait for the next tick.
        held.got_on()?;
        if !tell(cx, &reached, ticked) {
            break;
        }
        kept.spent.told();
    }
    fault::point("watchdog.budget.told").map_err(|e| netsky_disk::Error::new("write", &path, e))?;
    let is_kept =
        before.is_some_and(|before| before.spent == kept.spent && !before.mark.is_behind(kept.mark));
    match is_kept {
        true => Ok(()),
        false => reserve::lend(cx, || Ok(state::write_json(&path, &kept)?)),
    }
}

/// What was taken, with what the record says since; what does not read in it is told by who tells events.
fn count(cx: &Context<'_>, terms: &Terms, zone: &TimeZone, before: Option<&Kept>) -> Result<Kept> {
    let from = before.map(|kept| kept.mark).unwrap_or_default();
    let (facts, mark, _) = facts_after(cx.layout, from)?;
    // One that was begun anew, or went back, has other turns, and some that were counted: then what it has of today is counted anew.
    let first = facts.first().map_or(u64::MAX, |fact| fact.seq);
    let goes_on = from.seq() > 0 && from.seq() <= mark.seq() && from.seq() < first;
    let known = before.filter(|_| goes_on);
    let mut spent = known.map(|kept| kept.spent.clone()).unwrap_or_default();
    let day = |ts| zone.to_datetime(ts).date();
    for turn in facts.iter().filter_map(|fact| Turn::of(fact.ts, &fact.kind, &fact.key, &fact.data)) {
        spent.count(terms, &turn, day(turn.ts()));
    }
    if known.is_none() {
        spent = spent.since(day(clock::wall()));
    }
    Ok(Kept { v: 1, mark, spent })
}

/// Tells of one; whether it is a fact. Nothing else ends what is spent, so it is a page.
fn tell(cx: &Context<'_>, reached: &Reached, ticked: &mut Ticked) -> bool {
    let Reached { day, agent, spent, limit } = reached;
    let why = reached.why();
    let (condition, who) = match agent {
        Some(agent) => (format!("{BUDGET}.{agent}"), agent.to_string()),
        None => (BUDGET.to_owned(), "the constellation".to_owned()),
    };
    let data = json!({ "agent": agent, "day": day, "spent": spent, "limit": limit, "why": why });
    let raised = Raised {
        condition,
        occurrence: day.to_string(),
        reason: format!("{who} reached its budget: {why}; nobody is stopped for it"),
        data: data.clone(),
    };
    page(cx, &raised, ticked) && event::event(cx, event::BUDGET, &reached.key(), &data)
}

#[cfg(test)]
mod tests {
    use netsky_disk::lock::Lock;
    use netsky_ledger::{Facts, facts};

    use super::*;
    use crate::context::in_a_home;

    fn budget(cx: &Context<'_>, text: &str) {
        std::fs::write(cx.layout.config(), format!("[budget]\n{text}\n")).expect("written");
    }

    /// Records a turn of 100 tokens: whose and of which generation, and where it ended.
    fn turn(cx: &Context<'_>, (agent, generation): (&str, u64), at: u64) {
        let usage = json!({ "input": 50, "output": 40, "cache_read": 9000, "cache_write": 10 });
        let data = json!({ "agent": agent, "usage": usage });
        let key = format!("{agent}-00000001.g{generation}.{at}");
        Facts::new(cx.layout).append("turn.finished", &key, data).expect("recorded");
    }

    fn tick(cx: &Context<'_>) -> Ticked {
        let (mut held, mut ticked) = (Held::take(cx).expect("nobody else acts"), Ticked::default());
        tend(cx, &mut held, &mut ticked).expect("it goes on");
        ticked
    }

    /// Kinds and keys of what was told, today's date left out.
    fn told(cx: &Context<'_>) -> Vec<String> {
        let today = clock::wall().to_zoned(TimeZone::UTC).date().to_string();
        let facts = facts(cx.layout).expect("they read");
        let told = facts.into_iter().filter(|fact| fact.kind != "turn.finished");
        told.map(|fact| format!("{} {}", fact.kind, fact.key.replace(&today, "today"))).collect()
    }

    fn kept(cx: &Context<'_>) -> Kept {
        state::read_json(cx.layout.tick("budget")).expect("reads").expect("there")
    }

    const ALL: [&str; 2] = ["page budget.today", "budget.reached today"];

    #[test]
    fn a18_t13_a_budget_is_told_once_whoever_dies_before_it_is_kept_and_also_where_that_is_lost() {
        in_a_home(|cx| {
            budget(cx, "tokens_a_day = 300\nagents = { agent3 = 200 }");
            (1..=2).for_each(|at| turn(cx, ("agent1", 1), at));
            assert_eq!(tick(cx), Ticked::default());
            let path = cx.layout.tick("budget");
            let before = std::fs::read(&path).expect("kept");
            (1..=2).for_each(|at| turn(cx, ("agent3", 1), at));
            let ticked = tick(cx);
            let said =
                ["the constellation reached its budget: 300 of 300", "agent3 reached its budget: 200 of 200"];
            assert!(ticked.done.iter().zip(said).all(|(done, said)| done.contains(said)), "{ticked:?}");
            let each = [&ALL[..], &["page budget.agent3.today", "budget.reached agent3/today"]].concat();
            assert_eq!(told(cx), each);
            // Died behind the facts; lost; and met again.
            for step in ["died", "lost", "again"] {
                match step {
                    "died" => std::fs::write(&path, &before).expect("ours"),
                    "lost" => std::fs::remove_file(&path).expect("ours"),
                    _ => turn(cx, ("agent3", 1), 2),
                }
                assert_eq!(tick(cx), Ticked::default(), "{step}");
                assert_eq!(told(cx), each, "{step}");
            }
        });
    }

    #[test]
    fn a18_what_the_record_refuses_is_told_by_a_later_tick_and_once() {
        in_a_home(|cx| {
            budget(cx, "tokens_a_day = 100");
            turn(cx, ("agent1", 1), 1);
            let locked = Lock::try_take(cx.layout.record_lock()).expect("ours").expect("free");
            assert!(tick(cx).problems[0].contains("is no fact yet"));
            drop(locked);
            (0..2).for_each(|_| drop(tick(cx)));
            assert_eq!(told(cx), ALL);
        });
    }

    #[test]
    fn a18_the_record_is_read_on_and_one_that_went_back_counts_no_turn_twice() {
        in_a_home(|cx| {
            budget(cx, "tokens_a_day = 400");
            let (record, away) = (cx.layout.record(), cx.layout.home().join("away"));
            let file = record.join("facts-1.jsonl");
            let counted = |generations: [u64; 2]| {
                generations.into_iter().for_each(|generation| turn(cx, ("agent1", generation), 1));
                tick(cx);
                (std::fs::read(&file).expect("there"), kept(cx))
            };
            let (older, (bytes, before)) = (counted([1, 2]), counted([3, 3]));
            std::fs::write(&file, vec![b'x'; bytes.len()]).expect("ours");
            assert_eq!(
                (tick(cx), kept(cx)),
                (Ticked::default(), before.clone()),
                "what has not grown is not read"
            );
            std::fs::write(&file, &bytes).expect("ours");
            std::fs::rename(&record, &away).expect("ours");
            tick(cx);
            std::fs::rename(&away, &record).expect("ours");
            tick(cx);
            assert_eq!(kept(cx).spent, before.spent);
            for (bytes, of) in [(older.0, older.1), (bytes, before)] {
                std::fs::write(&file, bytes).expect("ours");
                tick(cx);
                assert_eq!(kept(cx).spent, of.spent);
            }
            turn(cx, ("agent1", 3), 4);
            tick(cx);
            assert_eq!(told(cx), ALL);
        });
    }

    #[test]
    fn without_a_budget_nothing_is_read_and_nothing_kept() {
        in_a_home(|cx| {
            budget(cx, "tokens_a_day = 400");
            turn(cx, ("agent1", 1), 1);
            tick(cx);
            budget(cx, "");
            let file = cx.layout.record().join("facts-1.jsonl");
            std::fs::remove_file(&file).expect("ours");
            std::fs::create_dir(&file).expect("in its place");
            assert_eq!(tick(cx), Ticked::default());
            assert!(!state::exists(cx.layout.tick("budget")).expect("looked"));
        });
    }
}
