//! `session/rename`: what a session has under its new name, who keeps the old one, and what a cut leaves.

use std::path::Path;
use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::drain::Report;
use netsky_kernel::output_log::{Chunk, LogReader};
use netsky_kernel::rpc::lineage::resolve::Action;
use netsky_kernel::rpc::{EventKind, Guard, RefusalKind, SessionState, SessionView};
use netsky_kernel::session::Spec;
use netsky_model::id::{AgentId, Generation};

use crate::anchor_world::*;
use crate::steps::{Case, MANY, once, repeated, runs_alone, world_client};

/// A session that says its name and its generation and stays.
fn speaker(name: &str) -> Spec {
    by_policy(shell(name, "echo $OSTK_NAME.$OSTK_GENERATION; exec sleep 1000"))
}

/// One that has reported a turn and was killed.
fn ended(client: &mut Client, name: &str) -> SessionView {
    let session = spawn(client, &speaker(name));
    let turn = Report::Turn(Box::default());
    client.report(&session.name, &turn, &Guard::none()).expect("told");
    until("it speaks", || (!said(client.root(), &session.name).is_empty()).then_some(()));
    client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed")
}

fn rename(client: &mut Client, from: &str, to: &str) -> Result<SessionView, ClientError> {
    client.rename(&id(from), &id(to), &Guard::none())
}

fn kind(answer: Result<SessionView, ClientError>) -> Option<RefusalKind> {
    answer.expect_err("it is refused").kind()
}

/// What of the root bears a name, but for the lock, which is nobody's.
fn files(world: &World, name: &str) -> Vec<String> {
    let agents = std::fs::read_dir(world.layout().agents()).expect("there");
    let agents = agents.map(|file| file.expect("reads").file_name().into_string().expect("ours"));
    let ours = |file: &String| file.starts_with(&format!("{name}.")) && *file != format!("{name}.lock");
    let mut files: Vec<String> = agents.filter(ours).collect();
    files.extend(world.layout().heartbeat(&id(name)).exists().then(|| format!(".heartbeat.{name}")));
    files.sort();
    files
}

/// All that a session's programs have said.
fn said(root: &Path, name: &AgentId) -> String {
    let reader = LogReader::open(&KernelLayout::new(root).out(name)).expect("reads");
    match reader.read_from(0, 1 << 16).expect("reads") {
        Chunk::Bytes { bytes, .. } => String::from_utf8(bytes).expect("text"),
        Chunk::End => String::new(),
        gap @ Chunk::Gap { .. } => panic!("{gap:?}"),
    }
}

fn renamed_rows(world: &World) -> usize {
    rows(world).iter().filter(|row| row.kind == EventKind::Renamed).count()
}

/// A session is under its new name with all that it has, and the one that it had is free.
fn has_moved(world: &World, client: &mut Client, before: &SessionView, to: &str) {
    let session = client.show(&id(to)).expect("known");
    assert_eq!((&session.lineage, session.generation), (&before.lineage, before.generation));
    assert_eq!((session.state, session.progress.turn), (SessionState::Stopped, 1), "{session:?}");
    assert_eq!(session.socket, world.layout().worker_sock(&id(to)));
    assert_eq!(kind(client.show(&before.name)), Some(RefusalKind::NotFound));
    assert_eq!(files(world, before.name.as_str()), [] as [&str; 0]);
    let there = ["err", "events.jsonl", "meta", "out"].map(|ending| format!("{to}.{ending}"));
    assert_eq!(files(world, to), there);
    assert_eq!(said(&world.root, &id(to)), format!("{}.1\n", before.name));
    let folded = netsky_kernel::anchor::folded(&world.layout().journal()).expect("reads");
    let known: Vec<_> = folded.iter().filter(|known| known.lineage == before.lineage).collect();
    assert_eq!(known.len(), 1);
    assert_eq!((&known[0].name, known[0].state), (&id(to), SessionState::Stopped));
}

