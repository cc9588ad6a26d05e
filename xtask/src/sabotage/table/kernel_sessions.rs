//! What `kernel` safeguards of sessions that live: who is ended, what is typed and what a report may say.

use super::{IT, Safeguard};

pub(super) const ROWS: &[Safeguard] = &[Safeguard {
    name: "a worker whose heartbeat file is silent is asked",
    faults: "FM-worker-stop",
    file: "crates/kernel/src/anchor/pulse.rs",
    find: "        listen(anchor, name).await;\n",
    replace: "",
    package: "netsky-kernel",
    target: IT,
    test: "anchor_sessions::a_worker_whose_heartbeat_file_is_silent_is_asked_and_not_ended",
}];
