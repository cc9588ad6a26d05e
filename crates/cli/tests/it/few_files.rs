//! A shell that allows itself few open files, or no large ones: what it starts lives longer than it, and is not held to that.

use std::process::{Command, Output, Stdio};

use crate::bus_home::Home;
use crate::full_disk::apart;
use crate::screen::{netsky, program, said};
use crate::stage::Stage;

/// Says its limit once it is up.
const AGENT: &str =
    r#"netsky session up && echo "$(ulimit -Sn) $(ulimit -Hn)" > "$NETSKY_HOME/limits" && exec sleep 100000"#;
/// With this many an anchor of four sessions ran out.
const FEW: &str = "20";

/// Runs `netsky up` with one clone after a line of shell.
fn up_after(stage: &Stage, line: &str) -> Output {
    let up = stage.command(&["up", "1", "--tick", "2s", "--", "/bin/sh", "-c", AGENT]);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{line} && exec \"$@\""), "sh"]).arg(up.get_program()).args(up.get_args());
    command.env_clear().envs(up.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.stdin(Stdio::null()).output().expect("a shell starts")
}

/// The soft and the hard limit of open files of a process.
fn limits(pid: u32) -> (String, String) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line");
    let mut words = line.split_whitespace().map(str::to_owned);
    (words.next().expect("soft"), words.next().expect("hard"))
}

#[test]
fn an_anchor_from_a_shell_with_few_files_has_all_that_the_system_grants_and_programs_have_the_shells() {
    let stage = Stage::new();
    let output = up_after(&stage, &format!("ulimit -Sn {FEW}"));
    assert!(output.status.success(), "{output:?}");
    let (soft, hard) = limits(stage.anchor().pid);
    assert_eq!(soft, hard, "the anchor's");
    for agent in ["agent0", "agent1", "agentinfinity", "netsky-ticker"] {
        assert_eq!(limits(stage.worker(agent).pid), (hard.clone(), hard.clone()), "the worker of {agent}");
        assert_eq!(limits(stage.program(agent).pid), (FEW.to_owned(), hard.clone()), "{agent}");
    }
    let said = stage.until("the word of an agent", |stage| {
        std::fs::read_to_string(stage.home().join("limits")).ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(said, format!("{FEW} {hard}\n"));
}

#[test]
fn an_anchor_that_may_never_have_enough_files_is_refused_in_one_line() {
    let stage = Stage::new();
    let output = up_after(&stage, "ulimit -n 32");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("the hard limit of open files is 32 and it needs 64"), "{told}");
    assert!(!stage.home().join(".ostk/journal.jsonl").exists(), "nothing was begun");
}

/// Runs a verb after a shell took something away from itself.
fn after(line: &str, home: &Home, args: &[&str]) -> crate::screen::Said {
    let verb = program(home, args);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &format!("{line} && exec \"$@\""), "sh"])
        .arg(verb.get_program())
        .args(verb.get_args());
    command.env_clear().envs(verb.get_envs().filter_map(|(key, value)| Some((key, value?))));
    said(home, command.stdin(Stdio::null()).output().expect("a shell starts"))
}

#[test]
fn enospc_a_limit_on_the_size_of_files_is_no_room_and_kills_no_verb() {
    let home = Home::init();
    let send = ["channel", "send", "agent7", "x", "--from", "owner", "--create", "--id", "job-1"];
    after("ulimit -f 0", &home, &send)
        .fails_with(5, &["File too large", "nothing was lost, make room and repeat"]);
    netsky(&home, &send).works();
    // A command that it starts has the signal as it was.
    let status = ["channel", "watch", "agent7", "--max", "1", "--", "grep", "SigIgn", "/proc/self/status"];
    let told = netsky(&home, &status).out;
    let ignored = told.trim().rsplit('\t').next().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let xfsz = netsky_disk::process::Signal::XFSZ.as_raw();
    assert_eq!(ignored.expect("a mask") & 1 << (xfsz - 1), 0, "{told}");
}