#[test]
fn a_session_that_has_ended_has_another_name_with_all_that_belongs_to_it() {
    let mut world = World::new();
    let mut client = world.anchor();
    let before = ended(&mut client, "agent0");
    rename(&mut client, "agent0", "scout").expect("renamed");
    has_moved(&world, &mut client, &before, "scout");
    let registry = std::fs::read_to_string(world.layout().registry()).expect("there");
    assert!(
        !registry.contains("\"name\":\"agent0\"") && registry.contains("\"name\":\"scout\""),
        "{registry}"
    );
    // Another anchor knows the same, and what was wanted down stays down.
    world.kill_anchor();
    let mut client = world.anchor();
    has_moved(&world, &mut client, &before, "scout");
    assert!(!rows(&world).iter().any(|row| row.kind == EventKind::Revive));

    let other = spawn(&mut client, &speaker("agent0"));
    assert_eq!(other.generation, Generation(1));
    assert_ne!(other.lineage, before.lineage, "whoever has that name now is another");
    let next = spawn(&mut client, &speaker("scout"));
    assert_eq!((&next.lineage, next.generation, next.progress.turn), (&before.lineage, Generation(2), 1));
    until("it has its new name", || (said(&world.root, &next.name) == "agent0.1\nscout.2\n").then_some(()));
    runs_alone(&next);
    world.kill_anchor();
    let mut client = world.anchor();
    for lives in [&other, &next] {
        assert_eq!(client.show(&lives.name).expect("known").program, lives.program);
    }
    assert_eq!(ends(&world), 1, "its end is told once");
}

#[test]
fn a_session_that_waits_to_be_told_waits_under_its_new_name() {
    let mut world = World::new();
    let mut client = world.anchor();
    std::fs::write(world.root.join("settings"), "LIMIT revival_policy ask\n").expect("ours");
    let session = spawn(&mut client, &speaker("agent0"));
    kill9(session.worker.as_ref().expect("it has one"));
    let asking = |client: &mut Client, name: &str| {
        client.show(&id(name)).ok().filter(|found| found.state == SessionState::Asking)
    };
    until("it waits", || asking(&mut client, "agent0"));
    assert_eq!(rename(&mut client, "agent0", "scout").expect("renamed").state, SessionState::Asking);
    world.kill_anchor();
    let mut client = world.anchor();
    until("it waits still", || asking(&mut client, "scout"));
    let revived = client.resolve(&session.lineage, Action::Revive, &Guard::none()).expect("revived");
    assert_eq!((&revived.name, revived.generation), (&id("scout"), Generation(2)));
    runs_alone(&revived);
}

