//! The clock word across threads, damage and a change of boot.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::hlc::SharedClock;
use netsky_disk::lock::Lock;
use netsky_model::hlc::Hlc;

fn next(clock: &SharedClock) -> Hlc {
    clock.next(|| Ok(Hlc(0))).unwrap()
}

fn open(state: &Dir) -> SharedClock {
    SharedClock::open(state).unwrap()
}

#[test]
fn t5_readings_of_many_writers_are_distinct_and_rise() {
    let temp = tempfile::tempdir().unwrap();
    let state = Dir::create(temp.path().join("state")).unwrap();
    let mut all: Vec<Hlc> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let clock = open(&state);
                    let read: Vec<Hlc> = (0..500).map(|_| next(&clock)).collect();
                    assert!(read.is_sorted());
                    read
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2_000);
}

#[test]
fn t16_a_clock_whose_lock_another_process_keeps_is_waited_for_a_while_and_said() {
    let temp = tempfile::tempdir().unwrap();
    let state = Dir::create(temp.path().join("state")).unwrap();
    let _stopped = Lock::try_take(state.path().join("clock.lock")).unwrap().unwrap();
    let (tells, told) = std::sync::mpsc::channel();
    // Left alone where it does not come back: the test must end.
    std::thread::spawn(move || tells.send(SharedClock::open(&state).map(drop)));
    let refused = told.recv_timeout(Duration::from_secs(60)).expect("it gives up").unwrap_err();
    assert!(refused.is_kept() && !refused.is_of_one_file(), "{refused}");
    let path = temp.path().join("state/clock.lock");
    let line = format!("wait for lock {}: another process has had it for 10 s", path.display());
    assert_eq!(refused.to_string(), line);
}

#[test]
fn a_lost_word_starts_above_the_ceiling() {
    let temp = tempfile::tempdir().unwrap();
    let state = Dir::create(temp.path().join("state")).unwrap();
    let before = next(&open(&state));
    // A power cut keeps the durable ceiling and loses the word; another boot looks the same.
    let file = std::fs::OpenOptions::new().write(true).open(state.path().join("clock")).unwrap();
    file.write_all_at(&[0; 8], 32).unwrap();
    let after = next(&open(&state));
    assert!(after.millis() > before.millis() + 500_000, "{before} {after}");
}

#[test]
fn a_damaged_clock_asks_for_the_highest_name() {
    let temp = tempfile::tempdir().unwrap();
    let state = Dir::create(temp.path().join("state")).unwrap();
    next(&open(&state));
    let file = std::fs::OpenOptions::new().write(true).open(state.path().join("clock")).unwrap();
    file.write_all_at(&[0xff; 40], 0).unwrap();
    let highest = Hlc::at(u64::MAX >> 17);
    assert!(open(&state).next(|| Ok(highest)).unwrap() > highest);
}

#[test]
fn t5_the_names_are_read_while_nobody_waits_for_the_clock_and_who_starts_it_meanwhile_is_above_them() {
    let temp = tempfile::tempdir().unwrap();
    let state = Dir::create(temp.path().join("state")).unwrap();
    let (slow, quick) = (open(&state), open(&state));
    let far = Hlc::at(u64::MAX >> 17);
    let mut meanwhile = None;
    let after = slow.next(|| {
        let lock = Lock::try_take(state.path().join("clock.lock")).unwrap();
        assert!(lock.is_some(), "others would wait for all names to be read");
        drop(lock);
        meanwhile = Some(quick.next(|| Ok(far)).unwrap());
        Ok(Hlc(0))
    });
    let meanwhile = meanwhile.unwrap();
    assert!(meanwhile > far && after.unwrap() > meanwhile);
}
