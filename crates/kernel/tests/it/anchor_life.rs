//! One anchor a root; its death, and what its successor makes of what it finds.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::process::{self, PidFd, Signal, is_alive};
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{EventKind, Guard, SessionState};
use netsky_kernel::session::Meta;
use netsky_model::id::Generation;

use crate::anchor_world::*;
use crate::bystander::Bystander;

#[test]
fn t16_a_second_anchor_is_refused_and_harms_nothing() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    let mut second =
        world.serve().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is started");
    let held = process::identify(second.id()).and_then(|id| PidFd::open(&id).expect("a descriptor"));
    let ended = held.is_none_or(|held| held.wait(LONG).expect("asked"));
    if !ended {
        second.kill().expect("our own child");
    }
    let second = second.wait_with_output().expect("our own child");
    assert!(ended, "it serves beside the first");
    assert_eq!(second.status.code(), Some(5));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("already serves") && said.lines().count() == 1, "{said}");
    let after = world.client();
    assert_eq!(after.hello(), client.hello());
    assert_eq!(client.show(&session.name).expect("known").program, session.program);
}

#[test]
fn t16_no_session_keeps_the_lock_of_a_dead_anchor() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "sleep 1000 & wait"));
    until("its child runs", || (marked(&session).len() >= 2).then_some(()));
    world.kill_anchor();
    assert!(!netsky_disk::lock::Lock::is_held(world.layout().lock()).expect("looks"));
    for process in marked(&session).iter().chain(session.worker.as_ref()) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).expect("ours");
        for link in open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok()) {
            let name = link.to_string_lossy().into_owned();
            assert!(
                !name.ends_with("anchor.lock") && !name.ends_with("ostk.sock"),
                "{process:?} holds {name}"
            );
        }
    }
}

#[test]
fn a_killed_anchor_hurts_no_session_and_its_successor_adopts_them() {
    let mut world = World::new();
    let mut client = world.anchor();
    let before: Vec<_> = ["agent0", "agent1", "agent2"].map(|name| spawn(&mut client, &sleeper(name))).into();
    let first = client.hello().clone();
    world.kill_anchor();
    assert!(matches!(Client::connect(&world.root), Err(ClientError::NotServing { .. })));
    // One of them ends while nobody listens.
    kill9(before[1].program.as_ref().expect("it runs"));
    let worker = before[1].worker.clone().expect("it has one");
    until("its worker has written it down and gone", || (!is_alive(&worker)).then_some(()));

    let mut client = world.anchor();
    assert!(client.hello().epoch > first.epoch);
    assert_ne!(client.hello().anchor_id, first.anchor_id);
    let after = client.ps().expect("answers");
    for at in [0, 2] {
        assert_eq!((&after[at].program, &after[at].worker), (&before[at].program, &before[at].worker));
        assert_eq!(after[at].state, SessionState::Active);
    }
    assert_eq!(after[1].state, SessionState::Exited);
    let told = event(&world.root, 0, "agent1", &[EventKind::Exited]);
    assert_eq!((told.epoch, &told.data["how"]["signal"]), (client.hello().epoch, &serde_json::json!(9)));
    // An adopted worker is watched like one of our own.
    let ended = client.kill(&before[0].name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert_eq!(ended.state, SessionState::Stopped);
    kill9(before[2].worker.as_ref().expect("it has one"));
    event(&world.root, told.seq, "agent2", &[EventKind::Died]);
    assert_eq!(marked(&before[2]), []);
}

#[test]
fn a_session_without_worker_is_orphaned_at_the_next_start_and_left_to_its_keeper() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "setsid sleep 1000 & exec sleep 1000"));
    until("its child runs", || (marked(&session).len() >= 2).then_some(()));
    world.kill_anchor();
    kill9(session.worker.as_ref().expect("it has one"));
    let mut client = world.anchor();
    event(&world.root, 0, "agent0", &[EventKind::Orphaned]);
    assert_eq!(marked(&session), [], "I11: swept before it is told");
    let found = until("it is settled", || {
        client.show(&session.name).ok().filter(|session| !session.state.may_live())
    });
    assert_eq!((found.state, found.generation), (SessionState::Orphaned, Generation(1)));
    assert_eq!(spawn(&mut client, &sleeper("agent0")).generation, Generation(2));
}