#[test]
fn who_lives_or_comes_back_or_is_named_above_keeps_its_name_and_no_name_is_taken_from_anybody() {
    let mut world = World::new();
    let mut client = world.anchor();
    ended(&mut client, "agent0");
    spawn(&mut client, &sleeper("above"));
    client.kill(&id("above"), Some(Duration::ZERO), &Guard::none()).expect("killed");
    spawn(&mut client, &speaker("lives"));
    spawn(&mut client, &kept(shell("comes", "exit 1")));
    until("it waits for its next try", || {
        let comes = client.show(&id("comes")).ok()?;
        (comes.generation >= Generation(2) && comes.state == SessionState::Exited).then_some(())
    });
    for name in ["lives", "above", "comes"] {
        assert_eq!(kind(rename(&mut client, name, "free")), Some(RefusalKind::Refused), "{name}");
        let taken = rename(&mut client, "agent0", name).expect_err("it is taken").to_string();
        assert!(taken.contains("there is such a session"), "{taken}");
    }
    // Of one whose files are lost the journal knows, and of one that nobody can read its file.
    client.kill(&id("lives"), Some(Duration::ZERO), &Guard::none()).expect("killed");
    client.kill(&id("comes"), Some(Duration::ZERO), &Guard::none()).expect("killed");
    world.kill_anchor();
    for file in files(&world, "lives") {
        let agents = world.layout().agents();
        std::fs::remove_file(agents.join(&file))
            .or_else(|_| std::fs::remove_file(world.root.join(file)))
            .expect("there");
    }
    std::fs::write(world.layout().meta(&id("newer")), r#"{"v":2}"#).expect("written");
    let mut client = world.anchor();
    for name in ["lives", "newer"] {
        assert_eq!(kind(rename(&mut client, "agent0", name)), Some(RefusalKind::Refused), "{name}");
    }
    assert_eq!(kind(rename(&mut client, "nobody", "free")), Some(RefusalKind::NotFound));
    let stale = client.rename(&id("agent0"), &id("free"), &Guard::if_generation(Generation(2)));
    assert_eq!(kind(stale), Some(RefusalKind::StaleGeneration));
    let same = rename(&mut client, "agent0", "agent0").expect_err("nothing to do").to_string();
    assert!(same.contains("has that name already"), "{same}");
    assert_eq!(renamed_rows(&world), 0);
    assert_eq!(files(&world, "free"), [] as [&str; 0]);
}

#[test]
fn a_repeat_does_nothing_again_whoever_has_the_old_name_by_then() {
    let mut world = World::new();
    let mut client = world.anchor();
    let before = ended(&mut client, "agent0");
    let first = client.rename(&id("agent0"), &id("scout"), &once()).expect("renamed");
    let other = ended(&mut client, "agent0");
    assert_eq!(client.rename(&id("agent0"), &id("scout"), &once()).expect("known"), first);
    // Also where the answer was never written.
    let mut client = {
        world.kill_anchor();
        let mut serve = world.serve();
        serve.env("NETSKY_FAULT", "anchor.answer.known=kill");
        world.anchor_by(serve)
    };
    let second = Guard::none().once("the-second");
    client.rename(&id("scout"), &id("guide"), &second).expect_err("the anchor dies");
    world.kill_anchor();
    let mut client = world.anchor();
    let again = client.rename(&id("scout"), &id("guide"), &second).expect("known");
    assert_eq!((&again.name, &again.lineage), (&id("guide"), &before.lineage));
    assert_eq!(renamed_rows(&world), 2);
    assert_eq!(client.show(&id("agent0")).expect("known").lineage, other.lineage);
}

#[test]
fn a_name_that_was_given_up_is_free_also_for_who_had_it() {
    let mut world = World::new();
    let mut client = world.anchor();
    let before = ended(&mut client, "agent0");
    for (from, to) in [("agent0", "scout"), ("scout", "agent0"), ("agent0", "scout")] {
        rename(&mut client, from, to).expect("renamed");
        world.kill_anchor();
        client = world.anchor();
    }
    has_moved(&world, &mut client, &before, "scout");
}

#[test]
fn two_that_race_for_one_name_are_one_that_has_it_and_one_that_keeps_its_own() {
    let mut world = World::new();
    let mut client = world.anchor();
    let names = ["agent0", "agent1"];
    let before = names.map(|name| ended(&mut client, name));
    let (start, world) = (std::sync::Barrier::new(2), &world);
    let race = |name: &'static str| {
        let mut client = world.client();
        start.wait();
        rename(&mut client, name, "scout")
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let racers = names.map(|name| scope.spawn(move || race(name)));
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
    });
    let won = answers.iter().position(Result::is_ok).expect("one has it");
    let lost = 1 - won;
    has_moved(world, &mut client, &before[won], "scout");
    assert_eq!(answers[lost].as_ref().expect_err("one has not").kind(), Some(RefusalKind::Refused));
    let keeps = client.show(&before[lost].name).expect("known");
    assert_eq!((keeps.lineage, keeps.state), (before[lost].lineage.clone(), SessionState::Stopped));
    assert_eq!(renamed_rows(world), 1);
}

#[test]
fn whoever_follows_a_session_goes_along_with_it() {
    let mut world = World::new();
    let mut client = world.anchor();
    ended(&mut client, "agent0");
    let mut events = world.client().attach(&id("agent0"), None).expect("attached");
    rename(&mut client, "agent0", "scout").expect("renamed");
    spawn(&mut client, &speaker("agent0"));
    spawn(&mut client, &speaker("scout"));
    let mut told = Vec::new();
    while told.len() < 3 {
        let event = events.next(Some(LONG)).expect("lives").expect("told");
        told.push((event.kind, event.session.expect("of one")));
    }
    let wanted = [(EventKind::Renamed, "agent0"), (EventKind::Spawn, "scout"), (EventKind::Started, "scout")];
    assert_eq!(told, wanted.map(|(kind, name)| (kind, id(name))));
}

