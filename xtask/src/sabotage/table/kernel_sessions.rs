//! What `kernel` safeguards of sessions that live: who is ended, what is typed and what a report may say.

use super::{IT, Safeguard, UNIT};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "a worker whose heartbeat file is silent is asked",
        faults: "FM-worker-stop",
        file: "crates/kernel/src/anchor/pulse.rs",
        find: "        listen(anchor, name).await;\n",
        replace: "",
        package: "netsky-kernel",
        target: IT,
        test: "anchor_sessions::a_worker_whose_heartbeat_file_is_silent_is_asked_and_not_ended",
    },
    Safeguard {
        name: "everything includes what its policy would bring back",
        faults: "",
        file: "crates/kernel/src/anchor/shutdown.rs",
        find: "entry.life == Life::Gone && entry.meta.is_kept()",
        replace: "entry.life == Life::Live && entry.meta.is_kept()",
        package: "netsky-kernel",
        target: UNIT,
        test: "anchor::shutdown::tests::a_shutdown_of_everything_keeps_down_what_its_policy_would_bring_back",
    },
    Safeguard {
        name: "a name of a report is of one generation and kind",
        faults: "FM-snapshot-kill",
        file: "crates/kernel/src/drain/told.rs",
        find: "self.request_id == other.request_id && (same || self.kind.is_empty())",
        replace: "self.request_id == other.request_id && (same || !self.request_id.is_empty())",
        package: "netsky-kernel",
        target: UNIT,
        test: "drain::told::tests::a_name_is_that_of_a_call_of_one_generation_and_kind_and_of_what_it_told",
    },
    Safeguard {
        name: "a name of a report is of one content",
        faults: "FM-snapshot-kill",
        file: "crates/kernel/src/drain/mod.rs",
        find: "Some(told) if told.digest == call.digest || told.kind.is_empty() => Ok(true),",
        replace: "Some(told) if told.digest == call.digest || !told.digest.is_empty() => Ok(true),",
        package: "netsky-kernel",
        target: UNIT,
        test: "drain::told::tests::a_name_is_that_of_a_call_of_one_generation_and_kind_and_of_what_it_told",
    },
];
