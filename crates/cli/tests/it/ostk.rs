//! The real `ostk` in a throwaway folder: on-demand start, its words and its exit codes.

use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Output, Stdio};

use netsky_disk::process::is_alive;
use netsky_kernel::client::Client;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Folder {
    pub(crate) dir: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder { dir: tempfile::Builder::new().prefix("ostk").tempdir().expect("a throwaway folder") }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_file(env!("CARGO_BIN_EXE_ostk"), args)
    }

    fn run_file(&self, program: &str, args: &[&str]) -> Output {
        self.command(program, args).output().expect("the program starts")
    }

    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").current_dir(self.dir.path());
        // Nobody here waits for the usual ten seconds.
        command.stdin(Stdio::null()).env("OSTK_REVIVE_MS", "1000");
        command
    }

    /// Standard output of a run that must end with 0 and say nothing on standard error.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "ostk {args:?}: {}\n{out}{err}", output.status);
        out.into_owned()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        assert_eq!(text.lines().count(), 1, "one object on one line: {text}");
        serde_json::from_str(&text).expect("one JSON object")
    }

    /// Waits until a session has printed just this.
    fn says(&self, args: &[&str], wanted: &str) {
        self.until(wanted, |folder| folder.ok(args) == wanted);
    }

    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Folder) -> bool) {
        let began = std::time::Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < std::time::Duration::from_secs(90), "{what} did not happen");
        }
    }

    /// Exit code and the one line of a run that must fail; the folder is written as `$PWD`.
    pub(crate) fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "ostk {args:?}");
        let line = String::from_utf8(output.stderr).expect("text");
        assert_eq!(line.lines().count(), 1, "one line: {line}");
        let here = self.dir.path().to_str().expect("text");
        (output.status.code().expect("an exit"), line.trim_end().replace(here, "$PWD"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whatever the test left running; a folder without a root has nothing.
        self.run(&["kernel", "shutdown", "--all"]);
    }
}

#[test]
fn a_session_from_its_start_on_demand_to_its_end() {
    let folder = Folder::new();
    let told =
        folder.ok(&["kernel", "spawn", "agent7", "--pipes", "--", "sh", "-c", "echo hello; exec sleep 1000"]);
    assert!(told.starts_with("agent7 generation 1 runs: pid "), "{told}");

    let sessions = folder.json(&["kernel", "ps"]);
    let session = &sessions["sessions"][0];
    for (key, value) in [("id", "agent7"), ("name", "agent7"), ("state", "active"), ("runtime", "command")] {
        assert_eq!(session[key], value, "{session}");
    }
    assert!(session["pid"].is_u64() && session["generation"] == 1, "{session}");
    assert!(session["lineage"].as_str().is_some_and(|id| id.starts_with("agent7-")), "{session}");
    assert_eq!(session.get("context_pct"), Some(&Value::Null), "not known, and said so: {session}");
    assert!(session.get("env").is_none(), "an environment is nobody's to see");
    assert_eq!(folder.json(&["kernel", "show", "agent7"])["pid"], session["pid"]);
    assert_eq!(folder.json(&["lineage", "list"])["lineages"][0]["id"], session["lineage"]);
    let status = folder.json(&["status"]);
    assert_eq!((&status["serving"], &status["states"]["active"]), (&Value::from(true), &Value::from(1)));
    // The program was started before `spawn` returned; its first words may take a moment longer.
    folder.says(&["logs", "agent7"], "hello\n");

    assert_eq!(folder.ok(&["kernel", "kill", "agent7"]), "agent7 is down: killed on request\n");
    assert_eq!(folder.json(&["kernel", "ps"])["sessions"][0]["state"], "stopped");
    assert_eq!(folder.ok(&["kernel", "reap"]), "reaped agent7\n");
    assert_eq!(folder.ok(&["kernel", "ps"]), "no sessions\n");
    assert_eq!(folder.json(&["kernel", "ps", "--all"])["sessions"][0]["state"], "inactive");

    assert_eq!(folder.ok(&["kernel", "rename", "agent7", "scout"]), "agent7 is scout from now on\n");
    let same = "ostk: scout has that name already: there is nothing to rename; nothing was done";
    assert_eq!(folder.refused(&["kernel", "rename", "scout", "scout"]), (2, same.to_owned()));
    let renamed = folder.json(&["kernel", "show", "scout"]);
    assert_eq!((&renamed["id"], &renamed["lineage"]), (&Value::from("scout"), &session["lineage"]));
    assert_eq!(folder.ok(&["logs", "scout"]), "hello\n");
    let table = folder.json(&["journal", "sessions"]);
    assert_eq!(table["sessions"][0]["name"], "scout");
}

