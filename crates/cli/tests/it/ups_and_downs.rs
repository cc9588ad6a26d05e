//! What `up`, `down` and `status` say is so: of the living generation, of a handoff, of a broken mailbox, of a deaf anchor.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use netsky_disk::process::{Signal, identify_child, is_alive, is_stopped};
use netsky_kernel::session::Meta;
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use serde_json::Value;

use crate::screen::refusal;
use crate::stage::{QUIET, Stage};

/// The envelopes of agent0 that wait.
fn waiting(stage: &Stage) -> Vec<Value> {
    let listed = stage.ok(&["channel", "list", "agent0", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let all = listed["envelopes"].as_array().expect("a list").clone();
    all.into_iter().filter(|envelope| envelope["state"] == "written").collect()
}

fn problems(stage: &Stage) -> String {
    stage.status()["problems"].to_string()
}

/// A constellation that is asked for a restart with notes, which nobody has begun.
fn with_a_queued_restart() -> Stage {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let notes = stage.home().join("../notes.txt");
    std::fs::write(&notes, "the notes of agent0").expect("written");
    let notes = notes.display().to_string();
    stage.ok(&["restart", "--handoff", &notes]);
    stage
}

#[test]
fn fm_handoff_down_puts_the_handoff_of_a_queued_restart_into_the_inbox_once() {
    let stage = with_a_queued_restart();
    let told = stage.ok(&["down"]);
    assert!(told.contains("its message waits in agent0's inbox for the next `up`"), "{told}");
    assert!(!stage.ok(&["down"]).contains("handoff"));
    let sent = waiting(&stage);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0]["kind"] == "handoff" && sent[0]["from"] == "agentinfinity", "{sent:?}");
    assert!(sent[0]["text"].as_str().is_some_and(|text| text.contains("the notes of agent0")), "{sent:?}");
    stage.ok(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(stage.status()["restart"].is_null(), "the new agent0 has it already");
    assert_eq!(waiting(&stage).len(), 1);
}

#[test]
fn fm_handoff_down_with_a_full_inbox_ends_all_and_the_next_one_delivers() {
    let stage = with_a_queued_restart();
    stage.ok(&["channel", "send", "agent0", "the last there is room for", "--from", "owner"]);
    let one = "[bus]\ninbox_envelopes = 1\nshare_percent = 100\nreserve_percent = 0\n";
    std::fs::write(stage.home().join("config.toml"), one).expect("written");
    let told = stage.ok(&["down"]);
    assert!(
        told.contains("ended agent0")
            && told.contains("problem: the message of the restart that was asked for waits in "),
        "{told}"
    );
    assert!(stage.living_roots().is_empty());
    stage.ok(&["channel", "drain", "agent0"]);
    let told = stage.ok(&["down"]);
    assert!(told.contains("its message waits in agent0's inbox"), "{told}");
    assert_eq!(waiting(&stage).len(), 1);
}

#[test]
fn fm_handoff_down_under_a_restart_delivers_its_handoff_and_no_child_goes_on() {
    let stage = with_a_queued_restart();
    stage.ends_nothing(&["watchdog", "tick"]);
    stage.stopped();
    let told = stage.ok(&["down"]);
    assert!(told.contains("its message waits in agent0's inbox"), "{told}");
    assert_eq!(waiting(&stage).len(), 1);
    assert!(stage.status()["restart"].is_null() && stage.living_roots().is_empty());
}

#[test]
fn down_sets_aside_a_request_that_may_be_forged_and_ends_the_restart() {
    let stage = with_a_queued_restart();
    stage.ends_nothing(&["watchdog", "tick"]);
    stage.stopped();
    let state = stage.home().join("state");
    std::fs::hard_link(state.join("restart-request.processing"), stage.home().join("../second"))
        .expect("a second name");
    let told = stage.ok(&["down"]);
    assert!(told.contains("problem: ") && told.contains("is set aside"), "{told}");
    assert!(!state.join("restart-request.processing").exists() && !state.join("restart-inflight").exists());
}

#[test]
fn up_takes_no_proof_of_an_agent0_that_a_restart_is_about_to_end() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.ok(&["restart"]);
    let args = ["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET];
    let told = stage.ok(&args);
    assert!(told.contains("agent0 session 2 starting at "), "{told}");
}

#[test]
fn status_says_when_what_keeps_ending_is_tried_again_and_what_ends_a_crashloop() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    let boot = netsky_disk::clock::stamp();
    let told = |attempts: usize, crashloop: bool| {
        let at = vec![&boot; attempts];
        let marker = serde_json::json!({ "v": 1, "at": at, "crashloop": crashloop });
        std::fs::write(stage.home().join("state/agent0-restart-attempts"), marker.to_string())
            .expect("written");
        (stage.agent("agent0")["trying"].clone(), problems(&stage), stage.ok(&["status"]))
    };
    // After four attempts it waits for 80 s, which three short calls do not take.
    let (trying, problems, table) = told(4, false);
    assert!(trying["recent"] == 4 && trying["crashloop"] == false, "{trying}");
    assert!(
        problems
            .contains("agent0: ended by signal 9 (`netsky logs agent0` has its last words); next try in ")
            && problems.contains("; next try in ")
            && problems.contains("attempt 5 of 5 in 30 min"),
        "{problems}"
    );
    assert!(
        table.contains(
            "\nproblem: agent0: ended by signal 9 (`netsky logs agent0` has its last words); next try in "
        ),
        "{table}"
    );
    let (_, problems, _) = told(5, false);
    assert!(problems.contains(", attempt 6 in 30 min"), "{problems}");
    let (trying, problems, _) = told(5, true);
    assert_eq!(trying["crashloop"], true);
    assert!(
        problems.contains("agent0: ended by signal 9 (`netsky logs agent0` has its last words); crashloop: ")
            && problems.contains("`netsky up` tries at once"),
        "{problems}"
    );
}