#[test]
fn whoever_comes_again_by_the_former_name_gets_the_rows_of_who_is_meant() {
    let mut world = World::new();
    let mut client = world.anchor();
    let before = ended(&mut client, "agent0");
    rename(&mut client, "agent0", "scout").expect("renamed");
    let first = |since: u64| {
        let mut events = world.client().attach(&id("agent0"), Some(since)).expect("attached");
        let event = events.next(Some(LONG)).expect("lives").expect("told");
        (event.kind, event.lineage.expect("of one"))
    };
    let (kind, lineage) = first(0);
    assert_eq!((kind, &lineage), (EventKind::Spawn, &before.lineage), "nobody else was ever called so");
    let other = spawn(&mut client, &speaker("agent0"));
    assert_eq!(first(0), (EventKind::Spawn, other.lineage), "the rows of who has the name, and no others");
}

/// Nobody uses either name of a rename that was cut at `point`, and whoever may then finishes it.
fn cut(point: &str, dies: bool) {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", format!("{point}={}", if dies { "kill" } else { "error" }));
    let mut client = world.anchor_by(serve);
    let before = ended(&mut client, "agent0");
    rename(&mut client, "agent0", "scout").expect_err("it is cut");
    // Somebody, for now, keeps it from being finished.
    let held = Lock::try_take(world.layout().worker_lock(&before.name)).expect("ours").expect("free");
    if dies {
        world.kill_anchor();
        client = world.anchor();
    }
    assert_eq!(client.show(&id("scout")).expect("known").lineage, before.lineage, "{point}");
    assert_eq!(kind(client.show(&id("agent0"))), Some(RefusalKind::NotFound));
    for name in ["agent0", "scout"] {
        let started = client.spawn(&speaker(name), &Guard::none());
        assert_eq!(kind(started), Some(RefusalKind::Busy), "{point}: {name}");
    }
    drop(held);
    if !dies {
        rename(&mut client, "agent0", "scout").expect("a repeat goes on");
        has_moved(&world, &mut client, &before, "scout");
    }
    let other = spawn(&mut client, &speaker("agent0"));
    assert_ne!(other.lineage, before.lineage, "{point}");
    assert_eq!(said(&world.root, &id("scout")), "agent0.1\n", "{point}");
    let next = spawn(&mut client, &speaker("scout"));
    assert_eq!((&next.lineage, next.generation), (&before.lineage, Generation(2)), "{point}");
    // What was finished is not begun again by those who come later.
    world.kill_anchor();
    let mut client = world.anchor();
    for lives in [&other, &next] {
        assert_eq!(client.show(&lives.name).expect("known").program, lives.program, "{point}");
    }
}

#[test]
fn a_rename_that_is_cut_keeps_both_names_closed_until_it_is_finished() {
    for point in ["anchor.rename.journalled", "anchor.rename.described"] {
        cut(point, true);
        cut(point, false);
    }
}

pub(crate) static RENAME: Case = Case {
    name: "rename",
    journal_bytes: MANY,
    stage: |world| {
        let mut client = world.anchor();
        let session = ended(&mut client, "agent0");
        world.kill_anchor();
        session
    },
    ask: |world, session| {
        world_client(world)
            .is_some_and(|mut client| client.rename(&session.name, &id("scout"), &once()).is_ok())
    },
    judge: |world, before, told| {
        let mut client = world.anchor();
        if told {
            has_moved(world, &mut client, before, "scout");
        }
        for _ in 0..2 {
            let renamed =
                repeated("the rename", || client.rename(&before.name, &id("scout"), &once())).expect("done");
            assert_eq!((&renamed.name, &renamed.lineage), (&id("scout"), &before.lineage));
        }
        has_moved(world, &mut client, before, "scout");
        assert_eq!((renamed_rows(world), ends(world)), (1, 1), "each is told once");
        let other = spawn(&mut client, &speaker("agent0"));
        assert_eq!((other.generation, other.lineage == before.lineage), (Generation(1), false));
        let next = spawn(&mut client, &by_policy(sleeper("scout")));
        assert_eq!((&next.lineage, next.generation), (&before.lineage, Generation(2)));
        runs_alone(&next);
    },
};
