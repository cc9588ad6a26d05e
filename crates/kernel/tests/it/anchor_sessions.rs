//! Starting, watching and ending sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::process::{Signal, is_alive};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Event, EventKind, Guard, RefusalKind, SessionState, SessionView};
use netsky_kernel::session::{End, Meta, Phase};
use netsky_model::id::Generation;

use crate::anchor_world::*;

#[test]
fn a_session_starts_lives_and_is_killed_with_all_it_started() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "setsid sleep 1000 & sleep 1000 & wait"));
    assert_eq!((session.state, session.generation), (SessionState::Active, Generation(1)));
    until("its children run", || (marked(&session).len() >= 3).then_some(()));
    let ended = client.kill(&session.name, Some(Duration::from_millis(100)), &Guard::none()).expect("killed");
    assert_eq!((ended.state, ended.end), (SessionState::Stopped, Some(End::Killed)));
    assert_eq!(marked(&session), [], "I11: nothing of the generation lives");
    let again = spawn(&mut client, &sleeper("agent0"));
    assert_eq!((again.lineage, again.generation), (session.lineage, Generation(2)));
}

#[test]
fn a12_a_table_that_no_line_holds_is_shown_whole() {
    const MANY: usize = 1_600;
    let mut world = World::in_memory();
    for folder in [world.root.clone(), world.layout().agents()] {
        netsky_disk::fs::Dir::make(folder).expect("made");
    }
    let sample = Meta::parse(include_bytes!("../../samples/meta.v1.json")).expect("the sample loads");
    let at = clock::stamp();
    let phase = Phase::Ended { how: End::Exited { code: 0 }, at: at.clone(), started_at: Some(at) };
    for n in 0..MANY {
        let (name, lineage) = (format!("x{n:0>63}"), format!("x-{n:08}").parse().expect("a lineage"));
        let mut meta = Meta { lineage, phase: phase.clone(), ..sample.clone() };
        meta.spec.name = id(&name);
        std::fs::write(world.layout().meta(&meta.spec.name), meta.to_bytes()).expect("written");
    }
    let mut client = world.anchor();
    let refused = client.call_raw("session/list", serde_json::json!({}), LONG).expect_err("no line holds it");
    assert_eq!(refused.kind(), Some(RefusalKind::TooLarge));
    let names = |sessions: Vec<SessionView>| -> BTreeSet<_> {
        sessions.into_iter().map(|session| session.name).collect()
    };
    assert_eq!(names(client.list().expect("in parts")).len(), MANY);
    assert_eq!(names(client.ps().expect("in parts")).len(), MANY);
    assert_eq!(client.lineages().expect("in parts").len(), MANY);
    assert_eq!(client.reap().expect("reaped").len(), MANY);
}

#[test]
fn an_exit_is_told_with_its_code() {
    let mut world = World::new();
    let mut client = world.anchor();
    let since = 0;
    spawn(&mut client, &shell("agent1", "exit 7"));
    let event = event(&world.root, since, "agent1", &[EventKind::Exited]);
    assert_eq!(event.data["how"], serde_json::json!({"kind": "exited", "code": 7}));
    let session = until("it is settled", || {
        client.show(&id("agent1")).ok().filter(|session| !session.state.may_live())
    });
    assert_eq!((session.state, session.end), (SessionState::Exited, Some(End::Exited { code: 7 })));
    assert_eq!(client.reap().expect("reaped"), [id("agent1")]);
    assert_eq!(client.ps().expect("answers"), []);
    assert_eq!(client.list().expect("answers")[0].state, SessionState::Inactive);
}

#[test]
fn i11_a_killed_worker_is_noticed_at_once_and_its_escaped_grandchild_is_swept() {
    for cgroup in ["", "off"] {
        let mut world = World::new();
        let mut command = world.serve();
        command.env("NETSKY_CGROUP", cgroup);
        let mut client = world.anchor_by(command);
        let session = spawn(&mut client, &shell("agent2", "setsid sh -c 'sleep 1000; :' & exec sleep 1000"));
        until("the escaped grandchild runs", || (marked(&session).len() >= 3).then_some(()));
        let mut events = world.client().subscribe(None).expect("subscribed");
        kill9(session.worker.as_ref().expect("it has one"));
        let died = events.find(LONG, |event| event.kind == EventKind::Died).expect("lives").expect("told");
        assert_eq!(died.data["how"]["kind"], "worker-died");
        assert_eq!(marked(&session), []);
        let session = until("it is settled", || {
            client.show(&session.name).ok().filter(|session| !session.state.may_live())
        });
        assert_eq!(session.state, SessionState::Died);
    }
}

