//! A disk that refuses what is whole, under real anchors: it is said, and nothing that may be whole counts as damage.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netsky_disk::process::is_alive;
use netsky_kernel::client::Client;
use netsky_kernel::drain::Report;
use netsky_kernel::rpc::{EventKind, Guard, SessionView};
use netsky_sim::{Call, Errno, Fault, Moment, Point, Served};

use crate::anchor_world::*;
use crate::steps::{connected, stepper};

/// An anchor to which the `nth` call of a kind on `file` is refused, counted from when that is armed; no client where it
/// ended before it served.
fn refused(
    world: &World,
    (call, nth): (Call, usize),
    file: PathBuf,
    errno: Errno,
    armed: &Arc<AtomicBool>,
) -> (Served, Option<Client>) {
    let (armed, mut met) = (Arc::clone(armed), 0);
    let here = move |point: &Point| {
        let is_one = point.call == call && point.moment == Moment::Entry && point.files.contains(&file);
        met += usize::from(is_one && armed.load(Ordering::SeqCst));
        is_one && met == nth
    };
    let serve: [&OsStr; 3] = ["serve".as_ref(), "--root".as_ref(), world.root.as_os_str()];
    let served = stepper(&world.root).args(serve).serve(here, Fault::Fail(errno)).expect("it is watched");
    let client = connected(world, &served);
    (served, client)
}

/// A session that has told so many turns, and its anchor is gone.
fn told(world: &mut World, turns: u64) -> SessionView {
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    (0..turns).for_each(|_| drop(turn(&mut client, &session)));
    world.kill_anchor();
    session
}

fn turn(client: &mut Client, session: &SessionView) -> netsky_kernel::rpc::report::Answer {
    client.report(&session.name, &Report::Turn(Box::default()), &Guard::none()).expect("taken")
}

/// The turn that a snapshot is of.
fn turn_of(file: &Path) -> u64 {
    let snapshot: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file).expect("there")).expect("whole");
    snapshot["turn"].as_u64().expect("a number")
}

/// Names in a folder that say of a file that it was set aside.
fn aside(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("a folder");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.contains("damaged")).collect()
}

#[test]
fn fm_snapshot_eio_one_that_the_disk_does_not_hand_out_stays_where_it_is() {
    for errno in [Errno::EIO, Errno::EMFILE, Errno::ENFILE] {
        for refused_one in ["json", "prev.json"] {
            let mut world = World::new();
            let session = told(&mut world, 2);
            let folder = world.layout().drain();
            let file = |ending: &str| folder.join(format!("{}.{ending}", session.lineage));
            let before = ["json", "prev.json"].map(|ending| std::fs::read(file(ending)).expect("there"));
            let armed = Arc::new(AtomicBool::new(false));
            let (served, client) = refused(&world, (Call::Open, 1), file(refused_one), errno, &armed);
            let mut client = client.expect("it serves");
            armed.store(true, Ordering::SeqCst);
            let answer = turn(&mut client, &session);
            assert_eq!(answer.progress.turn, 3, "the report is taken");
            let why = answer.unsnapped.expect("and the disk's error told");
            assert!(why.contains(refused_one) && why.contains("os error"), "{why}");
            let after = ["json", "prev.json"].map(|ending| std::fs::read(file(ending)).expect("there"));
            assert_eq!(aside(&folder), [] as [String; 0], "{errno} of {refused_one}");
            assert_eq!(after, before, "{errno} of {refused_one}");
            assert!(!rows(&world).iter().any(|row| row.kind == EventKind::Damaged));
            // It was of one time.
            assert_eq!(turn(&mut client, &session).unsnapped, None);
            assert_eq!(["json", "prev.json"].map(|ending| turn_of(&file(ending))), [4, 2]);
            assert!(served.end().expect("it was watched").outcome.hit.is_some());
        }
    }
}

/// Files that were moved or synced behind the refused call, in that order, as they are called below `folder`.
fn after_it(served: Served, folder: &Path) -> Vec<String> {
    let watched = served.end().expect("it was watched");
    let hit = watched.outcome.hit.expect("it was refused").index;
    // The refused one has an exit, too.
    let after = watched.points.iter().filter(|point| point.index > hit + 1 && point.moment == Moment::Exit);
    let after = after.filter(|point| point.files.iter().all(|file| file.starts_with(folder)));
    let name = |file: &PathBuf| {
        let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().into_owned();
        if name.starts_with("tmp/") { "scratch".to_owned() } else { name }
    };
    let said = after.filter(|point| [Call::Rename, Call::Sync].contains(&point.call)).map(|point| {
        let files: Vec<String> = point.files.iter().map(name).collect();
        if point.call == Call::Sync { format!("sync {}", files.join("")) } else { files.join(" -> ") }
    });
    said.collect()
}

