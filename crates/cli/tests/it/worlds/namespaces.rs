//! A25: pid namespaces on one home, as containers have them. Who is in another one is unknown there, and not dead.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use netsky_disk::process::{PidFd, Signal, identify};
use netsky_model::process::ProcessId;
use serde_json::{Value, json};

use crate::skipped::skipped;
use crate::stage::{QUIET, Stage};

/// Whether the test itself is where every process is seen; where it is not, that is said.
fn sees_all() -> bool {
    let all = netsky_disk::process::sees_all();
    if !all {
        skipped("the pid namespace that the machine started with");
    }
    all
}

/// A pid namespace with a `/proc` of its own; it ends with everything in it when it is dropped.
struct Namespace {
    holder: Child,
    /// Its first process, as it is seen from outside.
    init: ProcessId,
}

impl Namespace {
    /// None, and said so, where nobody may make one.
    fn new() -> Option<Namespace> {
        if !rustix::process::geteuid().is_root() {
            skipped("root");
            return None;
        }
        let mut unshare = Command::new("/usr/bin/unshare");
        // The shell stays, and tells that `/proc` is there already.
        unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child", "/bin/sh", "-c"]);
        unshare.arg("echo up; while :; do wait; sleep 1000; done");
        let mut holder = unshare
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("told");
        if line.is_empty() {
            let _ = holder.wait();
            skipped("pid namespaces");
            return None;
        }
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let pid = std::fs::read_to_string(children).expect("a child").trim().parse().expect("one child");
        Some(Namespace { init: identify(pid).expect("it runs"), holder })
    }

    /// Some program in here; its folder is the root, wherever the test itself is.
    fn enter(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("/usr/bin/nsenter");
        command.args(["--pid", "--mount", "--target", &self.init.pid.to_string(), "--"]).arg(program);
        command
    }

    /// The program in here, on the stage's home.
    fn command(&self, stage: &Stage, args: &[&str]) -> Command {
        let inner = stage.command(args);
        let mut command = self.enter(inner.get_program());
        command.args(inner.get_args()).env_clear();
        command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, stage: &Stage, args: &[&str]) -> Output {
        self.command(stage, args).output().expect("nsenter")
    }

    /// Standard output of a run in here that must end with 0.
    fn ok(&self, stage: &Stage, args: &[&str]) -> String {
        let output = self.run(stage, args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "netsky {args:?}: {}\n{out}{err}", output.status);
        out.into_owned()
    }

