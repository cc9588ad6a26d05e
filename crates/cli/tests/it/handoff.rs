//! What an agent0 leaves to the next one beside its mail: the resume payload, the draft of its handoff, and the record of both.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;

use crate::stage::{QUIET, Stage};

/// Keeps what it was told at its start, and lives.
const TELLS: &str = "netsky session up > $HOME/up.$NETSKY_AGENT.$NETSKY_GENERATION; exec sleep 100000";

fn told(stage: &Stage, start: &str) -> String {
    std::fs::read_to_string(stage.outside(&format!("up.{start}"))).expect("told")
}

fn archived(stage: &Stage) -> Vec<String> {
    let mut names = stage.names("state/restart-archive");
    names.retain(|name| name.starts_with("loop-resume-"));
    names
}

#[test]
fn what_session_down_leaves_the_next_agent0_is_told_once() {
    let stage = Stage::up(1, TELLS, "200ms");
    let mut down = stage.command(&["session", "down", "-"]);
    let mut down = down.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    down.stdin.take().expect("piped").write_all(b"watch the merge queue\nthen rest\n").expect("written");
    let down = down.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&down.stdout), "32 bytes are left for the next agent0\n");
    stage.ok(&["restart"]);
    stage.until_verified(2);
    let up = told(&stage, "agent0.2");
    assert!(up.starts_with("agent0 session 2 starting at "), "{up}");
    assert!(up.contains(" ago, to go on with:\nwatch the merge queue\nthen rest\n"), "{up}");
    assert!(!told(&stage, "agent1.2").contains("merge queue"), "it is agent0's");
    let [kept] = &archived(&stage)[..] else { panic!("{:?}", archived(&stage)) };
    let kept = std::fs::read_to_string(stage.home().join("state/restart-archive").join(kept)).expect("kept");
    assert_eq!(kept, "watch the merge queue\nthen rest\n");
    stage.ok(&["restart"]);
    stage.until_verified(3);
    assert!(!told(&stage, "agent0.3").contains("merge queue"));
    let facts = stage.ok(&["query", "SELECT key FROM facts WHERE kind = 'session.up'"]);
    for generation in 1..=3 {
        assert_eq!(facts.matches(&format!("up.agent0.g{generation}.")).count(), 1, "{facts}");
    }
}

#[test]
fn t25_what_was_left_a_day_ago_is_told_nobody_and_kept() {
    let stage = Stage::up(0, TELLS, "200ms");
    stage.ok(&["session", "down", "stale"]);
    let path = stage.home().join("state/netsky-loop-resume.txt");
    let file = std::fs::File::options().write(true).open(&path).expect("opens");
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 60 * 60))
        .expect("aged");
    stage.ok(&["restart"]);
    stage.until_verified(2);
    assert!(!told(&stage, "agent0.2").contains("stale"));
    assert!(!path.exists() && archived(&stage).len() == 1, "the tick has pruned it into the archive");
}

#[test]
fn only_agent0_and_the_owner_leave_something_and_not_nothing() {
    let stage = Stage::up(0, QUIET, "10m");
    for (text, words) in
        [(" \n", "the text to go on with is empty"), (&"x".repeat(65 * 1024)[..], "the text is over 65536")]
    {
        let (code, said) = stage.refused(&["session", "down", text]);
        assert!(code == 2 && said.contains(words), "{code} {said}");
    }
    let inside = |agent: &str| {
        let mut down = stage.command(&["session", "down", "mine"]);
        let down = down.env("NETSKY_AGENT", agent).env("NETSKY_GENERATION", "1");
        down.output().expect("starts").status.code()
    };
    assert_eq!((inside("agent1"), inside("agent0")), (Some(4), Some(0)));
    assert_eq!(stage.ok(&["session", "down", "another"]), "7 bytes are left for the next agent0\n");
    let left = std::fs::read_to_string(stage.home().join("state/netsky-loop-resume.txt")).expect("left");
    assert_eq!(left, "another", "the last word holds");
}

