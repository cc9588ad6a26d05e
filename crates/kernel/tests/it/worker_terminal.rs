//! A worker as its program's terminal: what output costs it, and what it answers.

use netsky_kernel::output_log::LogReader;

use crate::bench::{Bench, TERMINAL, read_until, script, until};

/// The most memory that a process has had so far, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("counted");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// As an image in a line does, or a program that was ended in the middle of its title.
#[test]
fn a12_a_string_of_the_terminal_without_an_end_costs_a_worker_no_memory() {
    const LONG: u64 = 64 << 20;
    let bench = Bench::new();
    let text =
        format!("read go; printf '\\033]1337;File=:'; head -c {LONG} /dev/zero | tr '\\0' x; read stop");
    let session = bench.start(script(TERMINAL, &format!("stty -echo; echo armed; {text}")));
    read_until(&mut session.follower(), "armed");
    let before = peak(session.worker.pid);
    session.client().input(0, b"go\n").expect("types");
    let log = LogReader::open(&bench.layout.out(&bench.name)).expect("opens");
    until(|| (log.span().expect("reads").end > LONG).then_some(()));
    let more = peak(session.worker.pid) - before;
    assert!(more < 8 << 10, "{more} KiB more");
}
