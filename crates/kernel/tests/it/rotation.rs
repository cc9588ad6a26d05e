//! A journal that goes on in new files, by real anchors: nobody who reads it notices, whatever becomes of them.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use netsky_disk::fs::Dir;
use netsky_disk::layout::{JOURNAL, Sealed};
use netsky_kernel::client::{Client, Follow};
use netsky_kernel::drain::Report;
use netsky_kernel::rpc::{EventKind, Guard};
use netsky_sim::{Call, Fault, Moment};

use crate::anchor_world::*;
use crate::steps::{connected, stepper};

/// The names of the sealed files, the oldest first.
pub(crate) fn sealed(world: &World) -> Vec<Sealed> {
    Sealed::all(&Dir::open(&world.root).expect("a root")).expect("reads")
}

/// An anchor that seals a file with every row or so.
fn sealing(world: &mut World) -> Client {
    let mut serve = world.serve();
    serve.env("OSTK_JOURNAL_BYTES", "1500");
    world.anchor_by(serve)
}

fn say(client: &mut Client, n: u64, guard: &Guard) {
    let report = Report::SessionId { session_id: format!("c{n}"), transcript: None };
    client.report(&id("agent0"), &report, guard).expect("told");
}

/// The table that the rows of all files make equals the one of the anchor that read the newest file alone.
pub(crate) fn tables_agree(world: &World) {
    let folded = netsky_kernel::anchor::folded(&world.layout().journal()).expect("reads");
    let of = |name: &str, lineage: String, generation: u64| (name.to_owned(), (lineage, generation));
    let folded: BTreeMap<_, _> =
        folded.iter().map(|one| of(one.name.as_str(), one.lineage.to_string(), one.generation.0)).collect();
    let served = world.client().list().expect("answers");
    let served: BTreeMap<_, _> =
        served.iter().map(|one| of(one.name.as_str(), one.lineage.to_string(), one.generation.0)).collect();
    assert_eq!(folded, served);
}

pub(crate) fn is_whole(world: &World) {
    let audit = netsky_kernel::audit::journal(&world.layout().journal(), |_, _| {}).expect("reads");
    let audit = audit.expect("there");
    // What an anchor told of an error that was made for it is no damage now.
    let is_damage = !audit.broken.is_empty() || !audit.files.is_empty() || audit.heads.is_damage();
    assert!(!is_damage, "{audit:?}");
    assert_eq!(audit.rows, audit.head, "each row is there once");
}

#[test]
fn who_follows_gets_every_row_once_while_files_are_sealed_and_anchors_killed() {
    let mut world = World::new();
    let mut client = sealing(&mut world);
    spawn(&mut client, &sleeper("agent0"));
    let root = world.root.clone();
    let follower = std::thread::spawn(move || {
        let mut rows = Follow::all(&root, 0);
        let mut told = Vec::new();
        loop {
            let event = rows.next(Some(LONG)).expect("an anchor comes").expect("a row comes");
            told.push((event.seq, event.kind));
            if event.session.is_some_and(|name| name.as_str() == "last") {
                return told;
            }
        }
    });
    for n in 0..5 {
        for step in 0..n * 9 {
            say(&mut client, n * 100 + step, &Guard::none());
        }
        world.kill_anchor();
        client = sealing(&mut world);
    }
    spawn(&mut client, &sleeper("last"));
    let told = follower.join().expect("no panic");
    let seqs: Vec<u64> = told.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no row is lost and none comes twice");
    assert!(!told.iter().any(|(_, kind)| *kind == EventKind::Gap));
    let files = sealed(&world);
    assert!(files.len() > 10, "{files:?}");
    assert!(files.windows(2).all(|two| two[0].last + 1 == two[1].first) && files[0].first == 1, "{files:?}");
    assert!(rows(&world).len() >= seqs.len(), "and who asks for all gets them from all files");
    is_whole(&world);
    tables_agree(&world);
}

#[test]
fn what_was_answered_before_files_were_sealed_is_known_to_the_next_anchor() {
    let mut world = World::new();
    let mut client = sealing(&mut world);
    let once = Guard { if_generation: None, request_id: Some("the-one".to_owned()) };
    let first = client.spawn(&sleeper("agent0"), &once).expect("it starts");
    for n in 0..30 {
        say(&mut client, n, &Guard::none());
    }
    world.kill_anchor();
    assert!(sealed(&world).len() > 5);
    // What it is told by is what the newest file says: the others are not there to be asked.
    let away = world.root.join("away");
    std::fs::create_dir(&away).expect("made");
    for file in sealed(&world) {
        std::fs::rename(world.root.join(file.name()), away.join(file.name())).expect("moved");
    }
    let mut client = world.anchor();
    let again = client.spawn(&sleeper("agent0"), &once).expect("it was answered");
    assert_eq!((&again.program, again.generation), (&first.program, first.generation));
    // Rows that are gone are one gap.
    let mut rows = Follow::all(&world.root, 0);
    let gap = rows.next(Some(LONG)).expect("an anchor serves").expect("a row comes");
    let next = rows.next(Some(LONG)).expect("an anchor serves").expect("a row comes");
    assert_eq!((gap.kind, next.kind, next.seq), (EventKind::Gap, EventKind::Rotated, gap.seq + 1));
}

