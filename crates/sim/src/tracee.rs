//! One traced child: its start, its stops, its registers and its certain end; with its threads, or with all that it starts, where
//! these are wanted.
//!
//! The child stops itself before it becomes the program, is seized there, and from then on is either stopped under
//! this thread's eyes or running between two stops; so is each of its threads and of what it started. A guard thread kills it at the time
//! bound; dropping it kills it.
//! All calls must come from the thread that started it (ptrace belongs to a thread).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::call::{self, Known, Names, Starts};
use crate::{Error, Result, tracer};

/// What to run: the environment is `env` and what the shell cannot help adding.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
}

impl Program {
    /// Starts `command` with the arguments behind its own, in the environment and the folder; an error inside is the start's.
    fn begin(&self, mut command: Command, stdout: &File, stderr: &File) -> Result<io::Result<Child>> {
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(clone_file(stdout)?)
            .stderr(clone_file(stderr)?);
        Ok(command.spawn())
    }
}

/// What is seen beside the program's first thread. Of more than that the tracing thread may have no other child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing: a second thread is an error, and child processes run on unseen.
    Alone,
    /// Its other threads.
    Threads,
    /// Whatever it starts, and what that starts; it is over when all of them are.
    Family,
}

/// A stop of the child that the tracer cares about.
pub(crate) enum Stop {
    /// A call is about to run.
    Entry(Number),
    /// The call seen last has run.
    Exit,
    /// The program is gone and reaped.
    Gone(WaitStatus),
}

/// A system call's number and arguments, as they stand at its entry.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    pub(crate) nr: i64,
    pub(crate) args: [u64; 6],
}

pub(crate) struct Tracee {
    pid: Pid,
    /// The thread that stands at its last stop; the others run, or wait to be looked at.
    standing: Option<Pid>,
    seen: Seen,
    program: Program,
    memory: Option<File>,
    stdout: File,
    stderr: File,
    guard: Option<JoinHandle<bool>>,
    /// Stops itself at every call; before the program's exec only events are wanted.
    stepping: bool,
    gone: Option<WaitStatus>,
    /// Whether nobody is left who is traced.
    over: bool,
}

/// What became of a program that nobody watched.
pub(crate) struct Unseen {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Runs `program` to its end, bounded, without a look at its calls and what that would cost.
pub(crate) fn run_unseen(program: &Program, limit: Duration) -> Result<Unseen> {
    let (stdout, stderr) = (memory_file()?, memory_file()?);
    let name = || program.path.display().to_string();
    let child = program.begin(Command::new(&program.path), &stdout, &stderr)?;
    let mut child =
        child.map_err(|source| Error::NotStarted { program: name(), stderr: source.to_string() })?;
    let guard = guard(Pid::from_raw(child.id().cast_signed()), limit);
    if guard.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|source| Error::Tracer { op: "wait", source })?;
    if guard?.join().unwrap_or(false) {
        return Err(Error::TimedOut {
            program: name(),
            limit,
            last: "nothing: it was not watched".to_owned(),
        });
    }
    Ok(Unseen { status, stdout: contents(&stdout), stderr: contents(&stderr) })
}

impl Tracee {
    /// Starts `program` and stops it right after its exec; kills it `limit` from now.
    ///
    /// Without `stepping` the program then runs through its calls unseen.
    pub(crate) fn start(program: &Program, limit: Duration, stepping: bool, seen: Seen) -> Result<Tracee> {
        let (stdout, stderr) = (memory_file()?, memory_file()?);
        // The text is constant: the program and its arguments reach the shell as arguments, never as words to parse.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "kill -STOP $$; unset PWD; exec \"$@\"", "sh"]).arg(&program.path);
        let child = program
            .begin(shell, &stdout, &stderr)?
            .map_err(|source| Error::Tracer { op: "start /bin/sh", source })?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let mut tracee = Tracee {
            pid,
            standing: Some(pid),
            seen,
            program: program.clone(),
            memory: None,
            stdout,
            stderr,
            guard: None,
            stepping: false,
            gone: None,
            over: false,
        };
        tracee.guard = Some(guard(pid, limit)?);
        tracee.seize()?;
        tracee.stepping = stepping;
        Ok(tracee)
    }

