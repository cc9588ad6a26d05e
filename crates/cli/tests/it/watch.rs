//! `channel watch`: a running consumer, by itself and with a command, stopped, replaced and killed.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use netsky_disk::process::{Signal, identify, is_alive, is_stopped, signal};
use netsky_disk::watch::Watch;
use netsky_model::life::MAX_ATTEMPTS;
use netsky_model::process::ProcessId;
use serde_json::Value;

use crate::bus_home::{Home, surfacings};
use crate::screen::{netsky, program, refusal, said};

/// Nothing waits this long when all is well.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn home() -> Home {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent7", "hello", "--from", "owner", "--create", "--id", "first"])
        .works();
    home
}

pub(crate) fn send(home: &Home, id: &str) {
    netsky(home, &["channel", "send", "agent7", id, "--from", "owner", "--id", id]).works();
}

/// A consumer that runs.
pub(crate) struct Consumer {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
}

impl Consumer {
    pub(crate) fn start(mut command: Command) -> Consumer {
        let mut child = command.spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Consumer { child, out }
    }

    pub(crate) fn of(home: &Home, args: &[&str]) -> Consumer {
        let all = [&["channel", "watch", "agent7"], args].concat();
        Consumer::start(program(home, &all))
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it prints");
        line
    }

    /// A process that its command tells of; a moment later it may be gone.
    fn pid(&mut self) -> u32 {
        self.line().trim().parse().expect("a pid")
    }

    /// The same, of one that stays.
    fn process(&mut self) -> ProcessId {
        let pid = self.pid();
        identify(pid).expect("it runs")
    }

    pub(crate) fn id(&self) -> ProcessId {
        identify(self.child.id()).expect("it runs")
    }

    pub(crate) fn signal(&self, what: Signal) {
        assert!(signal(&self.id(), what).expect("ours"));
    }

    /// Its end, and what it printed that was not read yet.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("it ends"), rest)
    }
}

/// Waits until something is so, woken by what happens in the mailbox.
pub(crate) fn until(home: &Home, what: &str, done: impl Fn() -> bool) {
    let folders = ["inbox", "claimed", "delivered", "poison"].map(|folder| home.channel("agent7", folder));
    let watch = Watch::new(&folders).expect("watched");
    let started = std::time::Instant::now();
    while !done() {
        assert!(started.elapsed() < LIMIT, "{what} did not happen");
        watch.wait(Duration::from_millis(20)).expect("waited");
    }
}

pub(crate) fn is_in(home: &Home, folder: &str, id: &str) -> bool {
    let files = home.files("agent7", folder).expect("there");
    files.iter().any(|file| file.contains(&format!("-{id}.")))
}

#[test]
fn it_prints_what_waits_and_what_comes_and_ends_when_told() {
    let home = home();
    let mut consumer = Consumer::of(&home, &[]);
    assert!(consumer.line().contains("id=\"first\""));
    for id in ["second", "third"] {
        send(&home, id);
        assert!(consumer.line().contains(&format!("id=\"{id}\"")));
    }
    until(&home, "the last record", || is_in(&home, "delivered", "third"));
    consumer.signal(Signal::TERM);
    let (status, rest) = consumer.end();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
}

#[test]
fn it_ends_after_as_many_as_were_asked_for_and_speaks_json() {
    let home = home();
    send(&home, "second");
    send(&home, "third");
    let said = netsky(&home, &["channel", "watch", "agent7", "--max", "2", "--json"]);
    let lines: Vec<Value> =
        said.works().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ids: Vec<&str> = lines.iter().filter_map(|line| line["id"].as_str()).collect();
    assert_eq!(ids, ["first", "second"]);
    assert_eq!(home.files("agent7", "inbox").expect("there").len(), 1);
}

#[test]
fn a_command_gets_the_element_and_what_it_is_about() {
    let home = home();
    let script =
        "echo \"$NETSKY_ENVELOPE_ID from $NETSKY_ENVELOPE_FROM, attempt $NETSKY_ENVELOPE_ATTEMPT\"; cat";
    let said = netsky(&home, &["channel", "watch", "agent7", "--max", "1", "--", "/bin/sh", "-c", script]);
    let mut lines = said.works().lines();
    assert_eq!(lines.next(), Some("first from owner, attempt 1"));
    assert!(lines.next().is_some_and(|line| line.starts_with("<channel ") && line.ends_with("</channel>")));
    assert!(is_in(&home, "acked", "first"));
}

