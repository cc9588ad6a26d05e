//! A throwaway kernel root with a real anchor and real sessions, and everything of it ended afterwards.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::{clock, sweep};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Event, EventKind, Guard, SessionView};
use netsky_kernel::session::{ENV_MARK, ENV_SESSION, Io, Keeper, Spec, mark};
use netsky_model::id::{AgentId, LineageId};
use netsky_model::process::ProcessId;

/// Longest wait for anything here; reached only by a failure.
pub(crate) const LONG: Duration = Duration::from_secs(90);
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kernel-under-test");

pub(crate) struct World {
    pub(crate) root: PathBuf,
    anchors: Vec<Child>,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World::named(".ostk")
    }

    /// In memory where that is there and no other place is said: for tests of what processes do, and no disk keeps.
    pub(crate) fn in_memory() -> World {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() && std::env::var_os("TMPDIR").is_none() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        World::below(".ostk", folder.expect("a folder"))
    }

    pub(crate) fn named(root: &str) -> World {
        World::below(root, tempfile::tempdir().expect("a folder"))
    }

    fn below(root: &str, folder: tempfile::TempDir) -> World {
        World { root: folder.path().join(root), anchors: Vec::new(), _folder: folder }
    }

    /// Of a root that somebody else made and removes.
    pub(crate) fn around(root: &Path) -> World {
        let mut world = World::new();
        root.clone_into(&mut world.root);
        world
    }

    pub(crate) fn layout(&self) -> KernelLayout {
        KernelLayout::new(&self.root)
    }

    /// `serve` with our environment minus what could tell it of another netsky.
    pub(crate) fn serve(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--root").arg(&self.root).stdin(Stdio::null());
        for (key, _) in std::env::vars_os() {
            if key.to_str().is_some_and(|key| key.starts_with("OSTK_") || key.starts_with("NETSKY_")) {
                command.env_remove(key);
            }
        }
        // Nobody here waits for the usual ten seconds.
        command.env("OSTK_REVIVE_MS", "1000");
        command
    }

    /// Starts an anchor and returns a client of it.
    pub(crate) fn anchor(&mut self) -> Client {
        let command = self.serve();
        self.anchor_by(command)
    }

    /// As one that was started on demand: what it says goes to its log.
    pub(crate) fn logged_anchor(&mut self) -> Client {
        netsky_disk::fs::Dir::make(&self.root).expect("made");
        let log = std::fs::File::options().create(true).append(true).open(self.layout().log());
        let mut command = self.serve();
        command.stderr(log.expect("opens"));
        self.anchor_by(command)
    }

    pub(crate) fn anchor_by(&mut self, mut command: Command) -> Client {
        let mut child = command.spawn().expect("an anchor starts");
        let client = until("an anchor greets", || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the anchor ended with {status}");
            }
            Client::connect(&self.root).ok()
        });
        self.anchors.push(child);
        client
    }

    /// Another connection to whoever serves.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.root).expect("an anchor serves")
    }

    /// Waits until the newest anchor, which was asked to stop, is gone.
    pub(crate) fn anchor_stops(&mut self) {
        let mut anchor = self.anchors.pop().expect("an anchor runs");
        assert!(anchor.wait().expect("our own child").success());
    }

    /// Kills the newest anchor as the system would.
    pub(crate) fn kill_anchor(&mut self) {
        let mut anchor = self.anchors.pop().expect("an anchor runs");
        anchor.kill().expect("our own child");
        anchor.wait().expect("our own child");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let ended = Client::ensure(&self.root, Path::new(PROGRAM)).and_then(|client| client.shutdown(true));
        if let Err(error) = ended {
            eprintln!("could not clean {}: {error}", self.root.display());
        }
        for mut anchor in self.anchors.drain(..) {
            // Ended by the shutdown above, or stopped by its test.
            let _ = anchor.kill();
            let _ = anchor.wait();
        }
        for late in serving(&self.root) {
            let _ = process::signal(&late, Signal::KILL);
        }
    }
}

