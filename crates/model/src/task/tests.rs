//! The machine as a table, and what stands between tasks.

use std::collections::BTreeMap;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn task(id: &str, after: &[&str]) -> Task {
    let mut draft = Draft::new(Title::try_from(format!("do {id}")).expect("a title"));
    draft.after = after.iter().map(|id| id.parse().expect("an id")).collect();
    draft.into_task(id.parse().expect("an id"), Sender::owner(), at(1))
}

fn agent(name: &str) -> AgentId {
    name.parse().expect("an agent")
}

fn claim(name: &str, generation: u64) -> Event {
    Event::Claimed { by: agent(name), generation: Generation(generation) }
}

fn report(verdict: Verdict, generation: u64) -> Event {
    let text = "so".to_owned();
    Event::Reported { verdict, text, by: agent("agent7"), generation: Generation(generation) }
}

fn closed(how: How) -> Event {
    Event::Closed { how, why: None }
}

fn landed(sha: &str) -> Event {
    Event::Landed { sha: sha.to_owned(), main: "main".to_owned() }
}

/// One task in each state; whoever has one is agent7 in generation 2.
fn states() -> Vec<Task> {
    let open = task("1", &[]);
    let after = |task: &Task, event| transition(task, &event, at(2)).expect("legal");
    let claimed = after(&open, claim("agent7", 2));
    vec![
        open.clone(),
        claimed.clone(),
        after(&claimed, report(Verdict::Blocked, 2)),
        after(&claimed, report(Verdict::Done, 2)),
        after(&open, closed(How::Done)),
        after(&claimed, landed("a")),
    ]
}

