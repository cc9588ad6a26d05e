//! What `kernel` safeguards of kills on a full disk, and of sessions that are brought back in vain.

use super::{Safeguard, UNIT};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "a kill that is owed is known before its row",
        faults: "FM-kill-enospc",
        file: "crates/kernel/src/anchor/root.rs",
        find: "    wishes.iter().for_each(|about| recall.fold(&owed::killed(about, epoch)));\n",
        replace: "    let _ = (owed::killed, &mut recall);\n",
        package: "netsky-kernel",
        target: UNIT,
        test: "anchor::owed::tests::fm_kill_enospc_a_kill_that_is_owed_is_known_to_the_next_anchor_and_gets_its_row",
    },
    Safeguard {
        name: "a pause that has begun goes on with the next anchor",
        faults: "T13",
        file: "crates/kernel/src/anchor/revive.rs",
        find: "announced.filter(|_| found == Found::AtStart)",
        replace: "announced.filter(|_| found == Found::AtStart && attempt == u32::MAX)",
        package: "netsky-kernel",
        target: UNIT,
        test: "anchor::revive::tests::what_anchors_before_this_one_tried_in_vain_counts_and_a_pause_that_they_began_goes_on",
    },
    Safeguard {
        name: "a crash loop of what is kept in any case is told",
        faults: "T13",
        file: "crates/kernel/src/anchor/revive.rs",
        find: "if attempt == INTENSITY && !told {",
        replace: "if keeper == Keeper::Policy && attempt == INTENSITY && !told {",
        package: "netsky-kernel",
        target: UNIT,
        test: "anchor::revive::tests::a_crash_loop_is_told_once_of_what_is_kept_in_any_case_too_and_is_over_after_a_minute_of_life",
    },
];
