//! How programs end, and that nothing of them is left (I11, T12).

use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::process::{self, Signal};
use netsky_kernel::frame::Form;
use netsky_kernel::session::{End, Io, Phase, Seen};
use netsky_kernel::worker_client::WorkerClient;

use crate::bench::{
    Bench, LIMIT, Session, TERMINAL, gone, next, printed_pid, read_all, read_end, read_until, script,
};

const GRACE: Duration = Duration::from_millis(150);

/// After an end nothing is left of a session but its files.
fn assert_clean(bench: &Bench, session: &mut Session) {
    assert_eq!(session.ended(), Some(0));
    assert_eq!(session.marked(), []);
    assert!(!session.socket.exists(), "the socket is gone");
    assert!(!session.lock_is_held());
    assert!(bench.layout.worker_lock(&bench.name).exists(), "a lock is never unlinked");
}

#[test]
fn a_program_that_returns_is_reported_with_its_code() {
    for io in [TERMINAL, Io::Pipes] {
        for code in [0, 3] {
            let bench = Bench::new();
            let mut session = bench.start(script(io, &format!("read go; echo bye; exit {code}")));
            let mut client = session.follower();
            client.input(0, b"go\n").expect("sends");
            let (seen, end) = read_all(&mut client);
            assert!(seen.contains("bye"), "{seen:?}");
            assert_eq!(end, End::Exited { code });
            assert_clean(&bench, &mut session);
            assert_eq!(bench.end(), End::Exited { code });
            let started = Seen::Started { program: session.program.clone() };
            let exited = Seen::Exited { how: End::Exited { code }, swept: 0, left: vec![], unseen: None };
            assert_eq!(bench.events(), [started, exited]);
        }
    }
}

#[test]
fn a_program_that_ends_at_once_is_reported_all_the_same() {
    let bench = Bench::new();
    for generation in 1..20 {
        let mut session = bench.start_generation(script(Io::Pipes, "exit 4"), generation);
        session.ended();
        assert_eq!(bench.end(), End::Exited { code: 4 });
    }
}

#[test]
fn a_signal_that_nobody_asked_for_is_reported_as_such() {
    let bench = Bench::new();
    let mut session = bench.start(script(TERMINAL, "kill -9 $$"));
    session.ended();
    assert_eq!(bench.end(), End::Signalled { signal: 9, asked: false });
}