#[test]
fn every_pair_of_state_and_event_is_decided() {
    let events = [
        Event::Updated(Box::default()),
        Event::Assigned { to: Some(agent("agent7")) },
        Event::Assigned { to: Some(agent("agent8")) },
        claim("agent7", 2),
        claim("agent7", 3),
        claim("agent8", 2),
        report(Verdict::Done, 2),
        report(Verdict::Blocked, 2),
        report(Verdict::Failed, 2),
        report(Verdict::Done, 1),
        Event::Released { why: String::new() },
        closed(How::Done),
        closed(How::Dropped),
        landed("a"),
        landed("b"),
        Event::Reopened { why: String::new() },
    ];
    let table: Vec<String> = states()
        .iter()
        .map(|task| {
            let to = |event| match transition(task, event, at(3)) {
                Ok(next) => next.state.word(),
                Err(Illegal::Held { .. }) => "held",
                Err(Illegal::NotHeld { .. }) => "late",
                Err(Illegal::Assigned { .. }) => "other",
                Err(Illegal::State { .. }) => "-",
            };
            events.iter().map(to).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        table,
        [
            "open open open claimed claimed claimed late late late late - closed closed closed closed -",
            "claimed claimed held claimed held held ready blocked blocked late open closed closed closed closed -",
            "blocked blocked held claimed held held ready blocked blocked late open closed closed closed closed -",
            "ready ready held claimed held held ready blocked blocked late open closed closed closed closed -",
            "- - - - - - late late late late - closed - - - open",
            "- - - - - - late late late late - - - closed - open",
        ]
    );
}

#[test]
fn what_changes_nothing_is_no_change() {
    let [_, claimed, ..] = &states()[..] else { panic!("six states") };
    for event in [claim("agent7", 2), Event::Updated(Box::default())] {
        assert_eq!(transition(claimed, &event, at(9)).as_ref(), Ok(claimed), "not even when it was changed");
    }
    let ended = transition(claimed, &closed(How::Done), at(3)).expect("legal");
    assert_eq!(transition(&ended, &closed(How::Done), at(9)), Ok(ended));
}

#[test]
fn a_harvest_alone_says_that_a_task_landed() {
    let [open, ..] = &states()[..] else { panic!("six states") };
    let how = How::Landed { sha: "a".to_owned(), main: "main".to_owned() };
    assert!(matches!(transition(open, &closed(how), at(3)), Err(Illegal::State { .. })));
}

#[test]
fn a_report_of_any_length_is_kept_as_far_as_the_record_has_room() {
    let [_, claimed, ..] = &states()[..] else { panic!("six states") };
    let text = "ä".repeat(MAX_WORDS);
    let (by, generation) = (agent("agent7"), Generation(2));
    let event = Event::Reported { verdict: Verdict::Failed, text, by, generation };
    let State::Blocked { why, .. } = transition(claimed, &event, at(3)).expect("legal").state else {
        panic!("it waits for somebody")
    };
    assert!(why.len() <= MAX_WORDS && why.starts_with("failed: ä") && why.ends_with('…'), "{}", why.len());
}

#[test]
fn a16_an_agent_may_change_its_own_alone() {
    let [open, claimed, ..] = &states()[..] else { panic!("six states") };
    let mut own = open.clone();
    own.by = agent("agent8").into();
    let actors = [
        Actor::Keeper(Sender::owner()),
        Actor::Agent(agent("agent7"), Generation(2)),
        Actor::Agent(agent("agent7"), Generation(1)),
        Actor::Agent(agent("agent8"), Generation(1)),
    ];
    let released = Event::Released { why: String::new() };
    let reopened = Event::Reopened { why: String::new() };
    let table = [
        (claimed, Event::Updated(Box::default()), [true, true, false, false]),
        (claimed, released, [true, true, false, false]),
        (claimed, closed(How::Done), [true, true, false, false]),
        (claimed, landed("a"), [true, false, false, false]),
        (claimed, report(Verdict::Done, 2), [true, true, false, false]),
        (open, claim("agent7", 2), [true, true, false, false]),
        (open, closed(How::Dropped), [true, false, false, false]),
        (&own, closed(How::Dropped), [true, false, false, true]),
        (&own, Event::Assigned { to: None }, [true, false, false, true]),
        (&own, reopened, [true, false, false, true]),
    ];
    for (task, event, expected) in table {
        let allowed = actors.each_ref().map(|actor| may(actor, task, &event).is_ok());
        assert_eq!(allowed, expected, "{event:?}");
    }
    let mut taken = own.clone();
    taken.state = claimed.state.clone();
    assert!(may(&actors[3], &taken, &closed(How::Done)).is_err(), "another has it by now");
}

#[test]
fn tasks_that_wait_for_one_another_are_found_and_others_are_not() {
    let all = |tasks: &[(&str, &[&str])]| -> BTreeMap<TaskId, Task> {
        let tasks = tasks.iter().map(|(id, after)| task(id, after));
        tasks.map(|task| (task.id.clone(), task)).collect()
    };
    let found = |tasks| {
        let ids = cycle(&all(tasks))?;
        Some(ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(found(&[("1", &["2", "3"]), ("2", &["4"]), ("3", &["4"]), ("4", &[])]), None, "a diamond");
    assert_eq!(found(&[("1", &["1"])]).as_deref(), Some("1 1"));
    assert_eq!(found(&[("1", &[]), ("2", &["3"]), ("3", &["4"]), ("4", &["2"])]).as_deref(), Some("2 3 4 2"));
    let long: Vec<(String, [String; 1])> =
        (0..20_000).map(|n| (n.to_string(), [(n + 1).to_string()])).collect();
    let long = long.iter().map(|(id, [after])| task(id, &[after]));
    assert_eq!(cycle(&long.map(|task| (task.id.clone(), task)).collect()), None, "no stack is too short");
}

#[test]
fn a10_titles_are_one_line_that_is_to_be_seen() {
    for bad in ["", "  ", "a\nb", "a\x1b[31m", "a\u{202e}b", "a\0", &"x".repeat(MAX_TITLE + 1)] {
        assert!(Title::try_from(bad.to_owned()).is_err(), "{bad:?}");
    }
    let long = "ä".repeat(MAX_TITLE);
    assert_eq!(Title::try_from(format!(" {long} ")).expect("fits").to_string(), long);
}

#[test]
fn a_brief_that_the_record_cannot_hold_has_a_file() {
    let kept = |text: &str| Brief::of(text).expect("a brief").text.is_some();
    assert!(kept("short") && kept(&"x".repeat(8_000)));
    assert!(!kept(&"x".repeat(9_000)) && !kept(&"\u{1}".repeat(2_000)), "as long as it is in JSON");
    assert!(Brief::of(" \n").is_err() && Brief::of(&"x".repeat(MAX_BRIEF + 1)).is_err());
}
