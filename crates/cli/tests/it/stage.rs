//! A throwaway constellation for tests: real processes in a home of its own, ended when dropped.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use netsky_disk::process::{Signal, identify, is_alive, is_stopped, signal};
use netsky_disk::sweep::{descendants, marked};
use netsky_disk::watch::Watch;
use netsky_model::process::ProcessId;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before the test gives up; nothing waits this long when all is well.
const LIMIT: Duration = Duration::from_secs(90);
/// Slow look, for what changes without a file event.
const RESCAN: Duration = Duration::from_millis(50);

/// An agent that is up and then does nothing, for ever.
pub(crate) const QUIET: &str = "netsky session up && exec sleep 100000";

pub(crate) struct Stage {
    folder: TempDir,
    name: &'static str,
}

impl Stage {
    /// A home with nothing in it.
    pub(crate) fn new() -> Stage {
        Stage::named("home")
    }

    /// As [`Stage::new`], of a home with this name.
    pub(crate) fn named(name: &'static str) -> Stage {
        let folder = tempfile::Builder::new().prefix("ns").tempdir().expect("a throwaway folder");
        Stage { folder, name }
    }

    /// agent0 and `clones`, each running a shell script, with a ticker of this interval.
    pub(crate) fn up(clones: u32, script: &str, tick: &str) -> Stage {
        let stage = Stage::new();
        let clones = clones.to_string();
        let told = stage.ok(&["up", &clones, "--tick", tick, "--", "/bin/sh", "-c", script]);
        assert!(told.contains("agent0 session 1 starting at "), "{told}");
        stage
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    /// A file beside the home.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Remove the home, also while somebody writes in it.
    pub(crate) fn remove_home(&self) {
        while self.home().exists() && std::fs::remove_dir_all(self.home()).is_err() {}
    }

    /// The program, with an environment of its own.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netsky"));
        command.args(args).env_clear().env("NETSKY_HOME", self.home()).env("HOME", self.folder.path());
        command.env("PATH", "/usr/bin:/bin").current_dir(self.folder.path()).stdin(Stdio::null());
        // Nobody here waits for the usual ten seconds.
        command.env("OSTK_REVIVE_MS", "1000");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// Standard output of a run that must end with 0.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "netsky {args:?}: {}\n{out}{err}", output.status);
        out.into_owned()
    }

