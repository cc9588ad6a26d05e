//! Delivery and receipts.

use super::Driven;
use crate::stage::Stage;

#[test]
fn each_envelope_is_one_turn_of_an_idle_agent_and_ends_with_it() {
    let driven = Driven::up();
    for text in ["one", "two", "three"] {
        let id = driven.send(text);
        assert_eq!(driven.until_state(&id, "acked"), 1);
        assert_eq!(driven.turns_of(&id), 1);
    }
    let agent = driven.stage.agent("agent0");
    assert_eq!((agent["driven"]["context_pct"].as_u64(), agent["up"].as_bool()), (Some(25), Some(true)));
    let shown = driven.stage.ok(&["agent", "show", "0"]);
    assert!(
        shown.contains("context 25 % (healthy), 3 turns") && shown.contains("150000 in, 21 out"),
        "{shown}"
    );
    // The kernel and the record know it too.
    let kernel = driven.stage.until("the kernel's word", |stage| {
        let status =
            stage.ok(&["query", "SELECT count(*) AS n FROM facts WHERE kind = 'turn.finished'", "--json"]);
        status.contains("\"n\":3").then_some(status)
    });
    assert!(kernel.contains("\"n\":3"));
    let shown: serde_json::Value =
        serde_json::from_str(&driven.stage.ok(&["agent", "show", "0", "--json"])).expect("JSON");
    let conversation = shown["conversation"]["id"].as_str().expect("it has one");
    driven.stage.until("its conversation", |stage| {
        let names = stage.names(".ostk/drain").into_iter().filter(|name| name.ends_with(".json"));
        let mut known = names.map(|name| stage.json(&format!(".ostk/drain/{name}")));
        known.any(|known| known["runtime"]["session_id"] == conversation).then_some(())
    });
}

#[test]
fn a18_t13_what_turns_take_reaches_a_budget_once_and_a_death_begins_no_sum_anew() {
    let driven = Driven::with("[budget]\ntokens_a_day = 150000\nagents = { agent0 = 100000 }\n");
    let id = driven.send("one");
    driven.until_state(&id, "acked");
    driven.kill("agent0");
    // The handoff of the crash is a turn, too.
    for text in ["two", "three"] {
        let id = driven.send(text);
        driven.until_state(&id, "acked");
    }
    let reached = |stage: &Stage| {
        let asked = "SELECT data ->> '$.agent' AS agent, data ->> '$.spent' AS spent, data ->> '$.limit' AS most \
            FROM facts WHERE kind = 'budget.reached' ORDER BY agent";
        stage.ok(&["query", asked, "--csv"])
    };
    let both = "agent,spent,most\n,150021,150000\nagent0,100014,100000\n";
    driven.stage.until("both budgets", |stage| (reached(stage).lines().count() == 3).then_some(()));
    driven.stage.ok(&["watchdog", "tick"]);
    assert_eq!(reached(&driven.stage).replace('\r', ""), both);
    let pages = driven.stage.ok(&[
        "query",
        "SELECT count(*) AS n FROM pages WHERE condition LIKE 'budget.%'",
        "--json",
    ]);
    assert!(pages.contains("\"n\":2"), "{pages}");
}

#[test]
fn mail_for_a_busy_agent_waits_where_nothing_can_lose_it_and_then_goes_in_order() {
    let driven = Driven::up();
    let busy = driven.send("work [[gate]]");
    driven.until_doing("working");
    let waiting: Vec<String> = (0..10).map(|n| driven.send(&format!("later {n}"))).collect();
    for id in &waiting {
        assert_eq!(driven.envelope(id), ("written".to_owned(), 1));
    }
    driven.touch("gate");
    for id in waiting.iter().chain([&busy]) {
        assert_eq!(driven.until_state(id, "acked"), 1);
    }
    let turns = driven.lines("turns");
    let place = |id: &String| turns.iter().position(|line| line.contains(id.as_str())).expect("a turn");
    let places: Vec<usize> = [&busy].into_iter().chain(&waiting).map(place).collect();
    assert_eq!(places, (0..11).collect::<Vec<_>>(), "in the order they were sent");
}

#[test]
fn a2_a_text_reaches_the_program_as_text_and_as_nothing_else() {
    let driven = Driven::up();
    let long = "x".repeat(200 << 10);
    for text in ["/clear", "!rm -rf /", "\u{1b}[2J\u{7}bell", "a\nb\"c\\d", long.as_str()] {
        let id = driven.send_file(text);
        driven.until_state(&id, "acked");
        let turn = driven.lines("turns").pop().expect("a turn");
        let line: serde_json::Value = serde_json::from_str(&turn).expect("one line of JSON");
        let shown = line["message"]["content"][0]["text"].as_str().expect("text");
        assert!(
            shown.starts_with("<channel source=\"agent\"") && shown.ends_with("</channel>"),
            "{shown:.80}"
        );
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:.80}");
    }
}

