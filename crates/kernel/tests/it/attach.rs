//! A person attached to a session. The person's terminal is that of a second session, whose program is a shell
//! that runs the attached client: so the tests type, resize and read through workers as well.

use std::process::{Command, Stdio};

use netsky_disk::process::{self, Signal};
use netsky_kernel::frame::FromWorker;
use netsky_kernel::session::{Io, Spec};
use netsky_kernel::worker_client::WorkerClient;

use crate::bench::{Bench, LIMIT, Session, TERMINAL, gone, next, read_until, script, until};

pub(crate) const CLIENT: &str = env!("CARGO_BIN_EXE_kernel-under-test");
pub(crate) const DETACH: &[u8] = b"\x1c";

/// A shell that attaches, and then says whether its terminal is as it was.
pub(crate) fn person(bench: &Bench, flags: &str) -> Spec {
    let root = bench.layout.root().display();
    let name = &bench.name;
    script(
        TERMINAL,
        &format!(
            "trap : QUIT; before=$(stty -g); {CLIENT} attach {root} {name} {flags}; after=$(stty -g); \
             test \"$before\" = \"$after\" && echo terminal=same || echo terminal=changed; read go"
        ),
    )
}

/// The process of the attached client.
pub(crate) fn client_process(person: &Session) -> netsky_model::process::ProcessId {
    until(|| {
        let below = netsky_disk::sweep::descendants(person.program.pid).expect("looks");
        below.into_iter().find(|id| {
            let line = std::fs::read(format!("/proc/{}/cmdline", id.pid)).unwrap_or_default();
            line.windows(7).any(|word| word == b"attach\0")
        })
    })
}

pub(crate) struct Scene {
    pub(crate) inner: Bench,
    pub(crate) agent: Session,
    _outer: Bench,
    pub(crate) person: Session,
    pub(crate) screen: WorkerClient,
}

pub(crate) fn scene(agent: Spec, flags: &str) -> Scene {
    let inner = Bench::new();
    let agent = inner.start(agent);
    beside(inner, agent, flags)
}

pub(crate) fn beside(inner: Bench, agent: Session, flags: &str) -> Scene {
    let outer = Bench::new();
    let person = outer.start(person(&inner, flags));
    let screen = person.follower();
    Scene { inner, agent, _outer: outer, person, screen }
}

#[test]
fn keys_and_output_pass_and_the_detach_key_leaves_the_agent_running() {
    let mut scene = scene(script(TERMINAL, "echo before; while read line; do echo \"<$line>\"; done"), "");
    read_until(&mut scene.screen, "before");
    scene.screen.input(0, b"hello\r").expect("types");
    read_until(&mut scene.screen, "<hello>");
    scene.screen.input(0, DETACH).expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("left: Detached"), "{seen:?}");
    read_until_same(&mut scene.screen, &seen);
    scene.agent.client().probe(LIMIT).expect("runs on");
    assert!(process::is_alive(&scene.agent.program));
}

/// The verdict may come in the same piece of output or in the next.
pub(crate) fn read_until_same(screen: &mut WorkerClient, seen: &str) {
    if !seen.contains("terminal=same") {
        let rest = read_until(screen, "\n");
        assert!(format!("{seen}{rest}").contains("terminal=same"), "{seen:?} {rest:?}");
    }
}

/// What paints the screen of a session.
fn picture(session: &Session) -> String {
    let mut client = session.client();
    assert!(client.hello().screen);
    client.screen().expect("asks");
    match next(&mut client) {
        FromWorker::Screen { bytes, .. } => String::from_utf8(bytes).expect("text"),
        other => panic!("{other:?}"),
    }
}

