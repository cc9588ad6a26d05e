//! What `bus` safeguards where messages are many at once: groups that are sent, and drains of more than one.

use super::{IT, Safeguard};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "each answer of a group is of its own message",
        faults: "I1 FM-send-batch",
        file: "crates/bus/src/batch.rs",
        find: "        let mut outcomes = placed.into_iter();",
        replace: "        let mut outcomes = placed.into_iter().rev();",
        package: "netsky",
        target: IT,
        test: "cells::fm_send_batch::eio_every_syscall",
    },
    Safeguard {
        name: "a drain claims one message at a time",
        faults: "T2 I2 FM-claim-kill",
        file: "crates/bus/src/claim.rs",
        find: "                self.hold(agent, &queue.folders, std::slice::from_ref(&claim))?;
                self.surface(claim, generation, &mut put)?;
                drained.surfaced += 1;
",
        replace: "                let mut all = vec![claim];
                while drained.surfaced + all.len() < max
                    && let Some(taken) = queue.take_next()?
                {
                    all.extend(drained.aside.sort(taken));
                }
                self.hold(agent, &queue.folders, &all)?;
                for claim in all {
                    self.surface(claim, generation, &mut put)?;
                    drained.surfaced += 1;
                }
",
        package: "netsky",
        target: IT,
        test: "kill_points::fm_claim_kill_and_fm_deliver_kill_every_syscall_of_drain",
    },
];