#[test]
fn l2_a_next_file_that_gets_no_name_leaves_the_anchor_in_the_old_one() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("OSTK_JOURNAL_BYTES", "1500").env("NETSKY_FAULT", "anchor.journal.sealed=error");
    let mut client = world.anchor_by(serve);
    spawn(&mut client, &sleeper("agent0"));
    for n in 0..10 {
        say(&mut client, n, &Guard::none());
    }
    assert!(sealed(&world).is_empty() && world.layout().journal().exists());
    is_whole(&world);
    world.kill_anchor();
    let mut client = sealing(&mut world);
    say(&mut client, 10, &Guard::none());
    assert_eq!(sealed(&world).len(), 1);
    is_whole(&world);
    tables_agree(&world);
}

#[test]
fn l2_an_anchor_killed_between_two_names_loses_no_row_and_the_next_one_seals_it() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("OSTK_JOURNAL_BYTES", "1500").env("NETSKY_FAULT", "anchor.journal.sealed=kill");
    let mut client = world.anchor_by(serve);
    let spawned = client.spawn(&sleeper("agent0"), &Guard::none());
    let told = |client: &mut Client, n| {
        let report = Report::SessionId { session_id: format!("c{n}"), transcript: None };
        client.report(&id("agent0"), &report, &Guard::none())
    };
    let mut n = 0;
    while spawned.is_ok() && told(&mut client, n).is_ok() {
        n += 1;
    }
    // Its connection went before its lock did.
    world.kill_anchor();
    assert!(!world.root.join(JOURNAL).exists(), "it has no name");
    is_whole(&world);
    let before = rows_on_disk(&world);
    let mut client = sealing(&mut world);
    say(&mut client, 99, &Guard::none());
    assert!(!sealed(&world).is_empty());
    is_whole(&world);
    tables_agree(&world);
    let seqs: Vec<u64> = rows(&world).iter().map(|row| row.seq).collect();
    assert!(seqs.len() as u64 > before);
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

/// What an anchor does to the names of its journal and to what makes them durable, in its order, up to its end.
fn namings(world: &World, journal_bytes: &str) -> Vec<String> {
    let serve: [&OsStr; 3] = ["serve".as_ref(), "--root".as_ref(), world.root.as_os_str()];
    let stepper = stepper(&world.root).env("OSTK_JOURNAL_BYTES", journal_bytes);
    let served = stepper.args(serve).serve(|_| false, Fault::Kill).expect("it is watched");
    drop(connected(world, &served).expect("it greets"));
    let points = served.end().expect("it was watched to its end").points;
    let calls = points.iter().filter(|point| point.moment == Moment::Exit);
    let named = calls.filter_map(|point| {
        let below = |file: &std::path::PathBuf| {
            let name = file.strip_prefix(&world.root).unwrap_or(file).to_string_lossy().into_owned();
            // Of a file on its way to its name only that it is one.
            if name.starts_with("tmp/journal") { "scratch".to_owned() } else { name }
        };
        let files: Vec<String> = point.files.iter().map(below).collect();
        let is_ours =
            files.iter().all(|name| name.is_empty() || name == "scratch" || name.starts_with("journal"));
        let kind = if point.call == Call::Rename { "rename" } else { "sync" };
        let wanted = [Call::Rename, Call::Sync].contains(&point.call) && is_ours;
        wanted.then(|| format!("{kind} {}", files.join(" -> ")))
    });
    named.collect()
}

#[test]
fn l5_each_step_of_a_rotation_is_durable_before_the_next_and_what_is_taken_back_before_the_next_row() {
    let mut world = World::new();
    drop(world.anchor());
    world.kill_anchor();
    let last = rows_on_disk(&world);
    let steps = namings(&world, "1");
    let first = Sealed { first: 1, last: last + 1 }.name();
    let wanted = [
        "sync ".to_owned(),
        "sync journal.jsonl".to_owned(),
        "sync scratch".to_owned(),
        "rename scratch -> journal.next.jsonl".to_owned(),
        "sync ".to_owned(),
        format!("rename journal.jsonl -> {first}"),
        "sync ".to_owned(),
        "rename journal.next.jsonl -> journal.jsonl".to_owned(),
        "sync ".to_owned(),
    ];
    let begins = steps.iter().position(|step| *step == wanted[2]).expect("it seals one");
    assert_eq!(steps[begins - 1..begins + 7], wanted[1..], "{steps:#?}");
    assert_eq!(steps[0], wanted[0], "its name is durable before its rows: {steps:#?}");

    let newest = sealed(&world).pop().expect("sealed").name();
    std::fs::remove_file(world.layout().journal()).expect("there");
    let steps = namings(&world, "100000");
    assert_eq!(steps[..2], [format!("rename {newest} -> {JOURNAL}"), "sync ".to_owned()], "{steps:#?}");
}

fn rows_on_disk(world: &World) -> u64 {
    let audit = netsky_kernel::audit::journal(&world.layout().journal(), |_, _| {}).expect("reads");
    audit.expect("there").head
}
