//! The way into a group: a program is born in it, or its process enters it before it becomes the program.
//!
//! Promise: nothing of what is started through a door ever runs outside its group. Born is how it is done where the kernel
//! can (`CLONE_INTO_CGROUP`, Linux 5.7): to move a process that is there, the kernel first waits until no processor is in
//! the middle of a fork or an exit anywhere, which takes longer than all else that a start does.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::seam;

/// In the flags of `clone3`: the child starts in the group whose folder is given (`linux/sched.h`).
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// Exit code of a child that could not become its program; whoever started it was told why.
const NO_PROGRAM: i32 = 127;

/// The `clone_args` of Linux 5.7 (`linux/sched.h`).
#[derive(Default)]
#[repr(C, align(8))]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// A group that is open to be started in.
#[derive(Debug)]
pub struct Door {
    folder: OwnedFd,
}

impl Door {
    pub(super) fn new(folder: OwnedFd) -> Door {
        Door { folder }
    }

    /// Starts a command in the group; its pid. It has to be waited for.
    ///
    /// # Errors
    /// It cannot be started, or not in there.
    ///
    /// # Safety
    /// This process has one thread: the child is a copy of it in the middle of whatever the others would be doing.
    pub unsafe fn start(&self, command: &mut Command) -> io::Result<u32> {
        // SAFETY: as of this function.
        match unsafe { self.bear(command) } {
            Ok(started) => started,
            Err(_) => self.start_moved(command),
        }
    }

    /// Starts a command as a child that is born in the group. The outer error: there was no birth, the kernel is too old,
    /// a filter of system calls forbids it, or the group is gone.
    unsafe fn bear(&self, command: &mut Command) -> io::Result<io::Result<u32>> {
        if seam::cgroup_is_old() {
            return Err(Errno::INVAL.into());
        }
        let (told, tells) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: nobody else runs in this process.
        let Some(child) = (unsafe { fork_into(&self.folder) })? else { become_it(command, tells) };
        drop(tells);
        let mut why = [0; size_of::<i32>()];
        // The other end is closed by the program's start.
        match retry_on_intr(|| rustix::io::read(&told, &mut why)) {
            Ok(0) => return Ok(Ok(child.as_raw_nonzero().get().unsigned_abs())),
            Ok(_) => {}
            Err(error) => why = error.raw_os_error().to_ne_bytes(),
        }
        // It has ended or is about to.
        let _ = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
        Ok(Err(io::Error::from_raw_os_error(i32::from_ne_bytes(why))))
    }

    /// Starts a command as a child that moves into the group before it becomes the program.
    fn start_moved(&self, command: &mut Command) -> io::Result<u32> {
        let procs = openat(
            &self.folder,
            "cgroup.procs",
            OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        let door = procs.as_raw_fd();
        // SAFETY: between fork and exec the closure makes one write and allocates nothing; the descriptor is open until the
        // program has been started, and a fork has its own copy of it.
        unsafe {
            command.pre_exec(move || {
                rustix::io::write(BorrowedFd::borrow_raw(door), b"0")?;
                Ok(())
            });
        }
        command.spawn().map(|child| child.id())
    }
}

/// How a child ends that did not become its program, whatever kept it from that, a panic too: the process is a copy of
/// another, and does nothing that that one has yet to do.
struct NoProgram {
    tells: OwnedFd,
    why: i32,
}

impl Drop for NoProgram {
    fn drop(&mut self) {
        // Who started it reads that; without a word it would seem to run.
        let _ = rustix::io::write(&self.tells, &self.why.to_ne_bytes());
        // SAFETY: ends the process, and runs nothing before.
        unsafe { libc::_exit(NO_PROGRAM) }
    }
}

fn become_it(command: &mut Command, tells: OwnedFd) -> ! {
    let mut end = NoProgram { tells, why: Errno::INVAL.raw_os_error() };
    end.why = command.exec().raw_os_error().unwrap_or(end.why);
    drop(end);
    unreachable!("the process has ended")
}

/// A fork whose child starts in the group of that folder; none in the child.
///
/// # Safety
/// As of [`Door::start`].
unsafe fn fork_into(folder: &OwnedFd) -> io::Result<Option<Pid>> {
    let args = CloneArgs {
        flags: CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: folder.as_raw_fd() as u64,
        ..CloneArgs::default()
    };
    // SAFETY: without CLONE_VM the child has memory of its own, a copy in which no lock is held, as no other thread was
    // there to hold one; what the C library keeps of a thread's number is stale in it, and nothing before the exec asks.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match i32::try_from(pid) {
        Ok(-1) | Err(_) => Err(io::Error::last_os_error()),
        Ok(pid) => Ok(Pid::from_raw(pid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_clone_are_as_long_as_the_kernel_that_knows_groups_takes_them() {
        // CLONE_ARGS_SIZE_VER2.
        assert_eq!(size_of::<CloneArgs>(), 88);
    }
}
