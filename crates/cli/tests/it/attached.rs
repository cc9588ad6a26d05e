//! The real `ostk attach` at a terminal, that of another root's session: its words, its keys and its exit codes.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::output_log::{Chunk, LogReader};

use crate::ostk::Folder;

/// Everything that a session's terminal was given so far.
pub(crate) fn shown(folder: &Folder, name: &str) -> String {
    let layout = KernelLayout::new(folder.dir.path().join(".ostk"));
    let log = LogReader::open(&layout.out(&name.parse().expect("a name"))).expect("opens");
    match log.read_from(0, 1 << 20).expect("reads") {
        Chunk::Bytes { bytes, .. } => String::from_utf8_lossy(&bytes).into_owned(),
        Chunk::Gap { .. } | Chunk::End => String::new(),
    }
}

#[test]
fn who_attaches_is_told_how_to_leave_and_that_they_left() {
    let (agents, people) = (Folder::new(), Folder::new());
    let agent = "stty raw -echo; printf 'prompt$ '; head -c 1 | od -An -to1; head -c 1 >/dev/null; exit 3";
    agents.ok(&["kernel", "spawn", "agent7", "--", "sh", "-c", agent]);
    agents.until("its prompt", |folder| shown(folder, "agent7").contains("prompt$ "));

    let (ostk, root) = (env!("CARGO_BIN_EXE_ostk"), agents.dir.path().join(".ostk"));
    let attach = format!("{ostk} --root {} attach agent7 --detach-key ctrl-b; echo code=$?", root.display());
    let person = format!("echo mine; {attach}; read go; {attach}; {attach}; read go");
    people.ok(&["kernel", "spawn", "person", "--", "sh", "-c", &person]);
    let sees = |text: &str| people.until(text, |folder| shown(folder, "person").contains(text));
    let types = |text: &str| people.ok(&["kernel", "input", "person", text]);
    sees("prompt$ ");
    let before = format!("mine\r\nattached to agent7; ctrl-b leaves it running\r\n{}", "\n".repeat(24));
    assert!(
        shown(&people, "person").starts_with(&before),
        "what was there goes up: {:?}",
        shown(&people, "person")
    );
    // The key of those who chose none is one for the agent now.
    types("\u{1c}");
    sees("034");
    types("\u{2}");
    sees("code=0\r\n");
    let left = "\r\n\u{1b}[Jleft agent7, which runs on\r\ncode=0\r\n";
    assert!(shown(&people, "person").ends_with(left), "{:?}", shown(&people, "person"));

    types("\r");
    people.until("it is attached again", |folder| shown(folder, "person").matches("prompt$ ").count() == 2);
    types("x");
    sees("agent7 exited with code 3\r\ncode=0\r\n");
    let over = "ostk: session agent7 does not run: exited with code 3; see `ostk logs agent7`\r\ncode=3\r\n";
    sees(over);
    assert_eq!(
        shown(&people, "person").matches("attached to").count(),
        2,
        "nobody attached to what has ended"
    );
}

/// A paste is typed whole or not at all, and who leaves is told of one that was not.
#[test]
fn who_leaves_is_told_what_was_not_typed() {
    let (agents, people) = (Folder::new(), Folder::new());
    let agent = "stty raw -echo; printf '\\033[?2004hready'; exec cat -v";
    agents.ok(&["kernel", "spawn", "agent7", "--", "sh", "-c", agent]);
    agents.until("it is ready", |folder| shown(folder, "agent7").contains("ready"));
    let (ostk, root) = (env!("CARGO_BIN_EXE_ostk"), agents.dir.path().join(".ostk"));
    let attach = format!("{ostk} --root {} attach agent7; echo code=$?", root.display());
    people.ok(&[
        "kernel",
        "spawn",
        "person",
        "--",
        "sh",
        "-c",
        &format!("{attach}; read go; {attach}; read go"),
    ]);
    let attached = |times| {
        let ready = |folder: &Folder| shown(folder, "person").matches("ready").count() == times;
        people.until("it is attached", ready);
    };
    // What is refused while its terminal is full comes again.
    let types = |text: &str| {
        people
            .until("it is typed", |folder| folder.run(&["kernel", "input", "person", text]).status.success());
    };
    let sees = |text: &str| people.until(text, |folder| shown(folder, "person").contains(text));
    attached(1);
    types("\u{1b}[200~half\u{1c}");
    sees("\u{7}");
    types("\u{1c}");
    sees(
        "left agent7, which runs on\r\nostk: agent7: a paste that had not ended was not typed, nothing of it; \
         attach and repeat it\r\ncode=5\r\n",
    );
    types("\r");
    attached(2);
    types("\u{1b}[200~");
    (0..10).for_each(|_| types(&"x".repeat(120 << 10)));
    types("\u{1b}[201~\u{1c}");
    sees(
        "left agent7, which runs on\r\nostk: agent7: a paste of more than 1 MiB was not typed, nothing of it; \
         put it into a file and give the program its name\r\ncode=2\r\n",
    );
    assert_eq!(shown(&agents, "agent7"), "\u{1b}[?2004hready");
}

/// Its output would be its input, at once and for ever.
#[test]
fn a_session_is_not_attached_to_from_inside_it() {
    let folder = Folder::new();
    let attach = format!("{} attach self", env!("CARGO_BIN_EXE_ostk"));
    let text = format!("{attach}; echo code=$?; {attach} --read-only; echo code=$?; echo over; read go");
    folder.ok(&["kernel", "spawn", "self", "--", "sh", "-c", &text]);
    folder.until("the answers", |folder| shown(folder, "self").contains("over"));
    let refused = "ostk: self cannot be attached to from inside itself: what it prints would be printed by it; \
                   see `ostk logs self` and `ostk kernel show self`\ncode=4\n";
    assert_eq!(folder.ok(&["logs", "self"]), format!("{}over\n", refused.repeat(2)));
}

#[test]
fn an_attachment_whose_output_has_no_room_says_so() {
    let folder = Folder::new();
    folder.ok(&["kernel", "spawn", "agent0", "--", "sh", "-c", "echo words; exec sleep 1000"]);
    folder.until("it has printed", |folder| folder.ok(&["logs", "agent0"]).contains("words"));
    let mut command = folder.command(env!("CARGO_BIN_EXE_ostk"), &["attach", "agent0"]);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opens");
    let told = command.stdout(full).output().expect("starts");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(6), "{said}");
    assert_eq!(said, "ostk: failed to write what it prints: No space left on device (os error 28)\n");
}