#[test]
fn a_stuck_worker_is_killed_when_it_does_not_kill() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent3"));
    signal(session.worker.as_ref().expect("it has one"), Signal::STOP);
    let ended = client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert_eq!((ended.state, ended.end), (SessionState::Stopped, Some(End::Killed)));
    assert_eq!(marked(&session), []);
}

#[test]
fn a_stuck_worker_does_not_lengthen_the_grace_of_its_program() {
    let mut world = World::new();
    let mut client = world.anchor();
    let grace = Duration::from_secs(4);
    let mut took = || {
        let session = spawn(&mut client, &shell("agent3", "trap '' TERM; while :; do sleep 1; done"));
        signal(session.worker.as_ref().expect("it has one"), Signal::STOP);
        let began = clock::boot();
        client.kill(&session.name, Some(grace), &Guard::none()).expect("killed");
        let took = clock::boot() - began;
        assert!(took >= grace, "{took:?}");
        took
    };
    // The worker is waited for within the grace, for three seconds, and not before it. A busy machine may come late to
    // everything, but not each time.
    let late = grace + Duration::from_millis(2_500);
    assert!((0..5).any(|_| took() < late), "five times later than {late:?}");
}

#[test]
fn t12_a_stuck_worker_takes_the_grace_from_nobody_in_the_group_of_its_program() {
    let mut world = World::new();
    let mut client = world.anchor();
    let said = world.root.with_file_name("said");
    // Both end in order: the program at once, and the one beside it after it.
    let beside = "trap 'sleep 1; echo beside >>$SAID; exit' TERM; while :; do sleep 0.1; done";
    let mut spec =
        shell("agent3", &format!("sh -c \"{beside}\" & trap 'echo program >>$SAID; exit' TERM; wait"));
    spec.env.insert("SAID".to_owned(), said.to_str().expect("text").to_owned());
    let session = spawn(&mut client, &spec);
    until("both run", || (marked(&session).len() >= 3).then_some(()));
    signal(session.worker.as_ref().expect("it has one"), Signal::STOP);
    client.kill(&session.name, Some(Duration::from_secs(30)), &Guard::none()).expect("killed");
    assert_eq!(std::fs::read_to_string(&said).expect("both were asked"), "program\nbeside\n");
}

#[test]
fn a_silent_worker_is_told_as_hung_and_as_recovered() {
    let mut world = World::new();
    let mut serve = world.serve();
    // The usual silence of a hung one would take minutes.
    serve.env("OSTK_HEARTBEAT_MS", "50");
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, &sleeper("agent4"));
    until("it has beaten", || client.show(&session.name).ok()?.heartbeat);
    let worker = session.worker.expect("it has one");
    let mut events = world.client().subscribe(None).expect("subscribed");
    signal(&worker, Signal::STOP);
    events.find(LONG, |event| event.kind == EventKind::Hung).expect("lives").expect("told");
    assert_eq!(client.show(&session.name).expect("known").state, SessionState::Hung);
    signal(&worker, Signal::CONT);
    events.find(LONG, |event| event.kind == EventKind::Recovered).expect("lives").expect("told");
}

#[test]
fn a_worker_whose_heartbeat_file_is_silent_is_asked_and_not_ended() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("OSTK_HEARTBEAT_MS", "50");
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, &kept(sleeper("agentinfinity")));
    until("it has beaten", || client.show(&session.name).ok()?.heartbeat);
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    // The worker beats on into a file that nobody finds any more, as it would into a full or read-only disk.
    std::fs::remove_file(world.layout().heartbeat(&session.name)).expect("removed");
    let wrong = |event: &Event| matches!(event.kind, EventKind::Hung | EventKind::Died);
    let told = events.find(LONG, |event| event.kind == EventKind::Damaged || wrong(event));
    assert_eq!(told.expect("lives").expect("told").data["file"], ".heartbeat.agentinfinity");
    // Many times the silence that makes a worker hung, and twice so long to be ended for it.
    let beats =
        |client: &mut Client| client.show(&session.name).expect("known").heartbeat.map(|b| b.liveness);
    let then = beats(&mut client).expect("it beats");
    until("it is asked on", || (beats(&mut client)? > then + 40).then_some(()));
    let view = client.show(&session.name).expect("known");
    assert_eq!((view.generation, view.program), (session.generation, session.program));
    assert_eq!(events.find(Duration::from_millis(100), wrong).expect("lives"), None);
}

