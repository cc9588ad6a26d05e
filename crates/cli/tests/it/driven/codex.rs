//! The same with programs that speak as Codex does: one envelope a turn, and a receipt that outlives the program.

use super::{Driven, FAKE_CODEX};

fn up() -> Driven {
    Driven::of("codex", FAKE_CODEX, 0, "[drivers]\nsilence = \"60s\"\nprobe = \"500ms\"\nanswer = \"10s\"\n")
}

/// In a turn whose end waits for the gate.
fn in_a_turn(how: &str) -> (Driven, String) {
    let driven = up();
    let id = driven.send(how);
    driven.until_doing("working");
    driven.stage.until("its receipt", |_| (driven.envelope(&id).0 == "delivered").then_some(()));
    (driven, id)
}

#[test]
fn each_envelope_is_a_turn_of_its_own_and_ends_with_it() {
    let driven = up();
    let ids: Vec<String> = (0..5).map(|n| driven.send(&format!("number {n}"))).collect();
    for id in &ids {
        assert_eq!(driven.until_state(id, "acked"), 1);
        assert_eq!(driven.turns_of(id), 1);
    }
    assert_eq!(driven.lines("turns").len(), 5);
    driven
        .stage
        .until("its context", |stage| (stage.agent("agent0")["driven"]["context_pct"] == 25).then_some(()));
}

#[test]
fn a_program_that_dies_in_a_turn_goes_on_with_its_thread_and_is_told_again_flagged() {
    let (driven, id) = in_a_turn("work [[gate]]");
    driven.kill("agent0");
    driven.touch("gate");
    assert_eq!(driven.until_state(&id, "acked"), 2);
    assert_eq!(driven.turns_of(&id), 1);
    assert!(driven.lines("turns")[0].contains("redelivered=\\\"true\\\" attempt=\\\"2\\\""));
    let starts = driven.lines("starts");
    let thread = starts[0].strip_prefix("start ").expect("it began one");
    assert_eq!(starts[1], format!("resume {thread}"));
}

#[test]
fn netsky_drivers_may_die_in_a_turn_and_nothing_is_told_twice() {
    let (driven, id) = in_a_turn("work [[gate]]");
    driven.kill("netsky-drivers");
    driven.touch("gate");
    assert_eq!(driven.until_state(&id, "acked"), 1);
    assert_eq!((driven.turns_of(&id), driven.lines("starts").len()), (1, 1));
}

