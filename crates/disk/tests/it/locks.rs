//! Locks end with their holder and are not inherited.

use std::process::Command;
use std::time::Duration;

use netsky_disk::lock::Lock;

use crate::bystander::Bystander;

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
    assert!(Lock::try_take(&path).unwrap().is_some());
    assert!(path.exists(), "never unlinked");
}

#[test]
fn t16_a_child_does_not_inherit_the_lock() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("lock");
    let held = Lock::try_take(&path).unwrap().unwrap();
    let _child = Bystander::start(Command::new("sleep").arg("30"));
    drop(held);
    // A child that another test is just starting has every descriptor until its exec; the sleeper would keep it.
    let free = Lock::take_within(&path, Duration::from_secs(5)).unwrap().is_some();
    assert!(free, "the sleeping child kept the lock");
}