#[test]
fn what_is_stale_is_refused_and_what_lives_is_busy() {
    let mut world = World::new();
    let mut client = world.anchor();
    let kind = |result: Result<_, netsky_kernel::client::ClientError>| match result {
        Ok::<netsky_kernel::rpc::SessionView, _>(session) => panic!("not refused: {session:?}"),
        Err(error) => error.kind(),
    };
    let guard = Guard::if_generation;
    assert_eq!(kind(client.show(&id("agent5"))), Some(RefusalKind::NotFound));
    assert_eq!(kind(client.kill(&id("agent5"), None, &Guard::none())), Some(RefusalKind::NotFound));
    assert_eq!(
        kind(client.spawn(&sleeper("agent5"), &guard(Generation(3)))),
        Some(RefusalKind::StaleGeneration)
    );
    let first = client.spawn(&sleeper("agent5"), &guard(Generation(0))).expect("there was none");
    assert_eq!(kind(client.spawn(&sleeper("agent5"), &Guard::none())), Some(RefusalKind::Busy));
    assert_eq!(
        kind(client.kill(&first.name, None, &guard(Generation(0)))),
        Some(RefusalKind::StaleGeneration)
    );
    client.kill(&first.name, Some(Duration::ZERO), &guard(Generation(1))).expect("current");
    assert_eq!(
        kind(client.spawn(&sleeper("agent5"), &guard(Generation(0)))),
        Some(RefusalKind::StaleGeneration)
    );
    assert_eq!(
        client.spawn(&sleeper("agent5"), &guard(Generation(1))).expect("current").generation,
        Generation(2)
    );
}

#[test]
fn a_repeat_is_answered_with_the_first_result_also_by_a_successor() {
    let mut world = World::new();
    let mut client = world.anchor();
    let once = Guard::if_generation(Generation(0)).once("spawn-1");
    let first = client.spawn(&sleeper("agent6"), &once).expect("starts");
    assert_eq!(client.spawn(&sleeper("agent6"), &once).expect("known"), first);
    world.kill_anchor();
    let mut client = world.anchor();
    assert_eq!(client.spawn(&sleeper("agent6"), &once).expect("known"), first);
    let kill = Guard::none().once("kill-1");
    let ended = client.kill(&first.name, Some(Duration::ZERO), &kill).expect("killed");
    let second = spawn(&mut client, &sleeper("agent6"));
    assert_eq!(client.kill(&first.name, Some(Duration::ZERO), &kill).expect("known"), ended);
    assert!(is_alive(second.program.as_ref().expect("it runs")), "a late repeat hits nobody new");
    let misused = client.spawn(&sleeper("agent6"), &kill).expect_err("another method's");
    assert_eq!(misused.kind(), Some(RefusalKind::BadParams));
    let misused = client.spawn(&sleeper("agent7"), &once).expect_err("another session's");
    assert_eq!(misused.kind(), Some(RefusalKind::BadParams));
    assert!(misused.to_string().contains("session/spawn of agent6"), "{misused}");
}

#[test]
fn i5_a_name_of_a_start_is_not_repeated_by_another_start() {
    let mut world = World::new();
    let mut client = world.anchor();
    let once = Guard::none().once("spawn-1");
    let first = client.spawn(&sleeper("agent6"), &once).expect("starts");
    let mut elsewhere = sleeper("agent6");
    elsewhere.env.insert("SHLVL".to_owned(), "7".to_owned());
    let other = shell("agent6", "echo another");
    for _ in 0..2 {
        let refused = client.spawn(&other, &once).expect_err("another start");
        assert_eq!(refused.kind(), Some(RefusalKind::BadParams));
        let why = "request_id spawn-1 was used for session/spawn of agent6 with other parameters: a new call takes a new one";
        assert_eq!(refused.to_string(), why);
        assert_eq!(client.spawn(&elsewhere, &once).expect("the same, from another shell"), first);
        world.kill_anchor();
        client = world.anchor();
    }
    // An anchor that died before it had answered knows it by what it started.
    let mut anchor = world.serve();
    world.kill_anchor();
    anchor.env("NETSKY_FAULT", "anchor.answer.known=kill");
    let mut client = world.anchor_by(anchor);
    let once = Guard::none().once("spawn-2");
    client.spawn(&sleeper("agent7"), &once).expect_err("it died");
    // A client may hear of that before all is closed.
    world.kill_anchor();
    let mut client = world.anchor();
    let refused = client.spawn(&shell("agent7", "echo another"), &once).expect_err("another start");
    assert!(refused.to_string().contains("session/spawn of agent7 with other parameters"), "{refused}");
    let first = client.spawn(&sleeper("agent7"), &once).expect("known");
    assert_eq!(first.generation, Generation(1));
}

