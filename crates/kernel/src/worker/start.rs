//! Starting the program: its environment, its group or terminal, its death with ours.
//!
//! Promise: the program has exactly the environment of its spec and the kernel's names, default signals, its user's umask
//! and limit of open files, no descriptor but its three, and a SIGKILL waiting for the moment its worker dies.
#![expect(
    unsafe_code,
    reason = "code between fork and exec, and closing what was inherited; each has its paragraph"
)]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use netsky_disk::cgroup::{Door, Group};
use netsky_disk::process::identify_child;
use netsky_model::process::ProcessId;
use rustix::fs::Mode;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, getpid, getppid, ioctl_tiocsctty, set_parent_process_death_signal, setsid,
};

use super::pty;
use super::wires::Wires;
use crate::files;
use crate::log::say;
use crate::session::{self, Io, Meta, Spec};

/// A program that was started.
pub(super) struct Started {
    pub(super) id: ProcessId,
    /// For its process group and for waiting: it is our child, so the pid is its own until we reap it.
    pub(super) pid: Pid,
    pub(super) wires: Wires,
    /// Which holds all that it will start; none where none is to be had.
    pub(super) group: Option<Group>,
}

/// Start the program of a session, which may hold so many files open, in that group; the reason as one line for a person
/// if that fails. A group that cannot be had is said so and done without.
pub(super) fn start(meta: &Meta, files: Option<u64>, group: Option<Group>) -> Result<Started, String> {
    let spec = &meta.spec;
    let program = spec.argv.first().ok_or("the command line is empty")?;
    let cwd = &spec.cwd;
    if !cwd.is_dir() {
        return Err(format!("the working directory {} is no folder", cwd.display()));
    }
    if let Some(key) = spec.env.keys().find(|key| key.is_empty() || key.contains(['=', '\0'])) {
        return Err(format!("the environment has the impossible name {key:?}"));
    }
    let (group, opened) = in_group(group, |door| {
        let birth = Birth::new(&meta.spec, files);
        match spec.io {
            Io::Pty { rows, cols } => spawn_on_terminal(meta, birth, door, rows, cols),
            Io::Pipes => spawn_on_pipes(meta, birth, door),
        }
    });
    let (pid, wires) = opened.map_err(|e| format!("cannot start {program:?} in {}: {e}", cwd.display()))?;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("the system gave an impossible pid")?;
    let id = identify_child(pid.as_raw_nonzero().get().unsigned_abs())
        .ok_or("the program cannot be seen in /proc; is it mounted?")?;
    Ok(Started { id, pid, wires, group })
}

