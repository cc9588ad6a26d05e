//! Claims: one of many, of one generation, and what waits is claimed by nobody.

use netsky_model::id::Generation;
use netsky_model::task::{Event, How, Illegal, Priority, State, Verdict};
use netsky_work::task::{Claims, Error};

use super::{agent, claim, draft, home, id};

#[test]
fn fm_task_claim_racers_one_of_eight_has_it_and_the_others_are_told_who() {
    let home = home();
    home.create("one");
    let ended: Vec<_> = std::thread::scope(|scope| {
        let racer = |n: u64| {
            let home = &home;
            move || home.board_of(&format!("agent{n}"), n).act(&id("1"), claim(&format!("agent{n}"), n))
        };
        let racers: Vec<_> = (1..=8).map(|n| scope.spawn(racer(n))).collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
    });
    let won: Vec<_> = ended.iter().filter_map(|ended| ended.as_ref().ok()).collect();
    assert_eq!(won.len(), 1, "{ended:?}");
    let (winner, generation) = won[0].state.holder().expect("claimed");
    for lost in ended.iter().filter_map(|ended| ended.as_ref().err()) {
        let Error::Illegal(Illegal::Held { by, generation: its, .. }) = lost else { panic!("{lost:?}") };
        assert_eq!((by, *its), (winner, generation));
    }
    assert_eq!(home.told(), ["task.created 1", "task.claimed 1"]);
}

#[test]
fn a_claim_said_twice_is_one_claim() {
    let home = home();
    home.create("one");
    let board = home.board_of("agent7", 3);
    let first = board.act(&id("1"), claim("agent7", 3)).expect("free");
    assert_eq!(board.act(&id("1"), claim("agent7", 3)).expect("its own"), first);
    assert_eq!(board.claim_next(&agent("agent7"), Generation(3)).expect("its own"), Some(first));
    assert_eq!(home.told(), ["task.created 1", "task.claimed 1"]);
}

#[test]
fn a_task_waits_for_those_before_it_and_says_which() {
    let home = home();
    home.create("one");
    home.create("two");
    let mut third = draft("three");
    third.after = [id("1"), id("2")].into();
    home.board().create(third).expect("made");
    let board = home.board_of("agent7", 1);
    let waits = |on: &[&str]| {
        let Err(Error::Waits { id: of, on: told }) = board.act(&id("3"), claim("agent7", 1)) else {
            panic!("it waits")
        };
        assert_eq!(of, id("3"));
        assert_eq!(told, on.iter().map(|one| id(one)).collect::<Vec<_>>());
    };
    waits(&["1", "2"]);
    home.board().act(&id("1"), Event::Closed { how: How::Done, why: None }).expect("open");
    waits(&["2"]);
    let landed = Event::Landed { sha: "a".repeat(40), main: "main".to_owned() };
    home.board().act(&id("2"), landed).expect("open");
    board.act(&id("3"), claim("agent7", 1)).expect("free now");
}

#[test]
fn the_next_task_is_its_own_then_the_most_urgent_then_the_oldest() {
    let home = home();
    let make = |title: &str, priority, to: Option<&str>| {
        let mut draft = draft(title);
        (draft.priority, draft.assignee) = (priority, to.map(agent));
        home.board().create(draft).expect("made")
    };
    make("low", Priority::Low, None);
    make("older", Priority::High, None);
    make("newer", Priority::High, None);
    make("another's", Priority::Urgent, Some("agent8"));
    make("its own", Priority::Low, Some("agent7"));
    let mut taken = Vec::new();
    for _ in 0..4 {
        let board = home.board_of("agent7", 1);
        let task = board.claim_next(&agent("agent7"), Generation(1)).expect("reads").expect("there is one");
        taken.push(task.title.to_string());
        let by = agent("agent7");
        let text = "done".to_owned();
        let done = Event::Reported { verdict: Verdict::Done, text, by, generation: Generation(1) };
        board.act(&task.id, done).expect("its own");
    }
    assert_eq!(taken, ["its own", "older", "newer", "low"]);
    let none = home.board_of("agent7", 1).claim_next(&agent("agent7"), Generation(1)).expect("reads");
    assert_eq!(none, None, "what is another's is left to it");
    let refused = home.board_of("agent7", 1).act(&id("4"), claim("agent7", 1));
    assert!(matches!(refused, Err(Error::Illegal(Illegal::Assigned { .. }))), "{refused:?}");
}

#[test]
fn a16_a_word_of_another_generation_or_agent_moves_nothing() {
    let home = home();
    home.create("one");
    let report = |name: &str, generation: u64| Event::Reported {
        verdict: Verdict::Done,
        text: String::new(),
        by: agent(name),
        generation: Generation(generation),
    };
    let released = || Event::Released { why: "late".to_owned() };
    home.board_of("agent7", 2).act(&id("1"), claim("agent7", 2)).expect("free");
    for (name, generation) in [("agent7", 1), ("agent8", 2)] {
        let board = home.board_of(name, generation);
        let told = board.act(&id("1"), report(name, generation));
        assert!(matches!(told, Err(Error::Illegal(Illegal::NotHeld { .. }))), "{told:?}");
        assert!(matches!(board.act(&id("1"), report("agent7", 2)), Err(Error::Denied(_))), "in its name");
        assert!(matches!(board.act(&id("1"), released()), Err(Error::Denied(_))));
        let close = Event::Closed { how: How::Done, why: None };
        assert!(matches!(board.act(&id("1"), close), Err(Error::Denied(_))));
        assert!(matches!(board.act(&id("1"), claim("agent7", 2)), Err(Error::Denied(_))), "in its name");
    }
    assert_eq!(home.told(), ["task.created 1", "task.claimed 1"]);
    home.board().act(&id("1"), released()).expect("the owner may");
    let late = home.board_of("agent7", 2).act(&id("1"), report("agent7", 2));
    assert!(matches!(late, Err(Error::Illegal(Illegal::NotHeld { .. }))), "{late:?}");
    assert_eq!(home.board().get(&id("1")).expect("reads").expect("there").state, State::Open);
}

#[test]
fn who_looks_often_for_claims_sees_each_change_and_asks_the_record_for_nothing_else() {
    let home = home();
    let mut claims = Claims::default();
    assert!(!claims.is_any(&home.layout), "nothing was ever recorded");
    home.create("one");
    assert!(!claims.is_any(&home.layout));
    home.board_of("agent7", 1).act(&id("1"), claim("agent7", 1)).expect("free");
    assert!(claims.is_any(&home.layout));
    let facts = netsky_ledger::Facts::new(&home.layout);
    facts.append("turn.finished", "x", serde_json::json!({})).expect("recorded");
    assert!(claims.is_any(&home.layout), "that is of no task");
    home.board().act(&id("1"), Event::Closed { how: How::Done, why: None }).expect("claimed");
    assert!(!claims.is_any(&home.layout));
    // What does not read the tick tells.
    std::fs::write(home.layout.record().join("facts-1.jsonl"), "no row\n").expect("ours");
    assert!(claims.is_any(&home.layout));
}
