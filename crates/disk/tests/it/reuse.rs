//! A pid that is handed out again, for real: in a pid namespace, where the next number can be chosen.

use std::process::{Child, Command};
use std::time::Duration;

use netsky_disk::process::{self, PidFd, Signal, identify_child, is_alive, probe};
use netsky_disk::{clock, sweep};
use netsky_model::process::{Life, ProcessId};

use crate::skipped::skipped;

/// Says that this test program is the one within the namespace.
const WITHIN: &str = "NETSKY_TEST_WITHIN";
const MARK: (&str, &str) = ("NETSKY_TEST_MARK", "of-who-had-the-pid-before");

fn start(command: &mut Command) -> (Child, ProcessId) {
    let child = command.arg("1000").spawn().expect("it starts");
    let id = identify_child(child.id()).expect("not waited for");
    (child, id)
}

/// Somebody else with the same number.
fn successor(of: &ProcessId) -> (Child, ProcessId) {
    // Two that start within a tick of the clock look alike.
    clock::pause(Duration::from_millis(20));
    std::fs::write("/proc/sys/kernel/ns_last_pid", (of.pid - 1).to_string()).expect("root in here");
    start(&mut Command::new("sleep"))
}

fn within() {
    for _ in 0..50 {
        let (mut first, gone) = start(Command::new("sleep").env(MARK.0, MARK.1));
        let held = PidFd::open(&gone).expect("a descriptor").expect("it lives");
        first.kill().expect("our own");
        first.wait().expect("our own");
        let (mut second, foreign) = successor(&gone);
        assert_eq!(foreign.pid, gone.pid, "the number was handed out again");
        assert_eq!(probe(&gone), Life::Dead);
        assert!(!process::signal(&gone, Signal::KILL).expect("it is known"));
        assert!(!held.signal(Signal::KILL).expect("it is known"), "held from before");
        assert!(PidFd::open(&gone).expect("it is known").is_none());
        assert!(!process::signal_group_of_child(&gone, Signal::KILL).expect("it is known"));
        let swept = sweep::sweep_marked(MARK.0, MARK.1, Duration::ZERO).expect("/proc reads");
        assert_eq!(swept.killed, 0);
        assert!(is_alive(&foreign), "unharmed");
        second.kill().expect("our own");
        second.wait().expect("our own");
    }
}

#[test]
fn must_show_5_t8_a_foreign_process_with_a_reused_pid_is_unharmed() {
    if std::env::var_os(WITHIN).is_some() {
        return within();
    }
    let tried = Command::new("unshare").args(["--fork", "--pid", "--mount-proc", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        return skipped("unshare with a pid namespace, so root");
    }
    let output = Command::new("unshare")
        .args(["--fork", "--pid", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().expect("a file of our own"))
        .args(["--exact", "reuse::must_show_5_t8_a_foreign_process_with_a_reused_pid_is_unharmed"])
        .args(["--test-threads", "1"])
        .env(WITHIN, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
