//! Who reaches the program and how: input, its end, its epochs, and clients that misbehave.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use netsky_kernel::frame::{FromWorker, RefusalKind};
use netsky_kernel::session::{End, Io};
use netsky_kernel::worker_client::{WorkerClient, WorkerError};

use crate::bench::{Bench, LIMIT, TERMINAL, next, read_all, read_end, read_until, script, spec};

fn refusal(client: &mut WorkerClient) -> RefusalKind {
    loop {
        match next(client) {
            FromWorker::Refused(refusal) => return refusal.kind,
            FromWorker::Output { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn i5_input_of_a_lower_epoch_is_refused() {
    let bench = Bench::new();
    let session = bench.start(spec(Io::Pipes, &["cat"]));
    let mut old = session.client();
    old.input(4, b"from the old driver\n").expect("sends");
    old.probe(LIMIT).expect("was taken");
    let mut new = session.follower();
    assert_eq!(new.hello().input_epoch, 4);
    new.input(5, b"from the new driver\n").expect("sends");
    read_until(&mut new, "new driver\n");
    old.input(4, b"said too late\n").expect("sends");
    assert_eq!(refusal(&mut old), RefusalKind::StaleEpoch);
    old.close_input(4).expect("sends");
    assert_eq!(refusal(&mut old), RefusalKind::StaleEpoch);
    new.input(0, b"from a person\n").expect("sends");
    read_until(&mut new, "from a person\n");
    new.close_input(5).expect("sends");
    let (rest, end) = read_all(&mut new);
    assert_eq!((rest.as_str(), end), ("", End::Exited { code: 0 }));
}

#[test]
fn a_terminal_has_no_end_of_input_and_pipes_have_no_size() {
    let bench = Bench::new();
    let session = bench.start(spec(TERMINAL, &["cat"]));
    let mut client = session.client();
    client.close_input(0).expect("sends");
    assert_eq!(refusal(&mut client), RefusalKind::NotHere);
    let piped = Bench::new();
    let session = piped.start(spec(Io::Pipes, &["cat"]));
    let mut client = session.client();
    client.resize(1, 1).expect("sends");
    assert_eq!(refusal(&mut client), RefusalKind::NotHere);
}

#[test]
fn a_program_that_does_not_read_fills_a_bounded_queue_and_the_worker_answers_on() {
    for io in [TERMINAL, Io::Pipes] {
        let bench = Bench::new();
        let session = bench.start(spec(io, &["sleep", "300"]));
        let mut client = session.client();
        client.input(0, &vec![b'x'; 2 << 20]).expect("sends");
        assert_eq!(refusal(&mut client), RefusalKind::Full);
        session.client().probe(LIMIT).expect("answers others");
        let end = session.client().kill_and_wait(LIMIT, LIMIT).expect("ends");
        assert_eq!(end, End::Killed);
    }
}

#[test]
fn a_large_input_reaches_a_program_that_reads() {
    let bench = Bench::new();
    let session = bench.start(spec(Io::Pipes, &["wc", "-c"]));
    let mut client = session.follower();
    // Below the queue's limit in all, so that nothing depends on how fast the program reads.
    client.input(0, &vec![b'x'; 1_000_000]).expect("sends");
    client.close_input(0).expect("sends");
    let (seen, _) = read_all(&mut client);
    assert_eq!(seen.trim(), "1000000");
}

#[test]
fn input_for_a_program_that_closed_its_end_is_refused() {
    let bench = Bench::new();
    let session = bench.start(script(Io::Pipes, "exec <&-; echo closed; sleep 300"));
    let mut client = session.follower();
    read_until(&mut client, "closed");
    // The first piece may still be queued when the end is found closed.
    client.input(0, b"a").expect("sends");
    let refused = crate::bench::until(|| {
        client.input(0, b"b").expect("sends");
        match client.next(std::time::Duration::from_millis(20)).expect("connected") {
            Some(FromWorker::Refused(refusal)) => Some(refusal.kind),
            _ => None,
        }
    });
    assert_eq!(refused, RefusalKind::Closed);
}

#[test]
fn a12_garbage_and_oversized_frames_harm_only_their_sender() {
    let bench = Bench::new();
    let session = bench.start(spec(TERMINAL, &["cat"]));
    let raw = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&session.socket).expect("connects");
        stream.set_read_timeout(Some(LIMIT)).expect("sets");
        stream.write_all(bytes).expect("sends");
        stream
    };
    // An oversized frame: the connection is closed.
    let mut seen = Vec::new();
    let _ = raw(&[2, 255, 255, 255, 255]).read_to_end(&mut seen);
    assert!(seen.ends_with(b"}\n"), "only the hello line");
    // An unknown frame: refused, and the next one is obeyed.
    let mut stream = raw(&[99, 0, 0, 0, 0, 6, 0, 0, 0, 0]);
    let mut seen = Vec::new();
    while !seen.windows(10).any(|w| w == b"\"liveness\"") {
        let mut piece = [0; 1000];
        let read = stream.read(&mut piece).expect("reads");
        assert!(read > 0);
        seen.extend_from_slice(&piece[..read]);
    }
    assert!(seen.windows(9).any(|w| w == b"bad-frame"));
    session.client().probe(LIMIT).expect("answers");
}

#[test]
fn a12_the_65th_client_is_told_that_there_are_too_many() {
    let bench = Bench::new();
    let session = bench.start(spec(TERMINAL, &["cat"]));
    let mut clients: Vec<WorkerClient> = (0..64).map(|_| session.client()).collect();
    let mut one_more = session.client();
    assert_eq!(refusal(&mut one_more), RefusalKind::Busy);
    assert!(matches!(one_more.next(LIMIT), Err(WorkerError::Closed)));
    clients[63].probe(LIMIT).expect("the others stay");
    clients.clear();
    crate::bench::until(|| session.client().probe(LIMIT).ok());
}

#[test]
fn clients_that_vanish_in_the_middle_of_a_frame_harm_nothing() {
    let bench = Bench::new();
    let session = bench.start(spec(Io::Pipes, &["cat"]));
    for _ in 0..50 {
        let mut stream = UnixStream::connect(&session.socket).expect("connects");
        stream.write_all(&[1, 8, 0]).expect("sends");
    }
    let mut client = session.follower();
    client.input(0, b"still here\n").expect("sends");
    read_until(&mut client, "still here");
    client.kill(std::time::Duration::ZERO).expect("asks");
    assert_eq!(read_end(&mut client), End::Killed);
}

#[test]
fn a12_a_client_that_asks_without_end_and_takes_no_answer_is_let_go() {
    let bench = Bench::new();
    let session = bench.start(spec(Io::Pipes, &["cat"]));
    let mut flood = UnixStream::connect(&session.socket).expect("connects");
    flood.set_write_timeout(Some(LIMIT)).expect("sets");
    let probes = [6, 0, 0, 0, 0].repeat(10_000);
    let refused = (0..1_000).find_map(|_| flood.write_all(&probes).err());
    assert_eq!(refused.expect("is let go").kind(), std::io::ErrorKind::BrokenPipe);
    session.client().probe(LIMIT).expect("the others stay");
}

#[test]
fn a12_ten_thousand_connections_in_a_burst_harm_nothing() {
    let bench = Bench::new();
    let session = bench.start(spec(TERMINAL, &["cat"]));
    let mut held = std::collections::VecDeque::new();
    for _ in 0..10_000 {
        held.push_back(UnixStream::connect(&session.socket).expect("connects"));
        // More at once than the worker takes, and not more than a process may have open.
        if held.len() > 200 {
            held.pop_front();
        }
    }
    drop(held);
    let mut client = crate::bench::until(|| {
        let mut client = session.client();
        client.probe(LIMIT).is_ok().then_some(client)
    });
    client.follow(0).expect("asks");
    client.input(0, b"still here\r").expect("types");
    read_until(&mut client, "still here");
    assert!(netsky_disk::process::is_alive(&session.worker));
    assert!(netsky_disk::process::is_alive(&session.program));
}
