//! An anchor broken at the steps of taking in that a tool call begins, and how it went.

use netsky_kernel::drain::Report;
use netsky_kernel::rpc::{Guard, SessionView};
use serde_json::Value;

use crate::anchor_world::*;
use crate::steps::{Case, MANY, Whom, break_each, once, repeated, runs_alone, world_client};

fn intent() -> Report {
    Report::Intent { id: "t1".to_owned(), tool: "sh".to_owned(), input: Value::from("ls") }
}

fn result() -> Report {
    Report::Result { id: "t1".to_owned(), failed: false, output: Value::Null }
}

/// The calls that are open, as the files of the lineage say.
fn open(world: &World, session: &SessionView) -> usize {
    let whole = netsky_kernel::drain::read(&world.layout(), &session.lineage, false).expect("it reads");
    whole.map_or(0, |whole| whole.state.intents.len())
}

/// It is told again, twice, and counts once; then the session goes on, and nothing of it is unknown but what is open.
fn again(world: &mut World, session: &SessionView, told: bool, report: &Report, after: usize) {
    let mut client = world.anchor();
    assert!(open(world, session) == after || !told, "told {told}");
    for _ in 0..2 {
        let ask = || client.report(&session.name, report, &once());
        let view = repeated("the report", ask).expect("taken");
        assert_eq!((view.progress.turn, view.progress.unknown), (0, 0), "its generation lives");
        assert_eq!(open(world, session), after);
    }
    let another = client.report(&session.name, report, &Guard::none());
    assert!(another.is_err(), "no other call does the same: {another:?}");
    kill9(session.worker.as_ref().expect("it has one"));
    let next = until("it is revived", || {
        client
            .show(&session.name)
            .ok()
            .filter(|next| next.generation == session.generation.next() && next.program.is_some())
    });
    assert_eq!(next.progress.unknown, after, "of a generation that is over nobody knows how it went");
    runs_alone(&next);
}

pub(crate) static INTENT: Case = Case {
    name: "intent",
    journal_bytes: MANY,
    stage: |world| {
        let session = spawn(&mut world.anchor(), &by_policy(sleeper("agent0")));
        world.kill_anchor();
        session
    },
    ask: |world, session| {
        world_client(world).is_some_and(|mut client| client.report(&session.name, &intent(), &once()).is_ok())
    },
    judge: |world, session, told| again(world, session, told, &intent(), 1),
};

pub(crate) static RESULT: Case = Case {
    name: "result",
    journal_bytes: MANY,
    stage: |world| {
        let mut client = world.anchor();
        let session = spawn(&mut client, &by_policy(sleeper("agent0")));
        client.report(&session.name, &intent(), &Guard::none()).expect("told");
        world.kill_anchor();
        session
    },
    ask: |world, session| {
        world_client(world).is_some_and(|mut client| client.report(&session.name, &result(), &once()).is_ok())
    },
    judge: |world, session, told| again(world, session, told, &result(), 0),
};

#[test]
fn t2_kill_and_errno_at_each_step_of_taking_an_intent() {
    break_each(Whom::Anchor(&INTENT));
}

#[test]
fn t2_kill_and_errno_at_each_step_of_taking_a_result() {
    break_each(Whom::Anchor(&RESULT));
}