#[test]
fn a_session_outlives_its_anchor_and_shutdown_all_ends_it() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    let before = folder.json(&["kernel", "show", "agent0"]);
    assert_eq!(folder.ok(&["kernel", "shutdown"]), "the anchor stopped; 0 sessions ended, 1 live on\n");
    let after = folder.json(&["kernel", "show", "agent0"]);
    assert_eq!((&after["pid"], &after["state"]), (&before["pid"], &Value::from("active")));
    assert_eq!(folder.json(&["kernel", "shutdown", "--all"])["ended"], serde_json::json!(["agent0"]));
    let pid = before["pid"].as_u64().expect("a pid");
    assert!(!std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists());
    assert!(folder.ok(&["kernel", "shutdown"]).starts_with("nobody serves "));
    assert!(folder.ok(&["kernel", "shutdown", "--all"]).ends_with(".ostk, and no session lives\n"));
}

#[test]
fn without_an_anchor_status_tells_what_the_files_know_and_starts_nothing() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    folder.ok(&["kernel", "spawn", "agent1", "--no-revive", "--", "true"]);
    folder.ok(&["kernel", "spawn", "agent2", "--", "sleep", "1000"]);
    let lost = folder.json(&["kernel", "show", "agent2"]);
    folder.until("its end is told", |folder| folder.json(&["kernel", "show", "agent1"])["state"] == "exited");
    folder.ok(&["report", "turn", "{}", "--session", "agent0"]);
    folder.ok(&["report", "context", "80", "--session", "agent0"]);
    folder.ok(&["kernel", "shutdown"]);
    let first = &folder.json(&["status"])["sessions"][0];
    assert_eq!(
        ["turn", "lifecycle", "context_pct"].map(|key| first[key].to_string()),
        ["1", "\"aging\"", "80"]
    );
    let pid = |key: &str| i32::try_from(lost[key]["pid"].as_u64().expect("a pid")).expect("fits");
    for key in ["worker", "program"] {
        let pid = rustix::process::Pid::from_raw(pid(key)).expect("a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let states = serde_json::json!({"active": 1, "exited": 1, "orphaned": 1});
    folder.until("the worker is gone", |folder| folder.json(&["status"])["states"] == states);
    let status = folder.json(&["status"]);
    assert_eq!(
        (&status["serving"], &status["sessions"][0]["id"]),
        (&Value::from(false), &Value::from("agent0"))
    );
    let told = folder.ok(&["status"]);
    assert!(told.starts_with("no anchor runs: nobody serves "), "{told}");
    assert!(told.contains("agent0") && told.contains("1 active, 1 exited, 1 orphaned"), "{told}");
    assert_eq!(folder.json(&["status"])["serving"], false, "a look starts nothing");
}

#[test]
fn without_an_anchor_status_lists_what_lives_or_was_lost_without_a_description() {
    let folder = Folder::new();
    folder.spawn("agent0", &[]);
    let shown = folder.session("agent0");
    folder.ok(&["kernel", "shutdown"]);
    std::fs::remove_file(folder.file("agents/agent0.meta")).expect("there");
    let states = |folder: &Folder| folder.json(&["status"])["states"].clone();
    assert_eq!(states(&folder), serde_json::json!({"active": 1}));
    let status = folder.json(&["status"]);
    let [session, unread] = [&status["sessions"][0], &status["unread"]];
    assert_eq!((&session["worker"], &session["generation"]), (&shown["worker"], &shown["generation"]));
    assert_eq!((unread, &status["serving"]), (&serde_json::json!(["agent0"]), &Value::from(false)));
    assert!(folder.ok(&["status"]).contains("the description of agent0 is gone or does not read\n"));
    let worker = serde_json::from_value(shown["worker"].clone()).expect("a process");
    netsky_disk::process::signal(&worker, netsky_disk::process::Signal::KILL).expect("ours");
    folder.until("it is lost", |folder| states(folder) == serde_json::json!({"orphaned": 1}));
}

#[test]
fn settings_that_do_not_read_are_told_by_status_and_the_last_good_ones_go_on_over_anchors() {
    let folder = Folder::new();
    folder.spawn("agent0", &[]);
    folder.settings("LIMIT revival_policy ask\n");
    assert!(!folder.ok(&["status"]).contains("settings"));
    folder.until("they are looked at", |folder| {
        folder.ok(&["kernel", "ps"]);
        folder.dir.path().join(".ostk/settings.good").exists()
    });
    folder.settings("LIMIT revival_policy revive\nLIMIT \0\0");
    let why = "line 2: it is not LIMIT, a name and a value; the last good ones go on";
    folder.ok(&["kernel", "shutdown"]);
    for _ in 0..2 {
        assert!(folder.ok(&["status"]).contains(&format!("its settings do not read: {why}\n")));
        assert_eq!(folder.json(&["status"])["settings"], why);
        folder.ok(&["kernel", "ps"]);
    }
    folder.take_away(&["agent0"]);
    folder.until("it is asked about", |folder| folder.session("agent0")["state"] == "asking");
    let told = folder.journal("damaged");
    assert!(told.len() > 1 && told.iter().all(|row| row["data"]["why"] == why), "{told:?}");
}

#[test]
fn settings_that_could_not_be_kept_are_told_by_status_as_the_anchor_tells_them() {
    let folder = Folder::new();
    folder.spawn("agent0", &[]);
    // What has its name keeps a copy from being made.
    std::fs::create_dir(folder.file("settings.good")).expect("made");
    folder.settings("LIMIT revival_policy ask\n");
    folder.ok(&["kernel", "ps"]);
    folder.settings("LIMIT");
    let told = folder.json(&["status"])["settings"].clone();
    let why = told.as_str().unwrap_or_default();
    assert!(why.ends_with("; the last good ones go on while this anchor runs"), "{why}");
    assert!(folder.ok(&["status"]).contains(&format!("its settings do not read: {why}\n")));
    let rows = folder.journal("damaged");
    assert!(rows.iter().any(|row| row["data"]["why"] == told), "{rows:?}");
}

#[test]
fn a12_whom_a_full_anchor_turns_away_reads_that_and_what_to_do() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    let connect = || std::os::unix::net::UnixStream::connect(folder.dir.path().join(".ostk/ostk.sock"));
    let crowd: Vec<_> = (0..256).map(|_| connect().expect("an anchor serves")).collect();
    let (code, line) = folder.refused(&["kernel", "kill", "agent0"]);
    let told = "ostk: the anchor of $PWD/.ostk takes no more clients: 256 clients are connected already; nothing was done; ";
    assert!(code == 5 && line.starts_with(told), "{code} {line}");
    drop(crowd);
    folder.until("there is room", |folder| folder.run(&["kernel", "kill", "agent0"]).status.success());
}