#[test]
fn status_says_that_one_who_keeps_the_rest_is_down_and_comes_again() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    assert!(!problems(&stage).contains("netsky-ticker: it is down"));
    let mut kill = std::process::Command::new(env!("CARGO_BIN_EXE_ostk"));
    // The bare call: the verb has it started again.
    kill.args(["rpc", "call", "session/kill", r#"{"session":"netsky-ticker"}"#, "--root"]);
    kill.arg(stage.home().join(".ostk"));
    let killed = crate::screen::refusal(kill);
    assert!(killed.status.success(), "{killed:?}");
    // Who would come within the interval is the one that is down.
    let told = problems(&stage);
    assert!(told.contains("netsky-ticker: it is down; next try with the next tick\""), "{told}");
}

#[test]
fn status_says_that_the_anchor_brings_back_who_keeps_the_rest() {
    let stage = Stage::up(0, QUIET, "10m");
    // The second time it takes a second.
    stage.until("a death", |stage| {
        let described =
            std::fs::read(stage.home().join(".ostk/agents/netsky-ticker.meta")).expect("described");
        if let Some(program) = Meta::parse(&described).expect("one").program {
            // It may end of the last one this very moment.
            let _ = netsky_disk::process::signal(&program, Signal::KILL);
        }
        problems(stage)
            .contains("netsky-ticker: it has ended; the anchor or a later tick starts it")
            .then_some(())
    });
}

#[test]
fn status_shows_the_others_when_a_mailbox_is_broken() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.ok(&["channel", "send", "agent0", "x", "--from", "owner"]);
    stage.until("a clone that is up", |stage| (stage.agent("agent1")["up"] == true).then_some(()));
    let inbox = stage.home().join("channels/agent/agent1/inbox");
    std::fs::rename(&inbox, inbox.with_file_name("before")).expect("moved");
    std::fs::write(&inbox, "").expect("written");
    let told = problems(&stage);
    assert!(told.contains("mail of agent1: ") && told.contains("channels/agent/agent1/inbox"), "{told}");
    // A tick that meets the same is not told of beside it.
    stage.run(&["watchdog", "tick"]);
    let said = stage.ok(&["status"]);
    assert_eq!(said.matches("problem: mail of agent1: ").count(), 1, "{said}");
    assert_eq!(
        (stage.agent("agent0")["inbox"].as_u64(), stage.agent("agent1")["up"].as_bool()),
        (Some(1), Some(true))
    );
    stage.ok(&["down"]);
    let (exit, line) = stage.refused(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(exit == 1 && line.contains("mail of agent1: "), "{exit} {line}");
    assert!(line.contains("the others are up") && line.matches("agent1/inbox").count() == 1, "{line}");
}

#[test]
fn status_says_that_a_mailbox_is_gone_and_up_makes_it_again() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.until("a clone that is up", |stage| (stage.agent("agent1")["up"] == true).then_some(()));
    let mailbox = stage.home().join("channels/agent/agent1");
    let up = ["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", QUIET];
    std::fs::rename(&mailbox, stage.home().join("away")).expect("moved");
    assert!(problems(&stage).contains("mail of agent1: it has no channel; "));
    std::fs::write(&mailbox, "").expect("written");
    let told = problems(&stage);
    assert!(told.contains("channels/agent/agent1: not a folder, move it away"), "{told}");
    stage.ok(&["channel", "send", "agent0", "x", "--from", "owner", "--id", "on"]);
    let verbs = ["send agent1 x --from owner", "forward agent0 on --to agent1"];
    for verb in verbs.map(|verb| format!("channel {verb}")) {
        let (exit, line) = stage.refused(&verb.split(' ').collect::<Vec<_>>());
        assert!(exit == 1 && line.contains("agent1: not a folder, move it away"), "{verb}: {exit}: {line}");
    }
    let (exit, line) = stage.refused(&up);
    assert!(exit == 1 && line.contains("mail of agent1: ") && line.contains("the others are up"), "{line}");
    std::fs::remove_file(&mailbox).expect("there");
    stage.ok(&up);
    assert!(!problems(&stage).contains("mail of agent1"));
    stage.ok(&["channel", "send", "agent1", "x", "--from", "owner"]);
}