#[test]
fn t8_a_reused_pid_is_not_adopted() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    world.kill_anchor();
    let worker = session.worker.clone().expect("it has one");
    kill9(&worker);
    until("it is gone", || (!is_alive(&worker)).then_some(()));
    // What the meta would say if the system had handed the worker's and program's pids to a bystander.
    let bystander = Bystander::start(std::process::Command::new("sleep").arg("1000"));
    let identity = &bystander.id;
    let path = world.layout().meta(&session.name);
    let mut meta = Meta::parse(&std::fs::read(&path).expect("reads")).expect("a meta");
    for process in [&mut meta.worker, &mut meta.program].into_iter().flatten() {
        // Two starts within a tick of the clock look alike, so the earlier one is said to be earlier.
        (process.pid, process.start_time) = (identity.pid, identity.start_time - 1);
    }
    std::fs::write(&path, meta.to_bytes()).expect("writes");

    let mut client = world.anchor();
    event(&world.root, 0, "agent0", &[EventKind::Orphaned]);
    let killed = client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("nothing to kill");
    assert_eq!(killed.state, SessionState::Orphaned);
    assert!(is_alive(identity), "the bystander lives");
}

#[test]
fn a_subscription_continues_exactly_over_a_restart() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    spawn(&mut client, &sleeper("agent0"));
    let mut rows = Vec::new();
    while rows.last().is_none_or(|last: &netsky_kernel::rpc::Event| last.kind != EventKind::Started) {
        rows.push(events.next(Some(LONG)).expect("lives").expect("told"));
    }
    world.kill_anchor();
    until("the subscriber hears of it", || events.next(Some(LONG)).is_err().then_some(()));
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent1"));
    let since = rows.last().expect("some").seq;
    let mut events = world.client().subscribe(Some(since)).expect("subscribed");
    loop {
        let row = events.next(Some(LONG)).expect("lives").expect("told");
        let done = row.kind == EventKind::Started && row.session == Some(id("agent1"));
        rows.push(row);
        if done {
            break;
        }
    }
    let seqs: Vec<u64> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(rows.is_sorted_by_key(|row| row.epoch));
    assert_eq!(
        rows.iter().filter(|row| row.kind == EventKind::Started).count(),
        2,
        "each start is told once"
    );
}

#[test]
fn t14_a_torn_journal_is_repaired_and_goes_on() {
    let mut world = World::new();
    let mut client = world.anchor();
    spawn(&mut client, &sleeper("agent0"));
    world.kill_anchor();
    let mut journal = std::fs::File::options().append(true).open(world.layout().journal()).expect("opens");
    journal.write_all(br#"{"v":1,"seq":99,"ts":"2026-"#).expect("writes");
    drop(journal);
    let mut client = world.anchor();
    assert_eq!(client.ps().expect("answers")[0].state, SessionState::Active);
    event(&world.root, 0, "agent0", &[EventKind::Adopted]);
    let text = std::fs::read_to_string(world.layout().journal()).expect("reads");
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(!text.contains("damaged"), "a torn tail is no damage:\n{text}");
}

#[test]
fn a_damaged_meta_is_set_aside_by_the_next_start_which_is_the_next_generation() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "exit 0"));
    event(&world.root, 0, "agent0", &[EventKind::Exited]);
    spawn(&mut client, &sleeper("agent1"));
    world.kill_anchor();
    std::fs::write(world.layout().meta(&session.name), b"{\"v\":1,").expect("writes");
    let mut client = world.anchor();
    assert_eq!(client.ps().expect("answers").len(), 1);
    assert_eq!(std::fs::read(world.layout().meta(&session.name)).expect("reads"), b"{\"v\":1,");
    let again = client.spawn(&sleeper("agent0"), &Guard::if_generation(Generation(1))).expect("starts");
    assert_eq!((again.generation, &again.lineage), (Generation(2), &session.lineage));
    let aside = std::fs::read_dir(world.layout().agents()).expect("a folder").flatten();
    let aside: Vec<_> =
        aside.filter(|file| file.file_name().to_string_lossy().starts_with("agent0.meta.damaged-")).collect();
    assert_eq!(std::fs::read(aside[0].path()).expect("reads"), b"{\"v\":1,");
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    events.find(LONG, |event| event.kind == EventKind::Damaged).expect("lives").expect("told");
}

