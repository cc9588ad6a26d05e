//! Starting our own helper processes so that they outlive who started them, or are waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netsky_model::process::ProcessId;
use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::fs::UNTRUSTED;
use crate::{env, process, random, sweep};

/// Marks what an errand starts, so that all of it is found and ended with it.
const ERRAND: &str = "OSTK_ERRAND";
/// Longest that the end of an errand's tree is waited for once it was killed.
const SWEEP: Duration = Duration::from_secs(2);

/// The path of a program that is installed beside this one: `netsky`, `ostk`.
///
/// # Errors
/// The system does not say where this program is.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|e| Error::new("find", "this program", e))?;
    // After an upgrade in place the kernel adds a remark to the path; the new file is the one to start.
    let text = own.to_string_lossy();
    let own = PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned());
    Ok(own.with_file_name(name))
}

/// The program that serves as `ostk`: it, or where it is not installed `netsky`, which is both.
///
/// # Errors
/// As [`sibling`].
pub fn ostk() -> Result<PathBuf> {
    let ostk = sibling("ostk")?;
    if ostk.is_file() { Ok(ostk) } else { sibling("netsky") }
}

/// A program of ours to start.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The executable's path.
    pub path: PathBuf,
    /// What it is called, where one executable is several programs; its path if none.
    pub name: Option<String>,
    /// Arguments after the name.
    pub args: Vec<String>,
    /// Variables to set.
    pub set: BTreeMap<String, String>,
    /// Variables to take away.
    pub unset: Vec<String>,
    /// Whether its environment is only what is set here.
    pub bare: bool,
    /// Whether it makes files with the umask of the user, whose they are, and not with ours.
    pub users_umask: bool,
    /// Where it runs; in `/` if none.
    pub folder: Option<PathBuf>,
    /// Where its output goes, appended to; nowhere if none, or where that cannot be opened: what it does matters more.
    pub log: Option<PathBuf>,
}

/// A log, for both outputs; none of what cannot be appended to.
fn opened(path: &Path) -> Option<(File, File)> {
    // No pipe is waited for.
    let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | UNTRUSTED;
    let log = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).ok()?);
    let copy = log.try_clone().ok()?;
    Some((log, copy))
}

impl Program {
    /// The command with its environment and folder.
    pub(crate) fn plain(&self) -> Command {
        let mut command = Command::new(&self.path);
        if self.bare {
            command.env_clear();
        }
        let folder = self.folder.as_deref().unwrap_or(Path::new("/"));
        command.args(&self.args).envs(&self.set).current_dir(folder);
        for key in &self.unset {
            command.env_remove(key);
        }
        if let Some(name) = &self.name {
            command.arg0(name);
        }
        command
    }