/// It can paint nothing itself, and what it painted is further back than any replay.
#[test]
fn a_frozen_full_screen_program_is_shown_whole_and_the_same_each_time() {
    let text = "printf '\\033[?1049h\\033[2J\\033[3;5Hframe\\033[?2004h\\033[6;1H'; \
                yes '  ' | head -c 100000 | tr '\\n' '\\r'; printf done; kill -STOP $$; read go";
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, text));
    read_until(&mut agent.follower(), "done");
    let before = picture(&agent);
    assert!(before.contains("frame") && before.contains("\x1b[?2004h"), "{before:?}");
    let mut scene = beside(inner, agent, "");
    let seen = read_until(&mut scene.screen, "frame");
    assert!(seen.contains("\x1b[?1049h"), "{seen:?}");
    let resize = |scene: &Scene, rows, cols| {
        scene.person.client().resize(rows, cols).expect("asked");
        until(|| (size(&scene.agent) == format!("{rows} {cols}")).then_some(()));
        shows_the_same(scene, "frame")
    };
    // Larger and back: nothing is lost by it, though nobody paints it anew. Then smaller, and that holds too.
    resize(&scene, 40, 120);
    resize(&scene, 24, 80);
    assert_eq!(picture(&scene.agent), before);
    let small = resize(&scene, 4, 30);
    assert!(!before.ends_with(&small), "{small:?}");
    detached(&mut scene);
    let Scene { inner, agent, .. } = scene;
    assert_eq!(painted(&agent).as_ref(), Some(&small), "nobody looks, and it is as it was");
    let mut scene = beside(inner, agent, "");
    assert_eq!(resize(&scene, 4, 30), small);
    detached(&mut scene);
    assert_eq!(painted(&scene.agent), Some(small));
}

/// Of a picture what a full-screen program painted: from the other screen on.
fn painted(session: &Session) -> Option<String> {
    let picture = picture(session);
    picture.split_once("\x1b[?1049h").map(|(_, other)| other.to_owned())
}

