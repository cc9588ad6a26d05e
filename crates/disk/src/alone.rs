//! A process that shuts itself in before it starts somebody whom nobody trusts: without the network, without the machine's
//! files, and so that all of what it starts ends with it.
//!
//! Promise: after [`leave_network`] nothing but the process's own loopback is to be reached, also by what it starts; after
//! [`leave_files`] no path leads to what was not asked for; after
//! [`tend`] nothing of what was started lives, whatever it did to its environment, its session or its parents.
//! Left to others: what may be written of what is there, which is asked of Landlock.

mod root;

use std::process::Stdio;
use std::time::Duration;

pub use root::leave_files;
use rustix::thread::UnshareFlags;

use crate::error::{Error, Result};
use crate::process::PidFd;
use crate::spawn::{Ended, Program};
use crate::sweep;

/// Longest that the end of what was left behind is waited for.
const SWEEP: Duration = Duration::from_secs(5);

/// Leave the machine's network for one that has only a loopback; false where the system does not allow that. For a process
/// with one thread.
///
/// # Errors
/// It was left, and the new one is not fit for use.
pub fn leave_network() -> Result<bool> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // In a user namespace of its own too, under its own number: root is nobody there to all that is outside, and whoever is
    // not root may leave the network only so.
    if unshare(UnshareFlags::NEWUSER.union(UnshareFlags::NEWNET)) {
        for (file, text) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/uid_map", format!("{user} {user} 1\n")),
            ("/proc/self/gid_map", format!("{group} {group} 1\n")),
        ] {
            std::fs::write(file, text).map_err(|e| Error::new("write", file, e))?;
        }
    } else if !unshare(UnshareFlags::NEWNET) {
        return Ok(false);
    }
    raise_loopback()?;
    Ok(true)
}

fn unshare(flags: UnshareFlags) -> bool {
    // SAFETY: no flag that is given here takes the table of descriptors or the address space apart, which is what makes it unsafe.
    unsafe { rustix::thread::unshare_unsafe(flags) }.is_ok()
}

/// A new network's loopback is down, and tests talk to it.
fn raise_loopback() -> Result<()> {
    use std::os::fd::AsRawFd;
    let failed = |e: std::io::Error| Error::new("raise", "lo", e);
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    // SAFETY: zero is a valid value of every field of this plain structure.
    let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
    asked.ifr_name[0] = b'l' as libc::c_char;
    asked.ifr_name[1] = b'o' as libc::c_char;
    asked.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request reads one `ifreq`, which lives until the call is over, of a socket that is open.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const asked) };
    if done == 0 { Ok(()) } else { Err(failed(std::io::Error::last_os_error())) }
}

/// Run a program to its end, at most `limit`, with this one's output, its errors in between; then end all that it left.
///
/// # Errors
/// It cannot be started or waited for, or the machine's processes not be looked at.
pub fn tend(program: &Program, limit: Duration) -> Result<Ended> {
    let failed = |op| move |e: std::io::Error| Error::new(op, &program.path, e);
    // What loses its parent becomes ours, so that it is found below us.
    let us = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(us)).map_err(|e| failed("tend")(e.into()))?;
    let out = || std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned();
    let mut command = program.plain();
    command.stdin(Stdio::null());
    command.stdout(out().map_err(failed("hand on output to"))?);
    command.stderr(out().map_err(failed("hand on output to"))?);
    let mut child = command.spawn().map_err(failed("start"))?;
    let in_time = PidFd::of_child(&child).and_then(|held| held.wait(limit));
    let swept = match in_time {
        // Its status is wanted.
        Ok(true) => child.wait().map_err(failed("wait for")).map(|status| Ended::Exited(status.code())),
        _ => Ok(Ended::TooLate),
    };
    sweep::sweep_below(std::process::id(), SWEEP)?;
    in_time?;
    swept
}
