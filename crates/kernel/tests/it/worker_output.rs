//! Output by offsets, across clients, rotations and generations.

use netsky_kernel::frame::FromWorker;
use netsky_kernel::output_log::{Chunk, LogReader};
use netsky_kernel::session::Io;

use crate::bench::{Bench, LIMIT, Session, TERMINAL, next, read_all, read_until, script, until};

const BULK: u64 = 20 << 20;

/// A program that writes [`BULK`] bytes and then waits.
fn bulk(bench: &Bench) -> Session {
    let text = format!("read go; head -c {BULK} /dev/zero; echo written >&2; read stop");
    let session = bench.start(script(Io::Pipes, &text));
    session.client().input(0, b"go\n").expect("sends");
    session
}

/// Wait until the program has written everything, whoever reads it.
fn written(bench: &Bench) {
    let errors = LogReader::open(&bench.layout.err(&bench.name)).expect("opens");
    until(|| (errors.span().expect("reads").end > 0).then_some(()));
}

/// Read on to `end`, each frame where the one before ended; how many bytes came and how many were missing.
fn read_to(client: &mut netsky_kernel::worker_client::WorkerClient, mut at: u64, end: u64) -> (u64, u64) {
    let (mut came, mut missing) = (0, 0);
    while at < end {
        match next(client) {
            FromWorker::Output { offset, bytes } => {
                assert_eq!(offset, at);
                assert!(bytes.iter().all(|byte| *byte == 0));
                at += bytes.len() as u64;
                came += bytes.len() as u64;
            }
            FromWorker::Gap { from, to } => {
                assert_eq!(from, at);
                at = to;
                missing += to - from;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(at, end);
    (came, missing)
}

#[test]
fn offsets_are_exact_across_a_reconnect() {
    let bench = Bench::new();
    let session = bench.start(script(Io::Pipes, "while read line; do echo \"<$line>\"; done"));
    let mut first = session.follower();
    first.input(0, b"one\n").expect("sends");
    assert_eq!(read_until(&mut first, "\n"), "<one>\n");
    drop(first);
    let mut between = session.follower();
    between.input(0, b"two\n").expect("sends");
    read_until(&mut between, "<two>");
    drop(between);
    let mut second = session.client();
    assert_eq!(second.hello().log.end, 12);
    second.follow(3).expect("asks");
    second.input(0, b"three\n").expect("sends");
    let mut at = 3;
    let mut seen = Vec::new();
    while !seen.ends_with(b"<three>\n") {
        let FromWorker::Output { offset, bytes } = next(&mut second) else { panic!("no output") };
        assert_eq!(offset, at);
        at += bytes.len() as u64;
        seen.extend(bytes);
    }
    assert_eq!(String::from_utf8_lossy(&seen), "e>\n<two>\n<three>\n");
}

#[test]
fn rotation_keeps_offsets_and_tells_the_gap_and_a_generation_goes_on() {
    let bench = Bench::new();
    let mut session = bulk(&bench);
    written(&bench);
    let mut late = session.client();
    late.follow(0).expect("asks");
    let (came, missing) = read_to(&mut late, 0, BULK);
    assert!((8 << 20..=16 << 20).contains(&came), "{came}");
    assert_eq!(missing, BULK - came);
    let log = LogReader::open(&bench.layout.out(&bench.name)).expect("opens");
    assert_eq!(log.read_from(0, 10).expect("reads"), Chunk::Gap { from: 0, to: missing });

    late.input(0, b"stop\n").expect("sends");
    session.ended();
    let next_one = bench.start_generation(script(Io::Pipes, "echo second; read stop"), 2);
    let mut client = next_one.client();
    client.follow(BULK).expect("asks");
    assert_eq!(read_until(&mut client, "\n"), "second\n");
    assert_eq!(next_one.client().hello().log.end, BULK + 7);
    drop(session);
}

#[test]
fn a_slow_client_stalls_nobody_and_is_told_what_it_missed() {
    let bench = Bench::new();
    let session = bench
        .start(script(Io::Pipes, &format!("read go; head -c {BULK} /dev/zero; echo written >&2; read stop")));
    let mut slow = session.client();
    slow.follow(0).expect("asks");
    let mut fast = session.client();
    fast.follow(0).expect("asks");
    session.client().input(0, b"go\n").expect("sends");
    // The slow one does not read a byte while the program writes everything and the fast one gets all of it.
    let (came, missing) = read_to(&mut fast, 0, BULK);
    assert_eq!(came + missing, BULK);
    written(&bench);
    let (came, missing) = read_to(&mut slow, 0, BULK);
    assert_eq!(came + missing, BULK);
    assert!(missing > 0 && came >= 8 << 20, "came {came}, missing {missing}");
}

#[test]
fn i11_a_client_that_never_reads_does_not_keep_an_ended_session() {
    let bench = Bench::new();
    let mut session = bench.start(script(Io::Pipes, "read go; head -c 4000000 /dev/zero"));
    let mut stuck = session.client();
    stuck.follow(0).expect("asks");
    stuck.input(0, b"go\n").expect("sends");
    assert_eq!(session.ended(), Some(0));
}

#[test]
fn pipes_keep_output_and_errors_apart() {
    let bench = Bench::new();
    let mut session = bench.start(script(Io::Pipes, "echo out; echo err >&2; echo out again"));
    session.ended();
    let text = |path: std::path::PathBuf| {
        let log = LogReader::open(&path).expect("opens");
        match log.read_from(0, 1000).expect("reads") {
            Chunk::Bytes { bytes, .. } => String::from_utf8(bytes).expect("text"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(text(bench.layout.out(&bench.name)), "out\nout again\n");
    assert_eq!(text(bench.layout.err(&bench.name)), "err\n");
}

#[test]
fn a_client_that_came_in_time_gets_everything_and_then_the_end() {
    let bench = Bench::new();
    let session = bench.start(script(TERMINAL, "read go; echo one; echo two; exit 7"));
    let mut clients = [session.follower(), session.follower()];
    clients[0].input(0, b"go\n").expect("sends");
    for client in &mut clients {
        let (seen, end) = read_all(client);
        assert!(seen.contains("one\r\ntwo\r\n"), "{seen:?}");
        assert_eq!(end, netsky_kernel::session::End::Exited { code: 7 });
    }
}

#[test]
fn a_program_that_closes_its_terminal_costs_no_spinning_and_still_ends_in_order() {
    let bench = Bench::new();
    // Raw, so that what nobody reads piles up and is not thrown away.
    let text = "stty raw -echo; echo armed; read go; exec </dev/null >/dev/null 2>&1; sleep 1; exit 5";
    let mut session = bench.start(script(TERMINAL, text));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    let ticks = |pid: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("lives");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
    };
    let before = ticks(session.worker.pid);
    client.input(0, b"go\n").expect("sends");
    client.input(0, &vec![b'x'; 256 << 10]).expect("sends");
    let spent = std::cell::Cell::new(0);
    until(|| {
        let alive = netsky_disk::process::is_alive(&session.program);
        if alive {
            spent.set(ticks(session.worker.pid) - before);
        }
        (!alive).then_some(())
    });
    session.ended();
    assert_eq!(bench.end(), netsky_kernel::session::End::Exited { code: 5 });
    // A worker that spins spends nearly all of that second, also beside others.
    assert!(spent.get() < 25, "{} ticks of 10 ms in a second", spent.get());
}

/// As `ssh` and `git push` do, for a password.
#[test]
fn what_was_typed_while_nobody_had_the_terminal_open_waits_for_who_opens_it_anew() {
    let bench = Bench::new();
    let out = bench.layout.root().join("out");
    let text = format!(
        "stty -echo; echo armed; exec >{} 2>&1 </dev/null; echo closed; sleep 2; read word </dev/tty; echo \"<$word>\"; \
         sleep 1000",
        out.display()
    );
    let session = bench.start(script(TERMINAL, &text));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    let said = |text: &str| std::fs::read_to_string(&out).ok().filter(|said| said.contains(text));
    until(|| said("closed"));
    client.input(0, b"hello\n").expect("types");
    until(|| said("<hello>"));
    client.input(0, b"more\n").expect("it takes more");
    client.probe(LIMIT).expect("nothing was refused");
}
