//! What is typed into a session: whole or not at all, once under a name, and told in the journal.

use netsky_kernel::client::Client;
use netsky_kernel::drain::Report;
use netsky_kernel::frame::FromWorker;
use netsky_kernel::rpc::{Event, EventKind, Guard, RefusalKind, SessionView, input, prompt};
use netsky_kernel::session::Spec;
use netsky_kernel::worker_client::WorkerClient;
use netsky_model::lifecycle::LifecycleState;

use crate::anchor_world::*;

fn keys(session: &SessionView, text: &str, guard: Guard) -> input::Params {
    input::Params { session: session.name.clone(), text: text.to_owned(), epoch: 0, guard }
}

fn text(session: &SessionView, text: &str, guard: Guard) -> prompt::Params {
    prompt::Params {
        session: session.name.clone(),
        text: text.to_owned(),
        finalization: false,
        epoch: 0,
        guard,
    }
}

/// All output up to the first time that `last` stands in it.
fn printed(world: &World, session: &SessionView, last: &str) -> String {
    let mut worker = WorkerClient::connect(&world.layout().worker_sock(&session.name)).expect("greets");
    worker.follow(worker.hello().log.base).expect("asks");
    let mut seen = String::new();
    while !seen.contains(last) {
        match worker.next(LONG).expect("lives").expect("more") {
            FromWorker::Output { bytes, .. } => seen.push_str(&String::from_utf8_lossy(&bytes)),
            other => panic!("{other:?} instead of {last:?}"),
        }
    }
    seen
}

fn dying(client: &mut Client, session: &SessionView) {
    let used = Report::Context { used: 92.try_into().expect("a percentage") };
    client.report(&session.name, &used, &Guard::none()).expect("taken");
}

#[test]
fn input_is_queued_whole_or_refused_before_its_first_byte() {
    let mut world = World::new();
    let mut client = world.anchor();
    // It reads only once it is told to.
    let line = "trap 'kill $!' USR1; sleep 1000 & echo up; wait; exec cat";
    let session = spawn(&mut client, &shell("agent0", line));
    printed(&world, &session, "up");
    let mut taken = Vec::new();
    let refused = loop {
        let letter = char::from(b'a' + u8::try_from(taken.len()).expect("few"));
        let many = letter.to_string().repeat(input::MAX_TEXT);
        match client.input(&keys(&session, &many, Guard::none())) {
            Ok(_) => taken.push(letter),
            Err(error) => break (letter, error),
        }
    };
    assert_eq!(refused.1.kind(), Some(RefusalKind::Busy), "{}", refused.1);
    let over = "x".repeat(input::MAX_TEXT + 1);
    let error = client.input(&keys(&session, &over, Guard::none())).expect_err("too long");
    assert_eq!(error.kind(), Some(RefusalKind::TooLarge), "{error}");
    signal(session.program.as_ref().expect("it runs"), netsky_disk::process::Signal::USR1);
    until("there is room again", || client.input(&keys(&session, "END", Guard::none())).ok());
    let seen = printed(&world, &session, "END");
    assert!(!seen.contains(refused.0) && !seen.contains('x'), "a part of what was refused was typed");
    for letter in taken {
        assert_eq!(seen.matches(letter).count(), input::MAX_TEXT, "{letter}");
    }
}

/// Types, loses the anchor at that point, and types again under the same name.
fn cut(point: &str, spec: &Spec, finalization: bool) {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", format!("{point}=kill"));
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, spec);
    if finalization {
        dying(&mut client, &session);
    }
    let params = prompt::Params { finalization, ..text(&session, "once", Guard::none().once("the-one")) };
    client.prompt(&params).expect_err("the anchor dies");
    world.kill_anchor();
    let mut client = world.anchor();
    let again = client.prompt(&params).expect("it is done");
    assert_eq!(again.program, session.program, "{point}");
    let wanted = if finalization { LifecycleState::Draining } else { LifecycleState::Healthy };
    assert_eq!(again.progress.lifecycle, wanted, "{point}");
    client.input(&keys(&session, "END\n", Guard::none())).expect("typed");
    assert_eq!(printed(&world, &session, "END"), "once\nEND\n", "{point}");
}

