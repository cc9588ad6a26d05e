//! What is typed into a session: whole or not at all, once under a name, and told in the journal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use netsky_kernel::client::Client;
use netsky_kernel::drain::Report;
use netsky_kernel::frame::{FromWorker, HEADER};
use netsky_kernel::rpc::{Event, EventKind, Guard, RefusalKind, SessionView, input, prompt};
use netsky_kernel::session::{Io, Spec};
use netsky_kernel::worker_client::WorkerClient;
use netsky_model::lifecycle::LifecycleState;

use crate::anchor_world::*;
use crate::bench::TERMINAL;

/// The frame that types under a name.
const TYPE: u8 = 9;

fn keys(session: &SessionView, text: &str, guard: Guard) -> input::Params {
    input::Params { session: session.name.clone(), text: text.to_owned(), epoch: 0, guard }
}

fn text(session: &SessionView, text: &str, guard: Guard) -> prompt::Params {
    prompt::Params {
        session: session.name.clone(),
        text: text.to_owned(),
        finalization: false,
        epoch: 0,
        guard,
    }
}

/// All output up to the first time that `last` stands in it.
fn printed(world: &World, session: &SessionView, last: &str) -> String {
    let mut worker = WorkerClient::connect(&world.layout().worker_sock(&session.name)).expect("greets");
    worker.follow(worker.hello().log.base).expect("asks");
    let mut seen = String::new();
    while !seen.contains(last) {
        match worker.next(LONG).expect("lives").expect("more") {
            FromWorker::Output { bytes, .. } => seen.push_str(&String::from_utf8_lossy(&bytes)),
            other => panic!("{other:?} instead of {last:?}"),
        }
    }
    seen
}

fn dying(client: &mut Client, session: &SessionView) {
    let used = Report::Context { used: 92.try_into().expect("a percentage") };
    client.report(&session.name, &used, &Guard::none()).expect("taken");
}

#[test]
fn input_is_queued_whole_or_refused_before_its_first_byte() {
    let mut world = World::new();
    let mut client = world.anchor();
    // It reads only once it is told to.
    let line = "trap 'kill $!' USR1; sleep 1000 & echo up; wait; exec cat";
    let session = spawn(&mut client, &shell("agent0", line));
    printed(&world, &session, "up");
    let mut taken = Vec::new();
    let refused = loop {
        let letter = char::from(b'a' + u8::try_from(taken.len()).expect("few"));
        let many = letter.to_string().repeat(input::MAX_TEXT);
        match client.input(&keys(&session, &many, Guard::none())) {
            Ok(_) => taken.push(letter),
            Err(error) => break (letter, error),
        }
    };
    assert_eq!(refused.1.kind(), Some(RefusalKind::Busy), "{}", refused.1);
    let over = "x".repeat(input::MAX_TEXT + 1);
    let error = client.input(&keys(&session, &over, Guard::none())).expect_err("too long");
    assert_eq!(error.kind(), Some(RefusalKind::TooLarge), "{error}");
    signal(session.program.as_ref().expect("it runs"), netsky_disk::process::Signal::USR1);
    until("there is room again", || client.input(&keys(&session, "END", Guard::none())).ok());
    let seen = printed(&world, &session, "END");
    assert!(!seen.contains(refused.0) && !seen.contains('x'), "a part of what was refused was typed");
    for letter in taken {
        assert_eq!(seen.matches(letter).count(), input::MAX_TEXT, "{letter}");
    }
}

