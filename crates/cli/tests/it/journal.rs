//! The journal of the real `ostk`: read, followed, and held against its heads.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdout, Stdio};

use netsky_disk::process::{PidFd, Signal, is_alive};
use netsky_model::process::ProcessId;
use serde_json::{Value, json};

use crate::ostk::Folder;

impl Folder {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(".ostk").join(name)
    }

    /// A life of a session, and the anchor's end.
    fn some_rows(&self) {
        self.ok(&["kernel", "spawn", "agent1", "--", "sleep", "1000"]);
        self.ok(&["kernel", "kill", "agent1"]);
        self.ok(&["kernel", "shutdown"]);
    }

    fn change(&self, change: impl FnOnce(Vec<&str>) -> String) {
        let text = std::fs::read_to_string(self.file("journal.jsonl")).expect("reads");
        std::fs::write(self.file("journal.jsonl"), change(text.lines().collect())).expect("writes");
    }

    /// Exit code and what was found.
    fn verify(&self) -> (Option<i32>, Value) {
        let output = self.run(&["journal", "verify", "--json"]);
        (output.status.code(), serde_json::from_slice(&output.stdout).expect("one object"))
    }
}

/// What somebody does to the lines of a journal.
type Change = fn(Vec<&str>) -> String;

fn joined(lines: Vec<&str>) -> String {
    lines.join("\n") + "\n"
}