#[test]
fn what_the_owner_says_as_the_owner_goes_into_the_turn_and_other_mail_waits_for_its_end() {
    let driven = Driven::up();
    let busy = driven.send("work [[steered]]");
    driven.until_doing("working");
    let send = |from: &str, kind: &str| {
        let args = ["channel", "send", "agent0", "and now", "--from", from, "--kind", kind, "--json"];
        let sent: serde_json::Value = serde_json::from_str(&driven.stage.ok(&args)).expect("one JSON object");
        sent["id"].as_str().expect("an id").to_owned()
    };
    // A kind that anybody may write moves nothing.
    let waiting = [send("agent7", "note"), send("agent8", "owner")];
    assert_eq!(waiting.each_ref().map(|id| driven.envelope(id).0), ["written"; 2]);
    let urgent = send("owner", "owner");
    for id in waiting.iter().chain([&busy, &urgent]) {
        assert_eq!(driven.until_state(id, "acked"), 1);
    }
    let steers = driven.lines("steers");
    assert!(
        steers.len() == 1 && steers[0].contains(&urgent) && steers[0].contains("\"priority\":\"next\""),
        "{steers:?}"
    );
}

#[test]
fn a_turn_that_the_owner_stops_is_over_and_the_next_one_is_not_stopped() {
    let driven = Driven::up();
    let (code, said) = driven.stage.refused(&["agent", "interrupt", "0"]);
    assert!(code == 3 && said.contains("there is no turn to stop"), "{code}: {said}");
    let id = driven.send("work [[stoppable]]");
    driven.until_doing("working");
    // A stop that was meant for an earlier turn.
    let path = driven.stage.home().join("state/answers/agent0.interrupt-1-7.json");
    std::fs::write(&path, "{}").expect("written");
    for _ in 0..20 {
        assert_eq!(driven.envelope(&id).0, "delivered");
    }
    assert!(
        driven
            .stage
            .ok(&["agent", "interrupt", "0"])
            .contains("of the 1 messages in its hands those that it has read are over with it")
    );
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 0, "it did not come to its end");
    let next = driven.send("next");
    driven.until_state(&next, "acked");
    assert_eq!(driven.turns_of(&next), 1);
}

#[test]
fn a_turn_that_nobody_stopped_is_told_again_though_its_program_says_that_it_was_stopped() {
    let driven = Driven::up();
    let id = driven.send("work [[cut]]");
    assert_eq!(driven.until_state(&id, "acked"), 2, "it comes again, flagged");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn a12_a_turn_is_told_no_more_than_its_end_can_name() {
    let driven = Driven::up();
    let busy = driven.send("work [[gate]]");
    driven.until_doing("working");
    let urgent: Vec<String> =
        (0..36).map(|n| driven.sent(&[&format!("now {n}"), "--kind", "owner"])).collect();
    let given = || driven.stage.names("channels/agent/agent0/delivered").len();
    driven.stage.until("what goes into the turn", |_| (given() >= 32).then_some(()));
    assert_eq!(given(), 32, "with the one that began it");
    driven.touch("gate");
    for id in urgent.iter().chain([&busy]) {
        assert_eq!(driven.until_state(id, "acked"), 1);
    }
}

#[test]
fn t1_no_hand_takes_the_mail_of_who_is_driven() {
    let driven = Driven::up();
    let first = driven.send("work [[gate]]");
    driven.until_doing("working");
    let second = driven.send("waits");
    let (code, line) = driven.stage.refused(&["channel", "drain", "agent0"]);
    assert!(code == 4 && line.contains("netsky-drivers gives it its mail"), "{code} {line}");
    driven.touch("gate");
    for id in [&first, &second] {
        assert_eq!(driven.until_state(id, "acked"), 1);
    }
}

#[test]
fn must_show_8_a_driven_agent_is_told_how_many_it_missed_while_it_was_busy() {
    let driven = Driven::up();
    driven.send("work [[gate]]");
    driven.until_doing("working");
    let made = driven.stage.ok(&["loop", "create", "1s", "tick", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&made).expect("one object");
    let id = made["id"].as_str().expect("an id").to_owned();
    let missed = || {
        let shown = driven.stage.ok(&["loop", "show", &id, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("one object");
        shown["missed"].as_u64().unwrap_or(0)
    };
    driven.stage.until("some that it missed", |stage| {
        stage.ok(&["loop", "tick"]);
        (missed() > 1).then_some(())
    });
    driven.stage.ok(&["loop", "pause", &id]);
    let told = format!("missed=\\\"{}\\\"", missed());
    driven.touch("gate");
    driven.stage.until("its turn about the loop", |_| {
        let turns = driven.lines("turns");
        let turn = turns.into_iter().find(|line| line.contains("loop-tick"))?;
        assert!(turn.contains(&told), "{told}: {turn}");
        Some(())
    });
}