    /// The command in a session of its own, with no standard input.
    fn command(&self) -> Result<Command> {
        let mut command = self.plain();
        command.stdin(Stdio::null());
        match self.log.as_deref().and_then(opened) {
            None => command.stdout(Stdio::null()).stderr(Stdio::null()),
            Some((log, copy)) => command.stdout(log).stderr(copy),
        };
        let umask = if self.users_umask { process::users_umask() } else { None };
        // SAFETY: between fork and exec only setsid and umask are called, which are async-signal-safe and
        // allocate nothing. The first fails only for a process group leader, which a fork is not.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                if let Some(umask) = umask {
                    rustix::process::umask(Mode::from_raw_mode(umask));
                }
                Ok(())
            });
        }
        Ok(command)
    }

    /// Start it detached: its end is nobody's business here, and it is no part of the caller's tree.
    ///
    /// # Errors
    /// The program cannot be started, or its identity not be learned; it does not run then.
    pub fn detach(&self) -> Result<ProcessId> {
        let mut command = self.command()?;
        for key in env::TREE {
            command.env_remove(key);
        }
        let mut child =
            command.env(env::APART, "1").spawn().map_err(|e| Error::new("start", &self.path, e))?;
        match process::identify_child_or_fail(child.id()) {
            // Dropping a std child neither waits nor kills.
            Ok(Some(id)) => Ok(id),
            // Ended, and waited for by whoever takes all children's statuses here.
            Ok(None) => process::here(child.id(), 0),
            Err(e) => {
                end(&mut child);
                Err(Error::new("look at what was started from", &self.path, e))
            }
        }
    }

    /// Run it to its end, at most `limit`; past that it is killed.
    ///
    /// # Errors
    /// It cannot be started or waited for; it does not run any more then.
    pub fn run(&self, limit: Duration) -> Result<Ended> {
        let mut child = self.command()?.spawn().map_err(|e| Error::new("start", &self.path, e))?;
        let waited = |e| Error::new("wait for", &self.path, e);
        match process::PidFd::of_child(&child).and_then(|held| held.wait(limit)) {
            Ok(true) => child.wait().map(|status| Ended::Exited(status.code())).map_err(waited),
            Ok(false) => {
                end(&mut child);
                Ok(Ended::TooLate)
            }
            // Without a limit it could run for ever.
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// Run it to its end, at most `limit`, with `input` as its standard input; returns with its end the first `most` bytes
    /// that it printed. Whatever it started, and left behind, ends with it.
    ///
    /// # Errors
    /// It cannot be started or waited for; it does not run any more then.
    pub fn errand(&self, input: &[u8], most: usize, limit: Duration) -> Result<(Ended, Vec<u8>)> {
        let mut command = self.command()?;
        let answer = self.converse(&mut command, input, Keep::Ends(most), limit, Leaves::Anything)?;
        Ok((answer.ended, answer.out.first))
    }

    /// As [`Program::errand`], and what it said of its errors is heard too.
    ///
    /// # Errors
    /// As [`Program::errand`].
    pub fn ask(&self, input: &[u8], keep: Keep, limit: Duration, leaves: Leaves) -> Result<Answer> {
        let mut command = self.command()?;
        command.stderr(Stdio::piped());
        self.converse(&mut command, input, keep, limit, leaves)
    }

    fn converse(
        &self,
        command: &mut Command,
        input: &[u8],
        keep: Keep,
        limit: Duration,
        leaves: Leaves,
    ) -> Result<Answer> {
        let mark = random::token();
        command.env(ERRAND, &mark).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| Error::new("start", &self.path, e))?;
        let piped = pipes(&mut child, input.to_vec(), keep);
        let waited = process::PidFd::of_child(&child).and_then(|held| held.wait(limit));
        let is_over = matches!(waited, Ok(true));
        // From below: what loses its parent would be nobody's descendant.
        let swept = if is_over { Ok(()) } else { sweep::sweep_descendants(child.id(), SWEEP).map(drop) };
        end(&mut child);
        let swept = match &piped {
            Ok((out, err)) if leaves == Leaves::Nothing && is_over && out.closes() && err.closes() => swept,
            _ => swept.and(sweep::sweep_marked(ERRAND, &mark, SWEEP).map(drop)),
        };
        let status = child.wait().map_err(|e| Error::new("wait for", &self.path, e))?;
        let (out, err) = piped.map_err(|e| Error::new("talk to", &self.path, e))?;
        swept?;
        let ended = if waited? { Ended::Exited(status.code()) } else { Ended::TooLate };
        Ok(Answer { ended, out: out.last_words(), err: err.last_words() })
    }
}

/// What is kept of each output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// So many bytes of its beginning and of its end; all of it is read.
    Ends(usize),
    /// All, at most so many bytes. Who says more is not listened to: its output is closed, which ends most programs.
    Whole(usize),
}

/// What a program may leave behind that was run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// Nothing once it ended by itself and its outputs are closed: one that is known to wait for what it starts. The
    /// processes of the machine are not looked through for it then, which would take longer than it does.
    Nothing,
    /// Whatever it likes: all of it is looked for and ended.
    Anything,
}

/// What a program said and how it ended.
#[derive(Debug, Clone)]
pub struct Answer {
    /// How it ended.
    pub ended: Ended,
    /// Its output.
    pub out: Heard,
    /// What it said of errors; nothing where that was not asked for.
    pub err: Heard,
}

/// What was heard of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Its beginning, as much as was asked for.
    pub first: Vec<u8>,
    /// Its end, where that is beyond it; as much again.
    pub last: Vec<u8>,
    /// Bytes between the two, which nobody kept.
    pub missed: u64,
}