#[test]
fn d1_what_a_command_ended_with_0_is_finished_and_comes_to_no_successor() {
    let home = home();
    for id in ["asks", "fails"] {
        netsky(&home, &["channel", "send", "agent7", id, "--from", "owner", "--id", id, "--requires-ack"])
            .works();
    }
    let script = "cat; test \"$NETSKY_ENVELOPE_ID-$NETSKY_ENVELOPE_ATTEMPT\" != fails-1";
    let watch = ["channel", "watch", "agent7", "--max", "3", "--", "/bin/sh", "-c", script];
    assert_eq!(netsky(&home, &watch).code, 0);
    assert!(is_in(&home, "acked", "first"), "whether it asks for an ack or not");
    assert!(is_in(&home, "acked", "asks"));
    let acked = home.files("agent7", "acked").expect("there");
    assert!(acked.iter().any(|file| file.contains("-fails.2.")), "not before it was dealt with: {acked:?}");
    let record = "SELECT id, state FROM envelopes WHERE acked_at IS NOT NULL ORDER BY id";
    let said = netsky(&home, &["query", record, "--json"]);
    let told: Value = serde_json::from_str(said.works()).expect("JSON");
    assert_eq!(told["rows"].as_array().map(Vec::len), Some(3), "{told}");
    netsky(&home, &["check"]).works();
    // Who is only shown it has dealt with nothing.
    netsky(&home, &["channel", "send", "agent7", "x", "--from", "owner", "--id", "shown", "--requires-ack"])
        .works();
    netsky(&home, &["channel", "watch", "agent7", "--max", "1"]).works();
    assert!(is_in(&home, "delivered", "shown"));
}

#[test]
fn what_a_command_passes_on_is_only_delivered() {
    let home = home();
    netsky(&home, &["channel", "send", "agent7", "x", "--from", "owner", "--id", "asks", "--requires-ack"])
        .works();
    let watch = ["channel", "watch", "agent7", "--max", "2", "--json", "--no-ack", "--", "true"];
    let told = netsky(&home, &watch).works().lines().filter(|line| line.contains("\"taken\":true")).count();
    assert_eq!(told, 2);
    assert!(is_in(&home, "delivered", "first") && is_in(&home, "delivered", "asks"), "the ack is another's");
    netsky(&home, &["channel", "ack", "agent7", "asks"]).works();
    assert!(is_in(&home, "acked", "asks"));
}

/// The one message that waits comes for the last time.
fn at_its_last_attempt(home: &Home) {
    let inbox = home.channel("agent7", "inbox");
    let waiting = home.files("agent7", "inbox").expect("there").remove(0);
    let last = waiting.replace("-first.json", &format!("-first.{MAX_ATTEMPTS}.json"));
    std::fs::rename(inbox.join(&waiting), inbox.join(last)).expect("its last attempt");
}

#[test]
fn d1_a_command_that_fails_gives_the_message_back_and_gets_it_again_flagged() {
    let home = home();
    let script = "cat; test \"$NETSKY_ENVELOPE_ATTEMPT\" -ge 2";
    let said = netsky(&home, &["channel", "watch", "agent7", "--max", "1", "--", "/bin/sh", "-c", script]);
    let seen = surfacings(&said.out);
    let told: Vec<(u32, bool)> = seen.iter().map(|one| (one.attempt, one.redelivered)).collect();
    assert_eq!((said.code, told), (0, vec![(1, false), (2, true)]));
    assert_eq!(said.err, "netsky: first: the command exited 1; back in the inbox, attempt 2 of 5\n");
}

#[test]
fn an_empty_command_is_refused_and_takes_nothing() {
    let home = home();
    netsky(&home, &["channel", "watch", "agent7", "--", ""])
        .fails(2, "the command is empty; nothing was taken");
    assert!(is_in(&home, "inbox", "first"));
}