#[test]
fn i5_verify_finds_a_changed_a_dropped_a_moved_row_and_a_dropped_end() {
    let folder = Folder::new();
    folder.some_rows();
    let whole = std::fs::read_to_string(folder.file("journal.jsonl")).expect("reads");
    let (code, found) = folder.verify();
    assert_eq!((code, &found["whole"], &found["cut"]), (Some(0), &json!(true), &Value::Null));
    let rows = whole.lines().count();
    assert_eq!((&found["rows"], &found["head"]), (&json!(rows), &json!(rows)));
    let changes: [(&str, Value, Change); 5] = [
        ("broken", json!([2]), |lines| joined(lines).replacen("\n{\"v\":1", "\n{\"v\":2", 1)),
        ("broken", json!([2]), |lines| joined(lines).replace(r#""keeper":"policy""#, r#""keeper":"anchor""#)),
        ("broken", json!([3]), |mut lines| {
            lines.remove(2);
            joined(lines)
        }),
        ("broken", json!([3, 4, 5]), |mut lines| {
            lines.swap(2, 3);
            joined(lines)
        }),
        ("cut", json!(rows), |mut lines| {
            lines.pop();
            joined(lines)
        }),
    ];
    for (what, wanted, change) in changes {
        folder.change(change);
        let (code, found) = folder.verify();
        assert_eq!((code, &found[what], &found["whole"]), (Some(7), &wanted, &json!(false)), "{found}");
        std::fs::write(folder.file("journal.jsonl"), &whole).expect("writes");
    }
    std::fs::remove_file(folder.file("journal.jsonl")).expect("removed");
    assert_eq!(folder.verify().1["cut"], json!(rows));
    // The next anchor says so, once, and counts anew; it is not whole by that.
    for _ in 0..2 {
        folder.ok(&["kernel", "spawn", "agent2", "--", "true"]);
        let (code, found) = folder.verify();
        assert_eq!((code, &found["whole"], &found["cut"]), (Some(7), &json!(false), &Value::Null), "{found}");
        assert_eq!((&found["told"][0]["row"], &found["told"][0]["cut"]), (&json!(2), &json!(rows)));
        assert_eq!((found["told"].as_array().map(Vec::len), &found["anew"]), (Some(1), &json!([0])));
        folder.ok(&["kernel", "shutdown", "--all"]);
    }
    let said = folder.run(&["journal", "verify"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&format!("row 2 tells of damage that an anchor found, it is not what its heads say: there had been rows up to {rows}")), "{said}");
    assert!(folder.ok(&["recall", "@damaged"]).contains(&format!("\"cut\":{rows}")));
}

#[test]
fn i5_one_file_of_the_heads_that_is_removed_shows_also_behind_the_next_anchor() {
    for name in ["last", "heads.jsonl"] {
        let folder = Folder::new();
        folder.some_rows();
        std::fs::remove_file(folder.file("heads").join(name)).expect("was there");
        let (code, found) = folder.verify();
        let file = format!("heads/{name}");
        assert_eq!((code, &found["gone"]), (Some(7), &json!([file])), "{found}");
        folder.ok(&["kernel", "spawn", "agent2", "--", "true"]);
        let (code, found) = folder.verify();
        assert_eq!((code, &found["gone"]), (Some(7), &json!([])), "{found}");
        assert_eq!(found["told"][0]["unread"], json!([format!("{file}: it is gone")]));
    }
}

#[test]
fn i5_one_file_of_the_heads_that_is_emptied_shows_also_behind_the_next_anchor() {
    let (empty, torn) = (("", "it is empty"), (r#"{"v":1,"se"#, "no head in it reads"));
    for (name, (left, why)) in [("last", empty), ("heads.jsonl", empty), ("heads.jsonl", torn)] {
        let folder = Folder::new();
        folder.some_rows();
        assert_eq!(folder.verify().0, Some(0));
        std::fs::write(folder.file("heads").join(name), left).expect("writes");
        let said = json!([format!("heads/{name}: {why}")]);
        let (code, found) = folder.verify();
        assert_eq!((code, &found["unread"]), (Some(7), &said), "{found}");
        folder.ok(&["kernel", "spawn", "agent2", "--", "true"]);
        let (code, found) = folder.verify();
        assert_eq!((code, &found["unread"]), (Some(7), &json!([])), "{found}");
        assert_eq!(found["told"][0]["unread"], said);
    }
}

#[test]
fn the_newest_rows_are_printed_and_what_comes_is_followed() {
    let folder = Folder::new();
    let nothing =
        "ostk: no journal at $PWD/.ostk/journal.jsonl; the first session or `ostk serve` begins one";
    assert_eq!(folder.refused(&["journal", "tail"]), (3, nothing.to_owned()));
    folder.some_rows();
    let all = folder.ok(&["journal", "tail"]);
    let last: Vec<&str> = all.lines().rev().take(2).collect();
    assert_eq!(folder.ok(&["journal", "tail", "-n", "2"]).lines().rev().collect::<Vec<_>>(), last);
    let behind = folder.ok(&["journal", "tail", "--since", "3"]);
    assert!(behind.starts_with("4 "), "{behind}");
    assert_eq!(folder.ok(&["journal", "tail", "--since", "2999-01-01T00:00:00Z"]), "");

    let mut follow = folder.command(env!("CARGO_BIN_EXE_ostk"), &["journal", "tail", "-f", "-n", "1"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("it starts");
    let id = netsky_disk::process::identify(follow.id()).expect("it runs");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe"));
    let next = |lines: &mut BufReader<ChildStdout>| {
        let mut line = String::new();
        lines.read_line(&mut line).expect("reads");
        line
    };
    assert!(next(&mut lines).contains(" anchor-stopped "));
    folder.ok(&["kernel", "spawn", "agent7", "--", "sleep", "1000"]);
    let seen: Vec<String> = (0..3).map(|_| next(&mut lines)).collect();
    for (line, kind) in seen.iter().zip([" anchor-started ", " spawn agent7.g1 ", " started agent7.g1 "]) {
        assert!(line.contains(kind), "{seen:?}");
    }
    // Over an anchor's death as well.
    let hello = folder.json(&["rpc", "call", "kernel/hello"]);
    let anchor: ProcessId = serde_json::from_value(hello["anchor"].clone()).expect("a process");
    let held = PidFd::open(&anchor).expect("a descriptor").expect("it lives");
    held.signal(Signal::KILL).expect("ours to signal");
    folder.ok(&["kernel", "ps"]);
    let seen = [next(&mut lines), next(&mut lines)];
    assert!(seen[0].contains(" anchor-started ") && seen[1].contains(" adopted agent7.g1 "), "{seen:?}");
    // Whoever reads goes away, and so does it.
    drop(lines);
    folder.until("it ends", |_| !is_alive(&id) || follow.try_wait().expect("ours").is_some());
}

#[test]
fn recall_tells_of_one_kind_and_who_arrived() {
    let folder = Folder::new();
    folder.some_rows();
    assert_eq!(folder.ok(&["recall", "@kill"]).lines().count(), 1);
    assert_eq!(folder.json(&["recall", "@exited"])["session"], "agent1");
    assert!(
        folder.ok(&["recall", "@arrived"]).contains(" started agent1.g1 "),
        "an agent arrives when it starts"
    );
    let (code, line) = folder.refused(&["recall", "@nobody"]);
    assert!(code == 2 && line.contains("@arrived") && line.contains("@lifecycle"), "{line}");
}

#[test]
fn recall_tells_who_came_to_a_terminal_and_nobody_waits_for_that() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent1", "--", "sleep", "1000"]);
    let mut command = folder.command(env!("CARGO_BIN_EXE_ostk"), &["attach", "agent1"]);
    let mut person = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    let came = json!({"pid": person.id(), "terminal": "agent1"});
    folder.until("it is told", |folder| {
        let text = folder.ok(&["recall", "@arrived", "--json"]);
        text.lines().any(|line| serde_json::from_str::<Value>(line).expect("a row")["data"] == came)
    });
    drop(person.stdin.take());
    assert!(person.wait().expect("ours").success());
    let attach = |folder: &Folder| {
        let began = std::time::Instant::now();
        let left = folder.run(&["attach", "agent1"]);
        assert!(left.status.success(), "{left:?}");
        assert!(began.elapsed() < std::time::Duration::from_secs(4), "nobody is waited for");
    };
    // One that answers nobody, and none at all.
    let noted = netsky_disk::lock::Lock::noted::<ProcessId>(folder.file("anchor.lock"));
    let anchor = noted.expect("one serves");
    let held = PidFd::open(&anchor).expect("opens").expect("lives");
    held.signal(Signal::STOP).expect("ours to signal");
    attach(&folder);
    held.signal(Signal::CONT).expect("ours to signal");
    folder.ok(&["kernel", "shutdown"]);
    attach(&folder);
    folder.ok(&["kernel", "kill", "agent1"]);
}

#[test]
fn a10_what_programs_call_themselves_drives_no_terminal() {
    let folder = Folder::new();
    let spec = serde_json::json!({
        "name": "agent1", "argv": ["true"], "cwd": "/", "io": {"kind": "pipes"}, "keeper": "watchdog",
        "runtime": "\u{1b}[31mred\u{9b}", "env": {"PATH": "/usr/bin:/bin"},
    });
    folder.ok(&["kernel", "spawn", "agent0", "--", "true"]);
    folder.ok(&["rpc", "call", "session/spawn", &serde_json::json!({ "spec": spec }).to_string()]);
    for args in [&["journal", "tail"][..], &["journal", "tail", "--json"], &["recall", "@spawn"]] {
        let text = folder.ok(args);
        assert!(text.contains("red") && !text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
    }
}

#[test]
fn whoever_reads_a_journal_of_several_files_reads_one() {
    let folder = Folder::new();
    let sealing = |args: &[&str]| {
        let mut ostk = folder.command(env!("CARGO_BIN_EXE_ostk"), args);
        assert!(ostk.env("OSTK_JOURNAL_BYTES", "700").output().expect("it starts").status.success());
    };
    sealing(&["kernel", "spawn", "agent1", "--", "sleep", "1000"]);
    let mut follow = folder.command(env!("CARGO_BIN_EXE_ostk"), &["journal", "tail", "-f", "--since", "0"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("it starts");
    for n in 0..12 {
        folder.ok(&["kernel", "resize", "agent1", &format!("{}x80", 20 + n)]);
    }
    folder.ok(&["kernel", "kill", "agent1"]);
    folder.ok(&["kernel", "shutdown"]);
    let names =
        std::fs::read_dir(folder.file("")).expect("a root").map(|entry| entry.expect("reads").file_name());
    let mut sealed: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    sealed.retain(|name| name.starts_with("journal-"));
    sealed.sort_unstable();
    assert!(sealed.len() > 3, "{sealed:?}");
    let all = folder.ok(&["journal", "tail", "--since", "0"]);
    let lines = || all.lines();
    let seqs: Vec<usize> =
        lines().map(|line| line.split(' ').next().expect("a number").parse().expect("one")).collect();
    assert_eq!(seqs, (1..=seqs.len()).collect::<Vec<_>>());
    // Who followed while it was written had the same.
    let mut followed = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
    assert!(lines().all(|line| followed.next().expect("a line").expect("reads") == line));
    drop(followed);
    follow.wait().expect("ours");
    let newest = |n: usize| lines().skip(seqs.len() - n).map(|line| format!("{line}\n")).collect::<String>();
    for n in [1, 5, seqs.len() - 2] {
        assert_eq!(folder.ok(&["journal", "tail", "-n", &n.to_string()]), newest(n));
        assert_eq!(folder.ok(&["journal", "tail", "--since", &(seqs.len() - n).to_string()]), newest(n));
    }
    assert_eq!(folder.ok(&["recall", "@resize"]).lines().count(), 12);
    assert_eq!(folder.ok(&["recall", "@rotated"]).lines().count(), sealed.len());
    assert_eq!(
        folder.ok(&["recall", "@rotated", "--since", &(seqs.len() - 1).to_string()]).lines().count(),
        0
    );
    assert!(folder.ok(&["journal", "sessions"]).contains("stopped"));
    assert_eq!(folder.verify().0, Some(0));

    std::fs::remove_file(folder.file(&sealed[1])).expect("there");
    let (code, found) = folder.verify();
    assert_eq!((code, found["files"].as_array().map(Vec::len)), (Some(7), Some(1)), "{found}");
    let kept = folder.ok(&["journal", "tail", "--since", "0"]);
    assert!(kept.lines().count() < seqs.len() && kept.lines().all(|line| all.contains(line)));
}