    fn seize(&mut self) -> Result<()> {
        let status =
            waitpid(self.pid, Some(WaitPidFlag::WUNTRACED)).map_err(tracer("wait for the stopped shell"))?;
        if !matches!(status, WaitStatus::Stopped(..)) {
            self.gone = Some(status);
            return Err(self.not_started());
        }
        let mut options =
            Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACEEXEC;
        // A child process is told as a fork.
        options.set(Options::PTRACE_O_TRACECLONE, self.seen != Seen::Alone);
        let family = Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK;
        options.set(family, self.seen == Seen::Family);
        ptrace::seize(self.pid, options).map_err(tracer("seize"))?;
        kill(self.pid, Signal::SIGCONT).map_err(tracer("continue the shell"))?;
        loop {
            match self.wait()? {
                WaitStatus::PtraceEvent(_, _, event) if event == nix::libc::PTRACE_EVENT_EXEC => break,
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Err(self.not_started()),
                status => self.resume(passed_on(status))?,
            }
        }
        let memory = File::open(format!("/proc/{}/mem", self.pid))
            .map_err(|source| Error::Tracer { op: "open the program's memory", source })?;
        self.memory = Some(memory);
        Ok(())
    }

    /// Lets the program run to its next stop at a call, or to its end.
    pub(crate) fn next(&mut self) -> Result<Stop> {
        let mut signal = None;
        loop {
            self.resume(signal.take())?;
            let status = self.wait()?;
            if let Some(gone) = self.gone.filter(|_| self.over) {
                return Ok(Stop::Gone(gone));
            }
            match status {
                WaitStatus::PtraceSyscall(thread) => match at_call(thread) {
                    // Killed while it stood: its end is what comes next.
                    Err(Error::Tracer { source, .. }) if is_gone(&source) => {}
                    stop => return stop,
                },
                status => signal = passed_on(status),
            }
        }
    }

    /// Whether the call about to run starts a second thread.
    pub(crate) fn starts_thread(&self, number: &Number) -> bool {
        let flags = match call::starts(number.nr, number.args[0]) {
            Starts::Nothing => return false,
            Starts::By(flags) => flags,
            Starts::At(address) => {
                let mut flags = [0; size_of::<u64>()];
                let read = self.memory.as_ref().map(|memory| memory.read_exact_at(&mut flags, address));
                // The C library's are threads.
                if read.is_some_and(|read| read.is_ok()) { u64::from_ne_bytes(flags) } else { u64::MAX }
            }
        };
        flags & nix::libc::CLONE_THREAD as u64 != 0
    }

    /// The thread that [`Tracee::next`] told of.
    pub(crate) fn thread(&self) -> Pid {
        self.standing.unwrap_or(self.pid)
    }

    /// At an exit: what the call answered.
    pub(crate) fn answered(&self) -> Result<i64> {
        registers::answered(self.thread())
    }

    /// What is in its memory; nothing where nothing is mapped any more.
    pub(crate) fn memory_at(&self, address: u64, bytes: u64) -> Vec<u8> {
        let mut held = vec![0; usize::try_from(bytes).unwrap_or_default()];
        let read = self.memory.as_ref().and_then(|memory| memory.read_at(&mut held, address).ok());
        held.truncate(read.unwrap_or_default());
        held
    }

    /// Lets it run on to its end unseen.
    pub(crate) fn look_away(&mut self) {
        self.stepping = false;
    }

    /// Kills the process that stands, alone; whoever else is traced goes on.
    pub(crate) fn kill_standing(&mut self) -> Result<()> {
        let standing = self.standing.take().unwrap_or(self.pid);
        kill(standing, Signal::SIGKILL).map_err(tracer("kill"))
    }

    /// The program whose call it is, and what it is asked to do: its first word that is no option.
    pub(crate) fn acting(&self) -> String {
        let words = fs::read(format!("/proc/{}/cmdline", self.thread())).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let mut words = words.split('\0');
        let program = words.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let mut asked = String::new();
        while let Some(word) = words.next() {
            match word {
                "-c" | "-C" => drop(words.next()),
                _ if word.starts_with('-') => {}
                _ => {
                    asked = format!(" {word}");
                    break;
                }
            }
        }
        format!("{program}{asked}")
    }

    /// Kills the program where it stands and reaps it; with its family, each of which comes no further than to its next call.
    pub(crate) fn kill(&mut self) -> Result<WaitStatus> {
        if self.gone.is_none() {
            kill(self.pid, Signal::SIGKILL).map_err(tracer("kill"))?;
        }
        if self.seen != Seen::Family {
            return self.reap();
        }
        loop {
            if let Some(other) = self.standing.take().filter(|other| *other != self.pid) {
                kill(other, Signal::SIGKILL).map_err(tracer("kill"))?;
            }
            let status = self.wait()?;
            if self.over {
                return Ok(status);
            }
        }
    }

