//! What an attachment makes of single frames.

use std::os::unix::net::UnixStream;

use netsky_disk::process::me;
use serde_json::json;

use super::*;
use crate::worker_client::over;

/// The picture may never come: then what is missing is said of the files.
#[test]
fn who_is_to_be_shown_the_screen_anew_still_lacks_what_was_missed() {
    let (stream, _worker) = UnixStream::pair().expect("a pair");
    let layout = KernelLayout::new("/nowhere");
    let name = "agent0".parse().expect("a name");
    let options = Options { layout, name, read_only: true, detach: DetachKey::default() };
    let mut attached = Attached {
        options: &options,
        client: over(stream),
        wake: Wake::catch(&[]).expect("a pipe"),
        pending: Vec::new(),
        terminal: Some(Terminal::nowhere()),
        keys: Keys::new(vec![options.detach]),
        pastes: Pastes::default(),
        silence: Silence::default(),
        untyped: None,
        input: Input::Ignored,
        at: 100,
        replay_end: 0,
        following: true,
        painted: true,
        skips: false,
        in_line: false,
        quiet: Quiet::default(),
        modes: Modes::default(),
        circle: None,
        unwritten: None,
        reader: None,
        is_caught_up: false,
    };
    attached.show(FromWorker::Gap { from: 100, to: 5000 }).expect("asks");
    assert_eq!((attached.at, attached.skips), (100, true));
    attached.skips = false;
    attached.show(FromWorker::Gap { from: 100, to: 40 }).expect("asks");
    assert_eq!(attached.at, 40, "of a log that lost its end");
}

#[test]
fn a_picture_of_a_worker_of_before_is_not_whole_and_one_of_a_larger_window_neither() {
    let mut hello = json!({
        "v": 1, "name": "agent0", "lineage": "agent0-00000000", "generation": 1, "worker": me(), "program": me(),
        "log": {"base": 0, "end": 0}, "pty": true, "screen": true, "input_epoch": 0,
    });
    let is_whole = |hello: &serde_json::Value, size| {
        let hello: WorkerHello = serde_json::from_value(hello.clone()).expect("it reads");
        super::is_whole(&hello, size)
    };
    assert!(!is_whole(&hello, Some((24, 80))), "nobody said that it has the keyboard");
    hello["keyboard"] = true.into();
    assert!(is_whole(&hello, Some((24, 80))) && is_whole(&hello, None));
    assert!(!is_whole(&hello, Some((PICTURE_ROWS + 1, 80))));
    assert!(!is_whole(&hello, Some((24, PICTURE_COLS + 1))));
}
