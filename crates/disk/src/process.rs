//! Other processes, by identity: a pid is a number that the system hands out again (faults T8, A20).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use netsky_model::process::{Life, ProcessId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result};
use crate::namespace;
pub use crate::namespace::sees_all;
use crate::sys::simulated;

/// Most ancestors that are looked at: a bound where pids are handed on while we look.
const DEEPEST: usize = 256;

/// A thread that ends, and one of the kernel: `PF_EXITING` and `PF_KTHREAD` (`linux/sched.h`) in the flags of a `stat`.
const EXITING: u64 = 0x0000_0004;
const OF_KERNEL: u64 = 0x0020_0000;

/// The umask that this process was started with.
static INHERITED_UMASK: OnceLock<u32> = OnceLock::new();

/// Nothing this process makes is open to others, whatever umask it inherited; the first line of every `main`.
pub fn private_umask() {
    let inherited = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077)).as_raw_mode();
    // A second call would only see the first one's.
    let _ = INHERITED_UMASK.set(inherited);
}

/// The user's umask, as it was before [`private_umask`]: programs that we start for the user have a right to it.
pub fn users_umask() -> Option<u32> {
    INHERITED_UMASK.get().copied()
}

/// First 8 hex digits of the kernel's boot id; zeros where it cannot be read.
pub fn boot_id() -> &'static str {
    known_boot_id().unwrap_or("00000000")
}

/// The boot id, read once. Out of descriptors is no other boot: whoever judges by it must see the error.
pub(crate) fn known_boot_id() -> Result<&'static str> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    simulated!(world => Ok(world.boot_id()));
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot);
    }
    let text = match crate::seam::boot_id() {
        Some(text) => text,
        None => std::fs::read_to_string(PATH).map_err(|e| Error::new("read", PATH, e))?,
    };
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    if hex.len() != 8 {
        return Err(Error::because("read", PATH, "it is no boot id"));
    }
    Ok(BOOT.get_or_init(|| hex))
}

fn own_pid() -> u32 {
    simulated!(world => world.pid());
    std::process::id()
}

/// This process, for tests; a program takes [`identity`].
///
/// # Panics
/// If `/proc` cannot be read, as without a free descriptor.
pub fn me() -> ProcessId {
    identity().expect("this process runs, so /proc knows it")
}

/// This process, by what must be true before its name may stand in a claim.
///
/// # Errors
/// `/proc` cannot be read.
pub fn identity() -> Result<ProcessId> {
    let (boot_id, ns) = (known_boot_id()?.to_owned(), namespace::own()?);
    let pid = own_pid();
    let path = stat_path(pid);
    let stat = Stat::look(pid).map_err(|e| Error::new("read", &path, e))?;
    let stat = stat.ok_or_else(|| Error::because("read", &path, "it does not know this process"))?;
    Ok(ProcessId { pid, start_time: stat.start_time, boot_id, ns })
}

/// The process that has a pid now; none if there is none, or only a zombie of it.
pub fn identify(pid: u32) -> Option<ProcessId> {
    identify_or_fail(pid).ok().flatten()
}

/// As [`identify`], for whoever must not take a failed look for a process that is not there.
pub(crate) fn identify_or_fail(pid: u32) -> std::io::Result<Option<ProcessId>> {
    Ok(look_at(pid)?.map(|(id, _)| id))
}

/// The same with what the look has shown.
pub(crate) fn look_at(pid: u32) -> std::io::Result<Option<(ProcessId, Stat)>> {
    let Some(stat) = seen(pid)?.filter(|stat| !stat.zombie) else { return Ok(None) };
    let id = here(pid, stat.start_time).map_err(std::io::Error::other)?;
    Ok(Some((id, stat)))
}

/// Our own child, also if it has ended and was not waited for yet.
pub fn identify_child(pid: u32) -> Option<ProcessId> {
    identify_child_or_fail(pid).ok().flatten()
}

/// As [`identify_child`], for whoever must not take a failed look for a child that is not there.
pub(crate) fn identify_child_or_fail(pid: u32) -> std::io::Result<Option<ProcessId>> {
    let stat = seen(pid)?.filter(|stat| stat.parent == std::process::id());
    stat.map(|stat| here(pid, stat.start_time)).transpose().map_err(std::io::Error::other)
}

