//! Who is revived by whom.

use std::time::Duration;

use netsky_disk::process::{PidFd, Signal};
use netsky_kernel::client::Events;
use netsky_kernel::rpc::{Event, EventKind, Guard, SessionState};
use netsky_model::id::Generation;

use crate::anchor_world::*;

/// Waits until a revival is announced after a pause of so many milliseconds.
fn paused(events: &mut Events, after_ms: u64) -> Event {
    let pausing = |event: &Event| event.kind == EventKind::Revive && event.data["after_ms"] == after_ms;
    events.find(LONG, pausing).expect("lives").expect("told")
}

#[test]
fn a_session_its_anchor_keeps_is_revived_at_once_and_then_with_pauses() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &kept(shell("agentinfinity", "exit 1")));
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let mut pauses = Vec::new();
    while pauses.len() < 3 {
        let wanted = |event: &Event| event.kind == EventKind::Revive;
        let revive = events.find(LONG, wanted).expect("lives").expect("told");
        pauses.push((revive.data["after_ms"].as_u64().expect("a number"), revive.generation));
    }
    let generations = [1, 2, 3].map(|generation| Some(Generation(generation)));
    assert_eq!(pauses, [(0, generations[0]), (1_000, generations[1]), (2_000, generations[2])]);
}

#[test]
fn an_anchor_that_is_killed_between_two_revivals_changes_neither_their_number_nor_their_pauses() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &kept(shell("agentinfinity", "exit 1")));
    for attempt in 0..4 {
        event_of_try(&world, attempt);
        world.kill_anchor();
        client = world.anchor();
    }
    event_of_try(&world, 4);
    drop(client);
    let tries = rows(&world).into_iter().filter(|row| row.kind == EventKind::Revive);
    let tries: Vec<_> = tries
        .map(|row| (row.generation.expect("said").0, row.data["attempt"].as_u64().expect("a number")))
        .collect();
    // Each generation is one try: said again by the next anchor, and never from the beginning.
    assert!(tries.iter().all(|(generation, attempt)| *generation == attempt + 1), "{tries:?}");
}

/// Waits until a try in a row is told.
fn event_of_try(world: &World, attempt: u64) {
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let wanted =
        |event: &Event| event.kind == EventKind::Revive && event.data["attempt"].as_u64() >= Some(attempt);
    events.find(LONG, wanted).expect("lives").expect("told");
}

#[test]
fn a_kept_session_comes_back_after_its_worker_or_program_is_killed() {
    let mut world = World::new();
    let mut client = world.anchor();
    let first = spawn(&mut client, &kept(sleeper("netsky-ticker")));
    kill9(first.worker.as_ref().expect("it has one"));
    let second = until("it is back", || {
        client
            .show(&first.name)
            .ok()
            .filter(|view| view.generation == Generation(2) && view.state == SessionState::Active)
    });
    assert_eq!(second.lineage, first.lineage);
    assert_eq!(marked(&first), []);
}

#[test]
fn a_kept_session_comes_back_with_the_next_anchor() {
    let mut world = World::new();
    let mut client = world.anchor();
    let first = spawn(&mut client, &kept(sleeper("agentinfinity")));
    world.kill_anchor();
    kill9(first.worker.as_ref().expect("it has one"));
    let mut client = world.anchor();
    let second = until("it is back", || {
        client
            .show(&first.name)
            .ok()
            .filter(|view| view.generation == Generation(2) && view.state == SessionState::Active)
    });
    assert_eq!(second.lineage, first.lineage);
    event(&world.root, 0, "agentinfinity", &[EventKind::Orphaned]);
}

#[test]
fn a_kept_session_comes_back_after_an_orderly_reboot() {
    let mut world = World::new();
    let mut client = world.anchor();
    let first = spawn(&mut client, &kept(sleeper("agentinfinity")));
    world.kill_anchor();
    // As a machine that goes down tells everybody: the worker ends its program and writes the end down.
    let worker = PidFd::open(first.worker.as_ref().expect("it has one")).expect("opens").expect("lives");
    worker.signal(Signal::TERM).expect("ours to signal");
    assert!(worker.wait(LONG).expect("ours to wait for"), "it does not end");
    let mut client = world.anchor();
    let second = until("it is back", || {
        client
            .show(&first.name)
            .ok()
            .filter(|view| view.generation == Generation(2) && view.state == SessionState::Active)
    });
    assert_eq!(second.lineage, first.lineage);
    let ended = event(&world.root, 0, "agentinfinity", &[EventKind::Exited]);
    assert_eq!(ended.data["how"], serde_json::json!({"kind": "signalled", "signal": 15}));
}

