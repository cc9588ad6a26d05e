//! A home to break: messages sent by the real program, and a kernel root written by hand, row by row.
//!
//! The chain of the journal is computed here from its documented form, so that a rehashed row is the test's own word.

use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use netsky_model::process::ProcessId;
use serde_json::{Value, json};

use crate::bus_home::Home;
use crate::screen::{Said, netsky};

/// The lineage of every agent0 here.
pub(crate) const ROOT: Lineage = Lineage;

/// A lineage of one test alone: others at the same time, of this run or of another on the machine, have processes of
/// their own.
pub(crate) struct Lineage;

impl std::fmt::Display for Lineage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut hasher = std::hash::DefaultHasher::new();
        (std::process::id(), std::thread::current().id()).hash(&mut hasher);
        write!(f, "agent0-{:08x}", hasher.finish() as u32)
    }
}

/// What the program said about one home.
pub(crate) struct Verdicts {
    pub(crate) code: i32,
    value: Value,
}

impl Verdicts {
    /// Findings as `I1 <where>: <what>`.
    pub(crate) fn findings(&self) -> Vec<String> {
        self.lines("findings")
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.lines("notes")
    }

    fn lines(&self, of: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let all = self.value["invariants"].as_array().expect("a list").iter().flat_map(|invariant| {
            let id = text(&invariant["id"]);
            let found = invariant[of].as_array().expect("a list").iter();
            found.map(move |one| format!("{id} {}: {}", text(&one["where"]), text(&one["what"])))
        });
        all.collect()
    }

    pub(crate) fn looked_at(&self, id: &str) -> u64 {
        let all = self.value["invariants"].as_array().expect("a list");
        let one = all.iter().find(|invariant| invariant["id"] == id).expect("an invariant");
        one["looked_at"].as_u64().expect("a count")
    }

    /// All hold.
    #[track_caller]
    pub(crate) fn hold(&self) -> &Verdicts {
        assert_eq!((self.code, self.findings()), (0, Vec::new()));
        self
    }

    /// Exactly one finding, which begins with these words.
    #[track_caller]
    pub(crate) fn found(&self, start: &str) {
        let findings = self.findings();
        assert_eq!((self.code, findings.len()), (7, 1), "{findings:#?}");
        assert!(findings[0].starts_with(start), "{findings:#?}");
    }

    /// Some finding begins with these words.
    #[track_caller]
    pub(crate) fn found_among(&self, start: &str) {
        let findings = self.findings();
        assert_eq!(self.code, 7);
        assert!(findings.iter().any(|finding| finding.starts_with(start)), "{findings:#?}");
    }
}

/// Runs the check.
pub(crate) fn check(home: &Home) -> Verdicts {
    verdicts(&netsky(home, &["check", "--json"]))
}

/// Runs the check with facts.
pub(crate) fn check_with(home: &Home, facts: &[Value]) -> Verdicts {
    let path = home.path().join("../facts.jsonl");
    let lines: Vec<String> = facts.iter().map(Value::to_string).collect();
    fs::write(&path, lines.join("\n")).expect("written");
    verdicts(&netsky(home, &["check", "--json", "--facts", path.to_str().expect("text")]))
}

fn verdicts(said: &Said) -> Verdicts {
    let value = serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {said:?}"));
    Verdicts { code: said.code, value }
}

/// A process of this home that is somebody; killed when dropped.
pub(crate) struct Somebody(Child);

impl Somebody {
    pub(crate) fn new(home: &Home, agent: &str, generation: u64, mark: &str) -> Somebody {
        let mut command = Command::new("/bin/sleep");
        command
            .arg("1000")
            .env_clear()
            .env("NETSKY_HOME", home.path())
            .env("NETSKY_AGENT", agent)
            .env("NETSKY_GENERATION", generation.to_string())
            .env("OSTK_MARK", mark)
            .process_group(0)
            .stdin(Stdio::null());
        Somebody(command.spawn().expect("sleep starts"))
    }