/// The lines and columns of a program's terminal, as the system says.
fn size(session: &Session) -> String {
    let tty = std::fs::File::open(format!("/proc/{}/fd/0", session.program.pid)).expect("its terminal");
    let said = Command::new("stty").arg("size").stdin(tty).output().expect("it runs");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// Waits until a person's terminal shows what the agent's does, and that holds; what it is.
fn shows_the_same(scene: &Scene, text: &str) -> String {
    until(|| {
        let agent = painted(&scene.agent).filter(|shown| shown.contains(text))?;
        // Once more a moment later: an editor paints in several pieces.
        netsky_disk::clock::pause(std::time::Duration::from_millis(50));
        let same = painted(&scene.person)? == agent && painted(&scene.agent)? == agent;
        same.then_some(agent)
    })
}

pub(crate) fn detached(scene: &mut Scene) {
    scene.screen.input(0, DETACH).expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    read_until_same(&mut scene.screen, &seen);
}

/// A real editor, attached to, typed in, resized, left alone and attached to again: the person's terminal shows what the
/// editor's own does, each time.
fn an_editor_is_the_same_on_both_screens(editor: &str, insert: &str) {
    let program = editor.split(' ').next().expect("a word");
    if !["/usr/bin", "/bin"].iter().any(|folder| std::path::Path::new(folder).join(program).exists()) {
        return crate::skipped::skipped(&format!("the editor {program}"));
    }
    let inner = Bench::new();
    let file = inner.layout.root().join("text");
    let lines: String = (1..60).map(|n| format!("line {n} 日本 e\u{301} {}\n", "=".repeat(n))).collect();
    std::fs::write(&file, lines).expect("ours");
    let text = format!("export TERM=xterm-256color LANG=C.UTF-8; exec {editor} {}", file.display());
    let agent = inner.start(script(TERMINAL, &text));

    until(|| painted(&agent).filter(|shown| shown.contains("line 3")));
    let mut scene = beside(inner, agent, "");
    shows_the_same(&scene, "line 3");
    scene.screen.input(0, insert.as_bytes()).expect("types");
    let large = shows_the_same(&scene, "typed here");
    scene.person.client().resize(17, 61).expect("asked");
    until(|| painted(&scene.agent).filter(|small| *small != large));
    let before = shows_the_same(&scene, "typed here");
    detached(&mut scene);
    let Scene { inner, agent, .. } = scene;
    assert_eq!(painted(&agent).as_ref(), Some(&before), "nobody looks, and it is as it was");
    let mut scene = beside(inner, agent, "");
    scene.person.client().resize(17, 61).expect("asked");
    assert_eq!(shows_the_same(&scene, "typed here"), before);
    detached(&mut scene);
}

#[test]
fn must_show_8_vim_is_the_same_on_both_screens() {
    an_editor_is_the_same_on_both_screens("vim.tiny -u NONE -i NONE -n", "ggOtyped here\x1b");
}

#[test]
fn must_show_8_nano_is_the_same_on_both_screens() {
    an_editor_is_the_same_on_both_screens("nano --ignorercfiles", "typed here");
}

/// A mistake in the model of the screen takes no program along.
#[test]
fn a_screen_that_broke_costs_the_picture_and_nothing_else() {
    let inner = Bench::new();
    inner.reserve(script(TERMINAL, "echo hello; exec cat"), 1);
    let mut command = inner.command(1);
    let said = inner.layout.root().join("said");
    command.env("NETSKY_FAULT", "worker.screen=error").env("RUST_BACKTRACE", "1");
    command.stderr(std::fs::File::create(&said).expect("made"));
    let agent = inner.start_by(command);
    read_until(&mut agent.follower(), "hello");
    let mut scene = beside(inner, agent, "");
    read_until(&mut scene.screen, "hello");
    scene.screen.input(0, b"still\r").expect("types");
    read_until(&mut scene.screen, "still");
    let said = std::fs::read_to_string(said).expect("reads");
    assert!(said.lines().count() == 1 && said.contains("the picture of a screen broke"), "{said}");
}

#[test]
fn the_size_of_the_window_reaches_the_agent() {
    let text = "trap 'stty size' WINCH; echo armed; while :; do sleep 1 & wait; done";
    let inner = Bench::new();
    let agent = inner.start(script(Io::Pty { rows: 10, cols: 20 }, text));
    // Before that it would not hear of the first size.
    read_until(&mut agent.follower(), "armed");
    let mut scene = beside(inner, agent, "");
    read_until(&mut scene.screen, "24 80");
    scene.screen.resize(41, 111).expect("resizes");
    read_until(&mut scene.screen, "41 111");
}

#[test]
fn a_window_of_the_same_size_is_no_news_to_the_agent() {
    let text = "trap 'echo resized' WINCH; echo armed; while read line; do echo \"<$line>\"; done";
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, text));
    read_until(&mut agent.follower(), "armed");
    let mut scene = beside(inner, agent, "");
    read_until(&mut scene.screen, "armed");
    scene.screen.input(0, b"one\r").expect("types");
    let seen = read_until(&mut scene.screen, "<one>");
    scene.screen.input(0, b"two\r").expect("types");
    let seen = format!("{seen}{}", read_until(&mut scene.screen, "<two>"));
    assert!(!seen.contains("resized"), "{seen:?}");
    // The trap is there: another size is told.
    scene.screen.resize(41, 111).expect("resizes");
    scene.screen.input(0, b"three\r").expect("types");
    read_until(&mut scene.screen, "resized");
}

/// What it says in its last line is lost when it is asked to paint.
#[test]
fn an_editor_keeps_its_message_when_somebody_attaches() {
    if !std::path::Path::new("/usr/bin/vim.tiny").exists() {
        return crate::skipped::skipped("the editor vim.tiny");
    }
    let inner = Bench::new();
    let text = "export TERM=xterm-256color LANG=C.UTF-8; exec vim.tiny -u NONE -i NONE -n";
    let agent = inner.start(script(TERMINAL, text));
    until(|| painted(&agent));
    // Where it is, in its last line.
    agent.client().input(0, b"\x07").expect("types");
    let message = "--No lines in buffer--";
    until(|| painted(&agent).filter(|shown| shown.contains(message)));
    let mut scene = beside(inner, agent, "");
    shows_the_same(&scene, message);
    detached(&mut scene);
    assert!(painted(&scene.agent).is_some_and(|shown| shown.contains(message)));
}

#[test]
fn read_only_touches_nothing() {
    let text = "trap 'echo resized' WINCH; echo armed; while read line; do echo \"<$line>\"; done";
    let mut scene = scene(script(Io::Pty { rows: 10, cols: 20 }, text), "--read-only");
    read_until(&mut scene.screen, "armed");
    scene.screen.input(0, b"never\r").expect("types");
    scene.screen.resize(41, 111).expect("resizes");
    scene.agent.client().input(0, b"other\r").expect("types");
    let seen = read_until(&mut scene.screen, "<other>");
    assert!(!seen.contains("never") && !seen.contains("resized"), "{seen:?}");
    // In a terminal that nothing is typed into, the usual key to stop is one to leave as well.
    scene.screen.input(0, b"\x03").expect("types");
    read_until(&mut scene.screen, "left: Detached");
    assert!(process::is_alive(&scene.agent.program));
}

