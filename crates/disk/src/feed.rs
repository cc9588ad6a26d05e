//! Running a user's command on some bytes, while listening for our own end.
//!
//! The command reads them from its standard input, which is a file in memory: one that does not read them all hangs
//! nobody. It writes where we write and has the user's umask.
//!
//! Promise: what it was given and did not take is given again, so nothing that it started is at work any more when this
//! returns; it bears a mark for that. What it leaves at work after it took its message is its own business. Killed
//! ourselves, we take it along, but not what it started: whoever gives the bytes again sweeps the mark before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::env;
use crate::error::{Error, Result};
use crate::process::{self, PidFd};
use crate::sweep::sweep_marked;
use crate::wake::Stop;

/// How a command ended.
#[derive(Debug)]
pub enum Fed {
    /// By itself, with this code; none if a signal ended it.
    Exited(Option<i32>),
    /// We were asked to end, and it did not succeed: it failed meanwhile, most likely of the same signal, or it went on past
    /// its grace and was killed.
    Stopped,
    /// It was killed, because its end could not be waited for.
    Lost(Error),
}

/// How long to look for what a command left at work: killed processes are gone in milliseconds.
const SWEEP: Duration = Duration::from_secs(5);

/// Runs `argv` with `bytes` on its standard input, `set` in its environment, and `mark` in that of all that it starts.
/// Asked to end meanwhile, it waits `grace` for the command, and then kills it.
///
/// # Errors
/// The command cannot be started: nobody has seen the bytes.
pub fn feed(
    argv: &[String],
    set: &BTreeMap<String, String>,
    mark: &str,
    bytes: &[u8],
    stop: &Stop,
    grace: Duration,
) -> Result<Fed> {
    let mut child = start(argv, set, mark, bytes)?;
    let ended = watched(&child, stop, grace);
    if !matches!(ended, Ok(true)) {
        // Past its grace, or out of our sight: it can only fail when it is gone already.
        let _ = child.kill();
    }
    let waited = child.wait().map_err(|e| Error::new("wait for", &argv[0], e));
    if !waited.as_ref().is_ok_and(ExitStatus::success)
        && let Err(error) = end_work(mark)
    {
        return Ok(Fed::Lost(error));
    }
    Ok(match (ended, waited) {
        // Asked last: a signal to the whole group may reach the command a moment before it reaches us.
        (Ok(true), Ok(status)) if !status.success() && stop.came() => Fed::Stopped,
        (Ok(true), Ok(status)) => Fed::Exited(status.code()),
        (Ok(false), _) => Fed::Stopped,
        (Err(error), _) | (_, Err(error)) => Fed::Lost(error),
    })
}

/// Ends what a command that bore this mark left at work. What resists for so long is killed all the same, and runs no
/// further.
///
/// # Errors
/// Nobody can see who is at work, or a signal is refused.
pub fn end_work(mark: &str) -> Result<()> {
    sweep_marked(env::CLAIM, mark, SWEEP).map(drop)
}

fn start(argv: &[String], set: &BTreeMap<String, String>, mark: &str, bytes: &[u8]) -> Result<Child> {
    let Some((program, args)) = argv.split_first() else {
        return Err(Error::because("start", "", "no command is named"));
    };
    let filled = || -> std::io::Result<File> {
        let mut file = File::from(memfd_create("envelope", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file)
    };
    let input = filled().map_err(|e| Error::new("fill the standard input of", program, e))?;
    let mut command = Command::new(program);
    command.args(args).envs(set).env(env::CLAIM, mark).stdin(Stdio::from(input));
    let (us, umask) = (getpid(), process::users_umask());
    // SAFETY: between fork and exec only prctl, getppid and umask are called, which are async-signal-safe and allocate
    // nothing.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have died before it could be told.
            if getppid() != Some(us) {
                return Err(Errno::SRCH.into());
            }
            if let Some(umask) = umask {
                rustix::process::umask(Mode::from_raw_mode(umask));
            }
            Ok(())
        });
    }
    command.spawn().map_err(|e| Error::new("start", program, e))
}

/// Waits for the command's end; false if it goes on though we are to end.
fn watched(child: &Child, stop: &Stop, grace: Duration) -> Result<bool> {
    let held = PidFd::of_child(child)?;
    loop {
        if stop.came() {
            return held.wait(grace);
        }
        let (held, stop) = (held.as_fd(), stop.as_fd());
        let mut ready = [PollFd::new(&held, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) if !ready[0].revents().is_empty() => return Ok(true),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Error::new("wait for process", child.id().to_string(), e)),
        }
    }
}
