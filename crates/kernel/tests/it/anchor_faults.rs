//! An anchor killed between any two of its durable steps, and what its successor and a repeating client make of it.

use std::time::Duration;

use netsky_disk::process::is_alive;
use netsky_kernel::client::Client;
use netsky_kernel::drain::Report;
use netsky_kernel::rpc::{EventKind, Guard, SessionState};
use netsky_kernel::session::Spec;
use netsky_model::id::Generation;

use crate::anchor_world::*;
use crate::steps::runs_alone;

/// An anchor that dies at this point.
fn doomed(world: &mut World, point: &str) -> Client {
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", format!("{point}=kill"));
    world.anchor_by(serve)
}

fn cut_spawn(point: &str, spec: &Spec) {
    let mut world = World::new();
    let mut client = doomed(&mut world, point);
    let once = Guard::if_generation(Generation(0)).once("the-one");
    let lost = client.spawn(spec, &once).expect_err("the anchor dies");
    assert_eq!(lost.kind(), None, "{point}: {lost}");
    world.kill_anchor();
    let mut client = world.anchor();
    let session =
        until(&format!("the repeat after {point} is answered"), || match client.spawn(spec, &once) {
            Ok(session) => Some(session),
            // What the dead anchor began, or the revival of what it keeps, is still coming up.
            Err(error) if error.kind() == Some(netsky_kernel::rpc::RefusalKind::Busy) => None,
            Err(error) => panic!("{point}: {error}"),
        });
    assert_eq!(client.spawn(spec, &once).expect("known"), session, "{point}");
    assert!(session.generation <= Generation(2), "{point}: {session:?}");
    let program = session.program.expect("it runs");
    assert_eq!(of_lineage(&session.lineage), [program], "{point}: one program and no other");
}

#[test]
fn a_start_that_is_cut_anywhere_is_done_once_when_it_is_repeated() {
    for point in [
        "anchor.spawn.journalled",
        "anchor.spawn.reserved",
        "anchor.spawn.worker-started",
        "anchor.answer.known",
        "anchor.answer.kept",
    ] {
        cut_spawn(point, &sleeper("agent0"));
        cut_spawn(point, &kept(sleeper("netsky-ticker")));
    }
}

#[test]
fn fm_spawn_eio_a_session_whose_description_does_not_read_when_it_starts_has_its_worker_and_its_program() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", "anchor.spawn.ran=error");
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, &sleeper("agent0"));
    runs_alone(&session);
    assert!(is_alive(session.worker.as_ref().expect("it has one")));
}

#[test]
fn a_revival_that_is_cut_right_after_its_row_is_made_by_the_next_anchor() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", "anchor.spawn.journalled=kill@2");
    let mut client = world.anchor_by(serve);
    let first = spawn(&mut client, &kept(sleeper("agentinfinity")));
    let anchor = client.hello().anchor.clone();
    kill9(first.worker.as_ref().expect("it has one"));
    until("the anchor dies of it", || (!is_alive(&anchor)).then_some(()));
    world.kill_anchor();
    let mut client = world.anchor();
    let back = until("it is back", || {
        client.show(&first.name).ok().filter(|session| session.state == SessionState::Active)
    });
    // Nobody ran the second, which the row had taken.
    assert_eq!((back.generation, &back.lineage), (Generation(3), &first.lineage));
    let ends: Vec<_> = rows(&world).iter().filter(|row| row.is_end()).map(|row| row.generation).collect();
    assert_eq!(ends, [Some(Generation(1))], "told before there was a second, and not again");
}

#[test]
fn a_kill_that_is_cut_anywhere_is_done_when_it_is_repeated_and_nobody_revives() {
    for point in ["anchor.kill.wished", "anchor.answer.known", "anchor.answer.kept"] {
        let mut world = World::new();
        let mut client = doomed(&mut world, point);
        let session = spawn(&mut client, &kept(sleeper("agentinfinity")));
        let once = Guard::if_generation(Generation(1)).once("the-one");
        client.kill(&session.name, Some(Duration::ZERO), &once).expect_err("the anchor dies");
        world.kill_anchor();
        let mut client = world.anchor();
        let ended = client.kill(&session.name, Some(Duration::ZERO), &once).expect("killed");
        assert_eq!((ended.state, ended.generation), (SessionState::Stopped, Generation(1)), "{point}");
        assert_eq!(of_lineage(&session.lineage), [], "{point}");
        assert!(!rows(&world).iter().any(|row| row.kind == EventKind::Revive), "{point}");
    }
}

#[test]
fn a_settling_that_is_cut_anywhere_is_finished_and_told_once() {
    for point in ["anchor.settle.swept", "anchor.settle.written"] {
        let mut world = World::new();
        let mut client = doomed(&mut world, point);
        let session = spawn(&mut client, &shell("agent0", "setsid sleep 1000 & exec sleep 1000"));
        let anchor = client.hello().anchor.clone();
        kill9(session.worker.as_ref().expect("it has one"));
        until("the anchor dies of it", || (!is_alive(&anchor)).then_some(()));
        world.kill_anchor();
        let mut client = world.anchor();
        let settled = until("it is settled", || {
            client.show(&session.name).ok().filter(|session| !session.state.may_live())
        });
        assert!(matches!(settled.state, SessionState::Orphaned | SessionState::Died), "{point}: {settled:?}");
        assert_eq!(of_lineage(&session.lineage), [], "{point}");
        assert_eq!(rows(&world).iter().filter(|row| row.is_end()).count(), 1, "{point}");
        assert_eq!(spawn(&mut client, &sleeper("agent0")).generation, Generation(2), "{point}");
    }
}