#[test]
fn a12_a_report_that_a_full_anchor_turned_away_is_told_again() {
    use std::io::Write as _;
    let folder = Folder::new();
    folder.spawn("agent0", &[]);
    folder.ok(&["kernel", "shutdown"]);
    // One that has no slot, and is gone the next time.
    let path = folder.dir.path().join(".ostk/ostk.sock");
    folder.until("it is gone", |_| !path.exists());
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    let full = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("it comes");
        std::fs::remove_file(path).expect("removed");
        let error = r#"{"code":-32003,"message":"256 clients are connected already","data":{"kind":"busy"}}"#;
        let reply = format!(r#"{{"jsonrpc":"2.0","id":null,"epoch":1,"error":{error}}}"#);
        client.write_all(format!("{reply}\n").as_bytes()).expect("written");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(client), &mut line).expect("its greeting");
    });
    let told = folder.ok(&["report", "context", "5", "--session", "agent0"]);
    full.join().expect("no panic");
    assert!(told.ends_with(", 5% of its context used\n"), "{told}");
}

#[test]
fn a_shutdown_of_everything_ends_what_an_anchor_left_that_stopped_before_it_took_this() {
    use std::io::{BufRead as _, Write as _};
    let folder = Folder::new();
    folder.spawn("agent0", &[]);
    let program = folder.process("agent0", "program");
    let hello = folder.ok(&["rpc", "call", "kernel/hello"]);
    folder.ok(&["kernel", "shutdown"]);
    assert!(is_alive(&program));
    // One that greets, and stops for somebody else before it has taken anything more.
    let path = folder.dir.path().join(".ostk/ostk.sock");
    folder.until("it is gone", |_| !path.exists());
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    let stopping = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("it comes");
        let mut lines = std::io::BufReader::new(client.try_clone().expect("a descriptor")).lines();
        lines.next().expect("a greeting").expect("reads");
        let hello: Value = serde_json::from_str(&hello).expect("JSON");
        let reply = serde_json::json!({"jsonrpc": "2.0", "id": 1, "epoch": 1, "result": hello});
        client.write_all(format!("{reply}\n").as_bytes()).expect("written");
        lines.next().expect("its wish").expect("reads");
        std::fs::remove_file(path).expect("removed");
    });
    let told = folder.ok(&["kernel", "shutdown", "--all"]);
    stopping.join().expect("no panic");
    assert_eq!(told, "the anchor stopped; 1 sessions ended, 0 live on\n");
    assert!(!is_alive(&program));
}