#[test]
fn a_turn_that_ended_unheard_is_found_in_the_rollout_and_not_told_again() {
    let (driven, id) = in_a_turn("say nothing [[mute]]");
    driven.stage.until("the end of its turn", |_| driven.file("muted").exists().then_some(()));
    // With its worker dies what it was about to say.
    let worker = driven.stage.worker("agent0");
    driven.stage.signal(&worker, netsky_disk::process::Signal::KILL);
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn a_turn_that_ended_while_nobody_listened_is_not_told_again() {
    let (driven, id) = in_a_turn("work [[slow]]");
    let drivers = driven.stage.program("netsky-drivers");
    driven.stage.signal(&drivers, netsky_disk::process::Signal::STOP);
    driven.touch("gate");
    driven.stage.until("its turn", |_| (driven.turns_of(&id) == 1).then_some(()));
    driven.kill("agent0");
    driven.kill("netsky-drivers");
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn a_turn_that_its_provider_fails_is_one_failure_and_goes_under_another_name_once_it_is_free() {
    let driven = up();
    let id = driven.send("pay [[busy]]");
    driven
        .stage
        .until("it waits again", |_| (driven.envelope(&id) == ("written".to_owned(), 2)).then_some(()));
    let waits = || driven.stage.agent("agent0")["driven"]["waits"].clone();
    driven.stage.until("its wait", |_| waits()["failures"].as_u64());
    assert_eq!((waits()["failures"].as_u64(), waits()["trouble"].as_str()), (Some(1), Some("overloaded")));
    driven.touch("free");
    driven.stage.ok(&["agent", "retry", "0"]);
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn what_it_asks_is_answered_once_and_its_owner_steers_and_stops_it() {
    let driven = up();
    let id = driven.send("clean up [[asks]]");
    let doing = driven.until_doing("blocked");
    assert_eq!(doing["on"], "rm -rf build");
    let ask = driven.stage.agent("agent0")["driven"]["asks"][0]["id"].as_str().expect("an id").to_owned();
    driven.stage.ok(&["agent", "deny", "0", "--ask", &ask]);
    driven.until_state(&id, "acked");
    assert_eq!(driven.lines("answers").len(), 1);
    assert!(driven.lines("answers")[0].contains("decline"));

    let busy = driven.send("work [[gate]]");
    driven.until_doing("working");
    let urgent = driven.sent_to("agent0", &["and now", "--kind", "owner"]);
    driven.stage.until("it in the turn", |_| driven.lines("steers").first().map(drop));
    driven.stage.ok(&["agent", "interrupt", "0"]);
    for id in [&busy, &urgent] {
        assert_eq!(driven.until_state(id, "acked"), 1);
        assert_eq!(driven.turns_of(id), 0, "it was stopped");
    }
    assert!(driven.lines("steers")[0].contains(&urgent));
}

#[test]
fn who_was_started_by_hand_stays_what_it_is_over_down_and_up_and_a_death_whatever_the_defaults_say() {
    let driven = Driven::of("claude", super::FAKE_CLAUDE, 1, "");
    let program = driven.file("codex");
    super::executable(&program, FAKE_CODEX);
    driven.stage.ok(&["agent", "stop", "1"]);
    // The model of a Claude Code is none of a Codex.
    let settings = driven.stage.home().join("config.toml");
    let text = std::fs::read_to_string(&settings).expect("there");
    let modelled = text.replacen("[defaults]\n", "[defaults]\nmodel = \"of-claude\"\n", 1);
    assert_ne!(modelled, text);
    std::fs::write(&settings, modelled).expect("written");
    driven.stage.ok(&["agent", "1", "--runtime", "codex", "--", program.to_str().expect("text")]);
    assert_eq!(driven.stage.json("state/desired/agent1.json")["model"], serde_json::Value::Null);
    std::fs::write(&settings, text).expect("written");
    // As a wish of an earlier version says it, said again of who lives.
    let wish = driven.stage.home().join("state/desired/agent1.json");
    let text = std::fs::read_to_string(&wish).expect("there");
    std::fs::write(&wish, text.replace("\"by_hand\": true,", "")).expect("written");
    driven.stage.ok(&["agent", "1", "--runtime", "codex"]);
    let turn = |text: &str| {
        let id = driven.sent_to("agent1", &[text]);
        driven.stage.until("its turn", |_| (driven.envelope_of("agent1", &id).0 == "acked").then_some(()));
    };
    let thread = || driven.stage.json("state/drivers/agent1.json")["conversation"]["id"].clone();
    turn("one");
    let first = thread();
    driven.stage.ok(&["down"]);
    let told = driven.stage.ok(&["up", "1"]);
    assert!(told.contains("as said by hand, not as the defaults of config.toml: agent1 (codex)"), "{told}");
    turn("two");
    driven.kill("agent1");
    driven.stage.ok(&["up", "1"]);
    turn("three");
    assert_eq!(
        (thread(), driven.stage.json("state/drivers/agent1.json")["runtime"].clone()),
        (first, "codex".into())
    );
    // What the settings say of this very slot is what it runs; of its model alone they say nothing of that.
    let text = std::fs::read_to_string(&settings).expect("there");
    std::fs::write(&settings, format!("{text}[agents.agent1]\nmodel = \"m\"\n")).expect("written");
    driven.stage.ok(&["down"]);
    driven.stage.ok(&["up", "1"]);
    assert_eq!(driven.stage.json("state/drivers/agent1.json")["runtime"], "codex");
    let claude = driven.file("claude");
    let own = format!("{text}[agents.agent1]\nruntime = \"claude\"\nargv = [{claude:?}]\n");
    std::fs::write(&settings, own).expect("written");
    driven.stage.ok(&["down"]);
    driven.stage.ok(&["up", "1"]);
    turn("four");
    assert_eq!(driven.stage.json("state/drivers/agent1.json")["runtime"], "claude");
}
