//! Sweeping finds what left its group, its session and its parent.

use std::process::Command;
use std::time::Duration;

use netsky_disk::process::{PidFd, Signal, is_alive};
use netsky_disk::sweep;

use crate::bystander::Bystander;

const LIMIT: Duration = Duration::from_secs(60);

/// Whatever bears this mark is ended when dropped, also by a test that fails.
struct Marked<'a>(&'static str, &'a str);

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        let _ = sweep::sweep_marked(self.0, self.1, LIMIT);
    }
}

#[test]
fn t12_the_environment_mark_finds_what_called_setsid() {
    let mark = netsky_disk::random::token();
    let _swept = Marked("OSTK_MARK", &mark);
    let mut shell = Command::new("sh")
        .args(["-c", "setsid sleep 300 & sleep 300 & wait"])
        .env("OSTK_MARK", &mark)
        .spawn()
        .unwrap();
    while sweep::marked("OSTK_MARK", &mark).unwrap().len() < 3 {
        std::thread::yield_now();
    }
    let swept = sweep::sweep_marked("OSTK_MARK", &mark, LIMIT).unwrap();
    shell.wait().unwrap();
    assert!(swept.killed >= 3 && swept.left.is_empty(), "{swept:?}");
    assert!(sweep::marked("OSTK_MARK", &mark).unwrap().is_empty());
}

#[test]
fn a_held_process_is_waited_for_and_signalled_by_identity() {
    let child = Bystander::start(Command::new("sleep").arg("300"));
    let id = child.id.clone();
    let held = PidFd::open(&id).unwrap().unwrap();
    assert!(!held.wait(Duration::from_millis(1)).unwrap());
    assert!(held.signal(Signal::KILL).unwrap());
    assert!(held.wait(LIMIT).unwrap());
    assert!(!is_alive(&id), "a zombie counts as dead");
    drop(child);
    assert!(PidFd::open(&id).unwrap().is_none());
}

#[test]
fn a_bystander_of_a_test_ends_with_it_and_so_does_what_it_started() {
    let shell = Bystander::start(Command::new("sh").args(["-c", "sleep 300 & wait"]));
    let below = loop {
        if let Some(below) = sweep::descendants(shell.id.pid).unwrap().pop() {
            break PidFd::open(&below).unwrap().unwrap();
        }
        std::thread::yield_now();
    };
    drop(shell);
    assert!(below.wait(LIMIT).unwrap());
}

#[test]
fn what_stands_apart_is_no_part_of_the_tree() {
    // The value is ours alone, so that only what this test started is swept.
    let apart = netsky_disk::random::token();
    let _swept = Marked("OSTK_APART", &apart);
    // What is swept is started first: once the two that stand apart are seen, it is there.
    let script = format!("sleep 300 & OSTK_APART={apart} sh -c 'sleep 300 & wait' & wait");
    let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let all = || sweep::marked("OSTK_APART", &apart).unwrap();
    while all().len() < 2 {
        std::thread::yield_now();
    }
    let swept = sweep::sweep_descendants(shell.id(), LIMIT).unwrap();
    let left = all().len();
    sweep::sweep_marked("OSTK_APART", &apart, LIMIT).unwrap();
    shell.wait().unwrap();
    assert_eq!((swept.killed, left), (1, 2), "{swept:?}");
}
