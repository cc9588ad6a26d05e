//! Locks end with their holder and are not inherited.

use std::process::Command;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Lock, Seized};

use crate::bystander::Bystander;

/// A child that another test is just starting has every descriptor until its exec, and so what this one let go.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn t16_a_lock_is_exclusive_and_ends_with_its_holder() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("lock");
    assert!(!Lock::is_held(&path).unwrap());
    let mut held = Lock::try_take(&path).unwrap().unwrap();
    held.note(&netsky_disk::process::me()).unwrap();
    assert!(Lock::try_take(&path).unwrap().is_none());
    assert!(Lock::is_held(&path).unwrap());
    let noted: netsky_model::process::ProcessId = Lock::noted(&path).unwrap();
    assert_eq!(noted, netsky_disk::process::me());
    drop(held);
    assert!(Lock::take_within(&path, LIMIT).unwrap().is_some());
    assert!(path.exists(), "never unlinked");
}

#[test]
fn t16_a_child_does_not_inherit_the_lock() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("lock");
    let held = Lock::try_take(&path).unwrap().unwrap();
    let _child = Bystander::start(Command::new("sleep").arg("1000"));
    drop(held);
    let free = Lock::take_within(&path, LIMIT).unwrap().is_some();
    assert!(free, "the sleeping child kept the lock");
}

#[test]
fn a_file_that_moved_on_before_it_was_held_is_gone() {
    const ROUNDS: usize = 3_000;
    const RACERS: usize = 4;
    let temp = tempfile::tempdir().unwrap();
    let (here, there) =
        (Dir::create(temp.path().join("here")).unwrap(), Dir::create(temp.path().join("there")).unwrap());
    let line = std::sync::Barrier::new(RACERS);
    let race = |round: usize| match Hold::take(&here, "x").unwrap() {
        Seized::Held(_hold) => {
            // A second one would find nothing to move; it is counted, and must not leave the others waiting.
            let _ = here.rename("x", &there, format!("{round}"));
            1
        }
        Seized::Busy | Seized::Gone => 0,
    };
    let won: usize = std::thread::scope(|scope| {
        let racer = || {
            (0..ROUNDS).fold(0, |won, round| {
                if line.wait().is_leader() {
                    std::fs::write(here.path().join("x"), "").unwrap();
                }
                line.wait();
                won + race(round)
            })
        };
        let racers: Vec<_> = (0..RACERS).map(|_| scope.spawn(racer)).collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
    });
    assert_eq!(won, ROUNDS, "one a round");
}

#[test]
fn a_held_file_is_held_from_others_until_it_is_let_go() {
    let temp = tempfile::tempdir().unwrap();
    let here = Dir::create(temp.path().join("here")).unwrap();
    std::fs::write(here.path().join("x"), "").unwrap();
    let Seized::Held(hold) = Hold::take(&here, "x").unwrap() else { panic!("nobody else is here") };
    assert!(matches!(Hold::take_within(&here, "x", Duration::from_millis(50)).unwrap(), Seized::Busy));
    drop(hold);
    let free = Hold::take_within(&here, "x", LIMIT).unwrap();
    assert!(matches!(free, Seized::Held(_)));
    assert!(matches!(Hold::take(&here, "y").unwrap(), Seized::Gone));
}
