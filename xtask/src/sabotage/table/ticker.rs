//! The ticker, in `watchdog`.

use super::{Safeguard, UNIT, of_verbs};

const TICKER: &str = "crates/watchdog/src/ticker/mod.rs";
const BESIDE: &str = "crates/watchdog/src/ticker/beside.rs";

pub(super) const ROWS: &[Safeguard] = &[
    of_verbs(
        "no tick waits for one of cron or of loops",
        "T24",
        BESIDE,
        ("Ok(at_work) => self.at_work = Some(at_work),", "Ok(at_work) => drop(at_work.join()),"),
        "ticker::t24_no_tick_of_the_watchdog_waits_for_one_of_cron_or_of_loops_that_hangs",
    ),
    of_verbs(
        "one tick of cron or of loops at a time",
        "T24",
        BESIDE,
        ("if self.is_at_work() || is_early {", "if is_early {"),
        "ticker::t24_no_tick_of_the_watchdog_waits_for_one_of_cron_or_of_loops_that_hangs",
    ),
    Safeguard {
        name: "the cadence leaves no slot out",
        faults: "T24",
        file: TICKER,
        find: "u32::try_from(passed + 1)",
        replace: "u32::try_from(passed + 2)",
        package: "netsky-watchdog",
        target: UNIT,
        test: "ticker::tests::t24_the_cadence_has_no_drift_and_no_slot_comes_twice",
    },
    of_verbs(
        "ticks of a schedule that come to nothing are told by who runs them",
        "I10",
        BESIDE,
        ("kind.schedule.as_ref().zip(noted)\n", "kind.schedule.as_ref().zip(noted).filter(|_| false)\n"),
        "ticker::i10_a_cron_or_loop_tick_that_comes_to_nothing_for_minutes_is_one_page_and_red_until_one_does",
    ),
    of_verbs(
        "a tick that cannot tell one entry comes to its end",
        "I10",
        BESIDE,
        ("outcome == \"done\" || came(&noted, &now)", "outcome == \"done\" || came(&noted, &now) && false"),
        "ticker::i10_a_cron_or_loop_tick_that_comes_to_nothing_for_minutes_is_one_page_and_red_until_one_does",
    ),
    of_verbs(
        "ticks of a schedule that come to nothing are red",
        "I10",
        "crates/watchdog/src/status/plight.rs",
        ("is_now && last.is_stalled()", "is_now && last.is_stalled() && false"),
        "ticker::i10_a_cron_or_loop_tick_that_comes_to_nothing_for_minutes_is_one_page_and_red_until_one_does",
    ),
    of_verbs(
        "what is due between two slots comes then where that is asked for",
        "T24",
        TICKER,
        ("one.due(cx.layout)).flatten()", "one.due(cx.layout).filter(|_| false)).flatten()"),
        "ticker::t24_exactly_what_is_due_between_two_slots_comes_then_and_what_is_made_meanwhile_too",
    ),
    of_verbs(
        "what is made between two slots is seen",
        "T24",
        BESIDE,
        ("is_none_or(|(of, _)| *of != changes)", "is_none()"),
        "ticker::t24_exactly_what_is_due_between_two_slots_comes_then_and_what_is_made_meanwhile_too",
    ),
    of_verbs(
        "what is due between two slots comes with the next where nobody asks for more",
        "",
        TICKER,
        ("match exact.then(", "match true.then("),
        "ticker::what_is_due_between_two_slots_comes_with_the_next_one_where_nobody_asks_for_more",
    ),
    Safeguard {
        name: "no storm of ticks between two slots",
        faults: "T24",
        file: BESIDE,
        find: "left.max(STORM)",
        replace: "left",
        package: "netsky-watchdog",
        target: UNIT,
        test: "ticker::beside::tests::t24_what_is_due_between_two_slots_comes_then_and_at_most_once_a_second",
    },
];