#[test]
fn a_signal_to_the_client_puts_the_terminal_back() {
    for signal in
        [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::ALARM, Signal::XCPU]
    {
        let mut scene = scene(script(TERMINAL, "printf '\\033[?1049h\\033[?25l'; echo armed; read go"), "");
        read_until(&mut scene.screen, "armed");
        process::signal(&client_process(&scene.person), signal).expect("signals");
        let seen = read_until(&mut scene.screen, "terminal=");
        assert!(seen.contains(&format!("left: Signalled({})", signal.as_raw())), "{seen:?}");
        assert!(seen.contains("\x1b[?25h\x1b[?1049l"), "the screen is put back as well: {seen:?}");
        read_until_same(&mut scene.screen, &seen);
        assert!(process::is_alive(&scene.agent.program));
    }
}

/// As `kill -TSTP` does: the shell it goes back to has its terminal, and `fg` gives it up again.
#[test]
fn who_stops_an_attachment_has_the_terminal_until_it_goes_on() {
    let mut scene =
        scene(script(TERMINAL, "printf '\\033[?1049h\\033[?25l'; echo armed; read go; echo heard"), "");
    read_until(&mut scene.screen, "armed");
    let settings = || {
        let tty = format!("/proc/{}/fd/0", scene.person.program.pid);
        let said = Command::new("stty").args(["-a", "-F", &tty]).output().expect("stty runs");
        String::from_utf8(said.stdout).expect("text")
    };
    assert!(settings().contains("-icanon"), "it is raw: {}", settings());
    let client = client_process(&scene.person);
    process::signal(&client, Signal::TSTP).expect("signals");
    let seen = read_until(&mut scene.screen, "\x1b[?1049l");
    assert!(seen.contains("\x1b[?25h"), "{seen:?}");
    until(|| process_state(client.pid).filter(|state| state == "T"));
    assert!(settings().contains(" icanon"), "{}", settings());
    // As a shell does at its prompt: that is not what was there before.
    let tty = format!("/proc/{}/fd/0", scene.person.program.pid);
    assert!(Command::new("stty").args(["-F", &tty, "-echo"]).status().expect("stty runs").success());
    process::signal(&client, Signal::CONT).expect("signals");
    let seen = read_until(&mut scene.screen, "armed");
    assert!(seen.contains("\x1b[?1049h"), "the screen is shown anew: {seen:?}");
    assert!(settings().contains("-icanon"), "it is raw: {}", settings());
    scene.screen.input(0, b"\r").expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("heard") && seen.contains("left: Ended"), "{seen:?}");
    read_until_same(&mut scene.screen, &seen);
}

/// Its letter in `/proc`, `T` for a stopped one.
fn process_state(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').next()?.to_owned())
}

#[test]
fn a_signal_also_ends_the_attachment_of_a_frozen_pane() {
    let mut scene = scene(script(TERMINAL, "echo armed; read go; head -c 4000000 /dev/zero; read go"), "");
    read_until(&mut scene.screen, "armed");
    let client = client_process(&scene.person);
    // Nobody reads the person's terminal any more; the client has written what fits, and waits.
    scene.person.signal_worker(Signal::STOP);
    scene.agent.client().input(0, b"\r").expect("types");
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", client.pid)).expect("lives");
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("counted").to_owned();
        line.parse::<u64>().expect("a number")
    };
    until(|| {
        let before = written();
        netsky_disk::clock::pause(std::time::Duration::from_millis(200));
        (before > 1000 && written() == before).then_some(())
    });
    process::signal(&client, Signal::TERM).expect("signals");
    // Its last words wait for the pane; the keyboard is the person's again before.
    let keyboard = std::fs::File::open(format!("/proc/{}/fd/0", scene.person.program.pid)).expect("opens");
    let by_lines = |modes: rustix::termios::Termios| {
        modes.local_modes.contains(rustix::termios::LocalModes::ICANON).then_some(())
    };
    until(|| rustix::termios::tcgetattr(&keyboard).ok().and_then(by_lines));
    scene.person.signal_worker(Signal::CONT);
    let seen = read_until(&mut scene.screen, "terminal=");
    read_until_same(&mut scene.screen, &seen);
    assert!(process::is_alive(&scene.agent.program));
}