#[test]
fn a_signal_that_somebody_asked_for_is_reported_as_such() {
    type Ask = fn(&mut WorkerClient);
    let line = "echo armed; exec sleep 1000";
    let asked: [(Io, i32, Ask); 3] = [
        (Io::Pipes, 15, |client| client.signal(15).expect("sends")),
        (TERMINAL, 2, |client| client.input(0, b"\x03").expect("sends")),
        (TERMINAL, 3, |client| {
            assert!(!client.type_once(0, Form::Keys, "r1", b"\x1c", LIMIT).expect("typed"));
        }),
    ];
    for (io, signal, ask) in asked {
        let bench = Bench::new();
        let mut session = bench.start(script(io, line));
        let mut client = session.follower();
        read_until(&mut client, "armed");
        ask(&mut client);
        session.ended();
        assert_eq!(bench.end(), End::Signalled { signal, asked: true });
    }
    // Another one than was asked for.
    let bench = Bench::new();
    let mut session = bench.start(script(Io::Pipes, "trap '' HUP; echo armed; exec sleep 1000"));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    client.signal(1).expect("sends");
    client.probe(LIMIT).expect("answers");
    assert!(process::signal(&session.program, Signal::KILL).expect("signals"));
    session.ended();
    assert_eq!(bench.end(), End::Signalled { signal: 9, asked: false });
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_after_its_grace() {
    let bench = Bench::new();
    let mut session = bench.start(script(TERMINAL, "trap '' TERM; echo armed; while :; do sleep 1; done"));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    let before = clock::boot();
    let end = client.kill_and_wait(GRACE, LIMIT).expect("ends");
    assert_eq!(end, End::Killed);
    assert!(clock::boot() - before >= GRACE, "it had its grace");
    assert_clean(&bench, &mut session);
    assert!(bench.events().contains(&Seen::KillAsked { grace_ms: 150 }));
}

#[test]
fn a_program_that_cleans_up_within_its_grace_is_let_finish() {
    let bench = Bench::new();
    // The leader of the group is gone at once; what it had started still gets the grace.
    let text = "(trap 'echo cleaned; exit 0' TERM; echo armed; while :; do sleep 1 & wait; done) & wait";
    let session = bench.start(script(Io::Pipes, text));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    client.kill(LIMIT).expect("asks");
    let (seen, end) = read_all(&mut client);
    assert_eq!((seen.trim(), end), ("cleaned", End::Killed));
}

#[test]
fn a_stopped_program_ends_within_its_grace_too() {
    let bench = Bench::new();
    let session = bench.start(script(Io::Pipes, "kill -STOP $$; sleep 300"));
    assert_eq!(session.client().kill_and_wait(LIMIT, LIMIT).expect("ends"), End::Killed);
}

#[test]
fn a_second_kill_shortens_the_grace_and_cannot_lengthen_it() {
    let bench = Bench::new();
    let session = bench.start(script(Io::Pipes, "trap '' TERM; echo armed; while :; do sleep 1; done"));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    client.kill(Duration::from_secs(500)).expect("asks");
    client.kill(GRACE).expect("asks");
    client.kill(Duration::from_secs(500)).expect("asks");
    assert_eq!(read_end(&mut client), End::Killed);
}

#[test]
fn t12_i11_what_left_the_group_is_swept_when_the_program_exits() {
    for bench in [Bench::new(), Bench::ungrouped()] {
        let text = "setsid sh -c 'echo $$; exec sleep 300' & read go; exit 0";
        let mut session = bench.start(script(Io::Pipes, text));
        let mut client = session.follower();
        let escaped = printed_pid(&mut client);
        client.input(0, b"go\n").expect("sends");
        assert_eq!(read_end(&mut client), End::Exited { code: 0 });
        assert!(!process::is_alive(&escaped));
        assert_clean(&bench, &mut session);
        let Some(Seen::Exited { swept, .. }) = bench.events().pop() else { panic!("no end") };
        assert_eq!(swept, 1);
    }
}

#[test]
fn t12_i11_an_orphan_that_wiped_its_environment_is_swept_on_a_kill() {
    for bench in [Bench::new(), Bench::ungrouped()] {
        // Forks twice, so that nobody but the subreaper has it; no group, no terminal, no environment, deaf.
        let text =
            "(env -i setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 1; done' &) ; sleep 300";
        let mut session = bench.start(script(TERMINAL, text));
        let mut client = session.follower();
        let escaped = printed_pid(&mut client);
        assert_eq!(client.kill_and_wait(GRACE, LIMIT).expect("ends"), End::Killed);
        assert!(!process::is_alive(&escaped));
        assert_clean(&bench, &mut session);
    }
}

#[test]
fn i11_a_tree_that_forks_while_it_is_swept_is_ended() {
    for bench in [Bench::new(), Bench::ungrouped()] {
        let text = "f() { while :; do sleep 0.001; done; }; f & f & f & echo armed; wait";
        let mut session = bench.start(script(Io::Pipes, text));
        let mut client = session.follower();
        read_until(&mut client, "armed");
        assert_eq!(client.kill_and_wait(Duration::ZERO, LIMIT).expect("ends"), End::Killed);
        assert_clean(&bench, &mut session);
    }
}

#[test]
fn what_stands_apart_outlives_the_session_it_was_started_from() {
    for bench in [Bench::new(), Bench::ungrouped()] {
        // As an anchor is started by whoever needs one: apart, and without the mark of the session around it. It tells of
        // itself once no exec is before it: one in the middle of an exec is not seen to stand apart.
        let text = "env -u OSTK_MARK OSTK_APART=1 setsid sh -c \
            'echo $$; exec >/dev/null 2>&1; while :; do sleep 0.1; done' & read go";
        let mut session = bench.start(script(Io::Pipes, text));
        let mut client = session.follower();
        let apart = printed_pid(&mut client);
        assert_eq!(client.kill_and_wait(GRACE, LIMIT).expect("ends"), End::Killed);
        session.ended();
        let survived = process::signal(&apart, Signal::KILL).expect("signals");
        assert!(survived);
    }
}

#[test]
fn fm_worker_kill_the_program_dies_with_its_worker() {
    for io in [TERMINAL, Io::Pipes] {
        let bench = Bench::new();
        let session = bench.start(script(io, "trap '' TERM HUP INT; echo armed; while :; do sleep 1; done"));
        read_until(&mut session.follower(), "armed");
        session.signal_worker(Signal::KILL);
        gone(&session.program);
        assert!(matches!(bench.meta().phase, Phase::Running { .. }), "nobody is left to say otherwise");
    }
}

#[test]
fn fm_worker_started_kill_no_program_outlives_a_worker_that_recorded_nothing() {
    let bench = Bench::new();
    // Without children of its own: those are the anchor's to sweep, by their mark.
    bench.reserve(script(Io::Pipes, "exec sleep 300"), 1);
    let mut command = bench.command(1);
    let mut child = command.env("NETSKY_FAULT", "worker.started=kill").spawn().expect("starts");
    assert!(!child.wait().expect("ends").success());
    assert_eq!(bench.meta().phase, Phase::Starting);
    let mark = bench.meta().mark();
    crate::bench::until(|| netsky_disk::sweep::marked("OSTK_MARK", &mark).ok()?.is_empty().then_some(()));
}

#[test]
fn a_worker_that_is_told_to_end_ends_its_program_in_order() {
    let bench = Bench::new();
    let mut session = bench.start(script(
        Io::Pipes,
        "trap 'echo bye; exit 0' TERM; echo armed; while :; do sleep 1 & wait; done",
    ));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    session.signal_worker(Signal::TERM);
    let (seen, end) = read_all(&mut client);
    assert_eq!((seen.trim(), end), ("bye", End::Signalled { signal: 15, asked: false }));
    assert_clean(&bench, &mut session);
    let asked = |seen: &Seen| matches!(seen, Seen::KillAsked { .. });
    assert!(!bench.events().iter().any(asked), "nobody wanted this session down");
}

/// Nothing woke it for longer than the grace: that begins when the wish comes.
#[test]
fn a_worker_that_slept_for_long_gives_its_program_the_whole_grace() {
    let bench = Bench::new();
    let text = "trap 'sleep 1; echo bye; exit 0' TERM; echo armed; while :; do sleep 60 & wait; done";
    bench.reserve(script(Io::Pipes, text), 1);
    let mut command = bench.command(1);
    command.env("OSTK_HEARTBEAT_MS", "60000");
    let mut session = bench.start_by(command);
    let mut client = session.follower();
    read_until(&mut client, "armed");
    clock::pause(Duration::from_secs(3));
    client.kill(Duration::from_secs(2)).expect("asks");
    let (seen, end) = read_all(&mut client);
    assert_eq!((seen.trim(), end), ("bye", End::Killed));
    assert_clean(&bench, &mut session);
}

#[test]
fn i11_a_look_that_fails_is_no_empty_sweep() {
    let bench = Bench::new();
    bench.reserve(script(Io::Pipes, "setsid sh -c 'echo $$; exec sleep 300' & read go; exit 0"), 1);
    let mut command = bench.command(1);
    command.env("NETSKY_FAULT", "worker.looked=error");
    let mut session = bench.start_by(command);
    let mut client = session.follower();
    let escaped = printed_pid(&mut client);
    client.input(0, b"go\n").expect("sends");
    assert_eq!(read_end(&mut client), End::Exited { code: 0 });
    assert!(!process::is_alive(&escaped));
    assert_clean(&bench, &mut session);
    let Some(Seen::Exited { swept, unseen, .. }) = bench.events().pop() else { panic!("no end") };
    assert_eq!((swept, unseen), (1, None), "the next look saw it");
}

#[test]
fn an_end_that_cannot_be_synced_is_told_once_and_in_another_file() {
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::new();
    bench.reserve(script(Io::Pipes, "exit 3"), 1);
    let file = bench.layout.events(&bench.name);
    std::fs::write(&file, "").expect("writes");
    let former = std::fs::File::open(&file).expect("there");
    let mut command = bench.command(1);
    command.env("NETSKY_FAULT", "worker.end.told=error");
    let mut session = bench.start_by(command);
    assert_eq!(session.ended(), Some(0));
    let inodes = [former, std::fs::File::open(&file).expect("there")];
    let [former, now] = inodes.map(|file| file.metadata().expect("open").ino());
    assert_ne!(former, now, "a second sync of that one would prove nothing");
    let exited = |seen: &&Seen| matches!(seen, Seen::Exited { .. });
    assert_eq!(bench.events().iter().filter(exited).count(), 1);
}

#[test]
fn a_signal_reaches_the_group_and_a_wrong_one_is_refused() {
    let bench = Bench::new();
    let session =
        bench.start(script(Io::Pipes, "trap 'echo usr1' USR1; echo armed; while :; do sleep 1 & wait; done"));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    client.signal(Signal::USR1.as_raw()).expect("sends");
    read_until(&mut client, "usr1");
    client.signal(999).expect("sends");
    let refused = next(&mut client);
    assert!(format!("{refused:?}").contains("BadSignal"), "{refused:?}");
}
