//! Budgets, in `model` and `watchdog`.

use super::{Safeguard, of_library, of_verbs};

const MODEL: &str = "crates/model/src/budget.rs";
const WATCHDOG: &str = "crates/watchdog/src/budget.rs";

pub(super) const ROWS: &[Safeguard] = &[
    of_library(
        "netsky-model",
        "a turn counts once, however often it is recorded",
        "A18, T13",
        MODEL,
        ("*run == turn.run && *at >= turn.at", "*run == turn.run && *at > turn.at"),
        "budget::tests::a18_t13_a_turn_that_is_met_again_counts_once_and_a_later_generation_goes_on_with_the_sum",
    ),
    of_library(
        "netsky-model",
        "a later generation's turns are no repeats of an earlier one's",
        "A18, T13",
        MODEL,
        ("*run == turn.run && *at >= turn.at", "*at >= turn.at"),
        "budget::tests::a18_t13_a_turn_that_is_met_again_counts_once_and_a_later_generation_goes_on_with_the_sum",
    ),
    of_library(
        "netsky-model",
        "a budget is reached once a day",
        "A18",
        MODEL,
        ("spent >= limit && day.reached.insert(agent.clone())", "spent >= limit"),
        "budget::tests::a18_a_budget_is_reached_once_a_day_by_the_turn_that_reaches_it",
    ),
    of_library(
        "netsky-model",
        "days that a clock was wrong about keep no day of today's from its sum",
        "A18",
        MODEL,
        (".max_by_key(away)", ".min()"),
        "budget::tests::a18_a_clock_that_steps_loses_and_doubles_no_day",
    ),
    of_library(
        "netsky-watchdog",
        "what the record refused is told by the next tick",
        "A18",
        WATCHDOG,
        (
            "        if !tell(cx, &reached, ticked) {\n            break;\n        }\n",
            "        tell(cx, &reached, ticked);\n",
        ),
        "budget::tests::a18_what_the_record_refuses_is_told_by_a_later_tick_and_once",
    ),
    of_library(
        "netsky-watchdog",
        "the record is read on",
        "A18",
        WATCHDOG,
        ("before.map(|kept| kept.mark).unwrap_or_default()", "Mark::default()"),
        "budget::tests::a18_the_record_is_read_on_and_one_that_went_back_counts_no_turn_twice",
    ),
    of_library(
        "netsky-watchdog",
        "of a record that went back no turn counts twice",
        "A18",
        WATCHDOG,
        ("before.filter(|_| goes_on)", "before.filter(|_| goes_on || true)"),
        "budget::tests::a18_the_record_is_read_on_and_one_that_went_back_counts_no_turn_twice",
    ),
    of_library(
        "netsky-watchdog",
        "without a budget nothing is kept",
        "A18",
        WATCHDOG,
        ("        state::remove(&path)?;\n", ""),
        "budget::tests::without_a_budget_nothing_is_read_and_nothing_kept",
    ),
    of_verbs(
        "the event of a budget is keyed by its day",
        "A18, FM-owner budget",
        WATCHDOG,
        ("event::BUDGET, &reached.key(), &data", "event::BUDGET, &format!(\"{:?}\", clock::stamp()), &data"),
        "owner::a18_t13_fm_owner_budget_kill_a_budget_that_is_reached_is_one_page_and_one_event_whoever_dies",
    ),
    of_verbs(
        "a tick counts what driven agents take",
        "A18, T13",
        "crates/watchdog/src/tick.rs",
        ("budget::tend(cx, held, &mut ticked)", "Ok::<(), Error>(drop(budget::tend))"),
        "driven::mail::a18_t13_what_turns_take_reaches_a_budget_once_and_a_death_begins_no_sum_anew",
    ),
];