#[test]
fn two_callers_of_one_request_start_one_program() {
    let mut world = World::new();
    let _client = world.anchor();
    let views: Vec<_> = std::thread::scope(|scope| {
        let call = || {
            let once = Guard::none().once("both");
            world.client().spawn(&sleeper("agent0"), &once).expect("one of them starts it")
        };
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect()
    });
    assert!(views.iter().all(|view| view.program == views[0].program && view.generation == Generation(1)));
}

#[test]
fn a_program_that_cannot_start_is_told_and_leaves_nothing() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut spec = sleeper("agent8");
    spec.argv = vec!["/nowhere/at/all".to_owned()];
    let refused = client.spawn(&spec, &Guard::none()).expect_err("no such program");
    assert_eq!(refused.kind(), Some(RefusalKind::FailedToStart), "{refused}");
    let session = client.show(&spec.name).expect("known");
    assert_eq!(session.state, SessionState::Failed);
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let failed = events.find(LONG, |event| event.kind == EventKind::Failed).expect("lives").expect("told");
    assert!(failed.data.to_string().contains("nowhere"), "{failed:?}");
    assert_eq!(spawn(&mut client, &sleeper("agent8")).generation, Generation(2));
}

#[test]
fn bad_parameters_start_nothing() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut none = sleeper("agent9");
    none.argv.clear();
    let mut relative = sleeper("agent9");
    relative.cwd = "here".into();
    let mut named = sleeper("agent9");
    named.env.insert("A=B".to_owned(), "c".to_owned());
    for spec in [none, relative, named] {
        let refused = client.spawn(&spec, &Guard::none()).expect_err("refused");
        assert_eq!(refused.kind(), Some(RefusalKind::BadParams), "{refused}");
    }
    let long = Guard::none().once("x".repeat(200));
    let refused = client.spawn(&sleeper("agent9"), &long).expect_err("refused");
    assert_eq!(refused.kind(), Some(RefusalKind::BadParams));
    let mut huge = sleeper("agent9");
    huge.argv.push("x".repeat(2 << 20));
    let refused = client.spawn(&huge, &Guard::none()).expect_err("refused");
    assert_eq!(refused.kind(), Some(RefusalKind::TooLarge));
    assert_eq!(client.list().expect("answers"), []);
}

#[test]
fn a_long_grace_delays_nobody_else() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "trap '' TERM; while :; do sleep 1; done"));
    let root = world.root.clone();
    let name = session.name.clone();
    let killing = std::thread::spawn(move || {
        let mut client = netsky_kernel::client::Client::connect(&root).expect("serves");
        client.kill(&name, Some(Duration::from_secs(60)), &Guard::none()).expect("killed")
    });
    event(&world.root, 0, "agent0", &[EventKind::Kill]);
    for _ in 0..20 {
        client.ps().expect("answers");
    }
    assert!(!killing.is_finished(), "twenty answers came within the grace");
    // A second request shortens the grace.
    client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert_eq!(killing.join().expect("no panic").end, Some(End::Killed));
}

#[test]
fn long_command_lines_keep_nobody_from_reading_the_list() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut long = sleeper("agent0");
    // One argument may have 128 KiB; together the sessions have more than a line.
    long.argv.extend(["x".repeat(120 << 10), "y".repeat(120 << 10)]);
    long.argv[2] = "exec sleep 1000 # $0 $1".to_owned();
    for n in 0..5 {
        let spec = netsky_kernel::session::Spec { name: id(&format!("agent{n}")), ..long.clone() };
        assert_eq!(spawn(&mut client, &spec).argv, [] as [String; 0]);
    }
    let listed = client.list().expect("a list fits a line");
    assert!(listed.len() == 5 && listed.iter().all(|view| view.argv.is_empty() && view.cwd.is_none()));
    let shown = client.show(&long.name).expect("one fits");
    assert_eq!((&shown.argv, shown.cwd.as_ref()), (&long.argv, Some(&long.cwd)));
    long.argv.push("z".repeat(120 << 10));
    long.name = id("agent9");
    let refused = client.spawn(&long, &Guard::none()).expect_err("too long");
    assert_eq!(refused.kind(), Some(RefusalKind::TooLarge));
    let mut labelled = sleeper("agent9");
    labelled.tags.insert("why".to_owned(), "w".repeat(8 << 10));
    let refused = client.spawn(&labelled, &Guard::none()).expect_err("it would stand in every list");
    assert_eq!(refused.kind(), Some(RefusalKind::TooLarge));
}
