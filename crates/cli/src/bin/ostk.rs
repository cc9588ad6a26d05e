//! The `ostk` program: the session kernel alone, usable in any project folder.
use std::process::ExitCode;

fn main() -> ExitCode {
    netsky_cli::ostk()
}
