//! Ending whole process trees: no process of a dead incarnation may live on (faults T12, I11).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use netsky_model::process::ProcessId;
use rustix::fs::{Mode, OFlags};

use crate::clock;
use crate::error::{Error, Result};
use crate::namespace;
use crate::process::{PidFd, Signal, Stat, identify_or_fail, is_gone};

/// Start of the entry that says "apart".
const APART: &[u8] = b"OSTK_APART=";
/// Pause between two looks while killed processes end.
const LOOK: Duration = Duration::from_millis(5);

/// Pause between two looks at a process without an environment, which may be in the middle of an exec …
const EXEC: Duration = Duration::from_millis(2);
/// … and how many: one that was started with none is taken for that after them. A thread of the kernel has no program.
const LOOKS: u32 = 10;

/// Bytes of an environment that are read at once; nearly all are smaller.
const ENVIRON: usize = 16 * 1024;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many processes were killed.
    pub killed: usize,
    /// Who still lived at the deadline.
    pub left: Vec<ProcessId>,
}

/// Every process of this pid namespace, and of those below it.
pub(crate) fn pids() -> Result<Vec<u32>> {
    namespace::own()?;
    let entries = std::fs::read_dir("/proc").map_err(|e| Error::new("list processes in", "/proc", e))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Processes whose environment, as they were started, holds `key=value`; never ourselves.
///
/// A program can wipe its own environment; what it starts afterwards is then not found here, but is
/// by [`descendants`] as long as its ancestor lives.
///
/// # Errors
/// `/proc` cannot be listed or looked into.
pub fn marked(key: &str, value: &str) -> Result<Vec<ProcessId>> {
    let mark = format!("{key}={value}");
    let (mut found, mut room) = (Vec::new(), Vec::new());
    for pid in pids()? {
        if pid == std::process::id() || is_seen_without(pid, mark.as_bytes(), &mut room) {
            continue;
        }
        let Some(id) = looked(pid, identify_or_fail(pid))? else { continue };
        if has_variable(pid, |entry| entry == mark.as_bytes())? {
            found.push(id);
        }
    }
    Ok(found)
}

/// A process and what it has of the variables that were asked for.
pub type Environment = (ProcessId, BTreeMap<String, String>);

/// Processes that were started with any of `keys` in their environment; never ourselves.
///
/// # Errors
/// `/proc` cannot be listed or looked into.
pub fn environments(keys: &[&str]) -> Result<Vec<Environment>> {
    let mut found = Vec::new();
    for pid in pids()? {
        if pid == std::process::id() {
            continue;
        }
        let Some(id) = looked(pid, identify_or_fail(pid))? else { continue };
        let mut values = BTreeMap::new();
        for entry in environ(pid)?.split(|b| *b == 0) {
            let Some((key, value)) = std::str::from_utf8(entry).ok().and_then(|entry| entry.split_once('='))
            else {
                continue;
            };
            if keys.contains(&key) {
                values.insert(key.to_owned(), value.to_owned());
            }
        }
        // The pid may have been handed on between the two looks: then this is nobody's environment.
        if !values.is_empty() && looked(pid, identify_or_fail(pid))?.as_ref() == Some(&id) {
            found.push((id, values));
        }
    }
    Ok(found)
}

/// Whether one look shows that a process was started without such an entry: so it is with nearly all of a machine's, and a
/// start that looks at hundreds of them takes a fifth of the time. Whatever it is not sure of it denies.
fn is_seen_without(pid: u32, entry: &[u8], room: &mut Vec<u8>) -> bool {
    let place = format!("/proc/{pid}/environ");
    let file = match rustix::fs::open(place, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        // Who is gone, a thread of the kernel where that says so, and whose main thread alone has ended.
        Err(e) => return is_gone(&e.into()) && is_seen_hollow(pid),
    };
    room.clear();
    loop {
        room.reserve(ENVIRON);
        match rustix::io::read(&file, rustix::buffer::spare_capacity(room)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    if room.is_empty() {
        // A thread of the kernel elsewhere; what has a program may be in the middle of an exec.
        return std::fs::read_link(format!("/proc/{pid}/exe")).is_err() && is_seen_hollow(pid);
    }
    room.split(|b| *b == 0).all(|has| has != entry)
}

/// Whether a process that shows no memory has none indeed.
fn is_seen_hollow(pid: u32) -> bool {
    Stat::look(pid).is_ok_and(|stat| stat.is_none_or(|stat| stat.is_hollow()))
}

/// A variable of the environment that a process was started with; none where that cannot be seen.
pub fn environment_of(pid: u32, key: &str) -> Option<String> {
    let environ = environ(pid).ok()?;
    let entries = environ.split(|b| *b == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let (_, value) = entries.filter_map(|entry| entry.split_once('=')).find(|(name, _)| *name == key)?;
    Some(value.to_owned())
}

/// Whether the environment that a process was started with has an entry.
fn has_variable(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> Result<bool> {
    Ok(environ(pid)?.split(|b| *b == 0).any(wanted))
}

/// Whether a process is seen to have been started to stand apart. One in the middle of an exec is not waited for: it is a
/// daemon's start, which whoever wants the daemon tries again.
pub(crate) fn is_apart(pid: u32) -> Result<bool> {
    Ok(environ_in(pid, 1)?.split(|b| *b == 0).any(|entry| entry.starts_with(APART)))
}

/// The environment that a process was started with; empty for one that is gone, of another user, or closed to
/// everybody but root (ssh-agent makes itself so): SECURITY.md says what that means.
fn environ(pid: u32) -> Result<Vec<u8>> {
    environ_in(pid, LOOKS)
}

fn environ_in(pid: u32, looks: u32) -> Result<Vec<u8>> {
    let failed = |e| Error::new("look at process", pid.to_string(), e);
    let place = Path::new("/proc").join(pid.to_string());
    for look in 1..=looks {
        match Memory::shown_at(&place).map_err(failed)? {
            Memory::Environment(environ) => return Ok(environ),
            Memory::Bare if is_known_to_have_none(&place) => break,
            // Between two programs, in the middle of an exec, a process has none for a moment: it must not be spared for that.
            Memory::Bare => {}
            Memory::None => match Stat::look(pid).map_err(failed)? {
                None => break,
                Some(stat) if stat.is_hollow() => break,
                Some(_) => {
                    if let Some(environ) = environ_of_threads(&place).map_err(failed)? {
                        return Ok(environ);
                    }
                }
            },
        }
        if look < looks {
            clock::pause(EXEC);
        }
    }
    Ok(Vec::new())
}

/// The environment of a process whose main thread has ended: its threads have one memory together. None where no thread
/// that is listed has it any more.
fn environ_of_threads(place: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let threads = match std::fs::read_dir(place.join("task")) {
        Err(e) if is_gone(&e) => return Ok(None),
        threads => threads?,
    };
    for thread in threads.flatten() {
        match Memory::shown_at(&thread.path())? {
            Memory::Environment(environ) => return Ok(Some(environ)),
            Memory::Bare if is_known_to_have_none(&thread.path()) => return Ok(Some(Vec::new())),
            Memory::Bare | Memory::None => {}
        }
    }
    Ok(None)
}

/// What one look shows of the memory of a process, or of a thread.
enum Memory {
    /// It has one, with this in it; empty where it is closed to us.
    Environment(Vec<u8>),
    /// It has one, and there is no environment in it, or none yet.
    Bare,
    /// It has none: it is gone, in the kernel, or ended while other threads of its process may run.
    None,
}

impl Memory {
    /// A look into a folder below `/proc`.
    fn shown_at(place: &Path) -> std::io::Result<Memory> {
        match std::fs::read(place.join("environ")) {
            Ok(environ) if !environ.is_empty() => Ok(Memory::Environment(environ)),
            Ok(_) if std::fs::read_link(place.join("exe")).is_ok() => Ok(Memory::Bare),
            // On older kernels that of a thread without memory opens, and is empty.
            Ok(_) => Ok(Memory::None),
            Err(e) if is_gone(&e) => Ok(Memory::None),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Ok(Memory::Environment(Vec::new())),
            Err(e) => Err(e),
        }
    }
}

/// Whether a process or a thread whose environment reads as empty was started with none.
fn is_known_to_have_none(place: &Path) -> bool {
    matches!(Stat::of_thread(place), Ok(Some(stat)) if stat.has_environment)
}

/// A look that failed must not pass for a process that is not there: somebody would be spared. Only what the system hides
/// from us (`hidepid`) because it is another user's is none of ours.
fn looked<T>(pid: u32, look: std::io::Result<Option<T>>) -> Result<Option<T>> {
    match look {
        Err(e) if is_hidden(&e, owner(pid), crate::env::user()) => Ok(None),
        look => look.map_err(|e| Error::new("look at process", pid.to_string(), e)),
    }
}

fn is_hidden(error: &std::io::Error, owner: Option<u32>, us: u32) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied && owner != Some(us)
}

/// Whose a process is; root's, if it is closed to everybody else.
fn owner(pid: u32) -> Option<u32> {
    rustix::fs::stat(Path::new("/proc").join(pid.to_string())).ok().map(|stat| stat.st_uid)
}

/// Everything below a process, parents before children; not the process itself.
///
/// What was started to stand apart ([`crate::env::APART`]) is passed by with all that is below it: an anchor
/// that an agent's command happened to start, and its workers, are no part of that agent.
///
/// # Errors
/// `/proc` cannot be listed or looked into.
pub fn descendants(of: u32) -> Result<Vec<ProcessId>> {
    below(of, false)
}

/// Everything below a process; with `apart` also what says of itself that it stands apart.
fn below(of: u32, apart: bool) -> Result<Vec<ProcessId>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in pids()? {
        if let Some(stat) = looked(pid, Stat::look(pid))? {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![of];
    while let Some(parent) = open.pop() {
        // Taking the list away ends the walk even if pids were handed on while we looked.
        for child in children.remove(&parent).unwrap_or_default() {
            if !apart && has_variable(child, |entry| entry.starts_with(APART))? {
                continue;
            }
            found.extend(looked(child, identify_or_fail(child))?);
            open.push(child);
        }
    }
    Ok(found)
}

/// Whether anybody lives in the process group of that number; who has ended and was not waited for does not.
///
/// # Errors
/// `/proc` cannot be listed or looked into.
pub fn group_lives(leader: u32) -> Result<bool> {
    for pid in pids()? {
        if looked(pid, Stat::look(pid))?.is_some_and(|stat| stat.group == leader && !stat.zombie) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Kill everything that bears an environment mark until nothing does.
///
/// # Errors
/// `/proc` cannot be listed or a signal is refused. Survivors at the deadline are not an error here:
/// they are named.
pub fn sweep_marked(key: &str, value: &str, limit: Duration) -> Result<Swept> {
    sweep(limit, || marked(key, value))
}

/// The same, and everything below those that bear it: what they started may bear nothing any more.
///
/// # Errors
/// As [`sweep_marked`].
pub fn sweep_marked_trees(key: &str, value: &str, limit: Duration) -> Result<Swept> {
    sweep(limit, || {
        let marked = marked(key, value)?;
        let below = marked.iter().map(|id| below(id.pid, true)).collect::<Result<Vec<_>>>()?.concat();
        // They first: below whoever is gone nobody is found.
        Ok(if below.is_empty() { marked } else { below })
    })
}

/// Kill everything whose environment holds all of these entries until nothing does.
///
/// # Errors
/// As [`sweep_marked`].
pub fn sweep_bearing(entries: &[(&str, &str)], limit: Duration) -> Result<Swept> {
    let keys: Vec<&str> = entries.iter().map(|(key, _)| *key).collect();
    sweep(limit, || {
        let mut found = environments(&keys)?;
        found.retain(|(_, values)| {
            entries.iter().all(|(key, value)| values.get(*key).is_some_and(|v| v == value))
        });
        Ok(found.into_iter().map(|(id, _)| id).collect())
    })
}

/// Kill everything below a process until nothing is.
///
/// # Errors
/// As [`sweep_marked`].
pub fn sweep_descendants(of: u32, limit: Duration) -> Result<Swept> {
    sweep(limit, || descendants(of))
}

/// Kill everything below a process, also what says that it stands apart: of whom nobody trusts, nothing stays.
///
/// # Errors
/// As [`sweep_marked`].
pub fn sweep_below(of: u32, limit: Duration) -> Result<Swept> {
    sweep(limit, || below(of, true))
}

/// Look, kill, look again: what forks while it is swept is found by the next look.
fn sweep(limit: Duration, look: impl Fn() -> Result<Vec<ProcessId>>) -> Result<Swept> {
    let until = clock::boot() + limit;
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let left = look()?;
        if left.is_empty() || clock::boot() >= until {
            return Ok(Swept { killed: killed.len(), left });
        }
        for id in &left {
            if let Some(held) = PidFd::open(id)? {
                held.signal(Signal::KILL)?;
                killed.insert((id.pid, id.start_time));
            }
        }
        clock::pause(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::process;

    #[test]
    fn a_process_that_was_started_with_an_empty_environment_is_known_as_that() {
        let mut bare = std::process::Command::new("/bin/sleep");
        let mut child = bare.arg("1000").env_clear().spawn().expect("it starts");
        let place = Path::new("/proc").join(child.id().to_string());
        let becomes = |known: bool| {
            let until = clock::boot() + Duration::from_secs(20);
            while is_known_to_have_none(&place) != known && clock::boot() < until {
                clock::pause(EXEC);
            }
            is_known_to_have_none(&place) == known
        };
        assert!(becomes(true));
        child.kill().expect("ours");
        // A zombie has no memory, and so no place for one: it looks as one in the middle of an exec does.
        assert!(becomes(false));
        child.wait().expect("ours");
    }

    #[test]
    fn who_has_an_entry_is_never_seen_without_it_wherever_it_stands_nor_who_shows_none() {
        let started = |entries: &[(&str, &str)]| {
            let mut command = std::process::Command::new("/bin/cat");
            command.env_clear().envs(entries.iter().copied());
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().expect("it starts");
            // What it gives back shows that it is past its exec.
            child.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it reads");
            child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it is back");
            child
        };
        let long = "x".repeat(3 * ENVIRON);
        for (entries, without) in [
            (vec![("A", "1"), ("MARK", "m"), ("Z", "2")], false),
            (vec![("A", &*long), ("MARK", "m")], false),
            (vec![("MARK", "m"), ("Z", &*long)], false),
            (vec![("MARK", "mm"), ("XMARK", "m")], true),
            // Without any it may be in the middle of an exec.
            (vec![], false),
        ] {
            let mut child = started(&entries);
            let mut room = b"MARK=m\0 of the one before".to_vec();
            assert_eq!(is_seen_without(child.id(), b"MARK=m", &mut room), without, "{entries:?}");
            child.kill().expect("ours");
            child.wait().expect("ours");
            assert!(is_seen_without(child.id(), b"MARK=m", &mut room), "it is gone");
        }
    }

    #[test]
    fn what_is_hidden_is_another_users_and_every_other_failure_is_one() {
        let errno = std::io::Error::from_raw_os_error;
        for denied in [1, 13] {
            assert!(is_hidden(&errno(denied), Some(0), 1000), "hidepid");
            assert!(is_hidden(&errno(denied), None, 1000), "gone by now");
            assert!(!is_hidden(&errno(denied), Some(1000), 1000), "ours must be seen");
        }
        for starved in [24, 23, 12] {
            assert!(!is_hidden(&errno(starved), Some(0), 1000), "no descriptor, no memory");
        }
    }

    #[test]
    fn t19_what_a_marked_process_started_goes_with_it_though_it_bears_nothing() {
        let (key, value) = ("NETSKY_SWEEP_TREES", crate::random::short());
        let mut marked = std::process::Command::new("/bin/sh");
        let marked = marked.args(["-c", "env -i /bin/sleep 1000 & echo $!; wait"]).env(key, &value);
        let mut marked = marked.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let out = marked.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).expect("said");
        let bare = process::identify(said.trim().parse().expect("a pid")).expect("it lives");
        let swept = sweep_marked_trees(key, &value, Duration::from_secs(20)).expect("swept");
        assert!(swept.left.is_empty(), "{swept:?}");
        marked.wait().expect("ours");
        assert_eq!(process::probe(&bare), netsky_model::process::Life::Dead);
    }
}