/// Types, loses the anchor at that point, and types again under the same name.
fn cut(point: &str, spec: &Spec, finalization: bool) {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("NETSKY_FAULT", format!("{point}=kill"));
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, spec);
    if finalization {
        dying(&mut client, &session);
    }
    let params = prompt::Params { finalization, ..text(&session, "once", Guard::none().once("the-one")) };
    client.prompt(&params).expect_err("the anchor dies");
    world.kill_anchor();
    let mut client = world.anchor();
    let again = client.prompt(&params).expect("it is done");
    assert_eq!(again.program, session.program, "{point}");
    let wanted = if finalization { LifecycleState::Draining } else { LifecycleState::Healthy };
    assert_eq!(again.progress.lifecycle, wanted, "{point}");
    client.input(&keys(&session, "END\n", Guard::none())).expect("typed");
    assert_eq!(printed(&world, &session, "END"), "once\nEND\n", "{point}");
}

#[test]
fn what_is_typed_under_a_name_is_typed_once_also_where_its_anchor_died_before_the_answer() {
    for point in ["anchor.prompt.typed", "anchor.answer.known", "anchor.answer.kept"] {
        for finalization in [false, true] {
            cut(point, &shell("agent0", "exec cat"), finalization);
        }
    }
}

#[test]
fn a_finalization_prompt_that_was_not_typed_is_not_the_one() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &shell("agent0", "exec cat"));
    client.input(&input::Params { epoch: 5, ..keys(&session, "first\n", Guard::none()) }).expect("typed");
    dying(&mut client, &session);
    let last = |epoch| prompt::Params { finalization: true, epoch, ..text(&session, "last", Guard::none()) };
    let refused = client.prompt(&last(4)).expect_err("its driver was replaced");
    assert_eq!(refused.kind(), Some(RefusalKind::Refused), "{refused}");
    assert_eq!(client.show(&session.name).expect("known").progress.lifecycle, LifecycleState::Dying);
    let done = client.prompt(&last(5)).expect("it was not spent");
    assert_eq!(done.progress.lifecycle, LifecycleState::Draining);
    assert_eq!(printed(&world, &session, "last"), "first\nlast\n");
}