#[test]
fn a_lost_meta_costs_no_name_and_no_generation() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "exit 0"));
    event(&world.root, 0, "agent0", &[EventKind::Exited]);
    world.kill_anchor();
    std::fs::remove_file(world.layout().meta(&session.name)).expect("was there");
    let mut client = world.anchor();
    assert_eq!(client.ps().expect("answers").len(), 0, "what is shown of it is nothing");
    let lineage = client.lineages().expect("answers").remove(0);
    assert_eq!((lineage.id, lineage.generation), (session.lineage.clone(), Generation(1)));
    assert_eq!((lineage.session, lineage.state), (session.name.clone(), SessionState::Unknown));
    let again = client.spawn(&sleeper("agent0"), &Guard::if_generation(Generation(1))).expect("starts");
    assert_eq!((again.generation, again.lineage), (Generation(2), session.lineage));
    assert_eq!(client.lineages().expect("answers").len(), 1);
}

#[test]
fn shutdown_leaves_sessions_and_with_all_ends_them() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    let kept = spawn(&mut client, &kept(sleeper("agent1")));
    let answer = client.shutdown(false).expect("stops");
    assert_eq!((answer.ended.len(), answer.left.len()), (0, 2));
    world.anchor_stops();
    assert!(is_alive(session.worker.as_ref().expect("it has one")));
    let client = world.anchor();
    let answer = client.shutdown(true).expect("stops");
    assert_eq!((answer.ended.len(), answer.left.len()), (2, 0));
    assert_eq!((marked(&session), marked(&kept)), (vec![], vec![]));
    world.anchor_stops();
    let mut client = world.anchor();
    assert!(client.ps().expect("answers").iter().all(|session| session.state == SessionState::Stopped));
}

#[test]
fn a_shutdown_of_everything_ends_all_and_is_answered_though_another_stops_the_anchor_meanwhile() {
    let mut world = World::new();
    let mut client = world.anchor();
    let anchor = client.hello().anchor.clone();
    let deaf =
        spawn(&mut client, &kept(shell("agent0", "trap '' TERM; echo deaf; while :; do sleep 1; done")));
    let root = world.root.clone();
    let everything = std::thread::spawn(move || {
        let params = serde_json::json!({"all": true, "grace_ms": 1_500});
        Client::connect(&root).expect("serves").call_raw("kernel/shutdown", params, LONG)
    });
    until("it begins", || world.client().hello().stopping.then_some(()));
    let beside = client.shutdown(false).expect("answered");
    assert_eq!((beside.left.len(), beside.others), (1, 1), "it has not stopped yet");
    signal(&anchor, Signal::TERM);
    let answer = everything.join().expect("no panic").expect("answered");
    assert_eq!((&answer["ended"], &answer["left"]), (&serde_json::json!(["agent0"]), &serde_json::json!([])));
    assert_eq!(answer.get("others"), None, "it is the last");
    assert_eq!(marked(&deaf), []);
    world.anchor_stops();
}

#[test]
fn sigterm_stops_an_anchor_and_no_session() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    signal(&client.hello().anchor.clone(), netsky_disk::process::Signal::TERM);
    world.anchor_stops();
    assert!(is_alive(session.worker.as_ref().expect("it has one")));
    assert!(!world.layout().sock().exists());
}

