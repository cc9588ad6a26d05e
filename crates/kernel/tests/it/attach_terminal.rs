//! What an attachment does to the terminal it runs in, what comes from it, and that it goes back as it was.

use std::time::Duration;

use netsky_disk::process::{self, Signal};
use netsky_kernel::frame::{Form, FromWorker};
use netsky_kernel::session::{Io, Spec};

use crate::attach::{CLIENT, DETACH, beside, client_process, detached, read_until_same, scene};
use crate::bench::{Bench, LIMIT, Session, TERMINAL, next, read_until, script, until};

/// An agent that prints this, in printf's words, once it was sent a line.
fn prints(text: &str) -> Spec {
    script(TERMINAL, &format!("echo armed; read go; printf '{text}'; echo printed; read go"))
}

/// Asserts that these stand in a text in this order.
#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} comes not, or not so late, in {text:?}"));
        rest = &rest[at + part.len()..];
    }
}

/// As a shell does at its prompt and an editor started there: what the person types next is what they are used to.
#[test]
fn the_keyboard_settings_of_both_screens_are_undone() {
    let mut scene = scene(prints("\\033[=5u\\033[?1049h\\033[>1u"), "");
    read_until(&mut scene.screen, "armed");
    scene.screen.input(0, b"\r").expect("types");
    read_until(&mut scene.screen, "printed");
    scene.screen.input(0, b"\x1b[92;5u").expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    in_order(&seen, &["\x1b[<1u", "\x1b[?1049l", "\x1b[=0u", "left: Detached"]);
    read_until_same(&mut scene.screen, &seen);
}

/// A shell whose attach has these for its keys.
fn without_keys(bench: &Bench, before: &str, after: &str) -> Spec {
    let (root, name) = (bench.layout.root().display(), &bench.name);
    script(TERMINAL, &format!("{before} {CLIENT} attach {root} {name} {after}; echo; read go"))
}

const FULL_SCREEN: &str = "printf '\\033[?1049h\\033[?1000h\\033[?25l'; echo armed; read go";
const UNDONE: [&str; 4] = ["\x1b[?25h", "\x1b[?1000l", "\x1b[?1049l", "left: "];

#[test]
fn a_terminal_that_nothing_is_typed_at_is_put_back_as_well() {
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, FULL_SCREEN));
    read_until(&mut agent.follower(), "armed");
    let outer = Bench::new();
    let person = outer.start(without_keys(&inner, "", "</dev/null"));
    let seen = read_until(&mut person.follower(), "left: Detached");
    in_order(&seen, &["\x1b[?1049h", "armed"]);
    in_order(&seen, &UNDONE);
}

#[test]
fn a_signal_puts_back_a_terminal_that_nothing_is_typed_at() {
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, FULL_SCREEN));
    let outer = Bench::new();
    let person = outer.start(without_keys(&inner, "tail -f /dev/null |", ""));
    let mut screen = person.follower();
    read_until(&mut screen, "armed");
    process::signal(&client_process(&person), Signal::USR2).expect("signals");
    let seen = read_until(&mut screen, "left: Signalled(12)");
    in_order(&seen, &UNDONE);
    assert!(process::is_alive(&agent.program));
}

/// As after `su`: the terminal is still the first user's.
#[test]
fn a_terminal_that_does_not_open_anew_is_used_as_it_is() {
    let inner = Bench::new();
    let agent = inner.start(prints("\\033[?2004h"));
    let outer = Bench::new();
    let (root, name) = (inner.layout.root().display(), &inner.name);
    let text = format!(
        "before=$(stty -g); NETSKY_FAULT=attach.screen=error {CLIENT} attach {root} {name}; \
         test \"$before\" = \"$(stty -g)\" && echo terminal=same; read go"
    );
    let person = outer.start(script(TERMINAL, &text));
    let mut screen = person.follower();
    read_until(&mut screen, "armed");
    screen.input(0, b"\r").expect("types");
    read_until(&mut screen, "printed");
    screen.input(0, b"\x1c").expect("types");
    let seen = read_until(&mut screen, "terminal=same");
    in_order(&seen, &["\x1b[?2004l", "left: Detached"]);
    assert!(process::is_alive(&agent.program));
}

/// Everything that a session prints up to a line, which must not be without end.
fn printed_until(session: &Session, line: &str) -> String {
    let (mut client, mut seen) = (session.follower(), String::new());
    while !seen.ends_with(&format!("{line}\r\n")) {
        let FromWorker::Output { bytes, .. } = next(&mut client) else { panic!("no more of {seen:?}") };
        seen.push_str(&String::from_utf8_lossy(&bytes));
        assert!(seen.len() < 10_000, "it prints itself: {seen:?}");
    }
    seen
}

/// What it prints it would print for ever.
#[test]
fn nobody_attaches_to_a_session_from_inside_it() {
    let bench = Bench::new();
    let attach = format!("{CLIENT} attach $OSTK_SESSION_ROOT {}", bench.name);
    let text =
        format!("echo before; {attach}; {attach} --read-only; {attach} </dev/null; echo after; read go");
    let session = bench.start(script(TERMINAL, &text));
    let seen = printed_until(&session, "after");
    let refused =
        "error: agent7 cannot be attached to from inside itself: what it prints would be printed by it\r\n";
    assert_eq!(seen, format!("before\r\n{}after\r\n", refused.repeat(3)));
}

