//! How a restart comes to its end, whatever it meets.

use super::{IT, Safeguard, UNIT};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "a request that does not read is refused before the child looks at it",
        faults: "FM-restart request",
        file: "crates/watchdog/src/perform.rs",
        find: "            handoff::draft_without(cx, &id, &why, Some(generation))?;\n            handoff::refuse(cx, &id, error)?;\n",
        replace: "            return Err(Error::Restart(why));\n",
        package: "netsky",
        target: IT,
        test: "restarts::fm_restart_request_corrupt_one_that_does_not_read_keeps_no_agent0_dead",
    },
    Safeguard {
        name: "a request that does not read is refused wherever it is met",
        faults: "FM-restart request",
        file: "crates/watchdog/src/handoff.rs",
        find: "            refuse(cx, restart, error)?;\n",
        replace: "            return Err(error);\n",
        package: "netsky-watchdog",
        target: UNIT,
        test: "handoff::tests::fm_restart_request_corrupt_one_that_does_not_read_is_put_aside_and_a_template_delivered",
    },
    Safeguard {
        name: "a handoff that cannot be delivered is waited for only so long",
        faults: "I7",
        file: "crates/watchdog/src/perform/outcome.rs",
        find: "    let waits = owed.watched_ms < OWED.as_millis() as u64;\n",
        replace: "    let waits = owed.watched_ms < u64::MAX;\n",
        package: "netsky-watchdog",
        target: UNIT,
        test: "perform::outcome::tests::i7_a_handoff_that_cannot_be_delivered_holds_up_no_later_restart_for_ever",
    },
    Safeguard {
        name: "a restart that touched nothing is no attempt",
        faults: "I7",
        file: "crates/watchdog/src/perform/outcome.rs",
        find: "under.inflight.kind == Kind::Planned && touched {",
        replace: "under.inflight.kind == Kind::Planned {",
        package: "netsky-watchdog",
        target: UNIT,
        test: "perform::outcome::tests::i7_a_restart_that_ended_nobody_is_not_held_against_an_agent0_that_lives",
    },
    Safeguard {
        name: "what a restart under way hands over is not pruned",
        faults: "T25",
        file: "crates/watchdog/src/prune.rs",
        find: "if seen.restart.is_none() && !state::exists(cx.layout.restart_inflight())? {",
        replace: "{",
        package: "netsky-watchdog",
        target: UNIT,
        test: "prune::tests::t25_the_draft_of_a_restart_under_way_is_spared_whatever_its_age",
    },
];
