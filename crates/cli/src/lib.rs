//! The verbs of `netsky` and `ostk`.
//!
//! This is the only crate that prints. It parses words into model types, calls the crates below, and turns what they
//! answer into a sentence, a table or one JSON object, and their errors into one line and a documented exit code.
//! It holds no rule of the bus, the kernel or the watchdog.
//!
//! To add a verb: one file with an `Args` struct that implements [`run::Run`], one `mod` line and one line in the
//! `verbs!` list of its group (`verb/mod.rs`, `verb/channel/mod.rs`, `ostk/mod.rs`).
#![forbid(unsafe_code)]

mod attach;
mod check;
mod context;
mod demo;
mod error;
mod logs;
mod ostk;
mod output;
mod palette;
mod run;
mod transcript;
mod verb;

use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the `netsky` program on the process's own arguments; called by the name `ostk` it is that one, so that a single
/// file is enough to run everything.
#[must_use]
pub fn netsky() -> ExitCode {
    netsky_disk::wake::outlive_large_files();
    let called = std::env::args_os().next().map(PathBuf::from);
    if called.is_some_and(|called| called.file_name() == Some("ostk".as_ref())) {
        return ostk();
    }
    // Before anything is opened or a thread begun: this process is the one that is shut in.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == netsky_work::landing::GATE) {
        return ExitCode::from(netsky_work::gate::serve());
    }
    run::main::<verb::Cli>("netsky")
}

/// Runs the `ostk` program on the process's own arguments.
#[must_use]
pub fn ostk() -> ExitCode {
    netsky_disk::wake::outlive_large_files();
    let mut words = std::env::args_os().skip(1);
    // Before the command tree: how a worker is started is frozen, whatever becomes of the verbs.
    if words.next().is_some_and(|verb| verb == "__worker") {
        let code = netsky_kernel::worker::main(words);
        return u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    run::main::<ostk::Cli>("ostk")
}