/// The process that has a pid in our namespace, and not in another one that `/proc` might show.
fn seen(pid: u32) -> std::io::Result<Option<Stat>> {
    namespace::own().map_err(std::io::Error::other)?;
    Stat::look(pid)
}

/// An identity in this boot and namespace; with a start time of 0 it is nobody's, so a process that is gone.
pub(crate) fn here(pid: u32, start_time: u64) -> Result<ProcessId> {
    Ok(ProcessId { pid, start_time, boot_id: boot_id().to_owned(), ns: namespace::own()? })
}

/// What is known of a process from its identity. Dead is only who is proved dead: a look that fails proves nothing.
pub fn probe(id: &ProcessId) -> Life {
    let Ok(boot) = known_boot_id() else { return Life::Unknown };
    // Another boot ended everything of the earlier one, in whatever namespace it was.
    if id.boot_id != boot {
        return Life::Dead;
    }
    match namespace::own() {
        Ok(own) if own == id.ns => {}
        Ok(_) => return namespace::probe_foreign(id),
        Err(_) => return Life::Unknown,
    }
    match Stat::look(id.pid) {
        Ok(Some(now)) if !now.zombie && now.start_time == id.start_time => Life::Alive,
        Ok(_) => Life::Dead,
        Err(_) => Life::Unknown,
    }
}

/// Whether that very process is seen to run. False proves nothing: where its death matters, ask [`probe`].
pub fn is_alive(id: &ProcessId) -> bool {
    probe(id) == Life::Alive
}

/// Whether that very process is seen to be stopped: it hears no signal but the last one.
pub fn is_stopped(id: &ProcessId) -> bool {
    // In another namespace the number is somebody else's.
    let here = namespace::own().is_ok_and(|own| own == id.ns);
    here && is_alive(id) && matches!(Stat::look(id.pid), Ok(Some(now)) if now.stopped)
}

/// A process and all it descends from, itself first, as far as can be seen.
pub fn lineage(pid: u32) -> Vec<ProcessId> {
    let (mut found, mut next) = (Vec::new(), pid);
    while found.len() < DEEPEST && next > 1 {
        let Ok(Some(stat)) = Stat::look(next) else { break };
        let Ok(id) = here(next, stat.start_time) else { break };
        found.push(id);
        next = stat.parent;
    }
    found
}

/// The fields of `/proc/<pid>/stat` that matter here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    /// Ended as a whole. Of a process whose main thread has ended, and another one runs, the state is that of a zombie too.
    pub(crate) zombie: bool,
    /// Whether it has other threads than the main one.
    pub(crate) threaded: bool,
    /// Whether this thread is one of the kernel, or on its way out: it has no program, and none will come.
    pub(crate) without_program: bool,
    pub(crate) stopped: bool,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) start_time: u64,
    /// Whether there is a place for its environment: not so in the middle of an exec, nor where we may not trace it.
    pub(crate) has_environment: bool,
}

impl Stat {
    /// The process that has a pid now; an error when that cannot be known.
    pub(crate) fn look(pid: u32) -> std::io::Result<Option<Stat>> {
        simulated!(world => {
            let (zombie, threaded, without_program, stopped) = (false, false, false, false);
            let (parent, group, has_environment) = (1, pid, true);
            let stat = |start_time| {
                Stat { zombie, threaded, without_program, stopped, parent, group, start_time, has_environment }
            };
            Ok(world.started(pid).map(stat))
        });
        Stat::read(&stat_path(pid))
    }

    /// The same of one of its threads, by the folder that shows it.
    pub(crate) fn of_thread(folder: &Path) -> std::io::Result<Option<Stat>> {
        Stat::read(&folder.join("stat"))
    }

    /// Whether it is known to have no memory any more, or never had any: gone, or of the kernel.
    pub(crate) fn is_hollow(&self) -> bool {
        self.zombie || self.without_program && !self.threaded
    }

    /// Whether its main thread has ended, or is about to, and another one is there.
    pub(crate) fn is_headless(&self) -> bool {
        self.threaded && self.without_program
    }

    fn read(place: &Path) -> std::io::Result<Option<Stat>> {
        let text = match std::fs::read(place) {
            Ok(text) => text,
            Err(e) if is_gone(&e) => return Ok(None),
            Err(e) => return Err(e),
        };
        Stat::parse(&text).map(Some).ok_or_else(|| std::io::Error::other("not in the known form"))
    }