    /// Stops the program with a real SIGSTOP, before its next instruction, and lets go of it.
    pub(crate) fn stop_and_detach(&mut self) -> Result<()> {
        kill(self.pid, Signal::SIGSTOP).map_err(tracer("stop"))?;
        ptrace::detach(self.pid, None).map_err(tracer("detach"))?;
        let status = waitpid(self.pid, Some(WaitPidFlag::WUNTRACED)).map_err(tracer("wait for the stop"))?;
        match status {
            WaitStatus::Stopped(..) => Ok(()),
            status => {
                self.gone = Some(status);
                Err(Error::Tracer {
                    op: "stop",
                    source: std::io::Error::other(format!("it ended: {status:?}")),
                })
            }
        }
    }

    /// Continues a program that [`Tracee::stop_and_detach`] left stopped.
    pub(crate) fn continue_detached(&self) -> Result<()> {
        kill(self.pid, Signal::SIGCONT).map_err(tracer("continue"))
    }

    /// Waits until the program has ended.
    pub(crate) fn reap(&mut self) -> Result<WaitStatus> {
        loop {
            if let Some(status) = self.gone {
                return Ok(status);
            }
            self.wait()?;
        }
    }

    /// At an entry: makes the call do nothing.
    pub(crate) fn skip_call(&self) -> Result<()> {
        registers::skip(self.thread())
    }

    /// At the exit of a skipped call: makes it answer `errno`.
    pub(crate) fn answer(&self, errno: crate::Errno) -> Result<()> {
        registers::answer(self.thread(), errno)
    }

    /// The files that `number` names, as people write them.
    pub(crate) fn names(&self, known: Known, number: &Number) -> Vec<PathBuf> {
        let args = &number.args;
        match known.names {
            Names::Nothing => Vec::new(),
            Names::Fd => vec![self.descriptor(args[0])],
            Names::Path(at) => vec![self.path(args[at])],
            Names::At(at) => vec![self.below(args[at], args[at + 1])],
            Names::TwoPaths => vec![self.path(args[0]), self.path(args[1])],
            Names::TwoAt => vec![self.below(args[0], args[1]), self.below(args[2], args[3])],
        }
    }

    pub(crate) fn name(&self) -> String {
        self.program.path.display().to_string()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    pub(crate) fn stdout(&self) -> Vec<u8> {
        contents(&self.stdout)
    }

    pub(crate) fn stderr(&self) -> Vec<u8> {
        contents(&self.stderr)
    }

    /// Whether the time bound killed the program; asks only once it is gone.
    pub(crate) fn timed_out(&mut self) -> bool {
        self.guard.take().is_some_and(|guard| guard.join().unwrap_or(false))
    }

    fn resume(&mut self, signal: Option<Signal>) -> Result<()> {
        let Some(thread) = self.standing.take() else { return Ok(()) };
        let resumed =
            if self.stepping { ptrace::syscall(thread, signal) } else { ptrace::cont(thread, signal) };
        match resumed {
            // Killed from outside while it stood: the next wait says so.
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(errno) => Err(tracer("resume")(errno)),
        }
    }

    fn wait(&mut self) -> Result<WaitStatus> {
        let (whom, flags) = match self.seen {
            Seen::Alone => (Some(self.pid), WaitPidFlag::__WALL),
            _ => (None, WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD),
        };
        let status = match (waitpid(whom, Some(flags)), self.gone) {
            (Err(nix::errno::Errno::ECHILD), Some(gone)) => {
                self.over = true;
                return Ok(gone);
            }
            (status, _) => status.map_err(tracer("wait"))?,
        };
        self.standing = status.pid();
        let ended = matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..));
        if ended && self.standing.take() == Some(self.pid) {
            self.gone = Some(status);
            self.over = self.seen != Seen::Family;
        }
        Ok(status)
    }

    fn not_started(&self) -> Error {
        Error::NotStarted {
            program: self.name(),
            stderr: String::from_utf8_lossy(&self.stderr()).trim().to_owned(),
        }
    }

    fn below(&self, folder: u64, address: u64) -> PathBuf {
        let path = self.path(address);
        if path.is_absolute() {
            return path;
        }
        // AT_FDCWD is an int in a 64-bit register; its upper half means nothing.
        if folder as u32 as i32 == nix::libc::AT_FDCWD {
            return fs::read_link(format!("/proc/{}/cwd", self.thread())).unwrap_or_default().join(path);
        }
        self.descriptor(folder).join(path)
    }

    fn descriptor(&self, fd: u64) -> PathBuf {
        fs::read_link(format!("/proc/{}/fd/{}", self.thread(), fd as u32 as i32)).unwrap_or_default()
    }

    fn path(&self, address: u64) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let mut bytes = Vec::new();
        let mut page = [0; 256];
        let another = match self.seen {
            Seen::Family => File::open(format!("/proc/{}/mem", self.thread())).ok(),
            _ => None,
        };
        let Some(memory) = another.as_ref().or(self.memory.as_ref()) else { return PathBuf::new() };
        // A path has at most 4096 bytes; a read stops short at the end of a mapping.
        while bytes.len() < 4096 {
            let read = memory.read_at(&mut page, address + bytes.len() as u64).unwrap_or(0);
            let end = page[..read].iter().position(|byte| *byte == 0);
            bytes.extend_from_slice(&page[..end.unwrap_or(read)]);
            if end.is_some() || read == 0 {
                break;
            }
        }
        Path::new(OsStr::from_bytes(&bytes)).to_owned()
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.gone.is_none() {
            // The child is not reaped yet, so its number is still its own.
            let _ = kill(self.pid, Signal::SIGKILL);
            let _ = self.reap();
        }
        self.timed_out();
    }
}

