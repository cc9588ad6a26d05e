//! What `kernel` safeguards of its protocol: the shapes of rows, and clients that follow the journal.

use super::{IT, Safeguard, UNIT};

const FOLLOW: &str = "anchor_follow::who_follows_gets_every_row_once_while_anchors_are_killed";
const GARBAGE: &str =
    "anchor_follow::a_since_that_makes_no_sense_is_refused_in_words_and_the_connection_stays";
const SLOW: &str = "anchor_follow::who_never_reads_delays_nobody_and_every_row_is_told_or_named_in_a_gap";
const GONE: &str =
    "anchor::subscribe::tests::a_row_that_is_gone_is_a_gap_also_in_a_replay_and_none_comes_twice";

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "a row is what the reference says of its kind",
        faults: "",
        file: "crates/kernel/src/anchor/state.rs",
        find: "    debug_assert!(kind.fits(&data), \"a row of {} says {data}\", kind.word());\n",
        replace: "    let _ = kind;\n",
        package: "netsky-kernel",
        target: UNIT,
        test: "anchor::state::tests::a_row_that_is_not_what_the_reference_says_of_its_kind_is_not_written_here",
    },
    Safeguard {
        name: "a row that says more than its kind does not fit",
        faults: "",
        file: "crates/kernel/src/rpc/event_data.rs",
        find: ".is_some_and(|again| again == *data)",
        replace: ".is_some()",
        package: "netsky-kernel",
        target: UNIT,
        test: "rpc::schema::tests::a_row_that_says_more_or_less_than_its_schema_does_not_fit",
    },
    Safeguard {
        name: "a method that acts takes a guard",
        faults: "",
        file: "crates/kernel/src/rpc/resize.rs",
        find: "    #[serde(flatten)]\n",
        replace: "    #[serde(skip)]\n",
        package: "netsky-kernel",
        target: UNIT,
        test: "rpc::schema::tests::every_method_that_acts_takes_a_guard_and_no_other_does",
    },
    Safeguard {
        name: "a row that is gone is a gap and not passed over",
        faults: "",
        file: "crates/kernel/src/anchor/subscribe.rs",
        find: "if event.seq > from {",
        replace: "if event.seq == u64::MAX {",
        package: "netsky-kernel",
        target: UNIT,
        test: GONE,
    },
    Safeguard {
        name: "no row is pushed twice",
        faults: "",
        file: "crates/kernel/src/anchor/subscribe.rs",
        find: "if event.seq <= self.at {",
        replace: "if event.seq == 0 {",
        package: "netsky-kernel",
        target: UNIT,
        test: GONE,
    },
    Safeguard {
        name: "a since that the journal has not reached is refused",
        faults: "",
        file: "crates/kernel/src/anchor/attach.rs",
        find: "since.filter(|since| *since > head)",
        replace: "since.filter(|since| *since == 0 && head == 0)",
        package: "netsky-kernel",
        target: IT,
        test: GARBAGE,
    },
    Safeguard {
        name: "nothing comes on a connection that let go",
        faults: "",
        file: "crates/kernel/src/anchor/attach.rs",
        find: "call.seat.take().is_some()",
        replace: "call.seat.borrow().is_some()",
        package: "netsky-kernel",
        target: IT,
        test: "anchor_follow::another_connection_goes_on_behind_the_row_it_names_and_hears_of_its_session_alone",
    },
    Safeguard {
        name: "who follows too slowly is told so",
        faults: "I11",
        file: "crates/kernel/src/anchor/subscribe.rs",
        find: "            return Some(line(&gap(anchor, from, to)));\n",
        replace: "            return Some(Vec::new());\n",
        package: "netsky-kernel",
        target: IT,
        test: SLOW,
    },
    Safeguard {
        name: "who follows asks again for rows that were not pushed",
        faults: "I11",
        file: "crates/kernel/src/client/follow.rs",
        find: "if self.missed.replace(from) != Some(from) {",
        replace: "if self.missed.replace(from).is_none() && from == 0 {",
        package: "netsky-kernel",
        target: UNIT,
        test: "client::follow::tests::rows_that_were_not_pushed_are_asked_for_again_and_those_that_are_gone_are_told",
    },
    Safeguard {
        name: "who follows goes on behind the row it has",
        faults: "",
        file: "crates/kernel/src/client/follow.rs",
        find: "(None, None) => Client::connect(&self.root)?.subscribe(Some(self.last))?,",
        replace: "(None, None) => Client::connect(&self.root)?.subscribe(None)?,",
        package: "netsky-kernel",
        target: IT,
        test: FOLLOW,
    },
    Safeguard {
        name: "who follows goes on at the next anchor",
        faults: "",
        file: "crates/kernel/src/client/follow.rs",
        find: "                    ClientError::Lost { .. } | ClientError::NotServing { .. } | ClientError::Silent { .. },\n",
        replace: "                    ClientError::Silent { .. },\n",
        package: "netsky-kernel",
        target: IT,
        test: FOLLOW,
    },
];