#[test]
fn a_session_of_another_pid_namespace_is_dead_only_where_all_are_seen() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    world.kill_anchor();
    let path = world.layout().meta(&session.name);
    let mut meta =
        netsky_kernel::session::Meta::parse(&std::fs::read(&path).expect("reads")).expect("a meta");
    meta.phase = netsky_kernel::session::Phase::Running { started_at: meta.written_at.clone() };
    for process in [&mut meta.worker, &mut meta.program].into_iter().flatten() {
        process.ns += 1;
    }
    std::fs::write(&path, meta.to_bytes()).expect("writes");
    let mut client = world.anchor();
    if netsky_disk::process::sees_all() {
        // Also that nobody is in such a namespace.
        until("it is settled", || (!client.show(&session.name).ok()?.state.may_live()).then_some(()));
        assert_eq!(spawn(&mut client, &sleeper("agent0")).generation, Generation(2));
        return;
    }
    assert_eq!(client.show(&session.name).expect("known").state, SessionState::Unknown);
    let refused = client.spawn(&sleeper("agent0"), &Guard::none()).expect_err("it may live");
    assert_eq!(refused.kind(), Some(netsky_kernel::rpc::RefusalKind::Busy));
    let refused = client.kill(&session.name, None, &Guard::none()).expect_err("not from here");
    assert_eq!(refused.kind(), Some(netsky_kernel::rpc::RefusalKind::Refused));
}

#[test]
fn an_anchor_that_cannot_sync_a_row_does_not_act_on_it_and_leaves() {
    // The first synced row is the reservation, the second the kill.
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", "anchor.journal.sync=error@2");
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, &sleeper("agent0"));
    let anchor = client.hello().anchor.clone();
    client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect_err("nobody knows of the wish");
    until("the anchor leaves", || (!is_alive(&anchor)).then_some(()));
    assert!(is_alive(session.program.as_ref().expect("it runs")), "no wish, no kill");
    world.kill_anchor();
    let mut client = world.anchor();
    assert_eq!(client.show(&session.name).expect("known").program, session.program);
    assert!(rows(&world).iter().filter(|row| row.kind == EventKind::Kill).count() <= 1, "never twice");
    let audit = netsky_kernel::audit::journal(&world.layout().journal(), |_, _| {});
    assert_eq!(audit.expect("reads").expect("is there").broken, [] as [u64; 0]);
}

#[test]
fn fm_snapshot_power_what_must_be_synced_and_is_not_was_not_told() {
    let turn = Report::Turn(Box::default());
    let intent =
        Report::Intent { id: "t1".to_owned(), tool: "sh".to_owned(), input: serde_json::Value::Null };
    let phase = Report::Phase { phase: "busy".to_owned(), until: None };
    for (report, synced) in [(&turn, true), (&intent, true), (&phase, false)] {
        let mut world = World::new();
        let mut serve = world.serve();
        serve.env("NETSKY_FAULT", "anchor.drain.sync=error");
        let mut client = world.anchor_by(serve);
        let session = spawn(&mut client, &sleeper("agent0"));
        let first = client.report(&session.name, report, &Guard::none());
        assert_eq!(first.is_err(), synced, "{report:?}: {first:?}");
        // The fault was of one time, and nothing of what was refused is left.
        let then = client.report(&session.name, &turn, &Guard::none());
        assert_eq!(then.is_ok(), synced, "{report:?}: {then:?}");
        let told = client.report(&session.name, &turn, &Guard::none()).expect("taken");
        assert_eq!(told.progress.turn, if synced { 2 } else { 1 }, "{report:?}");
    }
}

#[test]
fn a_report_that_no_line_holds_is_refused_whole_with_its_size_and_limit() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    let long = format!("\"{}\"", "x".repeat(netsky_kernel::rpc::MAX_LINE));
    let messages = vec![long.try_into().expect("it is JSON")];
    let turn = Report::Turn(Box::new(netsky_kernel::drain::Turn { messages, ..Default::default() }));
    let refused = client.report(&session.name, &turn, &Guard::none()).expect_err("too long");
    assert_eq!(refused.kind(), Some(netsky_kernel::rpc::RefusalKind::TooLarge));
    let line = refused.to_string();
    assert!(
        line.contains("session/report with 1048") && line.ends_with("over the limit of 1048576"),
        "{line}"
    );
    // The connection is as good as before.
    assert_eq!(client.show(&session.name).expect("answers").progress.turn, 0);
}

#[test]
fn an_end_that_was_put_aside_is_told_by_a_journal_that_lost_it() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    kill9(session.worker.as_ref().expect("it has one"));
    event(&world.root, 0, "agent0", &[EventKind::Died]);
    until("it is put aside", || (!client.reap().expect("answers").is_empty()).then_some(()));
    world.kill_anchor();
    // What a power cut may leave: rows that only tell are not synced.
    let journal = std::fs::read_to_string(world.layout().journal()).expect("reads");
    let kept: Vec<&str> = journal.lines().take_while(|row| !row.contains(r#""kind":"died""#)).collect();
    std::fs::write(world.layout().journal(), kept.join("\n") + "\n").expect("writes");
    let mut client = world.anchor();
    assert_eq!(client.show(&session.name).expect("known").state, SessionState::Inactive);
    until("it is told", || rows(&world).iter().any(|row| row.kind == EventKind::Died).then_some(()));
    assert_eq!(rows(&world).iter().filter(|row| row.is_end()).count(), 1);
}
