//! What a start answers about what it started.

use std::time::Duration;

use netsky_disk::process::{PidFd, Signal, probe};
use netsky_disk::spawn::{Ended, Program};
use netsky_model::process::Life;

fn sleep(seconds: &str) -> Program {
    Program { path: "/bin/sleep".into(), args: vec![seconds.to_owned()], ..Program::default() }
}

#[test]
fn t8_what_was_detached_is_alive_and_dead_when_it_has_ended() {
    let running = sleep("300").detach().unwrap();
    assert_eq!(probe(&running), Life::Alive);
    let held = PidFd::open(&running).unwrap().unwrap();
    held.signal(Signal::KILL).unwrap();
    assert!(held.wait(Duration::from_secs(60)).unwrap());
    assert_eq!(probe(&running), Life::Dead);
    // However fast it ends, its identity is one of this boot and namespace: dead, not unknown.
    for _ in 0..20 {
        let ended = sleep("0").detach().unwrap();
        assert_ne!(probe(&ended), Life::Unknown, "{ended:?}");
    }
}

#[test]
fn what_runs_past_its_limit_is_killed() {
    assert_eq!(sleep("0").run(Duration::from_secs(60)).unwrap(), Ended::Exited(Some(0)));
    assert_eq!(sleep("300").run(Duration::from_millis(20)).unwrap(), Ended::TooLate);
}
