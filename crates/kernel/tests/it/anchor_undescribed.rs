//! A session that lives without its description: the next anchor finds, shows and ends it, and tells of the damage once.

use std::time::Duration;

use netsky_disk::process::{Signal, is_alive};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{EventKind, Guard, SessionState, SessionView};
use netsky_kernel::session::Meta;

use crate::anchor_world::*;

/// What a later program wrote.
const NEWER: Option<&str> = Some("{\"v\":2}");
/// What may become of a description.
const LOSSES: [(&str, Option<&str>); 4] =
    [("gone", None), ("empty", Some("")), ("half", Some("{\"v\":1,")), ("newer", NEWER)];

/// A session of an anchor that was killed, and whose description became that.
fn bereft(world: &mut World, what: Option<&str>) -> SessionView {
    let mut client = world.anchor();
    let session = spawn(&mut client, &kept(sleeper("agent0")));
    world.kill_anchor();
    lose(world, &session, what);
    session
}

fn lose(world: &World, session: &SessionView, what: Option<&str>) {
    let path = world.layout().meta(&session.name);
    match what {
        None => std::fs::remove_file(path).expect("was there"),
        Some(text) => std::fs::write(path, text).expect("writes"),
    }
}

fn meta(world: &World, session: &SessionView) -> Option<Meta> {
    Meta::parse(&std::fs::read(world.layout().meta(&session.name)).ok()?).ok()
}

