//! A disk that refuses what is whole, under real anchors: it is said, and nothing that may be whole counts as damage.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netsky_kernel::client::Client;
use netsky_kernel::drain::Report;
use netsky_kernel::rpc::{EventKind, Guard, SessionView};
use netsky_sim::{Call, Errno, Fault, Served};

use crate::anchor_world::*;
use crate::steps::{connected, stepper};

/// An anchor to which one call on `file` is refused, once that is armed.
fn refused(
    world: &World,
    call: Call,
    file: PathBuf,
    errno: Errno,
    armed: &Arc<AtomicBool>,
) -> (Served, Client) {
    let armed = Arc::clone(armed);
    let here = move |point: &netsky_sim::Point| {
        point.call == call && point.files.contains(&file) && armed.load(Ordering::SeqCst)
    };
    let serve: [&OsStr; 3] = ["serve".as_ref(), "--root".as_ref(), world.root.as_os_str()];
    let served = stepper(&world.root).args(serve).serve(here, Fault::Fail(errno)).expect("it is watched");
    let client = connected(world, &served).expect("it serves");
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
            let (served, mut client) = refused(&world, Call::Open, file(refused_one), errno, &armed);
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