impl Heard {
    /// Whether all of it is in `first`.
    pub fn is_whole(&self) -> bool {
        self.last.is_empty()
    }

    fn listen(mut stream: impl Read, keep: Keep) -> Heard {
        let mut heard = Heard::default();
        let (Keep::Ends(most) | Keep::Whole(most)) = keep;
        let _ = stream.by_ref().take(most as u64).read_to_end(&mut heard.first);
        let mut last = std::collections::VecDeque::new();
        let mut piece = [0; 8192];
        if let Keep::Whole(_) = keep {
            let more = stream.read(&mut piece).unwrap_or_default();
            heard.last = piece[..more].to_vec();
            return heard;
        }
        // Read on: a full pipe would stop it.
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            last.extend(&piece[..read]);
            let over = last.len().saturating_sub(most);
            heard.missed += over as u64;
            last.drain(..over);
        }
        heard.last = last.into();
        heard
    }
}

/// Who listens to one stream.
struct Listener {
    thread: JoinHandle<Heard>,
    /// Says nothing, and is closed at its end.
    end: Receiver<()>,
}

impl Listener {
    fn to(stream: Option<impl Read + Send + 'static>, keep: Keep) -> std::io::Result<Listener> {
        let (held, end) = mpsc::sync_channel(0);
        let listen = move || {
            let _held = held;
            stream.map_or_else(Heard::default, |stream| Heard::listen(stream, keep))
        };
        Ok(Listener { thread: thread::Builder::new().spawn(listen)?, end })
    }

    /// Whether a stream of what has ended is closed by all, soon.
    fn closes(&self) -> bool {
        self.end.recv_timeout(SWEEP) == Err(RecvTimeoutError::Disconnected)
    }

    /// What was read; nothing where somebody who could not be ended still holds the other end.
    fn last_words(self) -> Heard {
        if self.closes() { self.thread.join().unwrap_or_default() } else { Heard::default() }
    }
}

/// Feeds a child and reads it, each by a thread: one that neither reads nor ends holds nobody up.
fn pipes(child: &mut Child, input: Vec<u8>, keep: Keep) -> std::io::Result<(Listener, Listener)> {
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever does not want it need not read it.
        thread::Builder::new().spawn(move || drop(stdin.write_all(&input)))?;
    }
    Ok((Listener::to(child.stdout.take(), keep)?, Listener::to(child.stderr.take(), keep)?))
}

/// Ends a child and takes its status; both can only fail when it is gone already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// How a program that was waited for ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code; none if a signal ended it.
    Exited(Option<i32>),
    /// It was killed at its limit.
    TooLate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_where_its_log_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let [plain, link, pipe] = ["plain", "link", "pipe"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("/dev/null", &link).expect("made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .expect("made");
        for log in [plain.clone(), link, pipe, folder.path().to_owned()] {
            let args = vec!["-c".to_owned(), "echo said; exit 7".to_owned()];
            let program = Program { path: "/bin/sh".into(), args, log: Some(log), ..Program::default() };
            assert_eq!(program.run(Duration::from_secs(60)).expect("runs"), Ended::Exited(Some(7)));
        }
        assert_eq!(std::fs::read_to_string(plain).expect("made"), "said\n");
        assert!(opened(&folder.path().join("pipe")).is_none(), "what nobody reads is no log");
    }

    #[test]
    fn a12_who_says_more_than_is_kept_ends_by_that() {
        let program = |text: &str| {
            let args = vec!["-c".to_owned(), text.to_owned()];
            Program { path: "/bin/sh".into(), args, ..Program::default() }
        };
        let limit = Duration::from_secs(60);
        let ask =
            |text: &str| program(text).ask(b"", Keep::Whole(10_000), limit, Leaves::Nothing).expect("runs");
        let endless = ask("exec yes");
        assert_eq!(
            (endless.ended, endless.out.is_whole()),
            (Ended::Exited(None), false),
            "it did not wait for its limit"
        );
        let just = ask("head -c 10000 /dev/zero");
        assert_eq!((just.ended, just.out.is_whole()), (Ended::Exited(Some(0)), true));
    }
}
