//! Delivery and receipts.

use super::Driven;

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
    assert!(shown.contains("context 25 %, 3 turns") && shown.contains("150000 in, 21 out"), "{shown}");
    // The kernel and the record know it too.
    let kernel = driven.stage.until("the kernel's word", |stage| {
        let status =
            stage.ok(&["query", "SELECT count(*) AS n FROM facts WHERE kind = 'turn.finished'", "--json"]);
        status.contains("\"n\":3").then_some(status)
    });
    assert!(kernel.contains("\"n\":3"));
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