#[test]
fn racing_starters_all_reach_one_anchor() {
    let world = World::new();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let start =
            || Client::ensure(&world.root, Path::new(PROGRAM)).expect("an anchor").hello().anchor_id.clone();
        let starters: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        starters.into_iter().map(|starter| starter.join().expect("no panic")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn an_anchors_program_is_replaced_while_its_sessions_run() {
    let mut world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("kernel");
    let install = || {
        let new = folder.path().join("new");
        std::fs::copy(PROGRAM, &new).expect("copied");
        std::fs::rename(&new, &program).expect("in its place");
    };
    let root = world.root.clone();
    let serve = || {
        let mut serve = std::process::Command::new(&program);
        serve.arg("serve").arg("--root").arg(&root);
        serve
    };
    install();
    let mut client = world.anchor_by(serve());
    let first = spawn(&mut client, &sleeper("agent0"));
    install();
    // Of the program that was replaced, like its anchor.
    let second = spawn(&mut client, &shell("agent1", "read line; echo \"<$line>\"; exec sleep 1000"));
    client.shutdown(false).expect("stops");
    world.anchor_stops();
    let mut client = world.anchor_by(serve());
    for session in [&first, &second] {
        let found = client.show(&session.name).expect("known");
        assert_eq!((&found.program, found.state), (&session.program, SessionState::Active));
        let worker = session.worker.as_ref().expect("it has one").pid;
        let runs = std::fs::read_link(format!("/proc/{worker}/exe")).expect("ours to read");
        assert!(runs.to_string_lossy().ends_with("(deleted)"), "a worker of the program of before: {runs:?}");
    }
    let typed = netsky_kernel::rpc::input::Params {
        session: second.name.clone(),
        text: "over\n".to_owned(),
        epoch: 0,
        guard: Guard::none(),
    };
    client.input(&typed).expect("its worker understands");
    until("it reads", || {
        let out = std::fs::read(world.layout().out(&second.name)).ok()?;
        String::from_utf8_lossy(&out).contains("<over>").then_some(())
    });
    let ended = client.kill(&first.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert_eq!(ended.state, SessionState::Stopped);
    assert_eq!(spawn(&mut client, &sleeper("agent0")).generation, Generation(2));
}

#[test]
fn an_anchor_started_inside_a_session_outlives_it_with_its_own_sessions() {
    let mut outer = World::new();
    let mut client = outer.anchor();
    let inner = World::new();
    let line = format!("exec {PROGRAM} ensure {}", inner.root.display());
    let host = spawn(&mut client, &shell("agent0", &line));
    let mut guest = until("the inner anchor greets", || Client::connect(&inner.root).ok());
    let session = spawn(&mut guest, &sleeper("agent1"));
    let ended = client.kill(&host.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert_eq!(ended.state, SessionState::Stopped);
    assert!(is_alive(&guest.hello().anchor), "the anchor is no part of the session");
    assert!(is_alive(session.program.as_ref().expect("it runs")));
    assert_eq!(guest.show(&session.name).expect("answers").state, SessionState::Active);
}

#[test]
fn who_asks_right_after_a_shutdown_gets_a_new_anchor() {
    let world = World::new();
    let mut epoch = 0;
    for _ in 0..10 {
        let client = Client::ensure(&world.root, Path::new(PROGRAM)).expect("an anchor");
        assert!(client.hello().epoch > epoch);
        epoch = client.hello().epoch;
        client.shutdown(false).expect("stops");
    }
}

#[test]
fn must_show_5_a_suspend_of_eight_hours_ends_nobody() {
    let mut world = World::new();
    let slept = world.root.with_file_name("slept");
    std::fs::write(&slept, "0").expect("writes");
    let mut command = world.serve();
    command.env("NETSKY_SLEPT", &slept).env("OSTK_HEARTBEAT_MS", "100");
    let mut client = world.anchor_by(command);
    let before = spawn(&mut client, &kept(sleeper("agent0")));
    let mut beats = |more: u64| {
        let liveness = |client: &mut Client| {
            let session = client.show(&before.name).expect("it is there");
            session.heartbeat.map_or(0, |beat| beat.liveness)
        };
        let begun = liveness(&mut client);
        until("its worker beats on", || (liveness(&mut client) >= begun + more).then_some(()));
    };
    beats(2);
    std::fs::write(slept.with_extension("new"), "28800000").expect("writes");
    std::fs::rename(slept.with_extension("new"), &slept).expect("in one step");
    // Longer than the silence that makes a session hung, at this pace.
    let begun = clock::boot();
    beats(15);
    assert!(clock::boot() - begun > Duration::from_secs(1), "it does not make up for what it slept");
    let after = client.show(&before.name).expect("it is there");
    assert_eq!((after.state, &after.worker), (SessionState::Active, &before.worker));
    let told = |event: &netsky_kernel::rpc::Event| [EventKind::Hung, EventKind::Died].contains(&event.kind);
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    assert!(events.find(Duration::ZERO, told).expect("lives").is_none());
}
