//! A throwaway kernel root with one session in it, whose worker is a child of the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netsky_disk::cgroup::Place;
use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::{clock, state, sweep};
use netsky_kernel::frame::FromWorker;
use netsky_kernel::session::{
    ENV_MARK, End, Heartbeat, Io, Keeper, Meta, Phase, ReadyLine, Seen, Spec, StartFailure, WorkerEvent,
};
use netsky_kernel::worker_client::{WorkerClient, WorkerError};
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use tempfile::TempDir;

/// Nothing in these tests takes this long; a test that waits so long fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
/// The only size in these tests.
pub(crate) const TERMINAL: Io = Io::Pty { rows: 24, cols: 80 };

pub(crate) struct Bench {
    pub(crate) layout: KernelLayout,
    pub(crate) name: AgentId,
    /// Its own per test: they run side by side, and none must sweep another's processes.
    lineage: LineageId,
    grouped: bool,
    _home: TempDir,
}

/// A worker that said it is ready. Dropping it leaves nothing alive.
pub(crate) struct Session {
    pub(crate) worker: ProcessId,
    pub(crate) program: ProcessId,
    pub(crate) socket: PathBuf,
    mark: String,
    layout: KernelLayout,
    name: AgentId,
    child: Child,
}

/// A shell script on pipes or a terminal.
pub(crate) fn script(io: Io, text: &str) -> Spec {
    spec(io, &["sh", "-c", text])
}

pub(crate) fn spec(io: Io, argv: &[&str]) -> Spec {
    Spec {
        name: "agent7".parse().expect("valid"),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        umask: None,
        io,
        runtime: "command".to_owned(),
        model: None,
        keeper: Keeper::Watchdog,
        tags: BTreeMap::new(),
    }
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::at("root/.ostk")
    }

    /// A root at this path below the throwaway home.
    pub(crate) fn at(below: &str) -> Bench {
        let home = tempfile::tempdir().expect("tempdir");
        let layout = KernelLayout::new(home.path().join(below));
        Dir::create(layout.agents()).expect("makes the folders");
        let name: AgentId = "agent7".parse().expect("valid");
        Bench { layout, lineage: netsky_disk::random::lineage(&name), name, grouped: true, _home: home }
    }

    /// One whose sessions have no cgroup, as on a machine that has none for them.
    pub(crate) fn ungrouped() -> Bench {
        let mut bench = Bench::new();
        bench.grouped = false;
        bench
    }

    /// What an anchor does before it starts a worker.
    pub(crate) fn reserve(&self, spec: Spec, generation: u64) {
        let meta = Meta {
            lineage: self.lineage.clone(),
            generation: Generation(generation),
            anchor_epoch: 1,
            written_at: clock::stamp(),
            phase: Phase::Starting,
            program: None,
            worker: None,
            socket: self.layout.worker_sock(&self.name),
            conversation: Some("conversation-7".to_owned()),
            asked: true,
            handoff: None,
            cgroup: self.cgroup(generation),
            output_from: None,
            version: "0.1.0".to_owned(),
            extra: serde_json::Map::default(),
            spec,
        };
        state::write(self.layout.meta(&self.name), &meta.to_bytes()).expect("writes");
    }

    /// Where an anchor would have its program's group.
    fn cgroup(&self, generation: u64) -> Option<PathBuf> {
        let mark = netsky_kernel::session::mark(&self.lineage, Generation(generation));
        if !self.grouped {
            return None;
        }
        Some(Place::find().ok()?.of(self.layout.root(), &mark).expect("the root is there"))
    }

    pub(crate) fn command(&self, generation: u64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kernel-under-test"));
        command
            .env_clear()
            .env("OSTK_HEARTBEAT_MS", "20")
            .args(["__worker", "--root"])
            .arg(self.layout.root())
            .args(["--name", self.name.as_str(), "--generation", &generation.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, spec: Spec) -> Session {
        self.start_generation(spec, 1)
    }

    pub(crate) fn start_generation(&self, spec: Spec, generation: u64) -> Session {
        self.reserve(spec, generation);
        self.start_by(self.command(generation))
    }

    pub(crate) fn start_by(&self, mut command: Command) -> Session {
        let mut child = command.spawn().expect("starts");
        match ready_line(&mut child) {
            ReadyLine::Ready { worker, program, socket } => Session {
                worker,
                program,
                socket,
                mark: self.meta().mark(),
                layout: self.layout.clone(),
                name: self.name.clone(),
                child,
            },
            ReadyLine::Failed { why, .. } => panic!("did not start: {why}"),
        }
    }

    pub(crate) fn fail(&self, spec: Spec) -> (StartFailure, String) {
        self.reserve(spec, 1);
        failed(self.command(1))
    }

    pub(crate) fn meta(&self) -> Meta {
        Meta::parse(&std::fs::read(self.layout.meta(&self.name)).expect("is there")).expect("reads")
    }

    pub(crate) fn events(&self) -> Vec<Seen> {
        let lines = netsky_disk::lines::read(self.layout.events(&self.name)).expect("reads");
        let events: Vec<WorkerEvent> =
            lines.iter().map(|line| serde_json::from_slice(line).expect("an event")).collect();
        events.into_iter().map(|event| event.what).collect()
    }

    /// How the last generation ended, from its meta file.
    pub(crate) fn end(&self) -> End {
        match self.meta().phase {
            Phase::Ended { how, .. } => how,
            phase => panic!("not ended: {phase:?}"),
        }
    }

    pub(crate) fn heartbeat(&self) -> Heartbeat {
        // Rewritten in place: half a beat does not parse, the next look has it.
        until(|| serde_json::from_slice(&std::fs::read(self.layout.heartbeat(&self.name)).ok()?).ok())
    }
}

/// Start a worker that will not come up; why.
pub(crate) fn failed(mut command: Command) -> (StartFailure, String) {
    let mut child = command.spawn().expect("starts");
    let line = ready_line(&mut child);
    assert!(!child.wait().expect("ends").success(), "{line:?}");
    match line {
        ReadyLine::Failed { kind, why } => (kind, why),
        ReadyLine::Ready { .. } => panic!("came up"),
    }
}

fn ready_line(child: &mut Child) -> ReadyLine {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
}

impl Session {
    pub(crate) fn client(&self) -> WorkerClient {
        WorkerClient::connect(&self.socket).expect("connects")
    }

    /// A client that follows from the start of the log.
    pub(crate) fn follower(&self) -> WorkerClient {
        let mut client = self.client();
        client.follow(client.hello().log.base).expect("asks");
        client
    }

    /// Wait until the worker has ended by itself; its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        if let Some(held) = PidFd::open(&self.worker).expect("opens") {
            assert!(held.wait(LIMIT).expect("waits"), "the worker does not end");
        }
        self.child.wait().expect("is our child").code()
    }

    pub(crate) fn signal_worker(&self, signal: Signal) {
        process::signal(&self.worker, signal).expect("signals");
    }

    /// What still bears this generation's mark.
    pub(crate) fn marked(&self) -> Vec<ProcessId> {
        sweep::marked(ENV_MARK, &self.mark).expect("looks")
    }

    pub(crate) fn lock_is_held(&self) -> bool {
        netsky_disk::lock::Lock::is_held(self.layout.worker_lock(&self.name)).expect("looks")
    }
}