/// Anchors of a root. One that was started on demand may have waited for a lock that its test had, and serve only now.
fn serving(root: &Path) -> Vec<ProcessId> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    let serves = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&b"serve".as_slice()) && words.contains(&root.as_os_str().as_bytes())
    };
    pids.filter(serves).filter_map(process::identify).collect()
}

/// A look that is repeated until it finds what has no event of its own.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = clock::boot();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::boot() - begun < LONG, "in vain: {what}");
        clock::pause(Duration::from_millis(5));
    }
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().expect("a name")
}

/// A shell line as a session, kept by nobody in the kernel.
pub(crate) fn shell(name: &str, line: &str) -> Spec {
    Spec {
        name: id(name),
        argv: ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        umask: None,
        io: Io::Pipes,
        runtime: "command".to_owned(),
        model: None,
        keeper: Keeper::Watchdog,
        tags: BTreeMap::new(),
    }
}

/// A session that stays.
pub(crate) fn sleeper(name: &str) -> Spec {
    shell(name, "exec sleep 1000")
}

/// The same, come back as the policy says.
pub(crate) fn by_policy(mut spec: Spec) -> Spec {
    spec.keeper = Keeper::Policy;
    spec
}

/// The same, kept by its anchor.
pub(crate) fn kept(mut spec: Spec) -> Spec {
    spec.keeper = Keeper::Anchor;
    spec
}

pub(crate) fn spawn(client: &mut Client, spec: &Spec) -> SessionView {
    client.spawn(spec, &Guard::none()).expect("it starts")
}

pub(crate) fn signal(process: &ProcessId, signal: Signal) {
    let held = PidFd::open(process).expect("a descriptor").expect("it lives");
    held.signal(signal).expect("ours to signal");
}

/// Kills a process and returns when it is gone.
pub(crate) fn kill9(process: &ProcessId) {
    let held = PidFd::open(process).expect("a descriptor").expect("it lives");
    held.signal(Signal::KILL).expect("ours to signal");
    assert!(held.wait(LONG).expect("ours to wait for"), "{process:?} does not end");
}

/// Everything that bears the mark of a session's generation.
pub(crate) fn marked(session: &SessionView) -> Vec<ProcessId> {
    sweep::marked(ENV_MARK, &mark(&session.lineage, session.generation)).expect("/proc reads")
}

/// Everything that bears a lineage's mark.
pub(crate) fn of_lineage(lineage: &LineageId) -> Vec<ProcessId> {
    sweep::marked(ENV_SESSION, lineage.as_str()).expect("/proc reads")
}

/// Every row of the journal up to now, as an anchor tells it.
pub(crate) fn rows(world: &World) -> Vec<Event> {
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let mut rows: Vec<Event> = Vec::new();
    while rows.last().is_none_or(|row| row.seq < events.head()) {
        rows.push(events.next(Some(LONG)).expect("lives").expect("told"));
    }
    rows
}

/// How many ends are told.
pub(crate) fn ends(world: &World) -> usize {
    rows(world).iter().filter(|row| row.is_end()).count()
}

/// The next row of that kind about that session, after row `since`.
pub(crate) fn event(root: &Path, since: u64, session: &str, kinds: &[EventKind]) -> Event {
    let client = Client::connect(root).expect("an anchor serves");
    let mut events = client.subscribe(Some(since)).expect("subscribed");
    let session = id(session);
    let wanted = |event: &Event| event.session.as_ref() == Some(&session) && kinds.contains(&event.kind);
    events
        .find(LONG, wanted)
        .expect("the anchor lives")
        .unwrap_or_else(|| panic!("no {kinds:?} of {session}"))
}

/// Runs a probe as another user; its exit code and what it said.
pub(crate) fn as_nobody(root: &Path, program: &Path) -> (i32, String) {
    probed_by_nobody("probe", root, program)
}

/// The same of a worker's socket.
pub(crate) fn greeted_as_nobody(socket: &Path, program: &Path) -> (i32, String) {
    probed_by_nobody("greeting", socket, program)
}

fn probed_by_nobody(verb: &str, of: &Path, program: &Path) -> (i32, String) {
    let output = Command::new(program).arg(verb).arg(of).uid(65_534).gid(65_534).output().expect("it runs");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}