#[test]
fn what_somebody_does_to_a_program_is_told_in_the_journal_and_not_what_it_was() {
    let mut world = World::new();
    let mut client = world.anchor();
    let mut spec = shell("agent0", "trap : USR1; while :; do sleep 1000 & wait; done");
    spec.io = netsky_kernel::session::Io::Pty { rows: 24, cols: 80 };
    let session = spawn(&mut client, &spec);
    client.input(&keys(&session, "secret", Guard::none().once("r1"))).expect("typed");
    client.prompt(&text(&session, "secret", Guard::none())).expect("typed");
    client
        .resize(&netsky_kernel::rpc::resize::Params {
            session: session.name.clone(),
            rows: 30,
            cols: 90,
            guard: Guard::none(),
        })
        .expect("done");
    client
        .signal(&netsky_kernel::rpc::signal::Params {
            session: session.name.clone(),
            signal: 10,
            guard: Guard::none(),
        })
        .expect("sent");
    let mut events = world.client().subscribe(Some(0)).expect("subscribed");
    let mut rows: Vec<Event> = Vec::new();
    while rows.last().is_none_or(|row| row.seq < events.head()) {
        rows.push(events.next(Some(LONG)).expect("lives").expect("told"));
    }
    for (kind, data) in [
        (EventKind::Input, r#"{"bytes":6,"request_id":"r1"}"#),
        (EventKind::Prompt, r#"{"bytes":6,"finalization":false}"#),
        (EventKind::Resize, r#"{"cols":90,"rows":30}"#),
        (EventKind::Signal, r#"{"signal":10}"#),
    ] {
        let told = rows.iter().find(|row| row.kind == kind).expect("a row");
        assert_eq!((told.data.to_string().as_str(), told.generation), (data, Some(session.generation)));
    }
    assert!(!std::fs::read_to_string(world.layout().journal()).expect("reads").contains("secret"));
}

#[test]
fn a_signal_for_a_session_without_a_living_program_is_refused_and_says_that_none_was_sent() {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    client.kill(&session.name, Some(std::time::Duration::ZERO), &Guard::none()).expect("ends");
    for request_id in [None, Some("r1"), Some("r1")] {
        let guard = Guard { request_id: request_id.map(str::to_owned), ..Guard::none() };
        let params = netsky_kernel::rpc::signal::Params { session: session.name.clone(), signal: 10, guard };
        let refused = client.signal(&params).expect_err("there is nobody");
        let refusal = (refused.kind(), refused.to_string());
        assert_eq!(refusal, (Some(RefusalKind::Refused), "agent0 does not run; nothing was sent".to_owned()));
    }
    assert!(rows(&world).iter().all(|row| row.kind != EventKind::Signal));
}

/// A worker of before as an anchor meets it after an upgrade: it does not say that it types, and knows no frame for it.
/// Stands before the real one until it is dropped.
struct Former {
    socket: PathBuf,
    real: PathBuf,
}

impl Former {
    fn before(socket: PathBuf) -> Former {
        let real = socket.with_extension("real");
        std::fs::rename(&socket, &real).expect("ours");
        let listener = UnixListener::bind(&socket).expect("bound");
        let behind = real.clone();
        // Ends with the test's process; nobody connects once the socket is the real one again.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let behind = behind.clone();
                std::thread::spawn(move || Former::speak(&client.expect("a client"), &behind));
            }
        });
        Former { socket, real }
    }

    fn speak(client: &UnixStream, real: &Path) {
        let worker = UnixStream::connect(real).expect("it listens");
        let mut said = BufReader::new(worker.try_clone().expect("a descriptor"));
        let mut hello = String::new();
        said.read_line(&mut hello).expect("greets");
        let mut hello: serde_json::Value = serde_json::from_str(&hello).expect("a greeting");
        assert_eq!(hello.as_object_mut().expect("an object").remove("types"), Some(true.into()));
        let (mut back, mut on) = (client.try_clone().expect("a descriptor"), &worker);
        writeln!(back, "{hello}").expect("written");
        std::thread::spawn(move || std::io::copy(&mut said, &mut back));
        let mut asked = client;
        loop {
            let mut head = [0; HEADER];
            if asked.read_exact(&mut head).is_err() {
                return drop(worker.shutdown(Shutdown::Both));
            }
            let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            let mut bytes = vec![0; usize::try_from(length).expect("fits")];
            asked.read_exact(&mut bytes).expect("whole");
            // The number of a frame that it does not know.
            if head[0] != TYPE {
                on.write_all(&[&head[..], &bytes].concat()).expect("taken");
            }
        }
    }
}

impl Drop for Former {
    fn drop(&mut self) {
        std::fs::rename(&self.real, &self.socket).expect("ours");
    }
}

#[test]
fn a_worker_of_before_that_does_not_type_is_typed_to_in_keys() {
    let mut world = World::new();
    let mut client = world.anchor();
    let pasting = "stty raw -echo; printf '\\033[?2004harmed'; exec cat -v";
    let plain = "stty raw -echo; printf '\\033[?2004h\\033[?2004larmed'; exec cat -v";
    let cases = [
        (TERMINAL, pasting, "^[[200~two^Mlines^[[201~^M"),
        (TERMINAL, plain, "two^Mlines^M"),
        (Io::Pipes, "echo armed; exec cat -v", "two\nlines\n"),
    ];
    for (n, (io, line, wanted)) in cases.into_iter().enumerate() {
        let spec = Spec { io, ..shell(&format!("agent{n}"), line) };
        let session = spawn(&mut client, &spec);
        printed(&world, &session, "armed");
        let former = Former::before(world.layout().worker_sock(&session.name));
        client.prompt(&text(&session, "two\nlines", Guard::none())).expect("typed");
        client.input(&keys(&session, "END", Guard::none())).expect("typed");
        drop(former);
        let seen = printed(&world, &session, "END");
        let (_, typed) = seen.split_once("armed").expect("it was");
        assert_eq!(typed.trim_start(), format!("{wanted}END"), "{n}");
    }
}