#[test]
fn a_draft_says_what_is_known_and_a_crash_handoff_says_it_too() {
    let stage = Stage::up(1, QUIET, "200ms");
    let id = stage.ok(&["channel", "send", "agent0", "do </channel> that", "--from", "owner", "--json"]);
    let id: serde_json::Value = serde_json::from_str(&id).expect("one JSON object");
    let id = id["id"].as_str().expect("an id");
    let draft = stage.ok(&["handoff", "draft"]);
    for words in [
        "# Notes\n",
        "# Next actions\n",
        "- agent0: generation 1; mail: 1 waiting",
        "- agent1: generation 1;",
    ] {
        assert!(draft.contains(words), "{words}: {draft}");
    }
    assert!(draft.contains(&format!("- {id} from owner, attempt 1, written\n")), "{draft}");
    let (code, said) = stage.refused(&["handoff", "show"]);
    assert!(code == 3 && said.contains("no handoff was delivered yet"), "{code} {said}");
    // The draft, completed.
    let file = stage.outside("handoff.md");
    std::fs::write(&file, draft.replace("(what comes next", "first the tests (what comes next"))
        .expect("written");
    stage.ok(&["restart", "--handoff", file.to_str().expect("text")]);
    stage.until_verified(2);
    let shown = stage.ok(&["handoff", "show"]);
    assert!(shown.contains(", from agentinfinity at ") && shown.contains("first the tests"), "{shown}");
    // Of two in one second nobody knows by name which is the newer.
    let second = netsky_disk::clock::wall().as_second();
    stage.until("another second", |_| (netsky_disk::clock::wall().as_second() > second).then_some(()));
    let program = stage.program("agent0");
    stage.signal(&program, netsky_disk::process::Signal::KILL);
    stage.until_verified(3);
    let shown = stage.ok(&["handoff", "show"]);
    for words in ["agent0 generation 2 ended without a handoff", "- agent1: generation 2;", id] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("do <") && !shown.contains("that\n"), "no word of a message: {shown}");
}

/// As [`TELLS`], with its mail.
const DRAINS: &str = "up=$HOME/up.$NETSKY_AGENT.$NETSKY_GENERATION; netsky session up --drain > $up.part; mv $up.part $up; exec sleep 100000";

#[test]
fn what_was_left_and_does_not_read_keeps_no_session_from_its_mail() {
    let stage = Stage::up(0, DRAINS, "200ms");
    // It is up before it has looked at what was left.
    stage.until("the end of its start", |stage| stage.outside("up.agent0.1").exists().then_some(()));
    stage.ok(&["session", "down", "who knows whose words"]);
    let left = stage.home().join("state/netsky-loop-resume.txt");
    std::fs::hard_link(&left, stage.outside("linked")).expect("linked");
    stage.ok(&["channel", "send", "agent0", "for the next one", "--from", "owner"]);
    stage.ok(&["restart"]);
    stage.until_verified(2);
    let drained =
        |stage: &Stage| told(stage, "agent0.2").contains("for the next one</channel>").then_some(());
    stage.until("its mail", drained);
    let up = told(&stage, "agent0.2");
    assert!(up.contains("what the session before left is not known: failed to read "), "{up}");
    assert!(!up.contains("whose words"), "{up}");
}

#[test]
fn a_session_that_nobody_gives_its_mail_drains_it_at_its_start() {
    let stage = Stage::up(0, DRAINS, "200ms");
    stage.ok(&["channel", "send", "agent0", "for the next one", "--from", "owner"]);
    stage.ok(&["restart"]);
    stage.until_verified(2);
    let drained =
        |stage: &Stage| told(stage, "agent0.2").contains("for the next one</channel>").then_some(());
    stage.until("its mail", drained);
}

/// A request as `netsky restart` queues it; where one is under way the verb would refuse.
fn queue(stage: &Stage, text: &str) {
    let path = stage.home().join("state/restart-request");
    let mut file =
        std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).expect("made");
    file.write_all(text.as_bytes()).expect("written");
}

#[test]
fn fm_handoff_down_settles_the_restart_that_is_begun_and_the_one_queued_behind_it() {
    for is_under_way in [true, false] {
        let stage = Stage::up(0, QUIET, "10m");
        stage.hold_triggers();
        queue(&stage, "the first notes");
        if is_under_way {
            stage.ends_nothing(&["watchdog", "tick"]);
            stage.stopped();
        } else {
            // As far as a tick came that died behind its claim.
            let state = stage.home().join("state");
            std::fs::rename(state.join("restart-request"), state.join("restart-request.processing"))
                .expect("claimed");
        }
        queue(&stage, "the second notes");
        let told = stage.ok(&["down"]);
        let both = "2 restarts that were asked for will not come; their messages wait in agent0's inbox for the next `up`";
        assert!(told.contains(both), "{told}");
        let left = stage.names("state");
        assert!(!left.iter().any(|name| name.starts_with("restart-request") || name == "restart-inflight"));
        assert!(stage.status()["restart_queued"] == false && !stage.ok(&["down"]).contains("inbox"));
        stage.ok(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
        stage.ok(&["watchdog", "tick"]);
        assert!(stage.status()["restart"].is_null(), "nobody has asked for one since");
        let listed = stage.ok(&["channel", "list", "agent0", "--json"]);
        for notes in ["the first notes", "the second notes"] {
            assert_eq!(listed.matches(notes).count(), 1, "{listed}");
        }
    }
}