#[test]
fn status_says_what_an_up_or_a_down_that_was_killed_left_in_the_middle() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    assert!(!problems(&stage).contains("cut short"));
    stage.edit("state/desired/agent0.json", |wish| wish["want"] = "stopped".into());
    let told = problems(&stage);
    assert!(told.contains("agent1 is still wanted, agentinfinity is still wanted, netsky-ticker"), "{told}");
    assert!(told.contains("agent0 is not wanted and runs on; repeat it"), "{told}");
    for agent in ["agent1", "agentinfinity", "netsky-ticker"] {
        stage.edit(&format!("state/desired/{agent}.json"), |wish| wish["want"] = "stopped".into());
    }
    assert!(stage.ok(&["status"]).contains("epoch 1, and nothing is wanted; `netsky down` stops it"));
    stage.ok(&["down"]);
    assert!(!problems(&stage).contains("cut short"));
}

#[test]
fn an_up_behind_a_down_that_was_killed_waits_for_the_anchor_that_it_left_stopping() {
    let stage = Stage::up(0, "netsky session up; trap '' TERM; while :; do sleep 1; done", "10m");
    let anchor = stage.anchor();
    let mut down = stage.command(&["down"]).stdout(Stdio::null()).spawn().expect("starts");
    let root = stage.home().join(".ostk");
    stage.until("an anchor that is stopping", |_| {
        netsky_kernel::client::Client::connect(&root).ok().filter(|client| client.hello().stopping)
    });
    down.kill().expect("ours");
    down.wait().expect("ours");
    assert!(anchor == stage.anchor() && is_alive(&anchor), "it is at it");
    let said = stage.ok(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(said.contains("agent0 session 2 starting at "), "{said}");
    assert_ne!(stage.anchor(), anchor);
}

#[test]
fn a_down_beside_a_broken_mailbox_of_agent0_ends_all_and_the_next_one_hands_over() {
    let stage = with_a_queued_restart();
    let mailbox = stage.home().join("channels/agent/agent0");
    let away = stage.home().join("away");
    std::fs::rename(&mailbox, &away).expect("moved");
    std::fs::write(&mailbox, "").expect("written");
    let said = stage.ok(&["down"]);
    assert!(said.contains("the message of the restart that was asked for waits in "), "{said}");
    assert!(said.contains("ended agent0, "), "{said}");
    std::fs::remove_file(&mailbox).expect("there");
    std::fs::rename(&away, &mailbox).expect("moved");
    stage.ok(&["down"]);
    stage.ok(&["down"]);
    let waiting = waiting(&stage);
    assert!(
        waiting.len() == 1 && waiting[0]["text"].to_string().contains("the notes of agent0"),
        "{waiting:?}"
    );
}

/// An `up` that waits for its agent0, which says nothing, and is stopped meanwhile.
fn up_that_waits(stage: &Stage, program: &str) -> (Child, ProcessId) {
    let mut up = stage.command(&["up", "0", "--tick", "10m", "--", "/bin/sleep", program]);
    let mut up = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let id = identify_child(up.id()).expect("nobody has waited for it");
    // It says what it did once it holds no lock any more.
    let mut said = BufReader::new(up.stdout.as_mut().expect("piped")).lines();
    said.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("agent0 ")))
        .expect("said")
        .expect("text");
    stage.signal(&id, Signal::STOP);
    (up, id)
}