/// Where what it prints goes elsewhere, it comes back from nowhere: a file, a terminal of a program that was started inside.
#[test]
fn from_inside_a_session_it_is_attached_to_where_nothing_comes_back() {
    let bench = Bench::new();
    let file = bench.layout.root().join("shown");
    let attach = format!("{CLIENT} attach $OSTK_SESSION_ROOT {}", bench.name);
    let text = format!(
        "stty -echo; echo before; read go; {attach} </dev/null >{}; {attach} | cat; echo after; read go; echo typed",
        file.display()
    );
    let session = bench.start(script(TERMINAL, &text));
    read_until(&mut session.follower(), "before\r\n");
    session.client().input(0, b"\r").expect("types");
    let seen = printed_until(&session, "after");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), "before\r\nleft: Detached\n");
    in_order(&seen, &["before", "error: agent7 cannot be attached to from here", "after"]);

    let outer = Bench::new();
    let (root, name, lineage) = (bench.layout.root().display(), &bench.name, bench.meta().lineage);
    let text = format!("OSTK_SESSION={lineage} {CLIENT} attach {root} {name}; read go");
    let person = outer.start(script(TERMINAL, &text));
    let mut screen = person.follower();
    read_until(&mut screen, "after");
    screen.input(0, b"\r").expect("types");
    read_until(&mut screen, "typed");
}

/// What either prints would go round, and each key as well.
#[test]
fn two_sessions_are_not_attached_to_each_other() {
    let (one, two) = (Bench::new(), Bench::new());
    let attach = |to: &Bench| format!("{CLIENT} attach {} {}", to.layout.root().display(), to.name);
    let text = format!("echo armed; read go; {}; echo after; exec cat", attach(&one));
    let second = two.start(script(TERMINAL, &text));
    let first = one.start(script(TERMINAL, &format!("{}; read go", attach(&two))));
    let mut sees = first.follower();
    read_until(&mut sees, "armed");
    second.client().input(0, b"\r").expect("types");
    let seen = printed_until(&second, "after");
    let refused = "error: agent7 cannot be attached to from here: it is shown this terminal, so that what it prints \
                   comes back\r\n";
    in_order(&seen, &["armed", refused, "after"]);
    // The first one goes on.
    second.client().input(0, b"typed\r").expect("types");
    read_until(&mut sees, "typed");
}

#[test]
fn ctrl_c_leaves_where_nothing_is_typed_however_the_terminal_tells_it() {
    let mut scene = scene(script(TERMINAL, "echo armed; read go"), "--read-only");
    read_until(&mut scene.screen, "armed");
    scene.screen.input(0, b"\x1b[99;5u").expect("types");
    read_until(&mut scene.screen, "left: Detached");
    assert!(process::is_alive(&scene.agent.program));
}

/// The picture begins with an empty screen: what stood on the person's goes up before, and what is said after is below it.
#[test]
fn what_the_person_had_on_the_screen_goes_up_and_what_is_said_comes_below() {
    let mut scene = scene(script(TERMINAL, "printf 'prompt$ '; read go"), "");
    let seen = read_until(&mut scene.screen, "prompt$ ");
    let (before, _) = seen.split_once("\x1b[H\x1b[J").expect("it paints");
    assert!(before.starts_with(&"\n".repeat(24)), "{seen:?}");
    scene.screen.input(0, b"\x1c").expect("types");
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("\r\n\x1b[Jleft: Detached"), "{seen:?}");
}

#[test]
fn a_mouse_report_goes_to_the_agent_as_it_is() {
    let text = "stty raw -echo; printf '\\033[?1002h\\033[?1006harmed'; head -c 31 | od -An -c | tr -d ' \\n'; read go";
    let mut scene = scene(script(TERMINAL, text), "");
    read_until(&mut scene.screen, "armed");
    // A press, a move and the release, cut as a slow line cuts it.
    for piece in [b"\x1b[<0;12".as_slice(), b";7M\x1b[", b"<32;13;7M\x1b[<0;13;7m"] {
        scene.screen.input(0, piece).expect("types");
    }
    read_until(&mut scene.screen, "033[<0;12;7M033[<32;13;7M033[<0;13;7m");
}

/// Types at a person's terminal, as fast as what runs there takes it.
fn types(person: &Session, keys: &[u8]) {
    let mut client = person.client();
    for piece in keys.chunks(64 << 10) {
        until(|| client.type_once(0, Form::Keys, "", piece, LIMIT).ok());
    }
}

fn paste(letter: u8, length: usize) -> Vec<u8> {
    [b"\x1b[200~".as_slice(), &vec![letter; length], b"\x1b[201~"].concat()
}