#[test]
fn the_end_of_the_agent_ends_the_attachment() {
    let mut scene = scene(script(TERMINAL, "echo armed; read go; echo last words; exit 3"), "");
    read_until(&mut scene.screen, "armed");
    scene.screen.input(0, b"\r").expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("last words") && seen.contains("left: Ended(Exited { code: 3 })"), "{seen:?}");
    read_until_same(&mut scene.screen, &seen);
}

/// However much of it there is: what was printed last may take a slow line minutes.
#[test]
fn who_reads_the_rest_of_an_agent_that_has_ended_can_leave_and_is_told_how_it_ended() {
    let inner = Bench::new();
    let text = "echo armed; read go; head -c 12000000 /dev/zero | tr '\\0' x; exit 3";
    let mut agent = inner.start(script(TERMINAL, text));
    let outer = Bench::new();
    let person = outer.start(stops_before_the_rest(&inner));
    let mut screen = person.follower();
    read_until(&mut screen, "armed");
    let client = client_process(&person);
    // Nobody reads the person's terminal, so that nearly all of it is the rest.
    person.signal_worker(Signal::STOP);
    agent.client().input(0, b"\r").expect("types");
    agent.ended();
    person.signal_worker(Signal::CONT);
    until(|| process::is_stopped(&client).then_some(()));
    screen.input(0, DETACH).expect("types");
    screen.probe(LIMIT).expect("it is typed");
    process::signal(&client, Signal::CONT).expect("signals");
    let seen = read_until(&mut screen, "terminal=");
    let last = &seen[seen.len().saturating_sub(200)..];
    assert!(
        seen.len() < 6_000_000 && last.contains("left: Ended(Exited { code: 3 })"),
        "{} {last:?}",
        seen.len()
    );
}

/// A shell whose attach stops when its session is over, before it shows the rest.
fn stops_before_the_rest(inner: &Bench) -> Spec {
    let (root, name) = (inner.layout.root().display(), &inner.name);
    let attach = format!("NETSKY_FAULT=attach.rest=stop {CLIENT} attach {root} {name}");
    script(TERMINAL, &format!("trap : QUIT; {attach}; echo terminal=; read go"))
}

#[test]
fn fm_worker_kill_what_the_next_generation_prints_is_not_shown_to_who_was_attached_to_the_one_before() {
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, "echo armed; read go"));
    let outer = Bench::new();
    let person = outer.start(stops_before_the_rest(&inner));
    let mut screen = person.follower();
    read_until(&mut screen, "armed");
    let client = client_process(&person);
    agent.signal_worker(Signal::KILL);
    until(|| process::is_stopped(&client).then_some(()));
    drop(agent);
    let next = inner.start_generation(script(TERMINAL, "echo of the next; read go"), 2);
    read_until(&mut next.follower(), "of the next");
    process::signal(&client, Signal::CONT).expect("signals");
    let seen = read_until(&mut screen, "terminal=");
    assert!(seen.contains("left: ") && !seen.contains("of the next"), "{seen:?}");
}

/// What it missed ended on the other screen, or in a title: nobody could put the terminal right but who shows the screen.
#[test]
fn who_missed_what_is_no_longer_kept_is_shown_the_screen_as_it_is() {
    let text = "echo armed; read go; printf '\\033[?1049h\\033[?2004h'; head -c 4000000 /dev/zero | tr '\\0' x; \
                printf '\\033[?1049l\\033[?2004l'; head -c 30000000 /dev/zero | tr '\\0' x; echo settled; read go; echo again; read go";
    let mut scene = scene(script(TERMINAL, text), "");
    read_until(&mut scene.screen, "armed");
    let client = client_process(&scene.person);
    process::signal(&client, Signal::STOP).expect("signals");
    scene.agent.client().input(0, b"\r").expect("types");
    until(|| picture(&scene.agent).contains("settled").then_some(()));
    process::signal(&client, Signal::CONT).expect("signals");
    let is_shown = |text: &str| {
        let shown = picture(&scene.person);
        let is_right = !shown.contains("\x1b[?1049h") && !shown.contains("\x1b[?2004h");
        (shown.contains(text) && is_right).then_some(())
    };
    until(|| is_shown("settled"));
    scene.agent.client().input(0, b"\r").expect("types");
    until(|| is_shown("again"));
    detached(&mut scene);
}