#[test]
fn what_is_typed_under_a_name_is_typed_once_also_where_its_anchor_died_before_the_answer() {
    for point in ["anchor.prompt.typed", "anchor.answer.known", "anchor.answer.kept"] {
        for finalization in [false, true] {
            cut(point, &shell("agent0", "exec cat"), finalization);
        }
    }
}

#[test]
fn a_finalization_prompt_that_was_not_typed_is_not_the_one() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "exec cat"));
    client.input(&input::Params { epoch: 5, ..keys(&session, "first\n", Guard::none()) }).expect("typed");
    dying(&mut client, &session);
    let last = |epoch| prompt::Params { finalization: true, epoch, ..text(&session, "last", Guard::none()) };
    let refused = client.prompt(&last(4)).expect_err("its driver was replaced");
    assert_eq!(refused.kind(), Some(RefusalKind::Refused), "{refused}");
    assert_eq!(client.show(&session.name).expect("known").progress.lifecycle, LifecycleState::Dying);
    let done = client.prompt(&last(5)).expect("it was not spent");
    assert_eq!(done.progress.lifecycle, LifecycleState::Draining);
    assert_eq!(printed(&world, &session, "last"), "first\nlast\n");
}

#[test]
fn what_somebody_does_to_a_program_is_told_in_the_journal_and_not_what_it_was() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut spec = shell("agent0", "trap : USR1; while :; do sleep 1000 & wait; done");
    spec.io = netsky_kernel::session::Io::Pty { rows: 24, cols: 80 };
    let session = spawn(&mut client, &spec);
    client.input(&keys(&session, "secret", Guard::none().once("r1"))).expect("typed");
    client.prompt(&text(&session, "secret", Guard::none())).expect("typed");
    client
        .resize(&netsky_kernel::rpc::resize::Params {
            session: session.name.clone(),
            rows: 30,
            cols: 90,
            guard: Guard::none(),
        })
        .expect("done");
    client
        .signal(&netsky_kernel::rpc::signal::Params {
            session: session.name.clone(),
            signal: 10,
            guard: Guard::none(),
        })
        .expect("sent");
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let mut rows: Vec<Event> = Vec::new();
    while rows.last().is_none_or(|row| row.seq < events.head()) {
        rows.push(events.next(Some(LONG)).expect("lives").expect("told"));
    }
    for (kind, data) in [
        (EventKind::Input, r#"{"bytes":6,"request_id":"r1"}"#),
        (EventKind::Prompt, r#"{"bytes":6,"finalization":false}"#),
        (EventKind::Resize, r#"{"cols":90,"rows":30}"#),
        (EventKind::Signal, r#"{"signal":10}"#),
    ] {
        let told = rows.iter().find(|row| row.kind == kind).expect("a row");
        assert_eq!((told.data.to_string().as_str(), told.generation), (data, Some(session.generation)));
    }
    assert!(!std::fs::read_to_string(world.layout().journal()).expect("reads").contains("secret"));
}

#[test]
fn a_signal_for_a_session_without_a_living_program_is_refused_and_says_that_none_was_sent() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    client.kill(&session.name, Some(std::time::Duration::ZERO), &Guard::none()).expect("ends");
    for request_id in [None, Some("r1"), Some("r1")] {
        let guard = Guard { request_id: request_id.map(str::to_owned), ..Guard::none() };
        let params = netsky_kernel::rpc::signal::Params { session: session.name.clone(), signal: 10, guard };
        let refused = client.signal(&params).expect_err("there is nobody");
        let refusal = (refused.kind(), refused.to_string());
        assert_eq!(refusal, (Some(RefusalKind::Refused), "agent0 does not run; nothing was sent".to_owned()));
    }
    assert!(rows(&world).iter().all(|row| row.kind != EventKind::Signal));
}
