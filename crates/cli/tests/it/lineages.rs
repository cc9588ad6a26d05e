//! Lineages of the real `ostk`: what a program reports of itself, and what becomes of it once it was taken away.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use netsky_disk::lock::Lock;
use netsky_disk::process::{Signal, identify, is_alive, signal};
use netsky_model::process::ProcessId;
use serde_json::{Value, json};

use crate::ostk::Folder;

/// A program that says which generation it is and which conversation it goes on with.
const PROGRAM: &str = "echo $OSTK_GENERATION $OSTK_CONVERSATION $GREETING; exec sleep 1000";

impl Folder {
    pub(crate) fn spawn(&self, name: &str, how: &[&str]) {
        let spawn = ["kernel", "spawn", name, "--pipes", "--env", "GREETING=hello"];
        self.ok(&[&spawn[..], how, &["--", "sh", "-c", PROGRAM]].concat());
    }

    pub(crate) fn report(&self, name: &str, what: &[&str]) -> Value {
        self.json(&[&["report", "--session", name], what].concat())
    }

    pub(crate) fn session(&self, name: &str) -> Value {
        self.json(&["kernel", "show", name])
    }

    pub(crate) fn process(&self, name: &str, which: &str) -> ProcessId {
        serde_json::from_value(self.session(name)[which].clone()).expect("a process")
    }

    pub(crate) fn anchor(&self) -> ProcessId {
        let pid = self.json(&["status"])["pid"].as_u64().expect("an anchor serves");
        identify(u32::try_from(pid).expect("a pid")).expect("it lives")
    }

    /// What a reboot leaves: nobody.
    pub(crate) fn take_away(&self, names: &[&str]) {
        let all: Vec<ProcessId> = std::iter::once(self.anchor())
            .chain(names.iter().flat_map(|name| ["worker", "program"].map(|which| self.process(name, which))))
            .collect();
        all.iter().for_each(|one| drop(signal(one, Signal::KILL)));
        self.until("everybody is gone", |_| !all.iter().any(is_alive));
    }

    /// Has an anchor serve that dies at a fault point.
    fn serve_until(&self, fault: &str) -> Child {
        self.ok(&["kernel", "shutdown"]);
        // It answers before it is gone, and keeps the next one out until then.
        let lock = self.dir.path().join(".ostk/anchor.lock");
        self.until("the one before is gone", |_| !Lock::is_held(&lock).expect("looked"));
        let mut serve = self.command(env!("CARGO_BIN_EXE_ostk"), &["serve"]);
        serve.env("NETSKY_FAULT", fault).env("NETSKY_FAULT_LOG", self.dir.path().join("hits"));
        let doomed = serve.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts");
        self.until("it serves", |folder| folder.json(&["status"])["pid"] == doomed.id());
        doomed
    }

    fn has_died_at(&self, mut doomed: Child, point: &str) {
        assert!(!doomed.wait().expect("ours").success());
        let hits = std::fs::read_to_string(self.dir.path().join("hits")).expect("it was hit");
        assert_eq!(hits.lines().last(), Some(point));
    }

    pub(crate) fn settings(&self, text: &str) {
        std::fs::write(self.dir.path().join(".ostk/settings"), text).expect("written");
    }

    pub(crate) fn states(&self) -> Value {
        let sessions = self.json(&["kernel", "ps", "--all"])["sessions"].clone();
        let states = sessions.as_array().expect("sessions").iter();
        states.map(|one| (one["name"].as_str().expect("a name").to_owned(), one["state"].clone())).collect()
    }

    pub(crate) fn drain(&self, name: &str, file: &str) -> PathBuf {
        let lineage = self.session(name)["lineage"].as_str().expect("one").to_owned();
        self.dir.path().join(format!(".ostk/drain/{lineage}.{file}"))
    }

    pub(crate) fn journal(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join(".ostk/journal.jsonl")).expect("reads");
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a row"));
        rows.filter(|row| row["kind"] == kind).collect()
    }

    pub(crate) fn says_within(&self, name: &str, line: &str) {
        self.until(line, |folder| folder.ok(&["logs", name]).lines().any(|said| said == line));
    }
}