#[test]
fn a_kept_session_that_was_killed_stays_down_also_after_a_restart() {
    let mut world = World::new();
    let mut client = world.anchor();
    let first = spawn(&mut client, &kept(sleeper("agentinfinity")));
    client.kill(&first.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    // One that dies again and again is killed in the pause before a revival.
    spawn(&mut client, &kept(shell("netsky-ticker", "exit 1")));
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    paused(&mut events, 2_000);
    client.kill(&id("netsky-ticker"), Some(Duration::ZERO), &Guard::none()).expect("killed");
    let generations = |client: &mut netsky_kernel::client::Client| {
        client.list().expect("answers").iter().map(|view| view.generation).collect::<Vec<_>>()
    };
    let before = generations(&mut client);
    world.kill_anchor();
    let mut client = world.anchor();
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let head = events.head();
    let mut rows = Vec::new();
    while rows.last().is_none_or(|row: &Event| row.seq < head) {
        rows.push(events.next(Some(LONG)).expect("lives").expect("told"));
    }
    let epoch = client.hello().epoch;
    assert!(!rows.iter().any(|row| row.epoch == epoch && row.kind == EventKind::Revive), "{rows:?}");
    assert_eq!(generations(&mut client), before);
}

#[test]
fn t9_a_pause_that_an_anchor_began_goes_on_under_the_next_one_whatever_the_wall_clock_says() {
    let mut world = World::new();
    // Two restarts fit into it on a machine that is busy with other things.
    let serve = |world: &World| {
        let mut serve = world.serve();
        serve.env("OSTK_REVIVE_MS", "40000");
        serve
    };
    let first = serve(&world);
    let mut client = world.anchor_by(first);
    spawn(&mut client, &kept(shell("netsky-ticker", "exit 1")));
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let mut before = paused(&mut events, 40_000);
    let offset = world.root.with_file_name("offset");
    // An hour ahead, then an hour behind what it was.
    for millis in ["3600000", "-3600000"] {
        world.kill_anchor();
        std::fs::write(&offset, millis).expect("writes");
        let mut serve = serve(&world);
        serve.env("NETSKY_WALL_OFFSET", &offset);
        let client = world.anchor_by(serve);
        let mut events = client.subscribe(Some(before.seq)).expect("subscribed");
        let revive = |event: &Event| event.kind == EventKind::Revive;
        let next = events.find(LONG, revive).expect("lives").expect("told");
        let left = |row: &Event| row.data["after_ms"].as_u64().expect("a number");
        assert_eq!(next.data["attempt"], before.data["attempt"], "it is the same try");
        assert!((1..left(&before)).contains(&left(&next)), "{millis}: {next:?} after {before:?}");
        before = next;
    }
}

#[test]
fn a_kept_session_that_is_started_anew_is_revived_at_once_again() {
    let mut world = World::new();
    let mut client = world.anchor();
    let restless = kept(shell("netsky-ticker", "exit 1"));
    spawn(&mut client, &restless);
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    paused(&mut events, 2_000);
    client.kill(&restless.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    let anew = spawn(&mut client, &restless);
    let revived = events
        .find(LONG, |event| event.generation == Some(anew.generation) && event.kind == EventKind::Revive);
    assert_eq!(revived.expect("lives").expect("told").data["after_ms"], 0);
}

#[test]
fn a_shutdown_of_everything_also_ends_what_waits_for_its_revival() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &kept(shell("netsky-ticker", "exit 1")));
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let pause = paused(&mut events, 8_000);
    client.shutdown(true).expect("stops");
    world.anchor_stops();
    let mut client = world.anchor();
    let view = client.show(&id("netsky-ticker")).expect("known");
    assert_eq!((Some(view.generation), view.state), (pause.generation, SessionState::Exited));
    let mut events = world.client().subscribe(Some(pause.seq)).expect("subscribed");
    let revived = events.find(Duration::from_millis(300), |event| event.kind == EventKind::Revive);
    assert_eq!(revived.expect("lives"), None);
}

#[test]
fn a_session_the_watchdog_keeps_is_only_reported() {
    let mut world = World::new();
    let mut client = world.anchor();
    let first = spawn(&mut client, &sleeper("agent0"));
    kill9(first.program.as_ref().expect("it runs"));
    let exited = event(&world.root, 0, "agent0", &[EventKind::Exited]);
    let settled =
        until("it is settled", || client.show(&first.name).ok().filter(|session| !session.state.may_live()));
    assert_eq!((settled.state, settled.generation), (SessionState::Exited, Generation(1)));
    let mut events = world.client().subscribe(Some(exited.seq)).expect("subscribed");
    // But for who asks.
    let follows = events.find(Duration::from_millis(300), |event| event.kind != EventKind::Arrived);
    assert_eq!(follows.expect("lives"), None, "nothing follows");
}
