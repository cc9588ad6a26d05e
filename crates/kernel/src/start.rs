//! Starting the kernel's own processes: an anchor on demand, a worker for each generation.
//!
//! Promise: neither is part of whoever starts it. Both stand apart ([`env::APART`]), with no descriptors of ours and no
//! environment mark of the session that happens to surround us, so that no sweep takes them for a part of it.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::spawn::Program;
use netsky_disk::{Error, Result, env};
use netsky_model::id::{AgentId, Generation};
use netsky_model::process::ProcessId;
use rustix::fs::{Access, AtFlags, CWD, OFlags};

use crate::files;

/// What anchors and workers are called, also where `netsky` stands in for a missing `ostk`: it goes by this name.
const NAME: &str = "ostk";
/// Milliseconds between two heartbeats, for tests that cannot wait for the usual ten seconds.
pub(crate) const ENV_HEARTBEAT: &str = "OSTK_HEARTBEAT_MS";
/// The usual time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Time between two heartbeats of a worker.
pub fn heartbeat_period() -> Duration {
    let asked = env::text(ENV_HEARTBEAT).and_then(|text| text.parse().ok());
    asked.map_or(HEARTBEAT, |ms: u64| Duration::from_millis(ms.max(1)))
}

/// The first pause before a session is brought back again; the next ones are made from it.
const PAUSE: Duration = Duration::from_secs(10);
/// The same in milliseconds, for tests that cannot wait for the usual ones.
const ENV_PAUSE: &str = "OSTK_REVIVE_MS";

/// The first pause before a session is brought back again.
pub(crate) fn first_pause() -> Duration {
    let asked = env::text(ENV_PAUSE).and_then(|text| text.parse().ok());
    asked.map_or(PAUSE, |ms: u64| Duration::from_millis(ms.max(1)))
}

/// Bytes of rows in one file of the journal. An anchor reads the newest file when it starts: so many take it a fifth of a
/// second, of the two in which every session is adopted.
const JOURNAL_LIMIT: u64 = 16 * 1024 * 1024;
/// The same, for tests that cannot write so many. Absent from release builds: an anchor that somebody starts by the way
/// keeps what it was given for all of its life.
const ENV_JOURNAL: &str = "OSTK_JOURNAL_BYTES";

/// How many bytes of rows a file of the journal has when it is sealed.
pub(crate) fn journal_limit() -> u64 {
    let asked = if cfg!(debug_assertions) { env::text(ENV_JOURNAL) } else { None };
    asked.and_then(|text| text.parse().ok()).unwrap_or(JOURNAL_LIMIT)
}

/// Starts `program serve` for a root, detached.
pub(crate) fn anchor(root: &Path, program: &Path) -> Result<ProcessId> {
    let layout = KernelLayout::new(root);
    Dir::make(layout.root())?;
    // Said here, to whoever asked: the anchor could only say it in its log, if that.
    rustix::fs::accessat(CWD, layout.root(), Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|e| Error::new("write in", layout.root(), e))?;
    let root = layout.root().to_str().ok_or_else(|| {
        Error::because("start an anchor for", layout.root(), "the path of a root is UTF-8 text")
    })?;
    Program {
        path: program.to_owned(),
        name: Some(NAME.to_owned()),
        args: ["serve", "--root", root].map(str::to_owned).to_vec(),
        // A fault that a test asked of the caller is not asked of its daemon.
        unset: ["NETSKY_FAULT", "NETSKY_FAULT_LOG"].map(str::to_owned).to_vec(),
        log: Some(layout.log()),
        ..Program::default()
    }
    .detach()
}

/// A worker that gets ready and touches nothing before it is let in; dropped, it ends.
pub(crate) struct Waiting(Option<Child>);

impl Waiting {
    /// Lets it in: its generation is reserved and nothing is left of those before.
    pub(crate) fn let_in(mut self) -> Child {
        let mut child = self.0.take().expect("it is taken by who has it, once");
        // One that has ended does not say that it is ready.
        let _ = child.stdin.take().map(|mut gate| gate.write_all(b"\n"));
        child
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It has started nothing and holds nothing; it is our own unreaped child, so its pid is its own.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Starts the worker of a generation that is about to be reserved, while that is made durable; its standard output is the
/// pipe it says on whether it is ready.
///
/// It is this very program, also when the file has been replaced since: a worker and the anchor that starts it agree.
pub(crate) fn worker(layout: &KernelLayout, name: &AgentId, generation: Generation) -> io::Result<Waiting> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the readiness line needs a pipe and the child must be waited for; std opens everything close-on-exec"
    )]
    let mut command = Command::new("/proc/self/exe");
    let log = Dir::open(layout.root())
        .and_then(|root| root.open_file("anchor.log", OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY))
        .map_err(io::Error::other)?;
    for key in env::TREE {
        command.env_remove(key);
    }
    command
        .arg0(NAME)
        .args(crate::worker::command_line(layout.root(), name, generation, files::inherited()))
        .args(crate::worker::GATE)
        .env(env::APART, "1")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map(|child| Waiting(Some(child)))
}