#[test]
fn d1_a_command_that_fails_for_the_last_time_says_where_the_message_is_now() {
    let home = home();
    at_its_last_attempt(&home);
    let mut command = program(&home, &["channel", "watch", "agent7", "--", "false"]);
    let mut consumer = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(consumer.stderr.take().expect("piped")).read_line(&mut line).expect("it says");
    assert_eq!(
        line,
        "netsky: first: the command exited 1; that was attempt 5 of 5, and it is a dead letter now: \
         see `netsky channel poison list agent7`\n"
    );
    until(&home, "a dead letter", || is_in(&home, "poison", "first"));
    let consumer_is = identify(consumer.id()).expect("it runs");
    assert!(signal(&consumer_is, Signal::TERM).expect("ours"));
    assert_eq!(consumer.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_command_that_cannot_be_started_costs_no_attempt_however_often() {
    let home = home();
    send(&home, "second");
    for _ in 0..=MAX_ATTEMPTS {
        netsky(&home, &["channel", "watch", "agent7", "--", "/nowhere/at/all"])
            .fails_with(1, &["failed to start /nowhere/at/all", "nothing was lost"]);
    }
    let again = surfacings(netsky(&home, &["channel", "drain", "agent7"]).works());
    let told: Vec<(&str, u32)> = again.iter().map(|one| (&*one.id, one.attempt)).collect();
    assert_eq!(told, [("first", 1), ("second", 1)]);
}

#[test]
fn a_command_may_finish_what_it_has_when_its_consumer_is_told_to_end() {
    let home = home();
    send(&home, "second");
    let told = home.path().join("../told");
    let script = "echo begun; until [ -e \"$0\" ]; do sleep 0.05; done; echo done";
    let mut consumer = Consumer::of(&home, &["--", "/bin/sh", "-c", script, told.to_str().expect("UTF-8")]);
    assert_eq!(consumer.line(), "begun\n");
    consumer.signal(Signal::TERM);
    let status = format!("/proc/{}/status", consumer.id().pid);
    until(&home, "its hearing of that", || {
        let status = std::fs::read_to_string(&status).expect("it runs");
        status.lines().any(|line| line.starts_with("ShdPnd:") && line.ends_with("\t0000000000000000"))
    });
    std::fs::write(told, "").expect("written");
    let (status, rest) = consumer.end();
    assert_eq!((status.code(), rest.as_str()), (Some(0), "done\n"));
    assert!(is_in(&home, "acked", "first") && is_in(&home, "inbox", "second"));
}

#[test]
fn a_command_that_outlives_its_grace_is_killed_and_its_message_is_no_dead_letter() {
    let home = home();
    at_its_last_attempt(&home);
    let mut consumer = Consumer::of(&home, &["--", "/bin/sh", "-c", "echo $$; sleep 1000 & echo $!; wait"]);
    let (command, below) = (consumer.process(), consumer.process());
    consumer.signal(Signal::TERM);
    let (status, _) = consumer.end();
    assert_eq!(status.code(), Some(0));
    assert!(!is_alive(&command), "killed and waited for");
    until(&home, "the end of what it started", || !is_alive(&below));
    let everywhere = ["inbox", "claimed", "delivered", "poison"].map(|folder| home.files("agent7", folder));
    let waits = home.files("agent7", "inbox").expect("there").pop().unwrap_or_default();
    assert!(waits.ends_with(&format!("-first.{}.json", MAX_ATTEMPTS + 1)), "{waits:?}: {everywhere:?}");
}

#[test]
fn t2_a_signal_to_the_whole_group_makes_no_dead_letter_of_what_is_at_work() {
    for (kind, script) in [
        (Signal::INT, "echo begun; exec sleep 1000"),
        (Signal::TERM, "trap 'exit 143' TERM; echo begun; sleep 1000 & wait"),
    ] {
        let home = home();
        at_its_last_attempt(&home);
        let mut command = program(&home, &["channel", "watch", "agent7", "--", "/bin/sh", "-c", script]);
        command.process_group(0).stderr(Stdio::piped());
        let mut consumer = Consumer::start(command);
        assert_eq!(consumer.line(), "begun\n");
        rustix::process::kill_process_group(rustix::process::Pid::from_child(&consumer.child), kind)
            .expect("ours");
        let mut said = String::new();
        consumer.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert_eq!(said, "netsky: first: was not taken before this was asked to end, and is given back\n");
        assert_eq!(consumer.end().0.code(), Some(0));
        let waits = home.files("agent7", "inbox").expect("there").pop().unwrap_or_default();
        assert!(waits.ends_with(&format!("-first.{}.json", MAX_ATTEMPTS + 1)), "{kind:?}: {waits:?}");
    }
}

#[test]
fn d1_a_command_that_fails_leaves_nothing_at_work_and_one_that_took_its_message_may() {
    let home = home();
    let script = "sleep 300 >/dev/null 2>&1 & echo $!; test \"$NETSKY_ENVELOPE_ATTEMPT\" -ge 2";
    let mut consumer = Consumer::of(&home, &["--max", "1", "--", "/bin/sh", "-c", script]);
    let (first, second) = (consumer.pid(), consumer.process());
    let (status, _) = consumer.end();
    assert_eq!(status.code(), Some(0));
    // The message came again, so nobody works on it any more; whoever inherits the dead takes its time.
    until(&home, "the end of what was left at work", || identify(first).is_none_or(|left| !is_alive(&left)));
    assert!(signal(&second, Signal::KILL).expect("ours"), "it was left alone");
}

#[test]
fn d1_a_killed_consumer_takes_its_command_along_and_the_message_comes_again() {
    let home = home();
    let mut consumer =
        Consumer::of(&home, &["--", "/bin/sh", "-c", "echo $$; exec sleep 1000 >/dev/null 2>&1"]);
    let command = consumer.process();
    consumer.signal(Signal::KILL);
    consumer.end();
    until(&home, "the end of the command", || !is_alive(&command));
    let list = netsky(&home, &["channel", "list", "agent7"]);
    let list = list.works();
    assert!(list.contains("was held by process") && list.contains("which has ended"), "{list}");
    let again = surfacings(netsky(&home, &["channel", "drain", "agent7"]).works());
    assert_eq!((again[0].attempt, again[0].redelivered), (2, true));
}

#[test]
fn d1_what_a_killed_consumers_command_left_at_work_ends_before_its_message_comes_again() {
    let ways = [
        &["channel", "drain", "agent7"][..],
        &["channel", "watch", "agent7", "--max", "1"],
        &["channel", "release", "agent7", "first"],
    ];
    for back in ways {
        let home = home();
        // The pipe is the consumer's alone: its end is not hidden by what lives on.
        let script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!; wait";
        let mut consumer = Consumer::of(&home, &["--", "/bin/sh", "-c", script]);
        let below = consumer.process();
        consumer.signal(Signal::KILL);
        consumer.end();
        assert!(is_alive(&below), "nobody took it along");
        netsky(&home, back).works();
        until(&home, "its end", || !is_alive(&below));
    }
}

#[test]
fn one_consumer_an_agent_and_a_newer_generation_takes_the_place_of_an_older_one() {
    let home = home();
    let inside = |generation: &str| {
        let mut command = program(&home, &["channel", "watch", "agent7"]);
        command.env("NETSKY_AGENT", "agent7").env("NETSKY_GENERATION", generation);
        command.env("OSTK_MARK", format!("agent7-0a0b0c0d.g{generation}"));
        command
    };
    let mut third = Consumer::start(inside("3"));
    assert!(third.line().contains("first"));
    let pid = third.child.id();
    said(&home, refusal(program(&home, &["channel", "watch", "agent7"])))
        .fails(5, &format!("agent7 has a consumer already: process {pid}; take its place with --replace"));
    let older = said(&home, refusal(inside("2")));
    older.fails_with(5, &["agent7 has a consumer already"]);
    let mut fourth = Consumer::start(inside("4"));
    let (status, _) = third.end();
    assert_eq!(status.code(), Some(0), "it was asked, and went");
    send(&home, "second");
    assert!(fourth.line().contains("second"));
    until(&home, "the record", || is_in(&home, "delivered", "second"));
    let files = home.files("agent7", "delivered").expect("there");
    assert!(files[0].ends_with("-first.1.g3.json") && files[1].ends_with("-second.1.g4.json"), "{files:?}");
    fourth.signal(Signal::TERM);
    fourth.end();
}

#[test]
fn must_show_a_stopped_consumer_is_replaced_and_surfaces_nothing_when_it_goes_on() {
    for point in ["bus.claim.renamed", "bus.claim.synced", "bus.surface.begin", "bus.surface.fenced"] {
        let home = home();
        let mut command = program(&home, &["channel", "watch", "agent7"]);
        command.env("NETSKY_FAULT", format!("{point}=stop"));
        let stopped = Consumer::start(command);
        let id = stopped.id();
        until(&home, "its stop", || is_stopped(&id));
        let said = netsky(&home, &["channel", "watch", "agent7", "--replace", "--max", "1"]);
        let seen = surfacings(said.works());
        assert_eq!((&*seen[0].id, seen[0].attempt, seen[0].redelivered), ("first", 2, true), "{point}");
        let before = home.audit("agent7").expect("I1, I4");
        // It was ended by its replacement; a signal reaches nobody.
        let _ = signal(&id, Signal::CONT);
        let (status, shown) = stopped.end();
        assert_eq!((status.code(), shown.as_str()), (None, ""), "{point}");
        let after = home.audit("agent7").expect("I1, I4");
        assert!(before.found.keys().eq(after.found.keys()), "{point}");
        assert_eq!(after.folder_of("first"), Some("delivered"), "{point}");
    }
}