#[test]
fn an_up_ends_when_a_down_or_another_up_comes_meanwhile() {
    let stage = Stage::new();
    let went_on = |(up, id): (Child, ProcessId)| {
        stage.signal(&id, Signal::CONT);
        let ended = up.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(5), "{said}");
        said
    };
    let first = up_that_waits(&stage, "1001");
    stage.ok(&["down"]);
    let second = up_that_waits(&stage, "1002");
    let said = went_on(first);
    assert!(said.contains("what was asked for is not waited for any more: another `netsky up` "), "{said}");
    stage.ok(&["down"]);
    let said = went_on(second);
    assert!(said.contains("what was asked for is not waited for any more: `netsky down` came"), "{said}");
}

#[test]
fn status_shows_the_living_when_the_anchor_is_deaf_or_all_supervisors_are_dead() {
    let stage = Stage::up(1, QUIET, "10m");
    let agent1 = stage.program("agent1");
    stage.signal(&agent1, Signal::STOP);
    let told = format!("agent1: its program is stopped and does nothing; `kill -CONT {}`", agent1.pid);
    stage.until("it is told", |stage| stage.ok(&["status"]).contains(&told).then_some(()));
    stage.signal(&agent1, Signal::CONT);
    stage.until("it goes on", |stage| (!stage.ok(&["status"]).contains(&told)).then_some(()));
    stage.hold_triggers();
    let (anchor, root) = (stage.anchor(), stage.program("agent0"));
    stage.signal(&anchor, Signal::STOP);
    let seen = stage.status();
    assert!(seen["silent_anchor"] == true && seen["anchor_epoch"].is_null(), "{seen}");
    let told = seen["problems"].to_string();
    assert!(told.contains(&format!("the anchor (pid {}) does not answer", anchor.pid)), "{told}");
    let shown = &seen["agents"][0];
    assert!(shown["id"] == "agent0" && shown["pid"] == root.pid && shown["up"] == true, "{shown}");
    stage.signal(&anchor, Signal::CONT);
    for process in [anchor.clone(), stage.program("netsky-ticker"), stage.program("agentinfinity")] {
        stage.signal(&process, Signal::KILL);
    }
    let (epoch, root_now) = stage.until("the end of the anchor", |stage| {
        let epoch = stage.status()["anchor_epoch"].clone();
        epoch.is_null().then(|| (epoch, stage.program("agent0")))
    });
    assert!(epoch.is_null() && root_now == root);
    let told = problems(&stage);
    assert!(told.contains("the anchor: nobody serves; it is started with the next tick"), "{told}");
}

