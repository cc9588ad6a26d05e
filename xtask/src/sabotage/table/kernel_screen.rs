//! What `kernel` safeguards of a session's output and terminal: what it costs its worker, what the screen is, and who answers.

use super::{IT, Safeguard, UNIT};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "a string of the terminal is kept up to a bound",
        faults: "A12",
        file: "Cargo.toml",
        find: "vt100 = { version = \"0.18\", default-features = false }",
        replace: "vt100 = \"0.18\"",
        package: "netsky-kernel",
        target: IT,
        test: "worker_terminal::a12_a_string_of_the_terminal_without_an_end_costs_a_worker_no_memory",
    },
    Safeguard {
        name: "a reset takes the settings of the keyboard along",
        faults: "A10",
        file: "crates/kernel/src/worker/screen.rs",
        find: "self.parser.callbacks_mut().reset();",
        replace: "let _ = Told::reset;",
        package: "netsky-kernel",
        target: UNIT,
        test: "worker::screen::tests::a_reset_takes_the_settings_of_the_keyboard_along_and_they_can_be_set_without_the_stack",
    },
    Safeguard {
        name: "the screen is told in words that it knows",
        faults: "A10",
        file: "crates/kernel/src/worker/screen.rs",
        find: "edits.cut(bytes, Edit::of, |piece",
        replace: "edits.cut(bytes, |_| None, |piece",
        package: "netsky-kernel",
        target: UNIT,
        test: "worker::screen::tests::sequences_that_the_model_does_not_know_are_told_in_others",
    },
];