/// It is busy and does not read: a paste without its middle or its end would be another text than the person's.
#[test]
fn a_paste_is_typed_whole_or_not_at_all() {
    let inner = Bench::new();
    let [go, got] = ["go", "got"].map(|name| inner.layout.root().join(name));
    let text = format!(
        "stty raw -echo; printf '\\033[?2004harmed'; until test -e {}; do sleep 0.02; done; exec cat >{}",
        go.display(),
        got.display()
    );
    let agent = inner.start(script(TERMINAL, &text));
    let mut scene = beside(inner, agent, "");
    read_until(&mut scene.screen, "armed");
    let [first, second, long] = [(b'a', 700 << 10), (b'b', 700 << 10), (b'c', 1200 << 10)]
        .map(|(letter, length)| paste(letter, length));
    types(&scene.person, &[&first[..], &second, DETACH].concat());
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("left: Untyped(NoRoom)"), "{seen:?}");

    std::fs::write(&go, "").expect("ours");
    let reaches = |end: &str| {
        let bytes = std::fs::read(&got).ok()?;
        bytes.ends_with(end.as_bytes()).then_some(bytes)
    };
    scene.agent.client().input(0, b"END").expect("types");
    assert!(until(|| reaches("END")) == [&first[..], b"END"].concat(), "it got something of the second");

    // Which is read at once, and is too long for a frame.
    let mut scene = beside(scene.inner, scene.agent, "");
    read_until(&mut scene.screen, "armed");
    types(&scene.person, &[&long[..], &second, b"OVER"].concat());
    let all = until(|| reaches("OVER"));
    assert!(all == [&first[..], b"END", &second, b"OVER"].concat(), "it got something of the long one");
    types(&scene.person, DETACH);
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("\x07") && seen.contains("left: Untyped(TooLong)"), "{seen:?}");

    let mut scene = beside(scene.inner, scene.agent, "");
    read_until(&mut scene.screen, "armed");
    // Whose end is lost: what leaves is text in it, until it is given up.
    types(&scene.person, &[b"\x1b[200~half", DETACH].concat());
    read_until(&mut scene.screen, "\x07");
    types(&scene.person, b"k");
    until(|| reaches("OVERk"));
    types(&scene.person, DETACH);
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("left: Untyped(Unended)"), "{seen:?}");
    scene.agent.client().input(0, b"END").expect("types");
    assert!(until(|| reaches("OVERkEND")).len() == all.len() + 4);
}

/// A line may stand still, but not for ever: then whoever presses the key that leaves does leave.
#[test]
fn a_paste_that_comes_slowly_is_whole_and_one_that_does_not_end_holds_nobody() {
    let inner = Bench::new();
    let got = inner.layout.root().join("got");
    let text = format!("stty raw -echo; printf '\\033[?2004harmed'; exec cat >{}", got.display());
    let agent = inner.start(script(TERMINAL, &text));
    let mut scene = beside(inner, agent, "");
    read_until(&mut scene.screen, "armed");
    // Longer in all than its end is waited for.
    let parts = ["\x1b[200~one ", "two ", "three ", "four\x1b[201~"];
    for (n, part) in parts.iter().enumerate() {
        netsky_disk::clock::pause(Duration::from_secs(if n == 0 { 0 } else { 4 }));
        types(&scene.person, part.as_bytes());
    }
    let typed = until(|| std::fs::read_to_string(&got).ok().filter(|typed| typed.ends_with("\x1b[201~")));
    assert_eq!(typed, parts.concat());
    let client = client_process(&scene.person);
    types(&scene.person, b"\x1b[200~lost");
    for _ in 0..12 {
        netsky_disk::clock::pause(Duration::from_secs(3));
        if !process::is_alive(&client) {
            break;
        }
        types(&scene.person, DETACH);
    }
    assert!(!process::is_alive(&client), "the key does not leave");
    let seen = read_until(&mut scene.screen, "terminal=");
    assert!(seen.contains("left: Untyped(Unended)"), "{seen:?}");
    assert_eq!(std::fs::read_to_string(&got).expect("it is there"), typed);
}

/// The size is that of whoever told one last: on attach, and on a change of a window.
#[test]
fn of_two_people_the_one_who_told_last_has_the_size() {
    let text = "trap 'stty size' WINCH; echo armed; while :; do sleep 1 & wait; done";
    let inner = Bench::new();
    let agent = inner.start(script(TERMINAL, text));
    let mut told = agent.follower();
    read_until(&mut told, "armed");
    let mut first = beside(inner, agent, "");
    read_until(&mut first.screen, "armed");
    first.screen.resize(30, 90).expect("resizes");
    read_until(&mut told, "30 90\r\n");

    let outer = Bench::new();
    let mut large = crate::attach::person(&first.inner, "");
    large.io = Io::Pty { rows: 50, cols: 150 };
    let second: Session = outer.start(large);
    read_until(&mut told, "50 150\r\n");
    first.screen.resize(31, 91).expect("resizes");
    read_until(&mut told, "31 91\r\n");
    second.client().resize(51, 151).expect("resizes");
    read_until(&mut told, "51 151\r\n");
    // Who leaves tells nothing.
    detached(&mut first);
    first.agent.client().input(0, b"\r").expect("types");
    drop(second);
    first.agent.client().signal(Signal::WINCH.as_raw()).expect("signals");
    read_until(&mut told, "51 151\r\n");
}