#[test]
fn fm_worker_kill_the_attachment_says_so() {
    let mut scene = scene(script(TERMINAL, "echo armed; read go"), "");
    read_until(&mut scene.screen, "armed");
    scene.agent.signal_worker(Signal::KILL);
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("left: WorkerDied"), "{seen:?}");
    read_until_same(&mut scene.screen, &seen);
    gone(&scene.agent.program);
}

#[test]
fn an_old_question_to_the_terminal_is_not_asked_again() {
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, "printf 'a\\033[6nb\\033[cc\\007d\\n'; echo armed; read go"));
    read_until(&mut agent.follower(), "armed");
    let outer = Bench::new();
    let person = outer.start(person(&inner, ""));
    let seen = read_until(&mut person.follower(), "armed");
    assert!(seen.contains("abcd"), "{seen:?}");
}

#[test]
fn without_a_terminal_it_streams_to_the_end() {
    let bench = Bench::new();
    let session = bench.start(script(TERMINAL, "echo one; read go; echo two; exit 0"));
    let mut client = Command::new(CLIENT)
        .args([std::ffi::OsStr::new("attach"), bench.layout.root().as_ref(), bench.name.as_str().as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let _held_open = client.stdin.take();
    let mut typist = session.follower();
    read_until(&mut typist, "one");
    // Two clients are there once the second one follows; then the program may end.
    typist.input(0, b"\n").expect("types");
    let output = client.wait_with_output().expect("ends");
    let seen = String::from_utf8_lossy(&output.stdout);
    // The client may have come just after the end, and then says so.
    let whole = seen.contains("one\r\n") && seen.contains("two\r\n") && seen.contains("left: Ended");
    assert!(whole || seen.contains("does not run"), "{seen:?}");
}

#[test]
fn an_input_that_is_no_terminal_and_ends_leaves_once_what_was_printed_is_shown() {
    let bench = Bench::new();
    let session = bench.start(script(TERMINAL, "echo one; read go"));
    read_until(&mut session.follower(), "one");
    let mut client = Command::new(CLIENT);
    client.args([std::ffi::OsStr::new("attach"), bench.layout.root().as_ref(), bench.name.as_str().as_ref()]);
    let output = client.stdin(Stdio::null()).output().expect("ends");
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(seen.contains("one\r\n") && seen.contains("left: Detached"), "{seen:?}");
    session.client().probe(LIMIT).expect("runs on");
}

#[test]
fn what_does_not_run_cannot_be_attached_to() {
    let bench = Bench::new();
    let run = |name: &str| {
        let mut client = Command::new(CLIENT);
        client.args([std::ffi::OsStr::new("attach"), bench.layout.root().as_ref(), name.as_ref()]);
        String::from_utf8(client.stdin(Stdio::null()).output().expect("runs").stdout).expect("text")
    };
    let mut session = bench.start(script(TERMINAL, "exit 3"));
    session.ended();
    assert_eq!(run("agent7"), "error: session agent7 does not run: exited with code 3\n");
    assert_eq!(run("agent8"), "error: no session agent8\n");
}

#[test]
fn a_session_on_pipes_is_attached_to_by_lines() {
    let text = "while read line; do echo \"<$line>\"; done";
    let mut scene = scene(script(Io::Pipes, text), "");
    client_process(&scene.person);
    scene.screen.input(0, b"hello\r").expect("types");
    read_until(&mut scene.screen, "<hello>");
    scene.screen.input(0, DETACH).expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("left: Detached"), "{seen:?}");
    assert!(process::is_alive(&scene.agent.program));
    drop(scene.inner);
}