fn damages(world: &World) -> Vec<String> {
    let damaged = rows(world).into_iter().filter(|row| row.kind == EventKind::Damaged);
    damaged.map(|row| row.data["file"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What was set aside as evidence.
fn aside(world: &World) -> Vec<String> {
    let aside = std::fs::read_dir(world.layout().agents()).expect("a folder").flatten();
    let aside = aside.filter(|file| file.file_name().to_string_lossy().contains(".meta.damaged-"));
    aside.map(|file| std::fs::read_to_string(file.path()).expect("reads")).collect()
}

fn shows(client: &mut Client, session: &SessionView) {
    let shown = client.ps().expect("answers");
    assert_eq!(shown.len(), 1, "{shown:?}");
    let same = (&shown[0].worker, &shown[0].program, shown[0].generation);
    assert_eq!(same, (&session.worker, &session.program, session.generation));
    assert_eq!(shown[0].state, SessionState::Active);
}

/// The next generation starts beside what was set aside. What a later program wrote is left alone, and nothing starts over it.
fn starts_anew(world: &World, client: &mut Client, session: &SessionView, what: Option<&str>) {
    let again = client.spawn(&sleeper("agent0"), &Guard::none());
    if what == NEWER {
        assert!(again.expect_err("refused").to_string().contains("written in format 2"));
        assert_eq!(aside(world), [] as [String; 0]);
        let left = std::fs::read_to_string(world.layout().meta(&session.name)).expect("reads");
        return assert_eq!(Some(left.as_str()), what);
    }
    assert_eq!(aside(world), what.into_iter().collect::<Vec<_>>());
    let again = again.expect("starts");
    assert_eq!((again.generation, again.lineage), (session.generation.next(), session.lineage.clone()));
}

#[test]
fn a_living_session_without_a_description_is_adopted_and_its_worker_describes_it_anew() {
    for (loss, what) in LOSSES {
        let mut world = World::new();
        let mut client = world.anchor();
        let session = spawn(&mut client, &kept(sleeper("agent0")));
        let before = meta(&world, &session);
        for found in 1..=2 {
            world.kill_anchor();
            lose(&world, &session, what);
            shows(&mut world.anchor(), &session);
            assert_eq!(meta(&world, &session), before, "{loss}");
            // Nothing was done to it since; an anchor that finds it whole tells nothing.
            world.kill_anchor();
            shows(&mut world.anchor(), &session);
            assert_eq!(damages(&world), vec!["agents/agent0.meta"; found], "{loss}: each damage once");
        }
        assert_eq!(
            aside(&world),
            vec![what.unwrap_or_default(); if what.is_some() { 2 } else { 0 }],
            "{loss}"
        );
        // It is brought back as what it was.
        let mut client = world.client();
        kill9(session.worker.as_ref().expect("it has one"));
        let back = until("it is back", || {
            client.show(&session.name).ok().filter(|back| back.generation > session.generation)
        });
        assert_eq!((back.lineage, back.argv), (session.lineage, sleeper("agent0").argv), "{loss}");
    }
}

#[test]
fn a_kill_and_a_shutdown_end_a_session_without_a_description() {
    for (loss, what) in LOSSES {
        for all in [false, true] {
            let mut world = World::new();
            let session = bereft(&mut world, what);
            let mut client = world.anchor();
            if all {
                let answer = client.shutdown(true).expect("stops");
                assert_eq!((answer.ended.len(), answer.left.len()), (1, 0), "{loss}");
                world.anchor_stops();
            } else {
                let ended = client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("ends");
                assert_eq!(ended.state, SessionState::Stopped, "{loss}");
            }
            assert!(!is_alive(session.worker.as_ref().expect("it has one")), "{loss}");
            assert_eq!(of_lineage(&session.lineage), [], "{loss}");
        }
    }
}

#[test]
fn a_worker_that_does_not_describe_its_session_is_listed_and_ended_all_the_same() {
    for (loss, what) in LOSSES {
        let mut world = World::new();
        let session = bereft(&mut world, what);
        let worker = session.worker.as_ref().expect("it has one");
        signal(worker, Signal::STOP);
        for _ in 0..2 {
            shows(&mut world.anchor(), &session);
            assert_eq!(damages(&world), ["agents/agent0.meta"], "{loss}: one row, not one of each anchor");
            world.kill_anchor();
        }
        let mut client = world.anchor();
        let refused = client.spawn(&sleeper("agent0"), &Guard::none()).expect_err("it lives");
        assert_eq!(refused.kind(), Some(netsky_kernel::rpc::RefusalKind::Busy));
        let ended = client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("ends");
        assert_eq!(ended.state, SessionState::Stopped, "{loss}");
        assert!(!is_alive(worker) && of_lineage(&session.lineage).is_empty(), "{loss}");
        starts_anew(&world, &mut client, &session, what);
    }
}

#[test]
fn of_a_dead_session_whose_description_does_not_read_is_told_once_and_nothing_is_overwritten() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("ends");
    for _ in 0..2 {
        world.kill_anchor();
        lose(&world, &session, Some("half"));
        world.anchor();
    }
    assert_eq!(damages(&world), ["agents/agent0.meta"]);
    assert_eq!(std::fs::read(world.layout().meta(&session.name)).expect("reads"), b"half");
}

#[test]
fn a_session_that_lost_its_description_and_its_worker_is_ended_in_the_journal_once_and_listed() {
    for (loss, what) in LOSSES {
        let mut world = World::new();
        let session = bereft(&mut world, what);
        kill9(session.worker.as_ref().expect("it has one"));
        for found in 1..=2 {
            let shown = world.anchor().ps().expect("answers");
            let shown: Vec<_> = shown.iter().map(|one| (&one.name, one.generation, one.state)).collect();
            let lost = (&session.name, session.generation, SessionState::Orphaned);
            // Where its end is in the journal alone, only the anchor that found it lists it.
            let listed = found == 1 || what != NEWER;
            assert_eq!(shown, vec![lost; usize::from(listed)], "{loss}");
            let of_it = rows(&world).into_iter().filter(|row| row.session.as_ref() == Some(&session.name));
            let ends = of_it.filter(|row| row.kind == EventKind::Orphaned).count();
            assert_eq!((ends, damages(&world).len()), (1, 1), "{loss}");
            world.kill_anchor();
        }
        assert_eq!(of_lineage(&session.lineage), [], "{loss}");
        let mut client = world.anchor();
        starts_anew(&world, &mut client, &session, what);
    }
}

#[test]
fn t8_where_the_whole_folder_of_sessions_is_gone_the_journal_finds_them_by_their_identity() {
    let mut world = World::new();
    let mut client = world.anchor();
    let ended = spawn(&mut client, &sleeper("agent1"));
    client.kill(&ended.name, Some(Duration::ZERO), &Guard::none()).expect("ends");
    let session = spawn(&mut client, &kept(sleeper("agent0")));
    world.kill_anchor();
    std::fs::remove_dir_all(world.layout().agents()).expect("was there");
    let client = world.anchor();
    let answer = client.shutdown(true).expect("stops");
    assert_eq!((answer.ended, answer.left.len()), (vec![session.name.clone()], 0));
    world.anchor_stops();
    assert!(!is_alive(session.worker.as_ref().expect("it has one")));
}

#[test]
fn t8_where_the_whole_folder_of_sessions_is_gone_a_session_ends_at_the_next_beat_and_is_settled_like_any_other()
 {
    for served in [true, false] {
        let mut world = World::new();
        let mut command = world.serve();
        command.env("OSTK_HEARTBEAT_MS", "100");
        let mut client = world.anchor_by(command);
        let session = spawn(&mut client, &kept(sleeper("agent0")));
        if !served {
            world.kill_anchor();
        }
        std::fs::remove_dir_all(world.layout().agents()).expect("was there");
        let worker = session.worker.as_ref().expect("it has one");
        until("nobody of it is left", || (!is_alive(worker) && marked(&session).is_empty()).then_some(()));
        if served {
            let back = until("it is back", || {
                let shown = client.show(&session.name).ok();
                // The first one is shown as active until the anchor has looked at what became of it.
                shown.filter(|back| {
                    back.generation != session.generation && back.state == SessionState::Active
                })
            });
            assert_eq!((back.generation, back.argv), (session.generation.next(), sleeper("agent0").argv));
            event(&world.root, 0, "agent0", &[EventKind::Died]);
        } else {
            let shown = world.anchor().ps().expect("answers");
            let shown: Vec<_> = shown.iter().map(|one| (one.generation, one.state)).collect();
            assert_eq!(shown, [(session.generation, SessionState::Orphaned)]);
            event(&world.root, 0, "agent0", &[EventKind::Orphaned]);
        }
    }
}