#[test]
fn i10_an_anchor_that_is_stopped_is_one_page_that_says_what_to_do() {
    let stage = Stage::up(0, QUIET, "5s");
    stage.hold_triggers();
    let (anchor, root) = (stage.anchor(), stage.program("agent0"));
    stage.signal(&anchor, Signal::STOP);
    // Who else was stopped is a page of its own.
    let pages = || {
        let text = std::fs::read_to_string(stage.home().join("logs/pages.jsonl")).unwrap_or_default();
        text.lines().filter(|line| line.contains("silent.anchor")).map(str::to_owned).collect::<Vec<_>>()
    };
    let tick = || {
        let (code, line) = stage.refused(&["watchdog", "tick"]);
        assert!(code == 5 && line.contains("is stopped and did not answer"), "{code} {line}");
    };
    tick();
    assert!(pages().is_empty(), "one look is none");
    tick();
    stage.until("a page", |_| (!pages().is_empty()).then_some(()));
    tick();
    let way = format!("`kill -CONT {}`", anchor.pid);
    assert!(pages().len() == 1 && pages()[0].contains(&way), "{:?}", pages());
    stage.signal(&anchor, Signal::CONT);
    stage.ok(&["watchdog", "tick"]);
    assert_eq!((stage.anchor(), stage.program("agent0")), (anchor, root));
}

#[test]
fn a_tick_takes_pruning_trouble_for_a_warning() {
    let stage = Stage::up(0, QUIET, "10m");
    let folder = stage.home().join("state/up");
    let may = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("ours");
    may(0o755);
    let told = stage.ok(&["watchdog", "tick"]);
    may(0o700);
    assert!(told.contains("warning: pruning: "), "{told}");
}

#[test]
fn settings_that_do_not_read_are_told_by_tick_and_status() {
    let stage = Stage::up(0, QUIET, "10m");
    // A tick of theirs that met it would be whom `status` lets tell it.
    stage.hold_triggers();
    std::fs::write(stage.home().join("config.toml"), "[bus]\ninbox_envelops = 7\n").expect("written");
    let why = "config.toml: line 2: unknown field `inbox_envelops`";
    assert!(problems(&stage).contains(why), "{}", problems(&stage));
    let told = stage.ok(&["watchdog", "tick"]);
    assert!(told.contains(&format!("warning: {why}")) && told.contains("; the defaults are used"), "{told}");
    assert!(stage.ok(&["status"]).contains(why));
    // Before the next tick, too.
    for (settings, is_other) in [("[bus]\nmailbox = 7\n", true), ("", false)] {
        std::fs::write(stage.home().join("config.toml"), settings).expect("written");
        let told = stage.ok(&["status"]);
        assert!(!told.contains("inbox_envelops") && told.contains("`mailbox`") == is_other, "{told}");
    }
}

#[test]
fn a_name_that_no_environment_takes_is_refused_before_anything_is_done() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let bad = "[defaults]\nenv = { \"a=b\" = \"/x\" }\n";
    std::fs::write(stage.home().join("config.toml"), bad).expect("written");
    let (exit, line) = stage.refused(&["up", "--", "/bin/sh", "-c", QUIET]);
    assert!(exit == 2 && line.contains("env has \"a=b\", which cannot be set"), "{exit} {line}");
    assert!(stage.agent("agent0").is_null());
}

#[test]
fn a_handoff_that_is_no_text_is_refused_and_queues_nothing() {
    let stage = Stage::up(0, QUIET, "10m");
    let notes = stage.home().join("../notes.bin");
    std::fs::write(&notes, b"notes \xff\xfe").expect("written");
    let (exit, line) = stage.refused(&["restart", "--handoff", &notes.display().to_string()]);
    assert!(exit == 2 && line.contains("is not UTF-8 text; nothing was queued"), "{exit} {line}");
    assert_eq!(stage.status()["restart_queued"], false);
}

#[test]
fn a_second_ticker_and_a_second_agentinfinity_are_refused_with_the_pid_of_the_first() {
    let stage = Stage::up(0, QUIET, "10m");
    for (keeper, args) in [("netsky-ticker", vec!["ticker"]), ("agentinfinity", vec!["watchdog", "serve"])] {
        // Its session lives before it has its lock.
        let lock = stage.home().join(format!("state/tick/{keeper}.lock"));
        stage
            .until("its lock", |_| netsky_disk::lock::Lock::is_held(&lock).expect("looked at").then_some(()));
        let pid = stage.program(keeper).pid;
        let second = refusal(stage.command(&args));
        let line = String::from_utf8(second.stderr).expect("text");
        assert!(
            second.status.code() == Some(5) && line.contains(&format!("{keeper} runs already as pid {pid}")),
            "{} {line}",
            second.status
        );
    }
}

