//! The real `ostk attach` at a terminal, that of another root's session: its words, its keys and its exit codes.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::output_log::{Chunk, LogReader};

use crate::ostk::Folder;

/// Everything that a session's terminal was given so far.
fn shown(folder: &Folder, name: &str) -> String {
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