    /// Ends everything in it; `entered` is a way in that somebody is stopped on.
    fn end(&self, entered: Option<Child>) {
        let held = PidFd::open(&self.init).expect("ours").expect("it runs");
        held.signal(Signal::KILL).expect("ours to end");
        if let Some(mut entered) = entered {
            // It stopped with what it started, and the namespace is not gone before that is waited for.
            entered.kill().expect("ours");
            entered.wait().expect("ours");
        }
        assert!(held.wait(Duration::from_secs(20)).expect("waited"), "the namespace does not end");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

pub(super) fn home_with_mail(texts: &[&str]) -> Stage {
    let stage = Stage::new();
    stage.ok(&["init"]);
    for text in texts {
        stage.ok(&["channel", "send", "agent0", text, "--from", "agent1"]);
    }
    stage
}

/// A drain that stopped with one claim in its hands, in there.
fn stopped_with_a_claim(there: &Namespace, stage: &Stage) -> Child {
    let log = stage.home().join("../faults");
    let mut drain = there.command(stage, &["channel", "drain", "agent0"]);
    drain.env("NETSKY_FAULT", "bus.claim.renamed=stop").env("NETSKY_FAULT_LOG", &log);
    let drain = drain.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nsenter");
    stage.until("a claim", |_| log.exists().then_some(()));
    assert_eq!(stage.names("channels/agent/agent0/claimed").len(), 1);
    drain
}

const UP: [&str; 8] = ["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", QUIET];

/// `up` from outside of every namespace, in the folder of those inside.
fn above(stage: &Stage) -> String {
    let output = stage.command(&UP).current_dir("/").output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

pub(super) const DRAIN: [&str; 3] = ["channel", "drain", "agent0"];

#[test]
fn must_show_a25_a_claim_of_another_pid_namespace_is_neither_drained_nor_given_back() {
    let (Some(there), Some(beside)) = (Namespace::new(), Namespace::new()) else { return };
    let stage = home_with_mail(&["held", "free"]);
    let held = stopped_with_a_claim(&there, &stage);
    let first = beside.ok(&stage, &DRAIN);
    assert!(first.contains("free") && !first.contains("held"), "{first}");
    for _ in 0..2 {
        assert_eq!(beside.ok(&stage, &DRAIN), "", "unknown is not dead");
        assert_eq!(stage.ok(&DRAIN), "", "seen from above: it lives");
        stage.ok(&["watchdog", "tick"]);
        beside.ok(&stage, &["watchdog", "tick"]);
    }
    assert_eq!(stage.names("channels/agent/agent0/claimed").len(), 1);
    stage.ok(&["check"]);
    beside.ok(&stage, &["check"]);

    // Gone for good: one namespace cannot see that of another, the machine's own can.
    there.end(Some(held));
    assert_eq!(beside.ok(&stage, &DRAIN), "", "from within a namespace nothing proves it");
    beside.ok(&stage, &["check"]);
    if !sees_all() {
        return;
    }
    let again = stage.ok(&DRAIN);
    assert!(again.contains("held") && again.contains("attempt=\"2\""), "{again}");
}

#[test]
fn a25_a_claim_of_a_namespace_that_is_gone_is_released_by_hand_from_within_another() {
    let (Some(there), Some(beside)) = (Namespace::new(), Namespace::new()) else { return };
    let stage = home_with_mail(&["held"]);
    let held = stopped_with_a_claim(&there, &stage);
    there.end(Some(held));
    assert_eq!(beside.ok(&stage, &DRAIN), "");
    let claimed = stage.names("channels/agent/agent0/claimed").remove(0);
    let id = claimed.split_once('-').expect("a name").1.split('.').next().expect("an id");
    beside.ok(&stage, &["channel", "release", "agent0", id]);
    let again = beside.ok(&stage, &DRAIN);
    assert!(again.contains("held") && again.contains("redelivered=\"true\""), "{again}");
}

#[test]
fn must_show_a25_an_anchor_and_its_sessions_are_not_declared_dead_from_another_pid_namespace() {
    let (Some(there), Some(beside)) = (Namespace::new(), Namespace::new()) else { return };
    let stage = Stage::new();
    let told = there.ok(&stage, &UP);
    assert!(told.contains("agent0 session 1 starting at "), "{told}");
    let anchor = stage.json(".ostk/anchor.lock");
    let look = |stage: &Stage| {
        let agents = ["agent0", "agent1"].map(|id| stage.agent(id));
        agents.map(|agent| (agent["generation"].clone(), agent["state"].clone()))
    };
    let before = look(&stage);
    for _ in 0..2 {
        for told in [stage.ok(&["watchdog", "tick"]), beside.ok(&stage, &["watchdog", "tick"])] {
            assert_eq!(told, "all is as it should be\n");
        }
        assert!(beside.ok(&stage, &UP).contains("agent0 session 1 starting at "));
        let above = stage.command(&UP).current_dir("/").output().expect("the program starts");
        assert!(
            String::from_utf8_lossy(&above.stdout).contains("agent0 session 1 starting at "),
            "{above:?}"
        );
    }
    let (ostk, root) = (env!("CARGO_BIN_EXE_ostk"), stage.home().join(".ostk"));
    for mut second in [beside.enter(ostk), Command::new(ostk)] {
        let serve = second.args(["serve", "--root"]).arg(&root).env_clear().output().expect("ostk");
        assert_eq!(serve.status.code(), Some(5), "a second anchor: {serve:?}");
    }
    assert_eq!(stage.json(".ostk/anchor.lock"), anchor, "the same anchor serves");
    assert_eq!(look(&stage), before);
    stage.ok(&["check"]);

    // It is gone with all that it held. From within another one nothing proves that, and nobody is started twice.
    there.end(None);
    let _ = beside.run(&stage, &["watchdog", "tick"]);
    let told: Value = serde_json::from_str(&beside.ok(&stage, &["status", "--json"])).expect("JSON");
    for agent in told["agents"].as_array().expect("agents") {
        assert_eq!((&agent["state"], &agent["generation"]), (&json!("unknown"), &json!(1)), "{agent}");
    }
    beside.end(None);
    // Whoever sees it starts anew.
    if !sees_all() {
        return;
    }
    let told = above(&stage);
    assert!(told.contains("agent0 session 2 starting at "), "{told}");
    stage.ok(&["check"]);
    stage.ok(&["down"]);
}

#[test]
fn a25_a_proc_of_another_namespace_is_not_believed() {
    if Namespace::new().is_none() {
        return;
    }
    let stage = home_with_mail(&["kept"]);
    // A namespace whose `/proc` is still the one outside: every pid in it is somebody else.
    let output = within(&["--pid", "--fork"], stage.command(&DRAIN));
    let line = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.lines().count() == 1 && line.contains("mount a /proc of this one"), "{line}");
    assert!(stage.ok(&DRAIN).contains("kept"));
}

#[test]
fn a25_the_clock_of_a_time_namespace_is_not_believed() {
    if Namespace::new().is_none() {
        return;
    }
    const TIME: [&str; 4] = ["--time", "--boottime", "1000", "--fork"];
    let stage = home_with_mail(&["kept"]);
    if !within(&TIME, Command::new("/bin/true")).status.success() {
        return skipped("time namespaces");
    }
    for args in [&DRAIN[..], &["demo"]] {
        let output = within(&TIME, stage.command(args));
        let line = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{args:?} {line}");
        assert!(line.lines().count() == 1 && line.contains("in a time namespace"), "{args:?} {line}");
    }
    assert!(stage.ok(&DRAIN).contains("kept"));
}

/// Runs a program in namespaces of its own.
fn within(namespaces: &[&str], inner: Command) -> Output {
    let mut command = Command::new("/usr/bin/unshare");
    command.args(namespaces).arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.output().expect("unshare")
}
