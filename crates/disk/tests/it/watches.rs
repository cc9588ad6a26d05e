//! Watches: what is heard, also where more happens than the system keeps in mind.

use std::time::Duration;

use netsky_disk::watch::{Wake, Watch};

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
