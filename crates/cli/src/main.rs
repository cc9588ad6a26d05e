//! The `netsky` program: everything it does is in the library, shared with `ostk`.
use std::process::ExitCode;

fn main() -> ExitCode {
    netsky_cli::netsky()
}