#[test]
fn a_shutdown_beside_another_that_is_at_work_says_that_the_anchor_has_not_stopped_yet() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done"]);
    let program = folder.process("agent0", "program");
    let everything = r#"{"all": true, "grace_ms": 3000}"#;
    std::thread::scope(|scope| {
        let at_work = scope.spawn(|| folder.json(&["rpc", "call", "kernel/shutdown", everything]));
        let root = folder.dir.path().join(".ostk");
        folder.until("it begins", |_| Client::connect(&root).is_ok_and(|client| client.hello().stopping));
        let told = folder.ok(&["kernel", "shutdown"]);
        let not_yet = "the anchor stops once another shutdown, which is at work, is done; ";
        assert_eq!(told, format!("{not_yet}0 sessions ended, 1 live on\n"));
        assert_eq!(at_work.join().expect("no panic")["ended"], serde_json::json!(["agent0"]));
    });
    assert!(!is_alive(&program));
}

#[test]
fn a_lost_session_that_is_killed_is_stopped_from_then_on() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    std::fs::write(folder.dir.path().join(".ostk/settings"), "LIMIT revival_policy ask\n").expect("written");
    let lost = folder.json(&["kernel", "show", "agent0"]);
    let worker = i32::try_from(lost["worker"]["pid"].as_u64().expect("a pid")).expect("fits");
    let worker = rustix::process::Pid::from_raw(worker).expect("a pid");
    rustix::process::kill_process(worker, rustix::process::Signal::KILL).expect("ours");
    folder.until("it is lost", |folder| folder.json(&["kernel", "show", "agent0"])["state"] == "asking");
    folder.ok(&["kernel", "kill", "agent0"]);
    let state = |folder: &Folder| folder.json(&["kernel", "show", "agent0"])["state"].clone();
    assert_eq!(state(&folder), "stopped");
    folder.ok(&["kernel", "shutdown"]);
    assert_eq!(folder.json(&["status"])["states"], serde_json::json!({"stopped": 1}));
    assert_eq!(folder.json(&["journal", "sessions"])["sessions"][0]["state"], "stopped");
    assert_eq!(state(&folder), "stopped", "also with the next anchor");
}

