//! What `bus` safeguards.

use super::{IT, Safeguard};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "a claim is durable before it is shown",
        faults: "T2",
        file: "crates/bus/src/claim.rs",
        find: "if let Err(error) = folders.claimed.sync()",
        replace: "if let Err(error) = netsky_disk::Result::Ok(())",
        package: "netsky",
        target: IT,
        test: "durability::t2_a_drain_makes_its_claim_durable_before_it_shows_the_text",
    },
    Safeguard {
        name: "an ack is durable before it is said",
        faults: "T2",
        file: "crates/bus/src/ack.rs",
        find: "        point(\"bus.ack.renamed\");\n        acked.sync()?;\n",
        replace: "        point(\"bus.ack.renamed\");\n",
        package: "netsky",
        target: IT,
        test: "durability::t2_an_ack_is_durable_before_it_says_so",
    },
    Safeguard {
        name: "only a dead owner's claim returns",
        faults: "T2 T7",
        file: "crates/bus/src/back.rs",
        find: "if life == Life::Dead {",
        replace: "if life != Life::Unknown {",
        package: "netsky",
        target: IT,
        test: "racers::l6_a_stopped_drainer_keeps_its_claims_and_finishes",
    },
    Safeguard {
        name: "a repeated id looks for the first",
        faults: "T3 T18",
        file: "crates/bus/src/send.rs",
        find: "if reservation.was_interrupted { self.whereabouts(channel, &name.key)? } else { None }",
        replace: "None",
        package: "netsky-bus",
        target: IT,
        test: "ids::t3_t18_a_sender_that_died_after_placing_is_completed_without_a_second_envelope",
    },
];