fn at_call(thread: Pid) -> Result<Stop> {
    let info = ptrace::syscall_info(thread).map_err(tracer("ask about a call"))?;
    if info.op != nix::libc::PTRACE_SYSCALL_INFO_ENTRY {
        return Ok(Stop::Exit);
    }
    Ok(Stop::Entry(registers::number(thread)?))
}

fn is_gone(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(crate::Errno::ESRCH as i32)
}

/// The signal that a stop must hand on to the program for it to be as if nobody watched.
fn passed_on(status: WaitStatus) -> Option<Signal> {
    match status {
        WaitStatus::Stopped(_, signal) => Some(signal),
        _ => None,
    }
}

/// Kills `pid` after `limit` unless it ended before; answers whether it had to.
fn guard(pid: Pid, limit: Duration) -> Result<JoinHandle<bool>> {
    let op = "open a pidfd";
    let raw = rustix::process::Pid::from_raw(pid.as_raw()).expect("a child's pid is positive");
    let pidfd: OwnedFd =
        pidfd_open(raw, PidfdFlags::empty()).map_err(|errno| Error::Tracer { op, source: errno.into() })?;
    let limit = limit.try_into().expect("a bound of seconds fits a timespec");
    Ok(std::thread::spawn(move || {
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit));
        ended == Ok(0) && pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).is_ok()
    }))
}

fn memory_file() -> Result<File> {
    rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(|errno| Error::Tracer { op: "make a file in memory", source: errno.into() })
}

fn clone_file(file: &File) -> Result<File> {
    file.try_clone().map_err(|source| Error::Tracer { op: "share a file in memory", source })
}

fn contents(file: &File) -> Vec<u8> {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let read = file.read_exact_at(&mut bytes, 0);
    if read.is_ok() { bytes } else { Vec::new() }
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{Number, Pid, Result, ptrace, tracer};

    pub(super) fn number(pid: Pid) -> Result<Number> {
        let regs = ptrace::getregs(pid).map_err(tracer("read registers"))?;
        let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
        Ok(Number { nr: regs.orig_rax.cast_signed(), args })
    }

    pub(super) fn answered(pid: Pid) -> Result<i64> {
        Ok(ptrace::getregs(pid).map_err(tracer("read registers"))?.rax.cast_signed())
    }

    pub(super) fn skip(pid: Pid) -> Result<()> {
        let mut regs = ptrace::getregs(pid).map_err(tracer("read registers"))?;
        regs.orig_rax = u64::MAX;
        ptrace::setregs(pid, regs).map_err(tracer("write registers"))
    }

    pub(super) fn answer(pid: Pid, errno: crate::Errno) -> Result<()> {
        let mut regs = ptrace::getregs(pid).map_err(tracer("read registers"))?;
        regs.rax = i64::from(-(errno as i32)).cast_unsigned();
        ptrace::setregs(pid, regs).map_err(tracer("write registers"))
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use super::{Number, Pid, Result, ptrace, tracer};

    pub(super) fn number(pid: Pid) -> Result<Number> {
        let regs = ptrace::getregs(pid).map_err(tracer("read registers"))?.regs;
        let args = [regs[0], regs[1], regs[2], regs[3], regs[4], regs[5]];
        Ok(Number { nr: regs[8].cast_signed(), args })
    }

    pub(super) fn answered(pid: Pid) -> Result<i64> {
        Ok(ptrace::getregs(pid).map_err(tracer("read registers"))?.regs[0].cast_signed())
    }

    // The number of a call that has begun lives in a register set of its own there.
    pub(super) fn skip(_: Pid) -> Result<()> {
        Err(crate::Error::Unsupported)
    }

    pub(super) fn answer(_: Pid, _: crate::Errno) -> Result<()> {
        Err(crate::Error::Unsupported)
    }
}