    fn parse(text: &[u8]) -> Option<Stat> {
        // The program's name stands in parentheses and may hold any byte, these too.
        let tail = &text[text.iter().rposition(|b| *b == b')')? + 1..];
        let tail = String::from_utf8_lossy(tail);
        let fields: Vec<&str> = tail.split_whitespace().collect();
        // A thread that has ended is counted as long as it is listed: for the main one that is until the last has ended.
        let threaded = fields.get(17)?.parse::<u64>().ok()? > 1;
        Some(Stat {
            zombie: matches!(*fields.first()?, "Z" | "X" | "x") && !threaded,
            threaded,
            without_program: fields.get(6)?.parse::<u64>().ok()? & (EXITING | OF_KERNEL) != 0,
            stopped: matches!(*fields.first()?, "T" | "t"),
            parent: fields.get(1)?.parse().ok()?,
            // None, said as -1, of one that is just being taken out of the list.
            group: fields.get(2)?.parse().unwrap_or(0),
            start_time: fields.get(19)?.parse().ok()?,
            // `env_end`.
            has_environment: fields.get(48).is_some_and(|end| *end != "0"),
        })
    }
}

/// Whether a look into `/proc/<pid>` says that there is no such process; it may also end between opening and reading.
pub(crate) fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

fn stat_path(pid: u32) -> std::path::PathBuf {
    Path::new("/proc").join(pid.to_string()).join("stat")
}

/// A handle on one process that cannot come to mean another.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    pid: u32,
}

impl PidFd {
    /// Take hold of a process; none if it is proved gone, or must not be signalled.
    ///
    /// # Errors
    /// The system has no descriptors left or no pidfds; or whether it is gone cannot be known from here.
    pub fn open(id: &ProcessId) -> Result<Option<PidFd>> {
        let Some(pid) = killable(id.pid) else { return Ok(None) };
        let unknown = |why| Err(Error::because("take hold of process", id.pid.to_string(), why));
        // Its number is somebody else's here.
        if id.boot_id == known_boot_id()? && id.ns != namespace::own()? {
            return match namespace::probe_foreign(id) {
                Life::Dead => Ok(None),
                Life::Alive | Life::Unknown => unknown("it is in another pid namespace"),
            };
        }
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Some(fd),
            // No such number, or that of a thread by now, which is no process (which of the two errors depends on the kernel).
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => None,
            Err(e) => return Err(Error::new("take hold of process", id.pid.to_string(), e)),
        };
        // The pid may have been handed on before we held it; from here on it cannot be.
        match probe(id) {
            Life::Alive => Ok(fd.map(|fd| PidFd { fd, pid: id.pid })),
            Life::Dead => Ok(None),
            Life::Unknown => unknown("whether it runs cannot be known from here"),
        }
    }

    /// Take hold of our own child that was not waited for: its number is nobody else's until then.
    ///
    /// # Errors
    /// The system has no descriptors left or no pidfds.
    pub(crate) fn of_child(child: &std::process::Child) -> Result<PidFd> {
        let failed = |e| Error::new("take hold of process", child.id().to_string(), e);
        let pid =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| failed(Errno::SRCH))?;
        let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
        Ok(PidFd { fd, pid: child.id() })
    }

    /// Send a signal; false if the process is gone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn signal(&self, signal: Signal) -> Result<bool> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(e) => Err(Error::new("signal process", self.pid.to_string(), e)),
        }
    }

    /// Send a signal to everybody in the group that the process leads; false if it is gone, and its number with it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn signal_group(&self, signal: Signal) -> Result<bool> {
        // As long as it lives nobody else can have its number; who ends in this very moment is not waited for yet.
        let Some(pid) = killable(self.pid).filter(|_| matches!(self.wait(Duration::ZERO), Ok(false))) else {
            return Ok(false);
        };
        match rustix::process::kill_process_group(pid, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(e) => Err(Error::new("signal the group of", self.pid.to_string(), e)),
        }
    }

    /// Wait for its end; false if it still runs after `limit`.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&self, limit: Duration) -> Result<bool> {
        let until = crate::clock::boot() + limit;
        loop {
            let left = until.saturating_sub(crate::clock::boot());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::new("wait for process", self.pid.to_string(), e)),
            }
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<PidFd> for OwnedFd {
    fn from(held: PidFd) -> OwnedFd {
        held.fd
    }
}

