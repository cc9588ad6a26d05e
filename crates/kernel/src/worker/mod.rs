//! The worker: one small process that holds one session's program, its terminal or pipes, its output log and
//! its socket, for as long as the program runs.
//!
//! Promise: it outlives the anchor and every client, never waits for any of them, and when it reports an end,
//! nothing of the program's tree is left. When it dies itself, its program dies with it. It is single-threaded
//! (a parent-death signal belongs to a thread), without async and without policy: frozen, so that it can be
//! weeks older than everything around it.
//!
//! Left to others: which sessions there are and what their ends mean (the anchor), who may type (drivers).
//!
//! In reading order: `args` what it is told, `setup` how it comes up, `start`, `pty` and `wires` the program, `poll_loop`
//! its life, `clients` and `input` the two directions, `screen`, `sequences`, `filter` and `questions` its
//! terminal, `ending` how a tree is brought down, `record` and `heartbeat` what it leaves on disk.

mod args;
mod clients;
mod ending;
mod filter;
mod heartbeat;
mod input;
mod poll_loop;
mod pty;
mod questions;
mod record;
mod screen;
mod sequences;
mod setup;
mod start;
mod wires;

pub(crate) use args::GATE;
pub use args::{Args, command_line};
pub use ending::MAX_GRACE;

use crate::session::{ReadyLine, StartFailure};

/// Run a worker to its program's end; `words` is the command line after `__worker`. Returns the exit code.
///
/// Writes exactly one [`ReadyLine`] to standard output and then lets go of it.
pub fn main(words: impl IntoIterator<Item = std::ffi::OsString>) -> i32 {
    // Before anything is created: nobody but us may read what sessions say.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let args = match Args::parse(words) {
        Ok(args) => args,
        Err(why) => {
            setup::say(&ReadyLine::Failed { kind: StartFailure::Setup, why });
            return 2;
        }
    };
    match setup::come_up(&args) {
        Ok(worker) => worker.run(),
        Err(refused) => {
            let code = match refused.kind {
                StartFailure::Busy => 5,
                StartFailure::Stale => 4,
                StartFailure::Program | StartFailure::Setup => 1,
            };
            setup::say(&ReadyLine::Failed { kind: refused.kind, why: refused.why });
            code
        }
    }
}
