//! What `kernel` safeguards of a session's terminal: what output costs its worker, what the screen is, and who answers.

use super::{IT, Safeguard};

pub(super) const ROWS: &[Safeguard] = &[Safeguard {
    name: "a string of the terminal is kept up to a bound",
    faults: "A12",
    file: "Cargo.toml",
    find: "vt100 = { version = \"0.18\", default-features = false }",
    replace: "vt100 = \"0.18\"",
    package: "netsky-kernel",
    target: IT,
    test: "worker_terminal::a12_a_string_of_the_terminal_without_an_end_costs_a_worker_no_memory",
}];