/// Send a signal to that very process; false if it is gone.
///
/// # Errors
/// The system refuses.
pub fn signal(id: &ProcessId, signal: Signal) -> Result<bool> {
    match PidFd::open(id)? {
        Some(held) => held.signal(signal),
        None => Ok(false),
    }
}

/// Send a signal to the process group that a child of ours leads; false if the child was waited for already.
///
/// Safe from reuse: as long as the child is there, dead or alive, nobody else can have its number.
///
/// # Errors
/// The system refuses.
pub fn signal_group_of_child(child: &ProcessId, signal: Signal) -> Result<bool> {
    let Some(pid) = killable(child.pid).filter(|_| identify_child(child.pid).as_ref() == Some(child)) else {
        return Ok(false);
    };
    match rustix::process::kill_process_group(pid, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(e) => Err(Error::new("signal the group of", child.pid.to_string(), e)),
    }
}

/// Whether any process is in the group of that number; a hint for how long to wait, not a proof of who it is.
pub fn group_exists(leader: u32) -> bool {
    killable(leader).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
}

/// A pid that may be signalled: never init, a group, everything, or ourselves.
fn killable(pid: u32) -> Option<Pid> {
    let raw = i32::try_from(pid).ok()?;
    (raw > 1 && pid != std::process::id()).then(|| Pid::from_raw(raw))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_being_taken_out_of_the_list_is_known_to_have_ended() {
        let line = b"4242 (a b) c) X 0 -1 -1 0 -1 4227084 0 0 0 0 0 0 0 0 20 0 0 0 99100 0 0";
        let stat = Stat::parse(line).expect("in the known form");
        assert!(stat.is_hollow());
        assert_eq!((stat.group, stat.start_time), (0, 99100));
    }

    #[test]
    fn t8_a_pid_with_another_start_is_dead_and_a_foreign_namespace_is_unknown() {
        let me = me();
        assert_eq!(probe(&me), Life::Alive);
        assert_eq!(probe(&ProcessId { start_time: me.start_time + 1, ..me.clone() }), Life::Dead);
        assert_eq!(probe(&ProcessId { boot_id: "ffffffff".to_owned(), ..me.clone() }), Life::Dead);
        // Where every process is seen, that nobody is in such a namespace is seen too.
        let foreign = if sees_all() { Life::Dead } else { Life::Unknown };
        assert_eq!(probe(&ProcessId { ns: me.ns + 1, ..me }), foreign);
    }

    #[test]
    fn t8_a_process_of_a_foreign_namespace_is_not_answered_to_be_gone() {
        let me = me();
        let parent = std::os::unix::process::parent_id();
        for pid in [parent.max(2), u32::MAX >> 2] {
            let foreign = ProcessId { pid, ns: me.ns + 1, ..me.clone() };
            let (held, signalled) = (PidFd::open(&foreign), signal(&foreign, Signal::CONT));
            if sees_all() {
                assert!(held.expect("it is known").is_none() && !signalled.expect("it is known"), "{pid}");
            } else {
                assert!(held.is_err() && signalled.is_err(), "{pid}");
            }
        }
        let gone = ProcessId { pid: u32::MAX >> 2, ..me };
        assert!(PidFd::open(&gone).expect("it is known").is_none());
    }

    #[test]
    fn t8_a_number_that_is_a_threads_by_now_is_no_process() {
        let me = me();
        let ended = std::thread::spawn(move || {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            let gone = ProcessId { pid: u32::try_from(thread).expect("a number"), start_time: 1, ..me };
            (PidFd::open(&gone).map(|held| held.is_none()), signal(&gone, Signal::CONT))
        });
        let (is_gone, signalled) = ended.join().expect("it looked");
        assert!(is_gone.expect("it is known") && !signalled.expect("it is known"));
    }

    #[test]
    fn a20_init_and_ourselves_cannot_be_signalled() {
        let me = me();
        for pid in [0, 1, me.pid, u32::MAX] {
            assert_eq!(killable(pid), None, "{pid}");
        }
        assert!(!signal(&ProcessId { pid: 1, ..me }, Signal::KILL).expect("refused quietly"));
    }
}
