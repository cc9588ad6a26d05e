//! What keeps netsky-drivers from an agent: it is told of, it costs no message an attempt, and it is over when it is over.

use std::process::Stdio;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::process::Signal;
use serde_json::{Value, json};

use super::{Driven, executable};
use crate::stage::Stage;

const QUICK: &str = "[drivers]\nsilence = \"20s\"\nprobe = \"500ms\"\nanswer = \"10s\"\n";

#[test]
fn who_cannot_be_driven_is_told_of_with_the_reason_and_is_spoken_to_again_when_that_is_over() {
    let driven = Driven::up();
    let first = driven.send("one");
    driven.until_state(&first, "acked");
    driven.until_doing("idle");
    driven.stage.edit("state/drivers/agent0.json", |book| book["v"] = 99.into());
    driven.kill("netsky-drivers");
    let id = driven.send("two");
    let told = driven.stage.until("it is told", |stage| {
        let status = stage.ok(&["status"]);
        status.contains("problem: agent0 is not driven for ").then_some(status)
    });
    assert!(
        told.contains("newer than this program; its mail waits, and what stands here of it is old"),
        "{told}"
    );
    assert_eq!(driven.envelope(&id), ("written".to_owned(), 1));
    driven.stage.until("a look at who hangs", |stage| {
        stage.names("state").iter().any(|name| name == "agent0-hang-suspected").then_some(())
    });
    assert_eq!(driven.stage.json("state/agent0-hang-suspected")["word"], "undriven");
    driven.stage.edit("state/drivers/agent0.json", |book| book["v"] = 1.into());
    assert_eq!(driven.until_state(&id, "acked"), 1);
    driven
        .stage
        .until("it is over", |stage| (!stage.ok(&["status"]).contains("is not driven")).then_some(()));
}