#[test]
fn fm_snapshot_eio_a_log_that_could_not_be_synced_is_written_anew_before_anything_follows() {
    let mut world = World::new();
    let session = told(&mut world, 1);
    let folder = world.layout().drain();
    let name = |ending: &str| format!("{}.turns{ending}.jsonl", session.lineage);
    let log = folder.join(name(""));
    let armed = Arc::new(AtomicBool::new(false));
    let (served, client) = refused(&world, (Call::Sync, 1), log.clone(), Errno::EIO, &armed);
    let mut client = client.expect("it serves");
    // A row that nothing synced, and that the failed sync was about, too.
    let phase = Report::Phase { phase: "busy".to_owned(), until: None };
    client.report(&session.name, &phase, &Guard::none()).expect("taken");
    let former = File::open(&log).expect("there");
    let held = std::fs::read(&log).expect("reads");
    armed.store(true, Ordering::SeqCst);
    let turn_2 = Report::Turn(Box::default());
    client.report(&session.name, &turn_2, &Guard::none()).expect_err("it may be lost");
    let now = std::fs::metadata(&log).expect("there");
    assert_ne!(now.ino(), former.metadata().expect("open").ino(), "nothing is appended to that one");
    assert_eq!(std::fs::read(&log).expect("reads"), held, "the refused row is in neither");
    let answer = turn(&mut client, &session);
    assert_eq!((answer.progress.turn, answer.progress.phase.as_deref()), (2, Some("busy")));
    let steps = after_it(served, &folder);
    let (log, next) = (name(""), name(".next"));
    let anew = [
        format!("{log} -> {next}"),
        "sync scratch".to_owned(),
        format!("scratch -> {next}"),
        "sync ".to_owned(),
        format!("{next} -> {log}"),
        "sync ".to_owned(),
        format!("sync {log}"),
    ];
    assert_eq!(steps[..anew.len()], anew, "{steps:#?}");
}

#[test]
fn fm_spawn_eio_a_journal_that_could_not_be_synced_is_written_anew_for_the_next_anchor() {
    let mut world = World::new();
    drop(world.anchor());
    world.kill_anchor();
    let journal = world.layout().journal();
    let armed = Arc::new(AtomicBool::new(false));
    let (served, client) = refused(&world, (Call::Sync, 1), journal.clone(), Errno::EIO, &armed);
    let mut client = client.expect("it serves");
    let anchor = client.hello().anchor.clone();
    let former = File::open(&journal).expect("there");
    armed.store(true, Ordering::SeqCst);
    client.spawn(&sleeper("agent0"), &Guard::none()).expect_err("its row may be lost");
    until("the anchor leaves", || (!is_alive(&anchor)).then_some(()));
    let steps = after_it(served, &world.root);
    let anew = ["sync scratch".to_owned(), "scratch -> journal.jsonl".to_owned(), "sync ".to_owned()];
    assert_eq!(steps[..anew.len()], anew, "{steps:#?}");
    let now = std::fs::metadata(&journal).expect("there");
    assert_ne!(now.ino(), former.metadata().expect("open").ino());
    let mut client = world.anchor();
    until("what was begun is over", || client.spawn(&sleeper("agent0"), &Guard::none()).ok());
    crate::rotation::is_whole(&world);
}

#[test]
fn fm_spawn_eio_heads_that_could_not_be_synced_are_written_anew_before_another_is_kept() {
    let mut world = World::new();
    drop(world.anchor());
    world.kill_anchor();
    let heads = world.root.join("heads/heads.jsonl");
    let former = File::open(&heads).expect("there");
    // The head of its start is kept before it serves.
    let armed = Arc::new(AtomicBool::new(true));
    let (served, client) = refused(&world, (Call::Sync, 1), heads.clone(), Errno::EIO, &armed);
    drop(client.expect("it serves"));
    let steps = after_it(served, &world.root.join("heads"));
    let anew = ["sync scratch".to_owned(), "scratch -> heads.jsonl".to_owned(), "sync ".to_owned()];
    assert_eq!(steps[..anew.len()], anew, "{steps:#?}");
    let now = std::fs::metadata(&heads).expect("there");
    assert_ne!(now.ino(), former.metadata().expect("open").ino());
    drop(world.anchor());
    crate::rotation::is_whole(&world);
}