#[test]
fn agentinfinity_reads_its_mail_into_its_output() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.ok(&["channel", "send", "agentinfinity", "hear-hear", "--from", "owner", "--kind", "report"]);
    stage.until("the mail of agentinfinity", |stage| {
        let me = stage.agent("agentinfinity");
        (me["inbox"] == 0 && me["unfinished"] == 0).then_some(())
    });
    assert!(stage.ok(&["logs", "agentinfinity"]).contains("hear-hear"));
}

#[test]
fn agentinfinity_carries_by_the_limits_of_now() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let limit = |envelopes: u32| {
        let bus = format!("[bus]\ninbox_envelopes = {envelopes}\n");
        std::fs::write(stage.home().join("config.toml"), bus).expect("written");
    };
    // One sender's share is a quarter.
    limit(4);
    stage.ok(&["up", "1", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    // Behind its first tick nobody but its own watch carries anything.
    stage.until("its first tick", |stage| {
        stage.ok(&["logs", "agentinfinity"]).contains(": tick ").then_some(())
    });
    let reply = |file: &str, there: u64| {
        let whole = stage.home().join("../reply.json");
        let text = r#"{"from":"x","text":"all done","ts":"2026-04-19T17:22:57Z"}"#;
        std::fs::write(&whole, text).expect("written");
        std::fs::rename(whole, stage.home().join("channels/agent/agent1/outbox").join(file))
            .expect("dropped");
        stage.until("the reply", |stage| (stage.agent("agent0")["inbox"] == there).then_some(()));
    };
    reply("r1.json", 1);
    limit(100);
    reply("r2.json", 2);
}

#[test]
fn a_child_from_before_a_down_that_was_cut_short_does_nothing() {
    let stage = with_a_queued_restart();
    let mut tick = stage.command(&["watchdog", "tick"]);
    tick.env("NETSKY_FAULT", "watchdog.child.marked=kill").output().expect("the program starts");
    let marker = stage.json("state/restart-inflight");
    assert!(marker["child"].is_null() && marker["epoch"] == 1, "{marker}");
    let inbox = stage.home().join("channels/agent/agent0/inbox");
    let may = |mode| std::fs::set_permissions(&inbox, std::fs::Permissions::from_mode(mode)).expect("ours");
    may(0o755);
    assert!(stage.ok(&["down"]).contains("the message of the restart that was asked for waits in "));
    may(0o700);
    let id = marker["id"].as_str().expect("an id");
    let told = stage.ok(&["restart", "--child", id, "--epoch", "1"]);
    assert!(told.contains("not the child of the restart under way; nothing done"), "{told}");
}

#[test]
fn a12_status_says_that_the_anchor_takes_no_more_clients_and_shows_the_living() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    let root = stage.program("agent0");
    let connect = || std::os::unix::net::UnixStream::connect(stage.home().join(".ostk/ostk.sock"));
    let crowd: Vec<_> = (0..300).map(|_| connect().expect("an anchor serves")).collect();
    let seen = stage.status();
    drop(crowd);
    let told = seen["problems"].to_string();
    assert!(told.contains("takes no more clients") && !told.contains("does not answer"), "{told}");
    let shown = &seen["agents"][0];
    assert!(shown["id"] == "agent0" && shown["pid"] == root.pid && seen["silent_anchor"] == true, "{seen}");
}

