//! What reports come to, one after the other.

use super::*;

fn intent(id: &str) -> Report {
    Report::Intent { id: id.to_owned(), tool: "sh".to_owned(), input: Value::Null }
}

fn result(id: &str) -> Report {
    Report::Result { id: id.to_owned(), failed: false, output: Value::Null }
}

fn context(used: u8) -> Report {
    Report::Context { used: used.try_into().expect("a percentage") }
}

fn after(reports: &[(u64, Report)]) -> State {
    let mut state = State::default();
    for (generation, report) in reports {
        state.take(Generation(*generation), report).expect("it fits");
    }
    state
}

#[test]
fn an_intent_without_a_result_stays_unknown_until_a_later_generation_finished_a_turn() {
    let mut state = after(&[(1, intent("a")), (1, intent("b")), (1, result("a"))]);
    assert_eq!(state.unknown(Generation(1)).count(), 0, "it may still come back");
    let told = |over| state.progress(Generation(1), over).unknown;
    assert_eq!((told(false), told(true)), (0, 1), "it will not, once its generation is over");
    let unknown: Vec<_> = state.unknown(Generation(2)).map(|(id, _)| id.as_str()).collect();
    assert_eq!(unknown, ["b"]);
    state.take(Generation(1), &Report::Turn(Box::default())).expect("it fits");
    assert_eq!(state.unknown(Generation(2)).count(), 1, "its own turn does not close it");
    state.take(Generation(2), &Report::Turn(Box::default())).expect("it fits");
    assert_eq!(state.intents.len(), 0);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut state = after(&[(2, intent("a")), (2, Report::Turn(Box::default()))]);
    let before = state.clone();
    let long = "x".repeat(LONGEST_WORD + 1);
    let none = Turn { turn: Some(LAST_TURN + 1), ..Turn::default() };
    let none = Report::Turn(Box::new(none));
    assert_eq!(after(&[]).check_room(Generation(1), &none), Err(Misfit::NoTurn { said: LAST_TURN + 1 }));
    let last = Report::Turn(Box::new(Turn { turn: Some(LAST_TURN), ..Turn::default() }));
    let next = after(&[(1, last)]).check_room(Generation(1), &Report::Turn(Box::default()));
    assert_eq!(next, Err(Misfit::NoTurn { said: LAST_TURN + 1 }), "none that follows is turn 0");
    after(&[(1, none)]).take(Generation(1), &Report::Turn(Box::default())).expect("of a former program");
    let old = Turn { turn: Some(1), ..Turn::default() };
    for (generation, report) in [
        (1, Report::Turn(Box::default())),
        (2, intent("a")),
        (2, intent("")),
        (2, intent(&long)),
        (2, intent("a\nb")),
        (2, result("none")),
        (2, Report::Turn(Box::new(old))),
        (2, Report::Phase { phase: "\u{1b}[31m".to_owned(), until: None }),
    ] {
        assert!(state.take(Generation(generation), &report).is_err(), "{report:?}");
        assert_eq!(state, before);
    }
    state.take(Generation(3), &intent("a")).expect("a later generation decides anew");
}

#[test]
fn a12_open_intents_are_bounded() {
    let mut state = State::default();
    for n in 0..OPEN_INTENTS {
        state.take(Generation(1), &intent(&n.to_string())).expect("it fits");
    }
    assert_eq!(state.take(Generation(1), &intent("more")), Err(Misfit::TooManyIntents));
}

#[test]
fn a_new_generation_begins_healthy_and_keeps_what_the_lineage_has_behind_it() {
    let turn = Box::new(Turn {
        messages: vec![JsonText("{}".to_owned())],
        usage: Usage { input: 7, cost_micros: Some(3), ..Usage::default() },
        ..Turn::default()
    });
    let mut state = after(&[(1, Report::Turn(turn.clone())), (1, context(92))]);
    assert_eq!((state.lifecycle, state.turn), (LifecycleState::Dying, 1));
    state.take(Generation(2), &Report::Turn(turn)).expect("it fits");
    assert_eq!((state.lifecycle, state.context_pct), (LifecycleState::Healthy, None));
    assert_eq!((state.turn, state.messages.count, state.usage.input), (2, 2, 14));
    assert_eq!(state.usage.cost_micros, Some(6));
}

#[test]
fn one_finalization_turn_is_let_in_and_then_nothing() {
    let mut state = after(&[(1, context(89))]);
    assert_eq!(state.take(Generation(1), &Report::Finalization), Err(Misfit::NotDying));
    state.take(Generation(1), &context(92)).expect("it fits");
    assert_eq!(state.take(Generation(2), &Report::Finalization), Err(Misfit::NotDying), "of a new one");
    state.take(Generation(1), &Report::Finalization).expect("it fits");
    assert_eq!(state.lifecycle, LifecycleState::Draining);
    assert_eq!(state.take(Generation(1), &Report::Finalization), Err(Misfit::NotDying));
    state.take(Generation(1), &Report::Turn(Box::default())).expect("it fits");
    assert_eq!(state.lifecycle, LifecycleState::Dead);
}

#[test]
fn a_program_that_compacts_itself_begins_healthy_and_what_an_earlier_generation_left_stands() {
    let text = || "go on".to_owned();
    let mut state = after(&[(1, context(92)), (1, Report::Handoff { text: text() })]);
    state.take(Generation(1), &Report::Compacted).expect("it fits");
    assert_eq!((state.lifecycle, state.context_pct), (LifecycleState::Healthy, None));
    assert_eq!(state.handoff, None, "it leaves another");
    let mut state = after(&[(1, context(92)), (1, Report::Handoff { text: text() }), (2, context(95))]);
    state.take(Generation(2), &Report::Compacted).expect("it fits");
    assert!(state.waiting(Generation(2)).is_some(), "nobody has acknowledged it");
    let mut state = after(&[(1, context(92)), (1, Report::Finalization)]);
    state.take(Generation(1), &Report::Compacted).expect("it fits");
    state.take(Generation(1), &Report::Turn(Box::default())).expect("it fits");
    assert_eq!(state.lifecycle, LifecycleState::Dead, "its last turn stays its last");
}

#[test]
fn a_turn_that_had_begun_before_its_finalization_is_not_the_last() {
    for begun in [Report::Begun, intent("a")] {
        let mut state = after(&[(1, context(92)), (1, begun), (1, Report::Finalization)]);
        state.take(Generation(1), &Report::Turn(Box::default())).expect("it fits");
        assert_eq!(state.lifecycle, LifecycleState::Draining, "the turn of before");
        state.take(Generation(1), &Report::Turn(Box::default())).expect("it fits");
        assert_eq!(state.lifecycle, LifecycleState::Dead);
    }
    // Whose program says that its last turn begins has none before it under way.
    let mut state = after(&[(1, context(92)), (1, Report::Begun), (1, Report::Finalization)]);
    state.take(Generation(1), &Report::Finalization).expect("it begins");
    assert_eq!(state.take(Generation(1), &Report::Finalization), Err(Misfit::NotDying));
    state.take(Generation(1), &Report::Turn(Box::default())).expect("it fits");
    assert_eq!(state.lifecycle, LifecycleState::Dead);
}

#[test]
fn a_message_must_be_json_and_stays_as_it_was_written() {
    let text = r#"{"b":1.0,"a":1e3 ,"a":"é"}"#;
    let message = JsonText::try_from(text.to_owned()).expect("it is JSON");
    assert_eq!(message.as_str(), text);
    assert!(JsonText::try_from("{".to_owned()).is_err());
}