#[test]
fn what_a_program_reports_stands_in_ps_in_the_journal_and_in_its_snapshot() {
    let folder = Folder::new();
    folder.spawn("agent1", &[]);
    folder.report("agent1", &["session-id", "conv-1", "--transcript", "/there"]);
    let turn = r#"{"messages":[{"role":"user","content":"a  b"},{"b":1.0,"a":[]}],"usage":{"input":10,"cost_micros":7}}"#;
    assert_eq!(folder.report("agent1", &["turn", turn])["turn"], 1);
    folder.report("agent1", &["intent", "t1", "--tool", "sh", "--input", r#"["ls"]"#]);
    folder.report("agent1", &["result", "t1", "--failed", "--output", "2"]);
    assert_eq!(folder.report("agent1", &["context", "71.9%"])["lifecycle"], "aging");
    assert_eq!(folder.report("agent1", &["context", "12"])["lifecycle"], "aging", "never backwards");
    folder.report("agent1", &["phase", "waiting for the model"]);
    let session = folder.session("agent1");
    for (key, value) in [
        ("turn", json!(1)),
        ("context_pct", json!(12)),
        ("lifecycle", json!("aging")),
        ("phase", json!("waiting for the model")),
        ("session_id", json!("conv-1")),
    ] {
        assert_eq!(session[key], value, "{key}");
    }
    for kind in ["turn", "intent", "result", "session-id", "lifecycle"] {
        assert_eq!(folder.journal(kind).len(), 1, "{kind}");
    }
    let lineage = folder.json(&["lineage", "show", "agent1"]);
    assert_eq!((&lineage["usage"]["input"], &lineage["messages"]["count"]), (&json!(10), &json!(2)));
    let shown = folder.ok(&["lineage", "show", "agent1", "--json"]);
    assert_eq!((shown.matches("\"turn\":").count(), &lineage["turn"]), (1, &json!(1)), "{shown}");
    let text = folder.ok(&["lineage", "show", "agent1", "--snapshot"]);
    assert!(
        text.contains(r#"{"role":"user","content":"a  b"},{"b":1.0,"a":[]}"#),
        "as it was written: {text}"
    );
    let snapshot: Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(snapshot["runtime"]["session_id"], "conv-1");
    assert_eq!((&snapshot["version"], &snapshot["turn"]), (&json!(2), &json!(1)));
}

#[test]
fn a_report_that_does_not_fit_is_refused_in_one_line_and_changes_nothing() {
    let folder = Folder::new();
    folder.spawn("agent1", &[]);
    let before = folder.session("agent1");
    let refused = |what: &[&str]| folder.refused(&[&["report", "--session", "agent1"], what].concat());
    assert_eq!(refused(&["context", "101"]).0, 2);
    assert_eq!(refused(&["turn", "{"]).0, 2);
    assert_eq!(refused(&["turn", r#"{"mesages":[]}"#]).0, 2);
    assert_eq!(refused(&["intent", "t1", "--tool", "a\nb"]).0, 2);
    assert_eq!(refused(&["result", "none"]).0, 3);
    assert_eq!(refused(&["--if-generation", "7", "turn"]).0, 1);
    assert_eq!(folder.refused(&["report", "--session", "agent9", "turn"]).0, 3);
    let nowhere = folder.refused(&["report", "turn"]);
    assert_eq!(nowhere, (2, "ostk: this runs in no session; name one with --session".to_owned()));
    for key in ["turn", "lifecycle", "context_pct"] {
        assert_eq!(folder.session("agent1")[key], before[key]);
    }
}

#[test]
fn a_program_reports_of_the_session_it_runs_in_and_of_its_own_generation() {
    let folder = Folder::new();
    // It finds the root by what the kernel gave it, wherever it went.
    let report = format!("{} report turn", env!("CARGO_BIN_EXE_ostk"));
    let line = format!("cd /; {report}; OSTK_GENERATION=9 {report} 2>&1; exec sleep 1000");
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sh", "-c", &line]);
    folder.says_within("agent1", "agent1 turn 1, healthy");
    folder.says_within("agent1", "ostk: agent1 is at generation 1, not 9; nothing was done, look again");
    assert_eq!(folder.session("agent1")["turn"], 1);
}

#[test]
fn i8_a_lineage_that_was_taken_away_comes_back_by_itself_where_it_was() {
    let folder = Folder::new();
    folder.spawn("agent1", &[]);
    folder.report("agent1", &["session-id", "conv-1"]);
    folder.report("agent1", &["turn", r#"{"messages":["a"],"usage":{"input":10}}"#]);
    folder.report("agent1", &["turn", r#"{"messages":["b"]}"#]);
    folder.report("agent1", &["intent", "t1", "--tool", "sh"]);
    folder.report("agent1", &["context", "95"]);
    let snapshot = std::fs::read(folder.drain("agent1", "json")).expect("reads");
    folder.take_away(&["agent1"]);
    // Whoever looks first starts the anchor, under an environment that has nothing of the first one.
    folder.until("it is back", |folder| folder.states()["agent1"] == "active");
    folder.says_within("agent1", "2 conv-1 hello");
    let session = folder.session("agent1");
    assert_eq!((&session["generation"], &session["turn"]), (&json!(2), &json!(2)));
    assert_eq!((&session["lifecycle"], &session["unknown"]), (&json!("healthy"), &json!(1)));
    assert_eq!(std::fs::read(folder.drain("agent1", "json")).expect("reads"), snapshot, "byte for byte");
    // Nobody repeats the call; whoever finishes a turn has been shown it.
    assert_eq!(folder.json(&["lineage", "show", "agent1"])["intents"]["t1"]["generation"], 1);
    folder.report("agent1", &["turn"]);
    assert_eq!(folder.session("agent1").get("unknown"), None);
}

#[test]
fn each_revival_policy_does_what_it_says_after_everybody_was_killed() {
    let folder = Folder::new();
    let names = ["asked", "kept", "reported", "returned", "stopped"];
    folder.ok(&["kernel", "spawn", "returned", "--", "true"]);
    folder.until("it returned", |folder| folder.states()["returned"] == "exited");
    folder.spawn("asked", &[]);
    folder.spawn("kept", &["--keep"]);
    folder.spawn("reported", &["--no-revive"]);
    folder.spawn("stopped", &[]);
    folder.ok(&["kernel", "kill", "stopped"]);
    let living = ["asked", "kept", "reported"];
    for (policy, state, stopped) in [("ask", "asking", "stopped"), ("reap", "inactive", "inactive")] {
        folder.settings(&format!("LIMIT revival_policy {policy}\n"));
        folder.take_away(&living);
        let wanted = json!({"asked": state, "kept": "active", "reported": "orphaned", "returned": "exited",
            "stopped": stopped});
        folder.until(policy, |folder| folder.states() == wanted);
        if policy == "ask" {
            let (code, line) = folder.refused(&["kernel", "spawn", "asked", "--", "true"]);
            assert!(code == 4 && line.contains("ostk lineage resolve asked-"), "{line}");
            assert!(!folder.ok(&["kernel", "reap"]).contains("asked"), "nobody decides in passing");
            // Also of an anchor after that.
            folder.ok(&["kernel", "shutdown"]);
            assert_eq!(folder.states()["asked"], "asking");
            assert_eq!(folder.ok(&["lineage", "resolve", "asked", "--revive"]), "asked generation 2 runs\n");
            assert_eq!(folder.refused(&["lineage", "resolve", "asked", "--reap"]).0, 4, "it does not wait");
            folder.spawn("reported", &["--no-revive"]);
            folder.ok(&["kernel", "spawn", "returned", "--", "true"]);
            folder.until("it returned", |folder| folder.states()["returned"] == "exited");
        }
    }
    assert_eq!(folder.refused(&["lineage", "resolve", "asked"]).0, 2);
    assert_eq!(folder.refused(&["lineage", "resolve", "nobody", "--reap"]).0, 3);
    assert_eq!(folder.states().as_object().expect("states").len(), names.len());
}

#[test]
fn fm_rehydrate_corrupt_nothing_starts_until_somebody_has_looked_and_nothing_is_overwritten() {
    let folder = Folder::new();
    folder.spawn("agent1", &[]);
    folder.report("agent1", &["turn"]);
    let log = folder.drain("agent1", "turns.jsonl");
    folder.take_away(&["agent1"]);
    let damaged = std::fs::read_to_string(&log).expect("reads").replace("turn", "torn");
    std::fs::write(&log, &damaged).expect("writes");
    std::fs::remove_file(log.with_extension("").with_extension("json")).expect("removed");
    assert_eq!(folder.states()["agent1"], "asking");
    assert_eq!(std::fs::read_to_string(&log).expect("reads"), damaged);
    assert_eq!(folder.refused(&["report", "--session", "agent1", "turn"]).0, 7);
    assert_eq!(folder.refused(&["lineage", "show", "agent1", "--snapshot"]).0, 7);
    folder.ok(&["lineage", "resolve", "agent1", "--revive"]);
    assert_eq!(folder.report("agent1", &["turn"])["turn"], 1);
    let aside = std::fs::read_dir(log.parent().expect("a folder")).expect("a folder");
    let aside = aside.filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name().into_string().expect("text");
        name.contains(".turns.jsonl.damaged-")
    });
    assert_eq!(aside.count(), 1);
}

/// The anchor dies in the middle of a report; whoever reports starts the next and tells it again.
#[test]
fn t15_a_row_changed_before_the_newest_snapshot_closes_the_log_and_a_revival_asks() {
    let folder = Folder::new();
    folder.spawn("agent1", &[]);
    let turn = |text: &str| format!(r#"{{"messages":["{text}"]}}"#);
    let told = |text: &str| folder.report("agent1", &["turn", &turn(text)]);
    ["first", "second", "third"].iter().for_each(|text| drop(told(text)));
    let log = folder.drain("agent1", "turns.jsonl");
    let read = || std::fs::read_to_string(&log).expect("reads");
    let change = || {
        let whole = read();
        std::fs::write(&log, whole.replacen("first", "tsrif", 1)).expect("written");
        whole
    };
    let is_refused = || {
        let changed = read();
        let (code, why) = folder.refused(&["report", "--session", "agent1", "turn", &turn("lost")]);
        assert!(code == 7 && why.contains("row 1: it was changed"), "{code} {why}");
        assert_eq!(read(), changed, "nothing is appended");
    };
    // Under the anchor that wrote it; one that is put back goes on.
    let whole = change();
    is_refused();
    std::fs::write(&log, whole).expect("written");
    assert_eq!(told("fourth")["turn"], 4);
    // Before the next one.
    change();
    signal(&folder.anchor(), Signal::KILL).expect("killed");
    is_refused();
    let damaged = folder.journal("damaged");
    assert!(
        damaged.last().is_some_and(|row| row["data"]["why"].to_string().contains("row 1")),
        "{damaged:?}"
    );
    folder.take_away(&["agent1"]);
    folder.until("somebody is asked", |folder| folder.states()["agent1"] == "asking");
    assert!(folder.json(&["lineage", "show", "agent1"])["damaged"].to_string().contains("row 1"));
    // It goes on from the newest snapshot, in a log that holds.
    folder.ok(&["lineage", "resolve", "agent1", "--revive"]);
    assert_eq!(told("again")["turn"], 5);
}

#[test]
fn t15_a_log_that_does_not_read_has_a_way_out_whoever_keeps_its_session_and_however_that_ended() {
    let folder = Folder::new();
    for (name, how, end) in
        [("agent1", &["--no-revive"][..], "crash"), ("agent2", &[], "kill"), ("agent3", &[], "return")]
    {
        folder.spawn(name, how);
        folder.report(name, &["session-id", "conv-1"]);
        folder.report(name, &["turn", r#"{"messages":["first"],"usage":{"input":10}}"#]);
        let log = folder.drain(name, "turns.jsonl");
        let text = std::fs::read_to_string(&log).expect("reads").replacen("first", "tsrif", 1);
        std::fs::write(&log, text).expect("written");
        assert_eq!(folder.refused(&["report", "--session", name, "turn"]).0, 7);
        assert_eq!(folder.refused(&["lineage", "resolve", name, "--revive"]).0, 4, "it lives");
        match end {
            "crash" => drop(signal(&folder.process(name, "program"), Signal::KILL)),
            // What a key of the terminal sent was asked for: such an end is a return.
            "return" => drop(folder.ok(&[
                "rpc",
                "call",
                "session/signal",
                &format!(r#"{{"session":"{name}","signal":15}}"#),
            ])),
            _ => drop(folder.ok(&["kernel", "kill", name, "--grace", "1ms"])),
        }
        folder.until("it is gone", |folder| folder.session(name)["state"] != "active");
        folder.ok(&["lineage", "resolve", name, "--revive"]);
        folder.says_within(name, "2 conv-1 hello");
        assert_eq!(folder.report(name, &["turn"])["turn"], 2);
        assert_eq!(folder.json(&["lineage", "show", name])["usage"]["input"], 10);
        assert_eq!(folder.refused(&["lineage", "resolve", name, "--revive"]).0, 4, "it holds");
    }
}

#[test]
fn fm_snapshot_kill_a_report_that_is_cut_anywhere_counts_once() {
    for point in ["anchor.drain.logged", "anchor.drain.kept"] {
        let folder = Folder::new();
        folder.spawn("agent1", &[]);
        folder.report("agent1", &["turn"]);
        let doomed = folder.serve_until(&format!("{point}=kill"));
        assert_eq!(folder.report("agent1", &["turn", r#"{"usage":{"input":5}}"#])["turn"], 2, "{point}");
        folder.has_died_at(doomed, point);
        assert_eq!(folder.json(&["lineage", "show", "agent1"])["usage"]["input"], 5, "{point}");
        assert_eq!(folder.report("agent1", &["turn"])["turn"], 3, "{point}");
        let told: Vec<Value> = folder.journal("turn").iter().map(|row| row["data"]["turn"].clone()).collect();
        assert_eq!(told, [1, 2, 3], "{point}: each is in the journal, once");
    }
}

#[test]
fn a_worker_that_hangs_is_found_and_its_lineage_comes_back() {
    let folder = Folder::new();
    let mut spawn =
        folder.command(env!("CARGO_BIN_EXE_ostk"), &["kernel", "spawn", "agent1", "--pipes", "--"]);
    spawn.args(["sh", "-c", PROGRAM]).env("OSTK_HEARTBEAT_MS", "40");
    assert!(spawn.status().expect("it starts").success());
    let (worker, program) = (folder.process("agent1", "worker"), folder.process("agent1", "program"));
    signal(&worker, Signal::STOP).expect("ours");
    folder.until("it is back", |folder| folder.session("agent1")["generation"] == 2);
    assert!(!is_alive(&worker) && !is_alive(&program));
    assert_eq!((folder.journal("hung").len(), folder.journal("died").len()), (1, 1));
}

/// Shows which generation it is, what was left to it, and each line it reads; ignores a polite end.
const SUCCESSOR: &str = "trap '' TERM; echo generation $OSTK_GENERATION; test -n \"$OSTK_HANDOFF\" && cat $OSTK_HANDOFF; exec cat";

impl Folder {
    /// Leads generation 1 of a session to the end of its context.
    fn use_up(&self, name: &str) {
        self.report(name, &["turn", r#"{"messages":[1]}"#]);
        assert_eq!(
            self.report(name, &["context", "71"])["handoff"],
            json!({"generation": 1, "written": false})
        );
        assert!(self.drain(name, "handoff.json").is_file(), "prepared");
        self.report(name, &["intent", "call-1", "--tool", "deploy"]);
        self.report(name, &["turn"]);
        self.report(name, &["context", "93"]);
        self.ok(&["prompt", name, "--finalization", "write your handoff"]);
        self.report(name, &["handoff", "the deploy is half done"]);
        assert_eq!(self.report(name, &["turn"])["lifecycle"], "dead");
    }

    fn is_at(&self, name: &str, generation: u64) {
        self.until("the next generation", |folder| {
            let session = folder.session(name);
            session["generation"] == generation && session["state"] == "active"
        });
    }
}

#[test]
fn a_dead_context_gives_way_to_the_next_generation_which_acknowledges_what_was_left_to_it() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sh", "-c", SUCCESSOR]);
    let (code, line) = folder.refused(&["report", "--session", "agent1", "handoff", "early"]);
    assert!(code == 4 && line.contains("from aging on"), "{line}");
    assert_eq!(folder.refused(&["report", "--session", "agent1", "acknowledge"]).0, 3);
    let lineage = folder.session("agent1")["lineage"].clone();
    let before = folder.process("agent1", "program");
    folder.use_up("agent1");
    folder.is_at("agent1", 2);
    assert!(!is_alive(&before), "no two of anyone");
    let session = folder.session("agent1");
    assert_eq!((&session["lineage"], &session["lifecycle"]), (&lineage, &json!("healthy")));
    assert_eq!(session["handoff"], json!({"generation": 1, "written": true}), "nobody has acknowledged it");
    folder.until("what was left", |folder| {
        let said = folder.ok(&["logs", "agent1"]);
        said.contains("generation 2")
            && said.contains("the deploy is half done")
            && said.contains("\"call-1\": \"deploy\"")
    });
    let former =
        |folder: &Folder| folder.journal("reaped").iter().filter(|row| row["generation"] == 1).count();
    assert_eq!(former(&folder), 0, "before it was acknowledged");
    folder.report("agent1", &["acknowledge"]);
    assert_eq!(former(&folder), 1);
    assert_eq!(folder.session("agent1")["handoff"], Value::Null);
    assert!(!folder.drain("agent1", "handoff.json").exists());
    assert!(folder.drain("agent1", "handoff.prev.json").is_file(), "kept as evidence");
    let is: Vec<Value> = folder.journal("handoff").iter().map(|row| row["data"]["is"].clone()).collect();
    assert_eq!(is, ["prepared", "written", "acknowledged"]);
    assert_eq!(folder.journal("succeed").len(), 1);
}

#[test]
fn t18_an_anchor_killed_over_a_succession_leaves_it_to_the_next_and_what_dies_before_it_acknowledged_is_told_again()
 {
    let folder = Folder::new();
    // The last turn is in the log, and in no snapshot; its row is in the journal, and what it led to is not; the wish is.
    let points = [("anchor.drain.kept", 3), ("anchor.report.row", 10), ("anchor.succeed.wished", 1)];
    for (name, (point, hit)) in ["agent2", "agent3", "agent1"].into_iter().zip(points) {
        folder.ok(&["kernel", "spawn", name, "--pipes", "--", "sh", "-c", SUCCESSOR]);
        let doomed = folder.serve_until(&format!("{point}=kill@{hit}"));
        folder.use_up(name);
        folder.has_died_at(doomed, point);
        folder.is_at(name, 2);
    }
    assert_eq!(folder.journal("succeed").len(), 3);
    let dead = folder.journal("lifecycle").into_iter().filter(|row| row["data"]["to"] == "dead");
    assert_eq!(dead.count(), 3, "also of the turn that an anchor died over");
    signal(&folder.process("agent1", "worker"), Signal::KILL).expect("sent");
    folder.is_at("agent1", 3);
    folder.says_within("agent1", "generation 3");
    assert_eq!(folder.session("agent1")["handoff"]["generation"], 1, "it is pointed to the same");
    folder.report("agent1", &["acknowledge"]);
    assert_eq!(folder.session("agent1")["handoff"], Value::Null);
}

#[test]
fn t18_a_successor_that_ages_before_it_acknowledged_takes_nothing_from_what_was_left_to_it() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sh", "-c", SUCCESSOR]);
    folder.use_up("agent1");
    folder.is_at("agent1", 2);
    assert_eq!(
        folder.report("agent1", &["context", "71"])["handoff"],
        json!({"generation": 1, "written": true})
    );
    let mine = ["report", "--session", "agent1", "handoff", "all is done"];
    let (code, line) = folder.refused(&mine);
    assert!(code == 4 && line.contains("generation 1 left has not been acknowledged"), "{line}");
    let left = std::fs::read_to_string(folder.drain("agent1", "handoff.json")).expect("reads");
    assert!(left.contains("the deploy is half done"));
    folder.report("agent1", &["acknowledge"]);
    assert_eq!(folder.journal("reaped").iter().filter(|row| row["generation"] == 1).count(), 1);
    let of = |row: &Value| (row["data"]["of"].clone(), row["data"]["is"].clone());
    let told: Vec<_> = folder.journal("handoff").iter().skip(2).map(of).collect();
    assert_eq!(told, [(json!(1), json!("acknowledged")), (json!(2), json!("prepared"))]);
    assert_eq!(std::fs::read_to_string(folder.drain("agent1", "handoff.prev.json")).expect("reads"), left);
    folder.ok(&mine);
}

#[test]
fn a_succession_that_was_refused_is_tried_again_with_the_next_heartbeats() {
    let folder = Folder::new();
    let mut doomed = folder.command(env!("CARGO_BIN_EXE_ostk"), &["serve"]);
    let hits = folder.dir.path().join("hits");
    doomed.env("OSTK_HEARTBEAT_MS", "100");
    doomed.env("NETSKY_FAULT", "anchor.succeed.wished=error").env("NETSKY_FAULT_LOG", &hits);
    let mut doomed = doomed.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts");
    folder.until("it serves", |folder| folder.json(&["status"])["pid"] == doomed.id());
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sh", "-c", SUCCESSOR]);
    folder.use_up("agent1");
    folder.is_at("agent1", 2);
    assert!(hits.is_file(), "it was refused once");
    assert_eq!(folder.journal("succeed").len(), 1);
    folder.ok(&["kernel", "shutdown", "--all"]);
    assert!(doomed.wait().expect("ours").success());
}

#[test]
fn a_successor_whose_anchor_dies_before_its_program_runs_is_started_by_the_next_whatever_the_policy() {
    for policy in ["reap", "ask"] {
        let folder = Folder::new();
        folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sh", "-c", SUCCESSOR]);
        folder.settings(&format!("LIMIT revival_policy {policy}\n"));
        let doomed = folder.serve_until("anchor.spawn.reserved=kill");
        folder.use_up("agent1");
        folder.has_died_at(doomed, "anchor.spawn.reserved");
        folder.until("its successor", |folder| folder.session("agent1")["state"] == "active");
        folder.is_at("agent1", 3);
        assert_eq!(folder.session("agent1")["handoff"]["generation"], 1, "{policy}");
    }
}

#[test]
fn a_program_that_has_returned_tells_nothing_any_more_and_a_report_of_before_is_answered_again() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--pipes", "--", "sh", "-c", "read line"]);
    let told = ["report", "--session", "agent1", "--request-id", "r1", "turn"];
    let first = folder.ok(&told);
    folder.ok(&["prompt", "agent1", "go"]);
    folder.until("it returned", |folder| folder.session("agent1")["state"] == "exited");
    let (code, line) = folder.refused(&["report", "--session", "agent1", "turn"]);
    assert!(code == 1 && line.contains("agent1 is over at generation 1"), "{line}");
    assert_eq!(folder.ok(&told), first);
    assert_eq!(folder.session("agent1")["turn"], 1);
}

#[test]
fn a_kill_ends_a_succession_and_a_keeper_above_is_only_told() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--no-revive", "--pipes", "--", "sh", "-c", SUCCESSOR]);
    folder.use_up("agent1");
    assert_eq!((folder.journal("succeed").len(), folder.journal("lifecycle").len()), (0, 4));
    assert_eq!(folder.refused(&["report", "--session", "agent1", "intent", "x", "--tool", "sh"]).0, 4);
    folder.ok(&["kernel", "kill", "agent1", "--grace", "1ms"]);
    folder.ok(&["kernel", "spawn", "agent1", "--no-revive", "--pipes", "--", "sh", "-c", SUCCESSOR]);
    folder
        .until("what was left", |folder| folder.ok(&["logs", "agent1"]).contains("the deploy is half done"));
    folder.ok(&["kernel", "spawn", "agent2", "--pipes", "--", "sh", "-c", SUCCESSOR]);
    folder.use_up("agent2");
    folder.ok(&["kernel", "kill", "agent2", "--grace", "1ms"]);
    assert_eq!(folder.session("agent2")["generation"], 1, "it was stopped on purpose");
}

/// The seed's global registry: a line for what is true of each session, for whoever looks without an anchor.
#[test]
fn must_show_1_the_registry_follows_a_session_from_its_start_to_its_reaping_and_over_its_anchor() {
    let folder = Folder::new();
    let registry = folder.dir.path().join(".ostk/agents.jsonl");
    let lines = |name: &str| {
        let text = std::fs::read_to_string(&registry).expect("reads");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
        lines.filter(|line| line["name"] == name).collect::<Vec<_>>()
    };
    let mut spawn = folder.command(env!("CARGO_BIN_EXE_ostk"), &["kernel", "spawn", "agent1", "--"]);
    spawn.args(["sleep", "1000"]).env("OSTK_HEARTBEAT_MS", "20");
    assert!(spawn.status().expect("it starts").success());
    let said = lines("agent1").pop().expect("registered before it was answered");
    assert_eq!((&said["status"], &said["pid"]), (&json!("active"), &folder.session("agent1")["pid"]));
    folder.until("heartbeats", |_| {
        lines("agent1").last().expect("one")["heartbeat"]["liveness"].as_u64() > Some(2)
    });
    let anchor = folder.anchor();
    signal(&anchor, Signal::KILL).expect("ours");
    folder.until("another anchor", |folder| {
        folder.ok(&["kernel", "ps"]);
        folder.anchor() != anchor
    });
    assert_eq!(lines("agent1").pop().expect("a line")["status"], "active");
    folder.ok(&["kernel", "kill", "agent1", "--grace", "1ms"]);
    let said = lines("agent1").pop().expect("a line");
    assert_eq!((&said["status"], &said["pid"]), (&json!("stopped"), &Value::Null));
    folder.ok(&["kernel", "reap"]);
    assert_eq!(lines("agent1").pop().expect("a line")["status"], "inactive");
    assert!(!folder.dir.path().join(".ostk/.heartbeat.agent1").exists());
}

/// The journal is the truth: what an anchor shows is what the rows alone give, also where no description is left.
#[test]
fn i5_the_process_table_is_the_fold_of_the_journal_also_without_descriptions() {
    let folder = Folder::new();
    let table = |folder: &Folder, from: &[&str]| {
        let sessions = folder.json(from)["sessions"].clone();
        let rows = sessions.as_array().expect("sessions").iter();
        rows.map(|row| ["name", "lineage", "generation", "state"].map(|key| row[key].clone()))
            .collect::<Vec<_>>()
    };
    for name in ["agent1", "agent2", "agent3", "agent4", "agent5"] {
        folder.spawn(name, &[]);
    }
    folder.ok(&["kernel", "kill", "agent2", "--grace", "1ms"]);
    folder.spawn("agent2", &[]);
    folder.ok(&["kernel", "kill", "agent3", "--grace", "1ms"]);
    folder.ok(&["kernel", "reap"]);
    folder.settings("LIMIT revival_policy ask\n");
    signal(&folder.process("agent4", "worker"), Signal::KILL).expect("ours");
    folder.until("it is asked about", |folder| folder.session("agent4")["state"] == "asking");
    let folder_refused = folder.run(&["kernel", "spawn", "agent6", "--no-revive", "--", "/nonexistent"]);
    assert!(!folder_refused.status.success());
    let anchor = folder.anchor();
    signal(&anchor, Signal::KILL).expect("ours");
    folder.until("another anchor", |folder| {
        folder.ok(&["kernel", "ps"]);
        folder.anchor() != anchor
    });
    let shown = table(&folder, &["kernel", "ps", "--all"]);
    let states: Vec<&Value> = shown.iter().map(|row| &row[3]).collect();
    assert_eq!(states, ["active", "active", "inactive", "asking", "active", "failed"]);
    assert_eq!(table(&folder, &["journal", "sessions"]), shown);
    folder.ok(&["kernel", "shutdown", "--all"]);
    std::fs::remove_dir_all(folder.dir.path().join(".ostk/agents")).expect("there");
    let left = table(&folder, &["journal", "sessions"]);
    let known = |rows: &[[Value; 4]]| rows.iter().map(|row| row[..3].to_vec()).collect::<Vec<_>>();
    assert_eq!(known(&left), known(&shown));
}
