//! Watches: what is heard, also where more happens than the system keeps in mind.

use std::process::Command;
use std::time::Duration;

use netsky_disk::watch::{Wake, Watch};

use crate::skipped::skipped;

/// Says that this test program is the one within the namespace.
const WITHIN: &str = "NETSKY_TEST_WITHIN";
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

#[test]
fn a_queue_that_ran_over_is_an_event_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::new(&[folder.path()]).unwrap();
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    // Two events each, so the queue runs over on the way.
    for n in 0..limit / 2 + 100 {
        std::fs::write(folder.path().join(n.to_string()), "").unwrap();
    }
    assert_eq!(watch.wait(LONG).unwrap(), Wake::Event);
    assert_eq!(watch.wait(SHORT).unwrap(), Wake::Timeout, "all that was heard is one event");
    std::fs::write(folder.path().join("late"), "").unwrap();
    assert_eq!(watch.wait(LONG).unwrap(), Wake::Event, "it goes on hearing");
}

#[test]
fn one_watch_hears_of_folders_that_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    std::fs::create_dir(&first).unwrap();
    std::fs::create_dir(&second).unwrap();
    let watch = Watch::new(&[&first]).unwrap();
    std::fs::write(second.join("x"), "").unwrap();
    assert_eq!(watch.wait(SHORT).unwrap(), Wake::Timeout);
    watch.add(&second).unwrap();
    watch.add(&second).unwrap();
    std::fs::write(second.join("y"), "").unwrap();
    assert_eq!(watch.wait(LONG).unwrap(), Wake::Event);
    assert!(watch.add(folder.path().join("third")).is_err());
}

/// In a user namespace of its own, whose limits are nobody else's.
fn without_events() {
    let set = |limit: &str, to: u32| {
        std::fs::write(format!("/proc/sys/user/{limit}"), to.to_string()).expect("root in here");
    };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    std::fs::create_dir(&first).unwrap();
    std::fs::create_dir(&second).unwrap();
    set("max_inotify_instances", 0);
    let watch = Watch::new(&[&first]).expect("its waits are timed ones");
    std::fs::write(first.join("x"), "").unwrap();
    assert_eq!(watch.wait(SHORT).unwrap(), Wake::Timeout);
    set("max_inotify_instances", 1);
    set("max_inotify_watches", 1);
    watch.add(&first).unwrap();
    std::fs::write(first.join("y"), "").unwrap();
    assert_eq!(watch.wait(LONG).unwrap(), Wake::Event, "as soon as there is one");
    watch.add(&second).expect("no room for a second");
    std::fs::write(second.join("x"), "").unwrap();
    assert_eq!(watch.wait(SHORT).unwrap(), Wake::Timeout);
    assert!(watch.add(folder.path().join("third")).is_err());
    set("max_inotify_watches", 2);
    watch.add(&second).unwrap();
    std::fs::write(second.join("y"), "").unwrap();
    assert_eq!(watch.wait(LONG).unwrap(), Wake::Event);
}

#[test]
fn emfile_enospc_where_the_users_events_are_used_up_a_wait_runs_out() {
    if std::env::var_os(WITHIN).is_some() {
        return without_events();
    }
    const APART: [&str; 2] = ["--user", "--map-root-user"];
    let tried = Command::new("unshare").args(APART).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        return skipped("unshare with a user namespace");
    }
    let output = Command::new("unshare")
        .args(APART)
        .arg(std::env::current_exe().expect("a file of our own"))
        .args(["--exact", "watches::emfile_enospc_where_the_users_events_are_used_up_a_wait_runs_out"])
        .args(["--test-threads", "1"])
        .env(WITHIN, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
