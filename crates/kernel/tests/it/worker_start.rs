//! How a worker comes up, what its program finds, and what is refused.

use std::collections::BTreeMap;
use std::process::Command;

use netsky_disk::process::Signal;
use netsky_kernel::session::{End, Io, Phase, StartFailure};

use crate::bench::{Bench, LIMIT, TERMINAL, failed, read_all, read_until, script, spec, until};

#[test]
fn a_program_that_cannot_start_says_why() {
    let nowhere =
        netsky_kernel::session::Spec { cwd: "/proc/nonexistent".into(), ..spec(TERMINAL, &["true"]) };
    for (spec, why) in [
        (spec(TERMINAL, &["no-such-program"]), "no-such-program"),
        (spec(Io::Pipes, &["/etc/passwd"]), "ermission denied"),
        (spec(Io::Pipes, &[]), "empty"),
        (nowhere, "/proc/nonexistent"),
    ] {
        let bench = Bench::new();
        let (kind, told) = bench.fail(spec);
        assert_eq!(kind, StartFailure::Program);
        assert!(told.contains(why), "{told}");
        assert_eq!(bench.end(), End::FailedToStart { why: told });
        assert!(matches!(bench.meta().phase, Phase::Ended { started_at: None, .. }));
        assert_eq!(bench.events().len(), 1);
    }
}

#[test]
fn a_second_worker_of_a_name_is_refused_and_harms_nothing() {
    let bench = Bench::new();
    let session = bench.start(script(TERMINAL, "read go"));
    let before = bench.meta();
    let (kind, why) = failed(bench.command(1));
    assert_eq!(kind, StartFailure::Busy, "{why}");
    assert_eq!(bench.meta(), before);
    session.client().probe(LIMIT).expect("the first one answers");
}

#[test]
fn a_worker_of_another_generation_or_of_one_that_ran_is_refused() {
    let bench = Bench::new();
    let mut session = bench.start(script(TERMINAL, "exit 0"));
    session.ended();
    let before = bench.meta();
    for generation in [1, 2] {
        let (kind, why) = failed(bench.command(generation));
        assert_eq!(kind, StartFailure::Stale, "{why}");
        assert_eq!(bench.meta(), before);
    }
}

#[test]
fn a_worker_that_waits_for_its_reservation_touches_nothing_without_it() {
    let bench = Bench::new();
    // One that was let in by mistake would end by itself.
    bench.reserve(script(TERMINAL, "true"), 1);
    let gated = |stdin: &str| {
        let mut command = bench.command(1);
        command.args(["--gate", "stdin"]).stdin(std::fs::File::open(stdin).expect("there"));
        command
    };
    let found = || {
        let in_folder = |folder| std::fs::read_dir(folder).expect("there").flatten().map(|file| file.path());
        let mut found: Vec<_> =
            in_folder(bench.layout.root()).chain(in_folder(&bench.layout.agents())).collect();
        found.sort();
        found
    };
    let before = (found(), bench.meta());
    // Whoever started it has gone before there was a reservation.
    let (kind, why) = failed(gated("/dev/null"));
    assert_eq!(kind, StartFailure::Stale, "{why}");
    assert_eq!((found(), bench.meta()), before);
    bench.reserve(script(TERMINAL, "read go"), 1);
    let session = bench.start_by(gated("/dev/zero"));
    session.client().probe(LIMIT).expect("it was let in");
}

#[test]
fn a_program_has_the_umask_of_its_user_or_one_that_lets_nobody_in() {
    for io in [TERMINAL, Io::Pipes] {
        for (asked, found) in [(Some(0o022), "0022"), (None, "0077")] {
            let bench = Bench::new();
            let mut wanted = spec(io, &["sh", "-c", "umask"]);
            wanted.umask = asked;
            let mut session = bench.start(wanted);
            session.ended();
            let out = std::fs::read(bench.layout.out(&bench.name)).expect("is there");
            assert_eq!(String::from_utf8_lossy(&out[64..]).trim_end(), found);
            assert_eq!(bench.meta().spec.umask, asked, "it is kept for the next start");
        }
    }
}

#[test]
fn the_environment_is_exactly_what_was_asked_for_and_the_kernels_names() {
    let bench = Bench::new();
    let mut wanted = spec(Io::Pipes, &["env"]);
    wanted.model = Some("example:large".to_owned());
    wanted.env.insert("GREETING".to_owned(), "hello".to_owned());
    // Would make the program invisible to every sweep.
    wanted.env.insert("OSTK_APART".to_owned(), "1".to_owned());
    let mut session = bench.start(wanted);
    session.ended();
    let out = std::fs::read(bench.layout.out(&bench.name)).expect("is there");
    let text = String::from_utf8_lossy(&out[64..]);
    let found: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let meta = bench.meta();
    let (lineage, mark) = (meta.lineage.to_string(), meta.mark());
    let root = bench.layout.root();
    let expected = BTreeMap::from([
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("GREETING", "hello"),
        ("OSTK_MODEL", "example:large"),
        ("OSTK_NAME", "agent7"),
        ("OSTK_SESSION", &lineage),
        ("OSTK_GENERATION", "1"),
        ("OSTK_MARK", &mark),
        ("OSTK_SESSION_ROOT", root.to_str().expect("text")),
        ("OSTK_CONVERSATION", "conversation-7"),
    ]);
    assert_eq!(found, expected);
}