#[test]
fn fm_spawn_emfile_a_key_that_the_disk_does_not_hand_out_is_no_damage_and_stays_the_key() {
    for errno in [Errno::EIO, Errno::EMFILE] {
        // Where an anchor judges its journal, ends judging, and goes on with its heads.
        for nth in 1..=3 {
            let mut world = World::new();
            drop(world.anchor());
            world.kill_anchor();
            let file = world.root.join("heads/key");
            let key = std::fs::read(&file).expect("there");
            let armed = Arc::new(AtomicBool::new(true));
            let (served, _) = refused(&world, (Call::Open, nth), file.clone(), errno, &armed);
            assert!(served.end().expect("it was watched").outcome.hit.is_some(), "{nth}");
            drop(world.anchor());
            assert_eq!(std::fs::read(&file).expect("there"), key, "{errno} at {nth}");
            assert_eq!(aside(&world.root.join("heads")), [] as [String; 0], "{errno} at {nth}");
            assert!(!rows(&world).iter().any(|row| row.kind == EventKind::Damaged), "{errno} at {nth}");
            crate::rotation::is_whole(&world);
        }
    }
}

#[test]
fn t18_a_handoff_that_cannot_be_looked_at_just_now_takes_no_other_one_s_place() {
    let mut world = World::new();
    let session = told(&mut world, 1);
    let file =
        |ending: &str| world.layout().drain().join(format!("{}.handoff{ending}.json", session.lineage));
    let armed = Arc::new(AtomicBool::new(false));
    let (served, client) = refused(&world, (Call::Open, 1), file(""), Errno::EMFILE, &armed);
    let mut client = client.expect("it serves");
    let used = 75.try_into().expect("a percentage");
    client.report(&session.name, &Report::Context { used }, &Guard::none()).expect("taken");
    std::fs::write(file(".prev"), "of before").expect("writes");
    armed.store(true, Ordering::SeqCst);
    let why = turn(&mut client, &session).unsnapped.expect("it is told");
    assert!(why.contains("handoff.json"), "{why}");
    assert_eq!(turn(&mut client, &session).unsnapped, None);
    assert_eq!(std::fs::read_to_string(file(".prev")).expect("there"), "of before");
    assert!(served.end().expect("it was watched").outcome.hit.is_some());
}

#[test]
fn fm_rehydrate_eio_the_snapshot_before_and_the_rows_since_are_gone_on_from() {
    for (errno, goes_on) in [(Errno::EIO, true), (Errno::EMFILE, false)] {
        let mut world = World::new();
        let session = told(&mut world, 3);
        let folder = world.layout().drain();
        let file = folder.join(format!("{}.json", session.lineage));
        let before = std::fs::read(&file).expect("there");
        let armed = Arc::new(AtomicBool::new(true));
        let (served, client) = refused(&world, (Call::Open, 1), file.clone(), errno, &armed);
        drop(client.expect("it serves"));
        let named = |row: &netsky_kernel::rpc::Event| {
            let why = row.data["why"].as_str().unwrap_or_default().to_owned();
            (row.kind == EventKind::Damaged).then_some(why)
        };
        let told: Vec<String> = rows(&world).iter().filter_map(named).collect();
        assert_eq!(told.iter().any(|why| why.contains("os error 5")), goes_on, "{told:?}");
        assert_eq!((std::fs::read(&file).expect("there"), aside(&folder)), (before, vec![]));
        let answer = turn(&mut world.client(), &session);
        assert_eq!((answer.progress.turn, answer.unsnapped), (4, None));
        assert!(served.end().expect("it was watched").outcome.hit.is_some());
    }
}

#[test]
fn fm_adopt_emfile_an_anchor_that_cannot_open_a_sealed_file_does_not_go_on_without_its_rows() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("OSTK_JOURNAL_BYTES", "1500");
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, &sleeper("agent0"));
    (0..9).for_each(|_| drop(turn(&mut client, &session)));
    world.kill_anchor();
    let sealed = crate::rotation::sealed(&world).first().expect("it sealed one").name();
    // What is known of the rows before does not hold: all files are read.
    let journal = std::fs::read_to_string(world.layout().journal()).expect("reads");
    std::fs::write(world.layout().journal(), journal.replacen("\"fold\":{", "\"fold\": {", 1))
        .expect("writes");
    let armed = Arc::new(AtomicBool::new(true));
    let file = world.root.join(&sealed);
    let (served, client) = refused(&world, (Call::Open, 1), file, Errno::EMFILE, &armed);
    assert!(client.is_none(), "it ends");
    let watched = served.end().expect("it was watched");
    assert!(watched.outcome.hit.is_some() && watched.outcome.run.stderr.contains(&sealed));
    let found = world.anchor().show(&session.name).expect("known");
    assert_eq!((found.program, found.progress.turn), (session.program, 9));
}