/// Starts a program in a group, or without one where that fails; the group if it is in there.
fn in_group<T>(
    group: Option<Group>,
    start: impl Fn(Option<&Door>) -> io::Result<T>,
) -> (Option<Group>, io::Result<T>) {
    let Some(group) = group else { return (None, start(None)) };
    let why = match group.make() {
        Ok(door) => match start(Some(&door)) {
            Ok(started) => return (Some(group), Ok(started)),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    // The group or the program: whoever fails without the group as well is told that and nothing of groups.
    let started = start(None);
    if started.is_ok() {
        say!("{} is not used: {why}", group.path().display());
    }
    let _ = group.remove();
    (None, started)
}

/// The program's whole environment.
fn environment(meta: &Meta) -> BTreeMap<String, String> {
    let mut env = meta.spec.env.clone();
    // Whoever wrote the spec may stand apart; the program does not, or no sweep would ever find it.
    env.remove(netsky_disk::env::APART);
    // What a spec has from the session that wrote it is that one's: another's handoff would be read, and its work done again.
    for own in [session::ENV_CONVERSATION, session::ENV_HANDOFF] {
        env.remove(own);
    }
    env.insert(session::ENV_NAME.to_owned(), meta.spec.name.to_string());
    env.insert(session::ENV_SESSION.to_owned(), meta.lineage.to_string());
    env.insert(session::ENV_GENERATION.to_owned(), meta.generation.to_string());
    env.insert(session::ENV_MARK.to_owned(), meta.mark());
    if let Some(root) = meta.socket.ancestors().nth(2).and_then(|root| root.to_str()) {
        env.insert(session::ENV_ROOT.to_owned(), root.to_owned());
    }
    if let Some(conversation) = &meta.conversation {
        env.insert(session::ENV_CONVERSATION.to_owned(), conversation.clone());
    }
    if let Some(handoff) = meta.handoff.as_ref().and_then(|path| path.to_str()) {
        env.insert(session::ENV_HANDOFF.to_owned(), handoff.to_owned());
    }
    if let Some(model) = &meta.spec.model {
        env.insert(session::ENV_MODEL.to_owned(), model.clone());
    }
    env
}

fn command(meta: &Meta) -> Command {
    let spec = &meta.spec;
    #[expect(clippy::disallowed_methods, reason = "the one place that starts a session's program")]
    let mut command = Command::new(&spec.argv[0]);
    command.args(&spec.argv[1..]).current_dir(&spec.cwd).env_clear().envs(environment(meta));
    command
}

/// What a program has from its worker and its user, once it is forked.
#[derive(Clone, Copy)]
struct Birth {
    worker: Pid,
    /// Its user's, where that is known.
    umask: Mode,
    files: Option<u64>,
}

impl Birth {
    fn new(spec: &Spec, files: Option<u64>) -> Birth {
        let umask = spec.umask.map_or(Mode::RWXG | Mode::RWXO, |mask| Mode::from_raw_mode(mask & 0o777));
        Birth { worker: getpid(), umask, files }
    }

    /// Makes the calling process what it says, with the system calls prctl, getppid, umask, getrlimit and setrlimit alone.
    fn take_on(self) -> io::Result<()> {
        die_with(self.worker)?;
        rustix::process::umask(self.umask);
        self.files.map_or(Ok(()), files::give_back)?;
        Ok(())
    }
}

/// Starts it in a group, or in that of the worker; its pid.
fn launch(command: &mut Command, door: Option<&Door>) -> io::Result<u32> {
    match door {
        // SAFETY: a worker has one thread.
        Some(door) => unsafe { door.start(command) },
        None => command.spawn().map(|child| child.id()),
    }
}

fn spawn_on_terminal(
    meta: &Meta,
    birth: Birth,
    door: Option<&Door>,
    rows: u16,
    cols: u16,
) -> io::Result<(u32, Wires)> {
    let pty = pty::open(rows, cols)?;
    let mut command = command(meta);
    command
        .stdin(Stdio::from(pty.slave.try_clone()?))
        .stdout(Stdio::from(pty.slave.try_clone()?))
        .stderr(Stdio::from(pty.slave));
    // SAFETY: between fork and exec the closure makes only system calls that are async-signal-safe (those of
    // `take_on`, setsid, ioctl) and allocates nothing. Descriptor 0 is the terminal by then: the standard library
    // puts the three streams in place before it runs this closure.
    unsafe {
        command.pre_exec(move || {
            birth.take_on()?;
            setsid()?;
            ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?;
            Ok(())
        });
    }
    let pid = launch(&mut command, door)?;
    // The command still holds the program's end of the terminal: it goes here, so that an end of output shows.
    Ok((pid, Wires::Terminal(pty.master)))
}

fn spawn_on_pipes(meta: &Meta, birth: Birth, door: Option<&Door>) -> io::Result<(u32, Wires)> {
    let mut command = command(meta);
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((its_stdin, stdin), (stdout, its_stdout), (stderr, its_stderr)) = (pipe()?, pipe()?, pipe()?);
    command.stdin(its_stdin).stdout(its_stdout).stderr(its_stderr).process_group(0);
    // SAFETY: as above; the closure makes only the system calls of `take_on`.
    unsafe {
        command.pre_exec(move || birth.take_on());
    }
    for end in [&stdin, &stdout, &stderr] {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    let pid = launch(&mut command, door)?;
    Ok((pid, Wires::Pipes { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr) }))
}

/// Ask for SIGKILL when the worker ends; refuse to go on if it already has.
fn die_with(worker: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A worker that died before the line above sends no signal any more.
    if getppid() == Some(worker) { Ok(()) } else { Err(io::Error::from_raw_os_error(3)) }
}

/// Close every descriptor but the three: a pipe or lock of whoever started us must not live as long as we do.
pub(super) fn close_inherited() -> io::Result<()> {
    let names: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in names {
        // SAFETY: this is the first thing the process does; nothing in it has opened or owns a descriptor yet,
        // so whatever is open was inherited and has no other owner here. The descriptor of the listing above was
        // closed since: asking for its flags tells so, and only what is open is closed.
        unsafe {
            if rustix::io::fcntl_getfd(BorrowedFd::borrow_raw(fd)).is_ok() {
                rustix::io::close(fd);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{
        ENV_CONVERSATION, ENV_GENERATION, ENV_HANDOFF, ENV_MARK, ENV_MODEL, ENV_NAME, ENV_ROOT, ENV_SESSION,
    };

    #[test]
    fn a_program_has_nothing_of_the_session_that_started_it() {
        let mut meta = Meta::parse(include_bytes!("../../samples/meta.v1.json")).expect("the sample loads");
        (meta.handoff, meta.conversation) = (None, None);
        for own in [ENV_HANDOFF, ENV_CONVERSATION] {
            meta.spec.env.insert(own.to_owned(), "another's".to_owned());
        }
        assert!(environment(&meta).values().all(|value| value != "another's"));
        // Nor does it come as far where its spec is written by one that stands apart.
        for own in [
            ENV_NAME,
            ENV_SESSION,
            ENV_GENERATION,
            ENV_MARK,
            ENV_ROOT,
            ENV_CONVERSATION,
            ENV_HANDOFF,
            ENV_MODEL,
        ] {
            assert!(netsky_disk::env::TREE.contains(&own), "{own}");
        }
    }
}