#[test]
fn what_cannot_be_done_is_said_in_one_line_with_its_exit_code() {
    let folder = Folder::new();
    let nothing = "ostk: no kernel root at $PWD/.ostk; `ostk kernel spawn` or `ostk serve` makes one";
    assert_eq!(folder.refused(&["kernel", "ps"]), (3, nothing.to_owned()));
    assert!(!folder.ok(&["status"]).contains("settings"), "there are none yet");
    assert!(!folder.dir.path().join(".ostk").exists(), "a look makes no root");
    let bare = "ostk: agent0 has no program: there is no native runtime yet; give one after --";
    assert_eq!(folder.refused(&["kernel", "spawn", "agent0", "--model", "m"]), (4, bare.to_owned()));
    assert_eq!(folder.refused(&["kernel", "spawn", "../x", "--", "true"]).0, 2);
    let (code, line) = folder.refused(&["kernel", "spawn", "agent0", "--", "/nowhere/program"]);
    assert_eq!(code, 1, "{line}");
    assert!(line.contains("agent0 did not start") && line.contains("/nowhere/program"), "{line}");

    folder.ok(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    let busy = folder.refused(&["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    let way = "nothing was done; take another name, see it with `ostk attach agent0`, or end it with `ostk kernel kill agent0`";
    assert_eq!(busy, (5, format!("ostk: agent0 is the name of a session that lives; {way}")));
    let (code, line) = folder.refused(&["kernel", "spawn", "agent1", "--runtime", "bogus", "--", "true"]);
    assert!(code == 2 && line.contains("no such runtime; this version has: command"), "{code} {line}");
    let large = "ostk: 65535x65535 is too large: a terminal has at most 4096 lines and 4096 columns; nothing was done";
    assert_eq!(folder.refused(&["kernel", "resize", "agent0", "65535x65535"]), (2, large.to_owned()));
    let patient = folder.refused(&["kernel", "kill", "agent0", "--grace", "11m"]);
    assert!(
        patient.0 == 2 && patient.1.contains("--grace") && patient.1.contains("at most 10m"),
        "{patient:?}"
    );
    let stale = folder.refused(&["kernel", "kill", "agent0", "--if-generation", "1"]);
    assert_eq!(stale, (1, "ostk: agent0 is at generation 2, not 1; nothing was done, look again".to_owned()));
    let lives = folder.refused(&["kernel", "rename", "agent0", "scout"]);
    let why = "ostk: agent0 lives, and its worker writes under that name: end it first";
    assert_eq!(lives, (4, why.to_owned()));
    assert_eq!(folder.refused(&["kernel", "rename", "agent0", "no/name"]).0, 2);
    assert_eq!(folder.refused(&["kernel", "rename", "agent9", "scout"]).0, 3);
    let unknown = folder.refused(&["kernel", "kill", "agent9"]);
    assert_eq!(unknown, (3, "ostk: no session agent9; see `ostk kernel ps`".to_owned()));
    assert_eq!(folder.refused(&["logs", "agent9"]).0, 3);
    let (code, line) = folder.refused(&["serve"]);
    assert_eq!(code, 5, "{line}");
    assert!(line.starts_with("ostk: an anchor already serves $PWD/.ostk (pid "), "{line}");
}

#[test]
fn the_model_and_the_environment_reach_the_program_and_no_mark_of_ours_does() {
    let folder = Folder::new();
    let line = "echo $OSTK_MODEL $A; env | grep -c OSTK_APART";
    let args =
        ["kernel", "spawn", "agent0", "--pipes", "--model", "m1", "--env", "A=b c", "--", "sh", "-c", line];
    folder.ok(&args);
    folder.says(&["logs", "agent0", "--follow"], "m1 b c\n0\n");
}

#[test]
fn a_program_that_was_replaced_starts_the_new_file_as_its_anchor() {
    let folder = Folder::new();
    let place = folder.dir.path().join("ostk");
    // By a process of its own: what others start here meanwhile must not hold it open to write when it is started.
    let copy = || {
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_ostk")).arg(&place).status();
        assert!(copied.expect("cp runs").success());
    };
    copy();
    let old = std::fs::File::open(&place).expect("opens");
    std::fs::remove_file(&place).expect("removed");
    copy();
    let old = format!("/proc/{}/fd/{}", std::process::id(), old.as_raw_fd());
    let output = folder.run_file(&old, &["kernel", "spawn", "agent0", "--", "sleep", "1000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let anchor = folder.json(&["status"])["pid"].as_u64().expect("an anchor serves");
    assert_eq!(std::fs::read_link(format!("/proc/{anchor}/exe")).expect("ours"), place);
}

/// Starts `logs agent0`; once this returns, it has read its first line and stands still until its output is read.
fn slow_reader(folder: &Folder, how: &[&str]) -> Child {
    let mut reader = folder.command(env!("CARGO_BIN_EXE_ostk"), &[&["logs", "agent0"], how].concat());
    let mut reader = reader.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut start = [0; "start\n".len()];
    reader.stdout.as_mut().expect("piped").read_exact(&mut start).expect("it reads along");
    reader
}

/// How many bytes a reader got after the first line and how many it was told it missed, which must be some.
fn got_and_missed(reader: Child) -> (usize, usize) {
    let Output { status, stdout, stderr } = reader.wait_with_output().expect("it ends");
    let told = String::from_utf8(stderr).expect("text");
    let said = |line: &str| {
        let number = line
            .strip_prefix("ostk: ")?
            .strip_suffix(" bytes of agent0 are missing: they are no longer kept")?;
        number.parse::<usize>().ok()
    };
    let missing: usize = told.lines().map(|line| said(line).expect("so many")).sum();
    assert!(status.success() && missing > 0, "{told}");
    assert!(stdout.iter().all(|byte| *byte == b'x'), "its output, and nothing else");
    (stdout.len(), missing)
}

#[test]
fn a_reader_slower_than_the_log_is_told_how_many_bytes_it_missed() {
    let folder = Folder::new();
    // Far more than a pipe holds; and far more than is kept.
    let (before, after) = (1 << 20, 32 << 20);
    let print = |much: usize| format!("head -c {much} /dev/zero | tr '\\0' x");
    let (before_go, after_go) = (print(before), print(after));
    let script = format!("echo start; {before_go}; until [ -e go ]; do sleep 0.1; done; {after_go}");
    folder.ok(&["kernel", "spawn", "agent0", "--pipes", "--", "sh", "-c", &script]);
    folder.until("all before", |folder| folder.ok(&["logs", "agent0"]).len() == "start\n".len() + before);
    let (follows, ends) = (slow_reader(&folder, &["-f"]), slow_reader(&folder, &[]));
    std::fs::write(folder.dir.path().join("go"), "").expect("written");
    folder.until("its end", |folder| folder.json(&["kernel", "ps"])["sessions"][0]["state"] == "exited");
    let (got, missed) = got_and_missed(follows);
    assert_eq!(got + missed, before + after, "followed: {got} and {missed}");
    // What came after it asked was never asked for.
    let (got, missed) = got_and_missed(ends);
    assert_eq!(got + missed, before, "not followed: {got} and {missed}");
}

#[test]
fn a_follower_whose_reader_is_gone_ends_well_whether_there_is_more_to_print_or_not() {
    for then in ["yes", "sleep 1000"] {
        let folder = Folder::new();
        folder.ok(&[
            "kernel",
            "spawn",
            "agent0",
            "--pipes",
            "--",
            "sh",
            "-c",
            &format!("echo start; exec {then}"),
        ]);
        let mut reader = slow_reader(&folder, &["-f"]);
        drop(reader.stdout.take());
        let mut end = None;
        folder.until("the end of a follower", |_| {
            end = reader.try_wait().expect("ours");
            end.is_some()
        });
        assert_eq!(end.and_then(|end| end.code()), Some(0), "{then}");
    }
}

#[test]
fn standard_error_is_printed_where_a_session_has_its_own() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--pipes", "--", "sh", "-c", "echo out; echo err >&2"]);
    folder.says(&["logs", "agent0", "--stderr", "-f"], "err\n");
    folder.says(&["logs", "agent0", "--stderr"], "err\n");
    folder.says(&["logs", "agent0", "-f"], "out\n");
    folder.ok(&["kernel", "spawn", "agent1", "--", "sh", "-c", "echo err >&2"]);
    let none = "ostk: agent1 has no standard error apart: its terminal carries both";
    assert_eq!(folder.refused(&["logs", "agent1", "--stderr"]), (3, none.to_owned()));
    std::fs::write(folder.dir.path().join(".ostk/agents/agent0.err"), "x".repeat(100)).expect("writes");
    let damaged = "ostk: output log $PWD/.ostk/agents/agent0.err is damaged; it was left as it is";
    assert_eq!(folder.refused(&["logs", "agent0", "--stderr"]), (7, damaged.to_owned()));
    folder.ok(&["kernel", "spawn", "agent2", "--pipes", "--", "sleep", "1000"]);
    std::fs::remove_file(folder.file("agents/agent2.err")).expect("there");
    let gone = "ostk: output log $PWD/.ostk/agents/agent2.err is gone";
    assert_eq!(folder.refused(&["logs", "agent2", "--stderr", "-f"]), (7, gone.to_owned()));
    std::fs::remove_file(folder.file("agents/agent1.out")).expect("there");
    let gone = "ostk: output log $PWD/.ostk/agents/agent1.out is gone";
    assert_eq!(folder.refused(&["logs", "agent1"]), (7, gone.to_owned()));
}

#[test]
fn a_variable_that_no_description_can_hold_is_said() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let args = ["kernel", "spawn", "agent0", "--", "sleep", "1000"];
    let mut command = folder.command(env!("CARGO_BIN_EXE_ostk"), &args);
    let told = command.env("ODD", std::ffi::OsStr::from_bytes(b"\xff")).output().expect("starts");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success(), "{said}");
    assert_eq!(said, "ostk: ODD is not UTF-8, and is left out of its environment\n");
}

#[test]
fn a_lineage_whose_snapshots_are_lost_has_finished_turns() {
    let folder = Folder::new();
    folder.spawn("agent0", &[]);
    let lineage = folder.session("agent0")["lineage"].as_str().expect("a lineage").to_owned();
    let snapshot = ["lineage", "show", "agent0", "--snapshot"];
    let none =
        format!("ostk: {lineage} has finished no turn; its program tells of turns by `ostk report turn`");
    assert_eq!(folder.refused(&snapshot), (3, none));
    folder.ok(&["report", "turn", "{}", "--session", "agent0"]);
    let file = folder.file(&format!("drain/{lineage}.json"));
    std::fs::write(&file, "junk").expect("written");
    let lost = |why: &str| {
        format!(
            "ostk: the snapshot of {lineage} {why}; its log goes on to turn 1; the next turn writes another one"
        )
    };
    let junk = format!("does not read: {lineage}.json: not a snapshot: expected value at line 1 column 1");
    assert_eq!(folder.refused(&snapshot), (7, lost(&junk)));
    std::fs::remove_file(&file).expect("there");
    assert_eq!(folder.refused(&snapshot), (3, lost("is not there")));
    folder.ok(&["report", "turn", "{}", "--session", "agent0"]);
    folder.ok(&["report", "turn", "{}", "--session", "agent0"]);
    std::fs::remove_file(&file).expect("there");
    let told = folder.run(&snapshot);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    let before = "ostk: this is the snapshot of turn 2; there is none of 3 yet\n";
    assert!(told.status.success() && said == before, "{said}");
    let shown: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(shown["turn"], 2);
}

#[test]
fn a_session_with_a_clean_environment_is_given_nothing_of_the_shell_but_what_names_who_and_where() {
    let folder = Folder::new();
    let program = ["--env", "GIVEN=yes", "--", "sh", "-c", "env; echo all-said; exec sleep 1000"];
    for (name, clean) in [("clean", &["--clean-env"][..]), ("usual", &[])] {
        let args = [&["kernel", "spawn", name], clean, &program].concat();
        let mut command = folder.command(env!("CARGO_BIN_EXE_ostk"), &args);
        command.env("API_TOKEN", "secret-7").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        assert!(command.output().expect("starts").status.success());
        let meta = std::fs::read_to_string(folder.file(&format!("agents/{name}.meta"))).expect("reads");
        assert_eq!(meta.contains("secret-7"), clean.is_empty(), "{name}");
        folder.until("it has said all", |folder| folder.ok(&["logs", name]).contains("all-said"));
        let said = folder.ok(&["logs", name]);
        for wanted in ["LC_ALL=C.UTF-8", "TZ=UTC", "PATH=/usr/bin:/bin", "GIVEN=yes"] {
            assert!(said.contains(wanted), "{name}: {wanted}\n{said}");
        }
        assert_eq!(said.contains("API_TOKEN"), clean.is_empty(), "{name}");
        folder.ok(&["kernel", "kill", name]);
    }
}