#[test]
fn a17_nothing_of_the_starter_reaches_the_program() {
    let bench = Bench::new();
    bench.reserve(script(Io::Pipes, "ls -l /proc/self/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status"), 1);
    // Started by somebody who ignores signals and leaves a file open for everybody.
    let inner = bench.command(1);
    let mut outer = Command::new("bash");
    outer
        .env_clear()
        .args(["-c", "trap '' INT QUIT HUP TERM USR1; exec 9</etc/passwd; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args())
        .stdout(std::process::Stdio::piped());
    let mut session = bench.start_by(outer);
    session.ended();
    let out = std::fs::read(bench.layout.out(&bench.name)).expect("is there");
    let text = String::from_utf8_lossy(&out[64..]).into_owned();
    // The classic 31; those above belong to the C library and to whoever runs the tests.
    let masks = text
        .lines()
        .filter_map(|line| u64::from_str_radix(line.strip_prefix("Sig")?.get(4..)?.trim(), 16).ok());
    let masks: Vec<u64> = masks.map(|mask| mask & 0x7fff_ffff).collect();
    assert_eq!(masks, [0, 0], "no signal is ignored or blocked: {text}");
    assert!(!text.contains("/etc/passwd") && !text.contains("/ptmx"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(" -> ")).count(), 4, "three and ls's own: {text}");
}

#[test]
fn the_program_has_a_terminal_of_its_own() {
    let bench = Bench::new();
    let session = bench.start(script(
        TERMINAL,
        "tty; stty size; read a; stty size; test -t 0 -a -t 1 -a -t 2; echo st=$?; read b",
    ));
    let mut client = session.follower();
    assert!(client.hello().pty);
    let seen = read_until(&mut client, "24 80");
    assert!(seen.contains("/dev/pts/"), "{seen:?}");
    client.resize(50, 132).expect("sends");
    client.input(0, b"\n").expect("sends");
    let seen = read_until(&mut client, "st=0");
    assert!(seen.contains("50 132"), "{seen:?}");
}

#[test]
fn a_resize_is_told_to_the_program() {
    let bench = Bench::new();
    let session =
        bench.start(script(TERMINAL, "trap 'stty size' WINCH; echo armed; while :; do sleep 1 & wait; done"));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    client.resize(33, 99).expect("sends");
    read_until(&mut client, "33 99");
}

#[test]
fn an_interrupt_key_reaches_the_foreground_program() {
    let bench = Bench::new();
    let session =
        bench.start(script(TERMINAL, "trap 'echo int' INT; echo armed; while :; do sleep 1 & wait; done"));
    let mut client = session.follower();
    read_until(&mut client, "armed");
    client.input(0, b"\x03").expect("sends");
    read_until(&mut client, "int");
}

#[test]
fn a_path_longer_than_an_address_works() {
    let bench = Bench::at(&format!("{}/{}/.ostk", "d".repeat(90), "e".repeat(90)));
    let session = bench.start(script(TERMINAL, "echo here; read go"));
    read_until(&mut session.follower(), "here");
}

#[test]
fn a4_files_and_socket_are_ours_alone() {
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::new();
    let session = bench.start(script(Io::Pipes, "read go"));
    let l = &bench.layout;
    let name = &bench.name;
    let files =
        [l.meta(name), l.out(name), l.err(name), l.events(name), l.heartbeat(name), l.worker_lock(name)];
    for path in files.iter().chain([&session.socket]) {
        let mode = std::fs::metadata(path).expect("is there").mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn a_heartbeat_rises_while_the_loop_turns_and_stands_still_when_it_does_not() {
    let bench = Bench::new();
    let session = bench.start(script(TERMINAL, "cat"));
    let first = bench.heartbeat();
    until(|| (bench.heartbeat().liveness > first.liveness + 2).then_some(()));
    let idle = bench.heartbeat().progress;
    let mut client = session.follower();
    client.input(0, b"hello\n").expect("sends");
    read_until(&mut client, "hello");
    until(|| (bench.heartbeat().progress > idle).then_some(()));

    session.signal_worker(Signal::STOP);
    let stat = format!("/proc/{}/stat", session.worker.pid);
    until(|| std::fs::read_to_string(&stat).ok()?.contains(") T ").then_some(()));
    let stopped = bench.heartbeat();
    let mut client = client;
    let silent = client.probe(std::time::Duration::from_millis(200));
    assert!(crate::bench::is_silent(&silent), "{silent:?}");
    assert_eq!(bench.heartbeat(), stopped, "ten beats were due");
    session.signal_worker(Signal::CONT);
    until(|| (bench.heartbeat().liveness > stopped.liveness).then_some(()));
    client.probe(LIMIT).expect("answers again");
}

#[test]
fn a_long_output_right_before_the_end_is_whole() {
    for io in [TERMINAL, Io::Pipes] {
        let bench = Bench::new();
        let session = bench.start(script(io, "read go; seq 1 20000; echo last; exit 0"));
        let mut client = session.follower();
        client.input(0, b"go\n").expect("sends");
        let (seen, _) = read_all(&mut client);
        assert!(seen.contains("\n20000") && seen.trim_end().ends_with("last"), "{} bytes", seen.len());
    }
}
