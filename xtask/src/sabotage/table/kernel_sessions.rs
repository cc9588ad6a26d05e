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
];
