//! A5: whatever stands where a plain file should, in any folder, leads nowhere, stops nobody and is not waited for.

use std::fs;
use std::path::{Path, PathBuf};

use super::things::{Outside, Thing, bounded, clear};
use crate::bus_home::Home;
use crate::screen::netsky;
use crate::stage::{QUIET, Stage};

/// Names that the `n`th file of this folder could have, and one that none has.
fn names(folder: &str, n: usize) -> [String; 3] {
    let (valid, beside) = match folder {
        "ids" => (format!("x{n}"), format!("y{n}.done")),
        "claimed" => (format!("{n:020}-x{n}.1.4194303.1.00000000.1.json"), format!("{n:020}-y{n}.json")),
        "delivered" | "acked" => (format!("{n:020}-x{n}.1.g3.json"), format!("{n:020}-y{n}.json")),
        "poison" => (format!("{n:020}-x{n}.json"), format!("{n:020}-y{n}.json.reason")),
        _ => (format!("{n:020}-x{n}.json"), format!("{n:020}-y{n}.2.json")),
    };
    [valid, beside, format!("junk-{n}")]
}

#[test]
fn a5_in_every_folder_of_a_channel_nothing_leads_out_and_the_neighbours_are_drained() {
    let template = Home::init();
    netsky(&template, &["channel", "send", "agent0", "first", "--from", "owner", "--id", "first"]).works();
    netsky(&template, &["channel", "send", "agent1", "x", "--from", "owner", "--create"]).works();
    let folders: Vec<String> = fs::read_dir(template.channel("agent0", ""))
        .expect("a channel")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .collect();
    assert!(folders.len() >= 7, "{folders:?}");
    for folder in &folders {
        one_folder(&template, folder);
    }
}

fn one_folder(template: &Home, folder: &str) {
    let home = template.copy();
    let outside = Outside::beside(&home);
    let things = Thing::all();
    for (n, thing) in things.iter().enumerate() {
        names(folder, n)
            .iter()
            .for_each(|name| thing.make(&home.channel("agent0", folder).join(name), &outside));
    }
    let send = ["channel", "send", "agent0", "second", "--from", "owner"];
    bounded(&home, &send).works();
    for n in 0..things.len() {
        bounded(&home, &[&send[..], &["--id", &format!("x{n}")]].concat());
    }
    for look in [&["channel", "list", "agent0"][..], &["channel", "show", "agent0", "x0"], &["check"]] {
        bounded(&home, look);
    }
    let drained = bounded(&home, &["channel", "drain", "agent0"]);
    let (out, err) = (&drained.out, &drained.err);
    assert!(out.contains(">first</channel>") && out.contains(">second</channel>"), "{folder}: {out}{err}");
    for n in 0..things.len() {
        bounded(&home, &["channel", "ack", "agent0", &format!("x{n}")]);
        for id in [format!("x{n}"), format!("y{n}")] {
            bounded(&home, &["channel", "forward", "agent0", &id, "--to", "agent1"]);
            bounded(&home, &["channel", "release", "agent0", &id]);
        }
    }
    bounded(&home, &["channel", "drain", "agent0"]);
    assert_eq!(home.files("agent0", "inbox").expect("there"), Vec::<String>::new(), "{folder}: {err}");
    outside.is_untouched(folder);
    if folder == "inbox" {
        let mut poison = home.files("agent0", "poison").expect("there");
        poison.retain(|name| !name.ends_with(".reason"));
        assert_eq!(poison.len(), 3 * things.len(), "{poison:?}");
    }
}