    /// Exit code and the one line of a run that must fail.
    pub(crate) fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let line = String::from_utf8(output.stderr).expect("text");
        assert_eq!(line.lines().count(), 1, "one line: {line}");
        (output.status.code().expect("an exit"), line)
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.ok(&["status", "--json"])).expect("one JSON object")
    }

    /// One agent of the status.
    pub(crate) fn agent(&self, id: &str) -> Value {
        let status = self.status();
        let agents = status["agents"].as_array().expect("a list");
        agents.iter().find(|agent| agent["id"] == id).unwrap_or(&Value::Null).clone()
    }

    /// The program of an agent, by identity.
    pub(crate) fn program(&self, id: &str) -> ProcessId {
        let pid = self.agent(id)["pid"].as_u64().unwrap_or_else(|| panic!("{id} has no pid"));
        identify(u32::try_from(pid).expect("a pid")).unwrap_or_else(|| panic!("{id} is gone"))
    }

    /// The process that holds an agent, by identity.
    pub(crate) fn worker(&self, id: &str) -> ProcessId {
        let pid = self.agent(id)["worker_pid"].as_u64().unwrap_or_else(|| panic!("{id} has no worker"));
        identify(u32::try_from(pid).expect("a pid")).unwrap_or_else(|| panic!("the worker of {id} is gone"))
    }

    /// Kill the anchor and wait for its end.
    pub(crate) fn kill_anchor(&self) -> ProcessId {
        let anchor = self.anchor();
        self.signal(&anchor, Signal::KILL);
        self.until("an end of the anchor", |_| (!is_alive(&anchor)).then_some(()));
        anchor
    }

    /// The anchor, by identity.
    pub(crate) fn anchor(&self) -> ProcessId {
        netsky_disk::lock::Lock::noted(self.home().join(".ostk/anchor.lock")).expect("an anchor serves")
    }

    pub(crate) fn signal(&self, process: &ProcessId, what: Signal) {
        assert!(signal(process, what).expect("ours to signal"), "{process:?} is gone already");
    }

    /// Wait until `done` answers; panics with the status when it does not in time.
    pub(crate) fn until<T>(&self, what: &str, mut done: impl FnMut(&Stage) -> Option<T>) -> T {
        let began = Instant::now();
        let watch = Watch::new(&[self.home().join("state"), self.home().join("state/up")]).expect("watched");
        loop {
            if let Some(found) = done(self) {
                return found;
            }
            assert!(began.elapsed() < LIMIT, "{what} did not happen: {:#}", self.status());
            watch.wait(RESCAN).expect("waited");
        }
    }

    /// Until the kernel knows of the death of agent0: what is only `gone` is no reason yet for a tick to do anything.
    pub(crate) fn until_dead(&self) {
        self.until("the death of agent0", |stage| {
            let root = stage.agent("agent0");
            (root["pid"].is_null() && root["state"] != "gone").then_some(())
        });
    }

    /// Wait until agent0 is of this generation, up, and nothing is under way.
    pub(crate) fn until_verified(&self, generation: u64) {
        self.until("a verified restart", |stage| {
            let root = stage.agent("agent0");
            let settled = root["generation"] == generation && root["up"] == true;
            (settled && stage.status()["restart"].is_null()).then_some(())
        });
    }

    /// Names in a folder of the home; none if it is not there.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.home().join(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Stop the two that trigger ticks and wait for the ticks they began, so that only the test's own ticks act.
    pub(crate) fn hold_triggers(&self) {
        for id in ["netsky-ticker", "agentinfinity"] {
            let trigger = self.program(id);
            self.signal(&trigger, Signal::STOP);
            self.until("the end of what a trigger began", |_| {
                let begun = descendants(trigger.pid).expect("/proc can be listed");
                (is_stopped(&trigger) && !begun.iter().any(is_alive)).then_some(())
            });
        }
    }

    /// Kill agent0 and hold the child of its restart before it ends anything; from here on only the test's own
    /// ticks act.
    pub(crate) fn stopped_child(&self) -> ProcessId {
        self.stopped_child_at("watchdog.child.teardown")
    }

    /// As [`Stage::stopped_child`], stopped at another fault point.
    pub(crate) fn stopped_child_at(&self, point: &str) -> ProcessId {
        self.hold_triggers();
        self.signal(&self.program("agent0"), Signal::KILL);
        self.until_dead();
        self.stops_at(point, &["watchdog", "tick"]);
        self.stopped()
    }

    /// Run it such that the child of a restart that it begins stops before it ends anything.
    pub(crate) fn ends_nothing(&self, args: &[&str]) -> Output {
        self.stops_at("watchdog.child.teardown", args)
    }

    fn stops_at(&self, point: &str, args: &[&str]) -> Output {
        self.command(args).env("NETSKY_FAULT", format!("{point}=stop")).output().expect("the program starts")
    }

    /// The child of the restart that is under way, once it has stopped.
    pub(crate) fn stopped(&self) -> ProcessId {
        self.until("a stopped child", |stage| {
            let pid = stage.json("state/restart-inflight")["child"]["pid"].as_u64()?;
            identify(u32::try_from(pid).expect("a pid")).filter(is_stopped)
        })
    }

    /// A state file of the home.
    pub(crate) fn json(&self, path: &str) -> Value {
        let bytes = std::fs::read(self.home().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// Change a state file behind the program's back; whoever reads it meanwhile finds it whole.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.json(path);
        change(&mut value);
        let beside = self.home().join("../edited");
        std::fs::write(&beside, value.to_string()).expect("written");
        std::fs::rename(beside, self.home().join(path)).expect("named");
    }

    /// Every living process that says it is agent0 of this home, by its generation.
    pub(crate) fn living_roots(&self) -> Vec<String> {
        let home = self.home().display().to_string();
        let mut generations: Vec<String> = marked("NETSKY_HOME", &home)
            .expect("/proc can be listed")
            .into_iter()
            .filter(is_alive)
            .filter_map(|id| {
                let environ = std::fs::read(format!("/proc/{}/environ", id.pid)).ok()?;
                let text = String::from_utf8_lossy(&environ).into_owned();
                let value = |key: &str| text.split('\0').find_map(|e| e.strip_prefix(key)).map(str::to_owned);
                (value("NETSKY_AGENT=")? == "agent0").then(|| value("NETSKY_GENERATION="))?
            })
            .collect();
        generations.sort();
        generations.dedup();
        generations
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let output = self.run(&["down"]);
        let missing = !self.home().join("home.json").exists();
        if !missing && !output.status.success() && !std::thread::panicking() {
            panic!("down: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