#[test]
fn a_slot_that_is_stopped_stays_down_over_ticks_and_deaths_and_comes_back_when_it_is_wanted() {
    let stage = Stage::up(2, QUIET, "200ms");
    stage.ok(&["channel", "send", "agent1", "for later", "--from", "owner"]);
    // Whoever brings it back at this very moment loses.
    stage.signal(&stage.program("agent1"), Signal::KILL);
    let told = stage.ok(&["agent", "stop", "1"]);
    assert!(told.contains("agent1 ") && told.contains("and stays down; its mail waits"), "{told}");
    for _ in 0..3 {
        stage.run(&["watchdog", "tick"]);
    }
    let agent = |stage: &Stage, id: &str| stage.agent(id);
    assert!(agent(&stage, "agent1")["pid"].is_null() && agent(&stage, "agent1")["want"] == "stopped");
    assert_eq!(
        (agent(&stage, "agent1")["inbox"].clone(), agent(&stage, "agent1")["poison"].clone()),
        (1.into(), 0.into())
    );
    assert!(!agent(&stage, "agent2")["pid"].is_null());
    assert!(stage.ok(&["agent", "stop", "agent2"]).contains("agent2 was ended"));
    // It is not wanted, so a planned restart brings nobody of them back.
    stage.ok(&["restart"]);
    stage.until_verified(2);
    assert!(agent(&stage, "agent1")["pid"].is_null() && agent(&stage, "agent2")["pid"].is_null());
    for (args, code) in [(&["agent", "stop", "0"][..], 2), (&["agent", "stop", "7"], 3)] {
        assert_eq!(stage.refused(args).0, code, "{args:?}");
    }
    let mut inside = stage.command(&["agent", "stop", "2"]);
    let inside = inside.env("NETSKY_AGENT", "agent1").env("NETSKY_GENERATION", "1").output().expect("starts");
    assert_eq!(inside.status.code(), Some(4));
    stage.ok(&["agent", "1"]);
    stage.until("it is back", |stage| (stage.agent("agent1")["up"] == true).then_some(()));
}

#[test]
fn a_slot_that_is_stopped_where_nobody_serves_is_ended() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    let one = stage.program("agent1");
    stage.kill_anchor();
    let told = stage.ok(&["agent", "stop", "1"]);
    assert!(told.contains("agent1 was ended") && !is_alive(&one), "{told}");
}

#[test]
fn i7_a_down_ends_agents_then_agentinfinity_then_the_ticker() {
    let script = "trap 'echo asked; touch $NETSKY_HOME/../asked-$NETSKY_AGENT' TERM; netsky session up; while :; do sleep 1; done";
    let stage = Stage::up(1, script, "10m");
    let agents = ["agent0", "agent1"].map(|id| stage.program(id));
    let keepers = ["agentinfinity", "netsky-ticker"].map(|id| stage.program(id));
    let mut down = stage.command(&["down"]).stdout(Stdio::null()).spawn().expect("the program starts");
    stage.until("their end to begin", |stage| {
        ["agent0", "agent1"].iter().all(|id| stage.outside(&format!("asked-{id}")).exists()).then_some(())
    });
    assert!(agents.iter().chain(&keepers).all(is_alive), "who keeps them waits for the last of them");
    agents.iter().for_each(|agent| stage.signal(agent, Signal::KILL));
    assert!(down.wait().expect("ends").success());
    assert!(!keepers.iter().any(is_alive));
}

#[test]
fn t24_a_down_that_takes_long_to_end_somebody_is_no_stuck_holder_of_the_lock() {
    // It takes its whole grace.
    let stage = Stage::up(0, "trap '' TERM; netsky session up; while :; do sleep 1; done", "10m");
    let began = netsky_disk::clock::stamp();
    let mut down = stage.command(&["down"]);
    down.env("NETSKY_FAULT", "watchdog.down.ended=stop").stdout(Stdio::null());
    let mut down = down.spawn().expect("the program starts");
    let id = identify_child(down.id()).expect("it runs");
    stage.until("a down that has ended all", |_| is_stopped(&id).then_some(()));
    let note: Value =
        netsky_disk::lock::Lock::noted(stage.home().join("state/tick/watchdog.lock")).expect("noted");
    let since: Stamp = serde_json::from_value(note["since"].clone()).expect("a stamp");
    // Before anything can fail: nobody else would end it.
    stage.signal(&id, Signal::CONT);
    assert!(down.wait().expect("ends").success());
    assert!(
        since.since(&began) > Duration::from_secs(3),
        "it got on when that was done: {since:?}, {began:?}"
    );
}