/// Every plain file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("there") {
        let entry = entry.expect("readable");
        match entry.file_type().expect("its type") {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn a5_in_the_place_of_any_file_of_a_used_home_nothing_leads_out_or_hangs() {
    let stage = Stage::up(1, QUIET, "200ms");
    stage.ok(&["channel", "send", "agent0", "first", "--from", "owner", "--id", "first"]);
    stage.ok(&["down"]);
    let template = Home::copied(&stage.home());
    drop(stage);
    let mut found = Vec::new();
    files(&template.path(), &mut found);
    // Files of one agent stand for those of the others.
    let others = ["agent1", "agentinfinity.", "netsky-ticker."];
    found.retain(|file| !others.iter().any(|other| file.to_string_lossy().contains(other)));
    assert!(found.len() > 20, "{found:?}");
    for (n, file) in found.iter().enumerate() {
        let place = file.strip_prefix(template.path()).expect("below it");
        let home = template.copy();
        let outside = Outside::beside(&home);
        let file = home.path().join(place);
        let bytes = fs::read(&file).expect("readable");
        // Those that differ most for every file, and of the others one in turn.
        let all = Thing::all();
        for thing in [Thing::Link, Thing::HardLink, Thing::Pipe, all[n % all.len()]] {
            clear(&file);
            thing.make(&file, &outside);
            let what = format!("{thing:?} as {}", place.display());
            for args in [
                &["status"][..],
                &["channel", "send", "agent0", "x", "--from", "owner", "--id", "first"],
                &["channel", "drain", "agent0"],
                &["watchdog", "tick"],
                &["check"],
            ] {
                bounded(&home, args);
                outside.is_untouched(&format!("{what}, {args:?}"));
            }
        }
        // What was put there is gone again: nothing of it stays in the way.
        clear(&file);
        fs::write(&file, &bytes).expect("ours");
        let after = bounded(&home, &["channel", "send", "agent0", "after", "--from", "owner"]);
        assert_eq!(after.code, 0, "{}: {}", place.display(), after.err);
    }
}

/// What a program drops for agent0.
const REPLY: &str = r#"{"from":"agent1","text":"a reply","ts":"2026-04-19T17:22:57Z"}"#;

/// A real channel of another home, which a link in the place of ours leads to.
fn with_a_link() -> (Home, Home) {
    let (home, other) = (Home::init(), Home::init());
    let send = ["channel", "send", "agent7", "theirs", "--from", "owner", "--create", "--id", "theirs"];
    netsky(&other, &send).works();
    fs::write(other.channel("agent7", "delivered").join("torn"), "x").expect("writes");
    fs::write(other.channel("agent7", "outbox").join("reply"), REPLY).expect("writes");
    netsky(&home, &["channel", "send", "agent8", "ours", "--from", "owner", "--create", "--id", "ours"])
        .works();
    std::os::unix::fs::symlink(
        other.channel("agent7", ""),
        home.channel("agent7", "").components().as_path(),
    )
    .expect("made");
    (home, other)
}

#[test]
fn a5_a_link_in_the_place_of_an_agents_channel_is_not_followed_and_the_others_go_on() {
    let (home, other) = with_a_link();
    let before = other.files("agent7", "inbox").expect("read");
    for args in [
        &["channel", "send", "agent7", "x", "--from", "owner"][..],
        &["channel", "send", "agent7", "x", "--from", "owner", "--create"],
        &["channel", "drain", "agent7"],
        &["channel", "drain", "agent7", "--json"],
        &["channel", "wait", "agent7", "--timeout", "1s"],
        &["channel", "watch", "agent7", "--max", "1"],
        &["channel", "list", "agent7"],
        &["channel", "show", "agent7", "theirs"],
        &["channel", "ack", "agent7", "theirs"],
        &["channel", "release", "agent7", "theirs"],
        &["channel", "forward", "agent7", "theirs", "--to", "agent8"],
        &["channel", "forward", "agent8", "ours", "--to", "agent7"],
        &["channel", "poison", "list", "agent7"],
        &["channel", "poison", "retry", "agent7", "theirs"],
    ] {
        let said = bounded(&home, args);
        assert_eq!((said.code, &*said.out), (1, ""), "{args:?}: {said:?}");
        let told = "failed to open folder $HOME/channels/agent/agent7: not a folder, move it away";
        assert!(said.err.contains(told) && said.err.lines().count() == 1, "{args:?}: {}", said.err);
    }
    fs::write(home.channel("agent8", "outbox").join("reply"), REPLY).expect("writes");
    let tick = bounded(&home, &["watchdog", "tick"]);
    assert!(tick.out.contains("agent8: 1 replies carried"), "{tick:?}");
    assert_eq!(
        tick.err.matches("channels/agent/agent7: not a folder, move it away").count(),
        1,
        "{}",
        tick.err
    );
    netsky(&home, &["channel", "list", "agent8"]).works();
    assert!(netsky(&home, &["status"]).out.contains("agent8"));
    let asked = netsky(&home, &["query", "SELECT COUNT(*) FROM envelopes WHERE id = 'theirs'", "--csv"]);
    assert_eq!(asked.out.lines().last(), Some("0"), "{asked:?}");
    let check = bounded(&home, &["check", "--json"]);
    assert!(!check.out.contains("torn") && check.out.contains("channels/agent/agent7"), "{}", check.out);
    assert_eq!(other.files("agent7", "inbox").expect("read"), before);
    assert!(other.channel("agent7", "outbox").join("reply").exists(), "carried from another home");
}
