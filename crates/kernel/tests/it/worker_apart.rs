//! A worker that was started from a terminal is none of that terminal's.

use netsky_disk::process::{Signal, is_alive, signal};
use netsky_kernel::session::{Io, ReadyLine};
use netsky_kernel::worker_client::WorkerClient;
use netsky_model::process::ProcessId;

use crate::attach::CLIENT;
use crate::bench::{Bench, LIMIT, TERMINAL, gone, read_until, script, spec};

/// The session that a process is of, and its terminal; 0 where it has none.
fn place(process: &ProcessId) -> (u32, i64) {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).expect("lives");
    let mut words = stat.rsplit_once(") ").expect("a name").1.split(' ').skip(3);
    let mut number = || words.next().expect("a number").parse::<i64>().expect("a number");
    let session = number();
    (u32::try_from(session).expect("a pid"), number())
}

#[test]
fn i11_a_worker_outlives_the_terminal_that_it_was_started_from_and_a_hangup() {
    let bench = Bench::new();
    bench.reserve(spec(Io::Pipes, &["sleep", "1000"]), 1);
    let root = bench.layout.root().display();
    // In front, as a person would start it: whoever has that terminal hangs up all of its group.
    let text = format!(
        "env -i OSTK_HEARTBEAT_MS=20 {CLIENT} __worker --root {root} --name {} --generation 1 </dev/null",
        bench.name
    );
    // Without a group: nobody but the terminal takes along what was started from it.
    let outer = Bench::ungrouped();
    let terminal = outer.start(script(TERMINAL, &format!("stty -opost; {text} & wait $!; sleep 1000")));
    let line = read_until(&mut terminal.follower(), "\n");
    let ReadyLine::Ready { worker, program, socket } = serde_json::from_str(&line).expect("a line") else {
        panic!("{line}")
    };
    let (session, tty) = place(&worker);
    assert_eq!((session, tty), (worker.pid, 0), "it is the first of a session without a terminal");
    assert_ne!(place(&terminal.program), (session, tty), "the shell has its own");
    terminal.signal_worker(Signal::KILL);
    gone(&terminal.worker);
    gone(&terminal.program);
    for _ in 0..3 {
        signal(&worker, Signal::HUP).expect("ours");
        // It comes round, so that it has taken the signal.
        WorkerClient::connect(&socket).expect("greets").probe(LIMIT).expect("answers");
    }
    assert!(is_alive(&worker) && is_alive(&program), "the very same");
    WorkerClient::connect(&socket).expect("greets").kill_and_wait(LIMIT, LIMIT).expect("ends");
    gone(&worker);
}