#[test]
fn fm_claim_emfile_a_reader_without_descriptors_leaves_all_waiting_at_the_same_attempt() {
    let template = Home::init();
    for id in ["one", "two", "three"] {
        let send = ["channel", "send", "agent7", "x", "--from", "owner", "--create", "--id", id];
        netsky(&template, &send).works();
    }
    netsky(&template, &["channel", "send", "agent8", "x", "--from", "owner", "--create"]).works();
    for args in [
        &["channel", "drain", "agent7"][..],
        &["channel", "drain", "agent7", "--json"],
        &["channel", "watch", "agent7", "--max", "3"],
        &["channel", "forward", "agent7", "one", "--to", "agent8"],
    ] {
        let home = template.copy();
        let before = home.files("agent7", "inbox").expect("read");
        // Each one more than the last, so that what it has no descriptor for is each step in turn.
        let enough = (4..64).find(|count| {
            let told = after(&format!("ulimit -n {count}"), &home, args);
            // What was shown is recorded, and what was not is nobody's.
            assert!(home.files("agent7", "claimed").expect("read").is_empty(), "{args:?}: {}", told.err);
            let is_done = !told.out.is_empty() || home.files("agent8", "inbox").expect("read").len() > 1;
            assert!(
                is_done || home.files("agent7", "inbox").expect("read") == before,
                "{args:?}: {}",
                told.err
            );
            is_done
        });
        assert!(enough.is_some_and(|enough| enough > 6), "{args:?} never ran out: {enough:?}");
    }
}

#[test]
fn emfile_a_database_that_too_many_open_files_keep_shut_is_told_so() {
    let home = Home::init();
    let copy = home.path().with_file_name("copy");
    let question = ["query", "SELECT 1"];
    let verbs = [
        &question[..],
        &["ledger", "ingest"],
        &["ledger", "status"],
        &["ledger", "backup", copy.to_str().expect("text")],
    ];
    for made in [false, true] {
        for files in 5..=12 {
            for verb in verbs {
                if made {
                    netsky(&home, &question).works();
                } else if home.path().join("meta.db").exists() {
                    ["meta.db", "meta.db-wal", "meta.db-shm"].iter().for_each(|file| {
                        let _ = std::fs::remove_file(home.path().join(file));
                    });
                }
                let said = after(&format!("ulimit -n {files}"), &home, verb);
                if said.code != 0 {
                    let answered = verb == question && said.out == "1\n1\n";
                    assert_eq!(said.code, if answered { 6 } else { 5 }, "{files} {verb:?}: {}", said.err);
                    let few = ["Too many open files", "raise `ulimit -n` or repeat"];
                    assert!(few.iter().all(|word| said.err.contains(word)), "{files} {verb:?}: {}", said.err);
                }
                let _ = std::fs::remove_dir_all(&copy);
            }
        }
    }
}

/// Of a user whose watches are used up, who reads and who waits look by the clock.
const NO_EVENTS: &str = r#"
export NETSKY_HOME="$PLACE/home"
"$NETSKY" init >/dev/null || exit 99
for agent in agent7 agent8; do
  "$NETSKY" channel send $agent hello --from owner --create >/dev/null && "$NETSKY" channel drain $agent >/dev/null || exit 98
done
for limit in max_inotify_instances max_inotify_watches; do
  before=$(cat "/proc/sys/user/$limit")
  echo 0 > "/proc/sys/user/$limit" || exit 97
  "$NETSKY" channel watch agent7 --max 1 | grep -c '<channel ' & reader=$!
  "$NETSKY" channel wait agent8 --timeout 60s >/dev/null & waiter=$!
  for agent in agent7 agent8; do
    "$NETSKY" channel send $agent "$limit" --from owner >/dev/null || exit 96
  done
  wait $reader; echo "watch $?"
  wait $waiter; echo "wait $?"
  "$NETSKY" channel drain agent8 >/dev/null
  echo "$before" > "/proc/sys/user/$limit"
done
"#;

#[test]
fn emfile_enospc_consumers_and_waiters_do_without_file_events() {
    let Some(said) = apart(NO_EVENTS) else { return };
    assert_eq!((&*said.out, &*said.err), (&*"1\nwatch 0\nwait 0\n".repeat(2), ""));
}
