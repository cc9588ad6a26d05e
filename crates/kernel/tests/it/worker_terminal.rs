//! A worker as its program's terminal: what output costs it, and what it answers.

use netsky_kernel::output_log::{Chunk, LogReader};

use crate::attach::person;
use crate::bench::{Bench, Session, TERMINAL, read_until, script, until};

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

/// A program asks its terminal while these are attached to it; what it shows of what it was told.
fn asks_beside(attached: &[&str]) -> String {
    let bench = Bench::new();
    let asks = "stty raw -echo; printf armed; dd bs=1 count=1 >/dev/null 2>&1; \
                printf '\\033[3;5H\\033]11;?\\007\\033[>0q\\033[c\\033[6n\\033[?u'; exec cat -v";
    let session = bench.start(script(TERMINAL, asks));
    let mut shown = session.follower();
    read_until(&mut shown, "armed");
    // It has told its size, and reads nothing.
    let mut stuck = session.client();
    let mut persons: Vec<(Bench, Session, bool)> = Vec::new();
    for flags in attached {
        if *flags == STUCK {
            stuck.resize(24, 80).and_then(|()| stuck.screen()).expect("asks");
            continue;
        }
        let outer = Bench::new();
        let terminal = outer.start(person(&bench, flags));
        read_until(&mut terminal.follower(), "armed");
        persons.push((outer, terminal, flags.is_empty()));
    }
    session.client().input(0, b"g").expect("types");
    let mut seen = read_until(&mut shown, "u");
    session.client().input(0, b"end").expect("types");
    // What their terminals answer, if anything, comes before what is typed there then.
    for (_, terminal, types) in &persons {
        read_until(&mut terminal.follower(), "end");
        if *types {
            terminal.client().input(0, b"X").expect("types");
            seen += &read_until(&mut shown, "X");
        }
    }
    session.client().input(0, b"Y").expect("types");
    seen + &read_until(&mut shown, "Y")
}

const STUCK: &str = "stuck";

/// Were a terminal asked as well, its answers would come behind those of the worker, once for each, or never.
#[test]
fn a_question_of_a_program_has_one_answer_whoever_is_attached() {
    for attached in [&[][..], &["--read-only"], &[""], &["", ""], &[STUCK]] {
        let seen = asks_beside(attached);
        assert!(seen.contains("^[[?6c^[[3;5R^[[?0u"), "beside {attached:?}: {seen:?}");
        assert_eq!(seen.matches("^[").count(), 3, "beside {attached:?}: {seen:?}");
        assert!(!seen.contains("\x1b]") && !seen.contains("\x1b[6n"), "beside {attached:?}: {seen:?}");
    }
}

/// It may as well be one that was to be a question.
#[test]
fn what_had_begun_at_the_end_of_a_program_is_in_the_log() {
    let bench = Bench::new();
    let mut session = bench.start(script(TERMINAL, "printf 'last\\033[?1'"));
    session.ended();
    let log = LogReader::open(&bench.layout.out(&bench.name)).expect("opens");
    let bytes = b"last\x1b[?1".to_vec();
    assert_eq!(log.read_from(0, 100).expect("reads"), Chunk::Bytes { offset: 0, bytes });
}