/// A worker that was killed leaves its group.
impl Drop for Bench {
    fn drop(&mut self) {
        let groups = Place::find().and_then(|place| place.groups(self.layout.root())).unwrap_or_default();
        let marks = format!("{}.g", self.lineage);
        for (_, group) in groups.into_iter().filter(|(mark, _)| mark.starts_with(&marks)) {
            let _ = group.sweep(LIMIT);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Our own child, not waited for unless it has ended: the pid is its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = sweep::sweep_marked(ENV_MARK, &self.mark, LIMIT);
    }
}

/// The next frame that is there within the limit.
pub(crate) fn next(client: &mut WorkerClient) -> FromWorker {
    client.next(LIMIT).expect("connected").expect("in time")
}

/// Read output until it holds `text`; everything read so far.
pub(crate) fn read_until(client: &mut WorkerClient, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        match next(client) {
            FromWorker::Output { bytes, .. } => seen.push_str(&String::from_utf8_lossy(&bytes)),
            other => panic!("{other:?} instead of {text:?}; seen {seen:?}"),
        }
    }
    seen
}

/// Read everything to the end of the session: the output and the end.
pub(crate) fn read_all(client: &mut WorkerClient) -> (String, End) {
    let mut seen = String::new();
    loop {
        match next(client) {
            FromWorker::Output { bytes, .. } => seen.push_str(&String::from_utf8_lossy(&bytes)),
            FromWorker::Exit(end) => return (seen, end),
            other => panic!("{other:?}; seen {seen:?}"),
        }
    }
}

/// Wait for the end of a session; everything else is passed over.
pub(crate) fn read_end(client: &mut WorkerClient) -> End {
    loop {
        if let FromWorker::Exit(end) = next(client) {
            return end;
        }
    }
}

/// Look until there is something, within the limit.
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let give_up = clock::boot() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::boot() < give_up, "it did not come");
        clock::pause(Duration::from_millis(5));
    }
}

/// Wait until that very process is gone.
pub(crate) fn gone(id: &ProcessId) {
    if let Some(held) = PidFd::open(id).expect("opens") {
        assert!(held.wait(LIMIT).expect("waits"), "{id:?} lives on");
    }
}

/// The pid that a script printed as its first line, as an identity.
pub(crate) fn printed_pid(client: &mut WorkerClient) -> ProcessId {
    let text = read_until(client, "\n");
    let pid = text.trim().parse().unwrap_or_else(|e| panic!("{text:?}: {e}"));
    process::identify(pid).expect("lives")
}

/// Whether an error says that the worker is silent.
pub(crate) fn is_silent<T>(answer: &Result<T, WorkerError>) -> bool {
    matches!(answer, Err(WorkerError::Silent(_)))
}