#[test]
fn a_program_that_has_closed_its_input_is_deaf_and_costs_no_message_an_attempt() {
    let driven = Driven::with(QUICK);
    let last = driven.send("work [[closes]]");
    driven.until_state(&last, "acked");
    let id = driven.send("next");
    driven.until_doing("wedged");
    assert_eq!(driven.doing()["how"], "deaf");
    // Several tries by then.
    clock::pause(Duration::from_secs(4));
    // It is claimed in the moment of a try.
    let (state, attempt) = driven.envelope(&id);
    assert!(attempt == 1 && ["written", "claimed"].contains(&state.as_str()), "{state} {attempt}");
    driven.touch("opens");
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn what_a_program_asks_that_reads_nothing_is_shown_with_what_it_does() {
    let driven = Driven::with(QUICK);
    driven.send("work [[closes]] [[asks]]");
    driven.stage.until("what it asks", |stage| {
        let shown = stage.ok(&["agent", "show", "0"]);
        (shown.contains("deaf") && shown.contains("Bash: pwd")).then_some(())
    });
    driven.touch("opens");
}

#[test]
fn whose_lines_cannot_be_followed_is_told_of_until_they_are() {
    let driven = Driven::up();
    let id = driven.send("work [[gate]]");
    driven.until_state(&id, "delivered");
    driven.until_doing("working");
    let acked = driven.stage.home().join("channels/agent/agent0/acked");
    let aside = driven.file("acked");
    std::fs::rename(&acked, &aside).expect("moved");
    std::fs::write(&acked, "").expect("written");
    driven.touch("gate");
    let told = driven.stage.until("it is told", |stage| {
        let status = stage.ok(&["status"]);
        status.contains("problem: agent0 is not driven for ").then_some(status)
    });
    assert!(told.contains("acked"), "{told}");
    std::fs::remove_file(&acked).expect("there");
    std::fs::rename(&aside, &acked).expect("moved");
    assert_eq!(driven.until_state(&id, "acked"), 1);
    driven
        .stage
        .until("it is over", |stage| (!stage.ok(&["status"]).contains("is not driven")).then_some(()));
}

#[test]
fn an_agent_whose_book_cannot_be_written_is_told_of_and_goes_on_meanwhile() {
    let driven = Driven::up();
    let first = driven.send("one");
    driven.until_state(&first, "acked");
    driven.until_doing("idle");
    let book = driven.stage.home().join("state/drivers/agent0.json");
    std::fs::remove_file(&book).expect("there");
    std::fs::create_dir(&book).expect("made");
    let id = driven.send("two");
    assert_eq!(driven.until_state(&id, "acked"), 1);
    driven.stage.until("it is told", |stage| {
        stage.ok(&["status"]).contains("problem: agent0 is not driven for ").then_some(())
    });
    std::fs::remove_dir(&book).expect("there");
    driven
        .stage
        .until("it is over", |stage| (!stage.ok(&["status"]).contains("is not driven")).then_some(()));
}

#[test]
fn what_a_program_takes_back_and_nobody_here_did_comes_again() {
    let driven = Driven::up();
    let id = driven.send("work [[takes back]]");
    assert_eq!(driven.until_state(&id, "acked"), 2, "it comes again, flagged");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn must_show_6_what_a_program_takes_back_each_time_is_tried_after_a_pause() {
    let driven = Driven::up();
    let id = driven.send("work [[takes back always]]");
    driven
        .stage
        .until("it waits", |stage| stage.agent("agent0")["driven"]["waits"].is_object().then_some(()));
    let (_, attempt) = driven.envelope(&id);
    assert!(attempt <= 3, "{attempt}");
}

#[test]
fn i1_what_a_program_takes_back_after_a_turn_that_the_owner_stopped_comes_again_as_well() {
    let driven = Driven::up();
    let stopped = driven.send("work [[stoppable]]");
    driven.until_doing("working");
    driven.stage.ok(&["agent", "interrupt", "0"]);
    driven.until_state(&stopped, "acked");
    let id = driven.send("work [[takes back]]");
    assert_eq!(driven.until_state(&id, "acked"), 2, "nobody wanted that one stopped");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn i1_what_a_program_takes_back_in_the_turn_behind_a_stopped_one_comes_again() {
    let driven = Driven::up();
    let first = driven.send("work [[gate]]");
    driven.until_doing("working");
    // Given together: the second begins as soon as the first is stopped, and nobody is free in between.
    let stopped = driven.send("work [[stoppable]]");
    let behind = driven.send("work [[takes back what comes]]");
    driven.touch("gate");
    driven.until_state(&first, "acked");
    driven.stage.until("the turn to stop", |stage| {
        let shown = stage.ok(&["agent", "show", "0", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        (shown["turns"] == 1 && shown["doing"]["is"] == "working").then_some(())
    });
    driven.until_state(&behind, "delivered");
    driven.stage.ok(&["agent", "interrupt", "0"]);
    driven.until_state(&stopped, "acked");
    let urgent = driven.sent(&["and now", "--kind", "owner"]);
    driven.until_state(&behind, "acked");
    assert_eq!(driven.until_state(&urgent, "acked"), 2, "nobody wanted that one stopped");
    assert_eq!(driven.turns_of(&urgent), 1);
}

#[test]
fn a_program_that_refuses_to_begin_is_said_so_at_once_with_its_words() {
    let stage = Stage::new();
    let program = stage.outside("codex");
    let script = r#"#!/bin/sh
read -r line
echo '{"id":"netsky-greet","error":{"message":"config.toml:1:7: extra ="}}'
exec cat >/dev/null
"#;
    executable(&program, script);
    stage.ok(&["init"]);
    let program = program.display().to_string();
    let (code, line) = stage.refused(&["up", "0", "--tick", "10m", "--runtime", "codex", "--", &program]);
    assert!(
        code == 5 && line.contains("agent0 runs and takes no messages: config.toml:1:7: extra ="),
        "{code} {line}"
    );
    let doing = stage.agent("agent0")["driven"]["doing"].clone();
    assert_eq!((&doing["is"], &doing["how"]), (&json!("wedged"), &json!("refused")), "{doing}");
}

#[test]
fn a_clone_that_refuses_to_begin_or_ends_at_once_is_said_so_by_the_up_that_starts_it() {
    let odd = r#"#!/bin/sh
case $NETSKY_AGENT in
agent1)
  read -r line
  sleep 1
  echo '{"id":"netsky-greet","error":{"message":"config.toml:1:7: extra ="}}'
  exec cat >/dev/null
  ;;
agent2) exit 3 ;;
esac
"#;
    let script = super::FAKE_CODEX.replacen("#!/bin/sh\n", odd, 1);
    let driven = Driven::of("codex", &script, 0, "");
    let (code, line) = driven.stage.refused(&["up", "3"]);
    assert!(
        code == 5 && line.contains("agent1 runs and takes no messages: config.toml:1:7: extra ="),
        "{code} {line}"
    );
    assert!(line.contains("agent2 ended before it proved that it is up: "), "{line}");
    assert!(!line.contains("agent3") && driven.stage.agent("agent3")["up"] == true, "{line}");
}

#[test]
fn a_conversation_has_one_writer_whoever_was_its_own_before_and_however_many_ask_at_once() {
    let driven = Driven::up();
    let projects = driven.file(".claude/projects/here");
    std::fs::create_dir_all(&projects).expect("made");
    let id = "11111111-1111-4111-8111-111111111111";
    std::fs::write(projects.join(format!("{id}.jsonl")), "{}\n").expect("written");
    let adopt = |n: &str| driven.stage.run(&["agent", n, "--resume", id]).status.code();
    let codes = std::thread::scope(|scope| {
        let asked = ["20", "21", "22"].map(|n| scope.spawn(move || adopt(n)));
        asked.map(|asked| asked.join().expect("no thread fails"))
    });
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(4)).count(), 2, "{codes:?}");
    let writer = ["20", "21", "22"][codes.iter().position(|code| *code == Some(0)).expect("one")];
    driven.stage.ok(&["agent", "stop", writer]);
    driven.stage.ok(&["agent", "7", "--resume", id]);
    let (code, line) = driven.stage.refused(&["agent", writer]);
    assert!(
        code == 4 && line.contains(&format!("agent7 goes on with its conversation {id}")),
        "{code} {line}"
    );
    assert!(line.contains("`netsky agent stop 7` first"), "{line}");
}

#[test]
fn who_used_up_its_contexts_too_soon_is_told_of_with_its_wait_and_an_up_does_not_wait() {
    let driven = Driven::up();
    driven.until_doing("idle");
    driven.touch("hold");
    let at = serde_json::to_value(clock::stamp()).expect("JSON");
    let attempts = json!({ "v": 1, "at": [at, at, at, at, at], "crashloop": true });
    std::fs::write(driven.stage.home().join("state/agent0-restart-attempts"), attempts.to_string())
        .expect("written");
    std::fs::remove_file(driven.file("hold")).expect("there");
    driven.send("grow [[context 185000]]");
    let told = driven.stage.until("its wait", |stage| {
        let told = stage.ok(&["status"]);
        told.contains("problem: agent0: its context is used up").then_some(told)
    });
    assert!(told.contains(" yet; `netsky up` starts it at once"), "{told}");
    driven.stage.ok(&["up", "0"]);
    driven.until_generation(2);
}

/// The conversation that the newest session of an agent was started for.
fn conversation(driven: &Driven, agent: &str) -> Value {
    let meta = driven.stage.json(&format!(".ostk/agents/{agent}.meta"));
    let tag = meta["tags"]["conversation"].as_str().expect("it is driven");
    serde_json::from_str(tag).expect("JSON")
}

#[test]
fn a_book_that_does_not_read_keeps_nobody_from_an_up_and_the_conversation_goes_on() {
    let driven = Driven::many(1, "");
    let id = driven.sent_to("agent1", &["one"]);
    driven.stage.until("a turn", |_| (driven.envelope_of("agent1", &id).0 == "acked").then_some(()));
    let begun = json!({ "id": conversation(&driven, "agent1")["id"], "begun": true });
    let book = driven.stage.home().join("state/drivers/agent1.json");
    let newer = json!({ "v": 99 }).to_string();
    for rubbish in [Some("{".to_owned()), Some(newer.clone()), Some(" ".repeat(2 << 20)), None] {
        driven.stage.ok(&["down"]);
        match &rubbish {
            Some(rubbish) => std::fs::write(&book, rubbish).expect("written"),
            None => std::fs::remove_file(&book).expect("there"),
        }
        driven.stage.ok(&["up", "1"]);
        assert_eq!(conversation(&driven, "agent1"), begun, "{rubbish:?}");
        if rubbish.as_ref() == Some(&newer) {
            // Nobody reads it, while others are brought up beside it.
            driven.stage.ok(&["up", "0"]);
            driven.stage.ok(&["agent", "2"]);
        }
    }
}

/// A conversation that agent1 began and has left to others.
fn left_by_agent1(driven: &Driven) -> String {
    let id = driven.sent_to("agent1", &["one"]);
    driven.stage.until("a turn", |_| (driven.envelope_of("agent1", &id).0 == "acked").then_some(()));
    driven.stage.ok(&["agent", "stop", "1"]);
    conversation(driven, "agent1")["id"].as_str().expect("an id").to_owned()
}

#[test]
fn who_has_taken_a_conversation_is_its_writer_before_its_driver_has_met_it() {
    let driven = Driven::many(2, "");
    let id = left_by_agent1(&driven);
    driven.stage.ok(&["agent", "stop", "2"]);
    let drivers = driven.stage.program("netsky-drivers");
    driven.stage.signal(&drivers, Signal::STOP);
    let starts = |args: &[&str]| {
        let mut up = driven.stage.command(args);
        let up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        driven.stage.until("its start", |stage| (!stage.agent("agent2")["pid"].is_null()).then_some(()));
        assert_eq!(conversation(&driven, "agent2"), json!({ "id": id, "begun": true }));
        up
    };
    let mut first = starts(&["agent", "2", "--resume", &id]);
    let (code, line) = driven.stage.refused(&["up", "2"]);
    assert!(
        code == 4 && line.contains(&format!("agent2 goes on with its conversation {id}")),
        "{code} {line}"
    );
    driven.stage.ok(&["agent", "stop", "2"]);
    assert!(!first.wait().expect("ours").success(), "it was stopped");
    let mut second = starts(&["agent", "2"]);
    driven.stage.signal(&drivers, Signal::CONT);
    assert!(second.wait().expect("ours").success());
}

#[test]
fn who_has_taken_a_conversation_and_could_not_start_is_its_writer_and_goes_on_with_it() {
    let driven = Driven::many(1, "");
    let id = left_by_agent1(&driven);
    std::fs::rename(driven.file("claude"), driven.file("away")).expect("there");
    for again in [&["agent", "2", "--resume", &id][..], &["agent", "2"]] {
        let (code, line) = driven.stage.refused(again);
        assert!(code == 1 && line.contains("is not there or not executable"), "{code} {line}");
    }
    std::fs::rename(driven.file("away"), driven.file("claude")).expect("there");
    let (code, line) = driven.stage.refused(&["up", "2"]);
    assert!(
        code == 4 && line.contains(&format!("agent2 goes on with its conversation {id}")),
        "{code} {line}"
    );
    driven.stage.ok(&["agent", "2"]);
    assert_eq!(conversation(&driven, "agent2"), json!({ "id": id, "begun": true }));
}

#[test]
fn t3_who_lives_on_a_conversation_is_its_writer_whatever_its_wish_says_or_its_book() {
    let driven = Driven::many(1, "");
    let mail = driven.sent_to("agent1", &["one"]);
    driven.stage.until("a turn", |_| (driven.envelope_of("agent1", &mail).0 == "acked").then_some(()));
    driven.stage.hold_triggers();
    driven.stage.signal(&driven.stage.program("netsky-drivers"), Signal::STOP);
    let id = conversation(&driven, "agent1")["id"].as_str().expect("an id").to_owned();
    let refuses = |what: &str| {
        let (code, line) = driven.stage.refused(&["agent", "2", "--resume", &id]);
        let told = line.contains(&format!("agent1 goes on with its conversation {id}"));
        assert!(code == 4 && told, "{what}: {code} {line}");
    };
    let (home, away) = (driven.stage.home(), driven.file("away"));
    let book = home.join("state/drivers/agent1.json");
    std::fs::rename(&book, &away).expect("there");
    std::os::unix::fs::symlink(&book, &book).expect("a link in its place");
    refuses("the system keeps its book from us");
    std::fs::rename(&away, &book).expect("moved back");
    let wish = home.join("state/desired/agent1.json");
    let up = driven.stage.json("state/desired/agent1.json");
    let mut stopped = up.clone();
    stopped["want"] = json!("stopped");
    for (what, text) in [("a stop that died", stopped.to_string()), ("a damaged wish", "{".to_owned())] {
        std::fs::write(&wish, text).expect("written");
        refuses(what);
    }
    std::fs::write(&wish, up.to_string()).expect("written");
}

#[test]
fn whose_conversation_is_gone_or_damaged_begins_another_and_that_is_paged_for() {
    for is_gone in [true, false] {
        let driven = Driven::many(1, "");
        let id = driven.sent_to("agent1", &["one"]);
        driven.stage.until("its turn", |_| (driven.envelope_of("agent1", &id).0 == "acked").then_some(()));
        let known = driven.stage.json("state/drivers/agent1.json")["conversation"]["id"].clone();
        let known = known.as_str().expect("begun").to_owned();
        let kept = driven.file(&format!(".claude/projects/here/{known}.jsonl"));
        let pages = || {
            let text =
                std::fs::read_to_string(driven.stage.home().join("logs/pages.jsonl")).unwrap_or_default();
            let lost = text.lines().filter(|line| line.contains("conversation-lost.agent1"));
            lost.map(str::to_owned).collect::<Vec<_>>()
        };
        // Whoever comes back as it was is no news.
        for (is_there, paged) in [(true, 0), (false, 1)] {
            driven.stage.ok(&["agent", "stop", "1"]);
            match (is_there, is_gone) {
                (true, _) => {}
                (false, true) => std::fs::remove_file(&kept).expect("there"),
                // As a power cut may leave it.
                (false, false) => std::fs::write(&kept, "").expect("emptied"),
            }
            // One that does not read ends the first start.
            drop(driven.stage.run(&["agent", "1"]));
            let id = driven.sent_to("agent1", &["more"]);
            driven
                .stage
                .until("its turn", |_| (driven.envelope_of("agent1", &id).0 == "acked").then_some(()));
            driven.stage.until("its page", |_| (pages().len() == paged).then_some(()));
        }
        assert!(pages()[0].contains(&known), "{:?}", pages());
    }
}
