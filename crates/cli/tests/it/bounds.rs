//! A15: a question ends at its time, whatever whoever asked it has done to signals and to standard error.

use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::bus_home::Home;

/// A question that may take a second has ended by then, on however busy a machine; it is killed then (124).
const SOON: &str = "30s";

/// Minutes, in one call between whose begin and end SQLite does not look at the clock.
const LONG: &str = "SELECT instr(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b')";

fn question(home: &Home, before: &[&str]) -> Command {
    home.netsky(["query", "SELECT 1"]).expect("there is a database");
    let mut command = Command::new("timeout");
    command.arg(SOON).args(before).args([env!("CARGO_BIN_EXE_netsky"), "query", LONG, "--timeout", "1s"]);
    command.env("NETSKY_HOME", home.path()).stdin(Stdio::null());
    command
}

#[test]
fn a15_a_question_ends_where_standard_error_takes_nothing() {
    let home = Home::init();
    let (_nobody_reads, full) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
    while rustix::io::write(&full, &[b'x'; 4096]) != Err(Errno::AGAIN) {}
    fcntl_setfl(&full, OFlags::empty()).expect("who writes to it waits");
    let ended = question(&home, &[]).stderr(full).status().expect("starts");
    assert_eq!(ended.code(), Some(5));
}

#[test]
fn a15_a_question_ends_where_alarms_were_blocked_by_who_started_it() {
    let home = Home::init();
    let ended = question(&home, &["env", "--block-signal=ALRM"]).output().expect("starts");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(said.contains("takes longer than 1s") && said.lines().count() == 1, "{said}");
}

#[test]
fn a15_fm_rebuild_a_question_that_is_ended_tells_of_the_damage_that_was_mended_before_it() {
    let home = Home::init();
    let mut question = question(&home, &[]);
    std::fs::write(home.path().join("meta.db"), vec![0xa5; 10_000]).expect("garbage");
    let ended = question.output().expect("starts");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(said.contains("meta.db.damaged-1") && said.contains("takes longer than 1s"), "{said}");
}