    pub(crate) fn place(&self) -> String {
        format!("process {}", self.0.id())
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This boot and these clocks, as a stamp in a file; `ms` after the boot.
pub(crate) fn at(ms: u64) -> Value {
    let boot = netsky_disk::process::boot_id();
    json!({"wall": "2026-04-19T17:22:57Z", "boot_ms": ms, "boot_id": boot})
}

/// A process that is certainly dead: of another boot.
pub(crate) fn dead() -> ProcessId {
    ProcessId { pid: 4242, start_time: 1, boot_id: "00000000".to_owned(), ns: 4_026_531_836 }
}

/// Rows of a journal before they are chained.
#[derive(Clone, Default)]
pub(crate) struct Rows(pub(crate) Vec<Value>);

impl Rows {
    pub(crate) fn anchor(mut self, epoch: u64) -> Rows {
        self.0.push(json!({"epoch": epoch, "kind": "anchor-started", "data": {}}));
        self
    }

    /// A row about agent0.
    pub(crate) fn row(mut self, epoch: u64, kind: &str, generation: u64, data: Value) -> Rows {
        self.0.push(json!({
            "epoch": epoch, "kind": kind, "session": "agent0", "lineage": ROOT.to_string(),
            "generation": generation, "data": data,
        }));
        self
    }

    /// A whole life of one generation, from `from` ms after the boot to `to`.
    pub(crate) fn life(self, epoch: u64, generation: u64, from: u64, to: u64) -> Rows {
        self.start(epoch, generation, from).row(epoch, "exited", generation, json!({"at": at(to)}))
    }

    pub(crate) fn start(self, epoch: u64, generation: u64, from: u64) -> Rows {
        self.row(epoch, "spawn", generation, json!({})).row(
            epoch,
            "started",
            generation,
            json!({"at": at(from)}),
        )
    }

    /// The lines, each with its number and its place in the chain.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut prev = "0".repeat(64);
        let mut lines = Vec::new();
        for (index, row) in self.0.iter().enumerate() {
            let inner = row.to_string();
            let inner = &inner[1..inner.len() - 1];
            let (seq, ts) = (index + 1, "2026-04-19T17:22:57Z");
            let head = format!(r#"{{"v":1,"seq":{seq},"ts":"{ts}",{inner},"prev":"{prev}""#);
            prev = blake3::hash(head.as_bytes()).to_hex().to_string();
            lines.push(format!(r#"{head},"hash":"{prev}"}}"#));
        }
        lines
    }
}

/// The files of a kernel root.
pub(crate) trait Root {
    fn root(&self, file: &str) -> PathBuf;
    fn journal(&self, rows: &Rows);
    fn meta(&self, generation: u64, epoch: u64, phase: Value);
}

impl Root for Home {
    fn root(&self, file: &str) -> PathBuf {
        self.path().join(".ostk").join(file)
    }

    fn journal(&self, rows: &Rows) {
        fs::write(self.root("journal.jsonl"), format!("{}\n", rows.lines().join("\n"))).expect("written");
    }

    fn meta(&self, generation: u64, epoch: u64, phase: Value) {
        let meta = json!({
            "v": 1, "name": "agent0", "lineage": ROOT.to_string(), "generation": generation, "phase": phase,
            "pid": null, "start_time": null, "worker_pid": null, "worker_start_time": null,
            "boot_id": null, "ns": null, "runtime": "command", "argv": ["/bin/sh"], "cwd": "/",
            "io": {"kind": "pipes"}, "keeper": "watchdog", "socket": "/none", "version": "0.1.0",
            "anchor_epoch": epoch, "written_at": at(1),
        });
        folder(&self.root("agents"));
        fs::write(self.root("agents/agent0.meta"), meta.to_string()).expect("written");
    }
}

/// Makes a folder as the program does.
pub(crate) fn folder(path: &std::path::Path) {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).expect("a folder");
}

pub(crate) fn running() -> Value {
    json!({"is": "running", "started_at": at(1)})
}

pub(crate) fn ended() -> Value {
    json!({"is": "ended", "how": {"kind": "killed"}, "at": at(2)})
}

/// A home with messages in every state and two lives of agent0, all of it whole.
pub(crate) fn whole() -> Home {
    let home = Home::init();
    for id in ["one", "two", "three"] {
        send(&home, id);
        netsky(&home, &["channel", "drain", "agent0"]).works();
    }
    netsky(&home, &["channel", "ack", "agent0", "one"]).works();
    send(&home, "waits");
    home.journal(&Rows::default().anchor(1).life(1, 1, 10, 20).anchor(2).start(2, 2, 30));
    home.meta(2, 2, running());
    folder(&home.root("epochs"));
    fs::write(home.root("epochs/anchor"), "2\n").expect("written");
    home
}

pub(crate) fn send(home: &Home, id: &str) {
    netsky(home, &["channel", "send", "agent0", "text", "--from", "owner", "--id", id]).works();
}

/// The one file of agent0 in `folder` whose name has `id`, as a finding names it.
pub(crate) fn file(home: &Home, folder: &str, id: &str) -> String {
    let files = home.files("agent0", folder).expect("there");
    let found: Vec<&String> = files.iter().filter(|file| file.contains(&format!("-{id}."))).collect();
    assert_eq!(found.len(), 1, "{files:?}");
    format!("channels/agent/agent0/{folder}/{}", found[0])
}

/// Processes of this home of which each lives shorter than a check takes and starts the next; ended when dropped. Early
/// in its life: whenever a look lists them, the youngest goes on until the look has come to it, on a busy machine too.
pub(crate) struct Chain {
    go_on: PathBuf,
}

impl Chain {
    pub(crate) fn new(home: &Home, mark: &str) -> Chain {
        let go_on = home.path().join("../go-on");
        fs::write(&go_on, "").expect("written");
        let mut first = Command::new("/bin/sh")
            .args(["-c", r#"f() { sleep 0.1; [ -e "$GO_ON" ] && f & sleep 0.45; }; f &"#])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("NETSKY_HOME", home.path())
            .env("OSTK_MARK", mark)
            .env("GO_ON", &go_on)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("sh starts");
        assert!(first.wait().expect("our child").success());
        Chain { go_on }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.go_on);
        let limit = std::time::Duration::from_secs(60);
        let _ = netsky_disk::sweep::sweep_marked("GO_ON", &self.go_on.display().to_string(), limit);
    }
}
