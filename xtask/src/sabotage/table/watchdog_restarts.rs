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
];
