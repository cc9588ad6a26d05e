//! A25: a copied home is refused by every verb until it is adopted, and then the two have nothing to do with each other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use netsky_disk::lock::Lock;
use serde_json::Value;

use crate::bus_home::Home;
use crate::screen::{inside, netsky};
use crate::stage::{QUIET, Stage};

/// Every path below a folder, with the bytes of what is a file.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("there") {
        let entry = entry.expect("readable");
        let kind = entry.file_type().expect("its type");
        if kind.is_dir() {
            all.extend(tree(&entry.path()));
        }
        let bytes = if kind.is_file() { fs::read(entry.path()).expect("readable") } else { Vec::new() };
        all.insert(entry.path(), bytes);
    }
    all
}

/// As a user copies: `cp -a`, and again where a file of a living home went while it was copied.
fn copied(from: &Path, to: &Path) {
    for _ in 0..20 {
        let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp is part of coreutils");
        if done.success() {
            return;
        }
        fs::remove_dir_all(to).expect("what was copied so far");
    }
    panic!("{} does not hold still", from.display());
}

/// A home and a copy of it at another place, which bears the same id.
fn pair() -> (Home, Home) {
    let home = Home::init();
    netsky(&home, &["channel", "send", "agent0", "first", "--from", "owner", "--id", "first"]).works();
    netsky(&home, &["channel", "send", "agent0", "second", "--from", "owner", "--id", "second"]).works();
    netsky(&home, &["channel", "drain", "agent0", "--max", "1"]).works();
    let copy = Home::nowhere();
    fs::remove_dir(copy.path()).expect("empty");
    copied(&home.path(), &copy.path());
    (home, copy)
}

fn id(home: &Home) -> Value {
    let bytes = fs::read(home.path().join("home.json")).expect("there");
    serde_json::from_slice::<Value>(&bytes).expect("JSON")["home_id"].clone()
}

#[test]
fn a25_every_verb_refuses_a_copied_home_and_changes_nothing_in_it() {
    let (_home, copy) = pair();
    let before = tree(&copy.path());
    for args in [
        &["init"][..],
        &["up", "--", "/bin/true"],
        &["down"],
        &["status"],
        &["check"],
        &["restart"],
        &["logs", "agent0"],
        &["attach", "agent0"],
        &["watchdog", "tick"],
        &["session", "up"],
        &["channel", "send", "agent0", "x", "--from", "owner"],
        &["channel", "send", "agent0", "x", "--from", "owner", "--create", "--id", "y"],
        &["channel", "drain", "agent0"],
        &["channel", "wait", "agent0"],
        &["channel", "list", "agent0"],
        &["channel", "show", "agent0", "first"],
        &["channel", "ack", "agent0", "first"],
    ] {
        let said = netsky(&copy, args);
        assert_eq!(said.code, 4, "{args:?}: {}{}", said.out, said.err);
        assert!(said.err.contains("`netsky home adopt`"), "{args:?}: {}", said.err);
    }
    assert!(tree(&copy.path()) == before, "a refused verb leaves no trace");
}

#[test]
fn a25_an_adopted_copy_has_its_own_id_and_its_mail_and_the_original_knows_nothing_of_it() {
    let (home, copy) = pair();
    // As a session of the original had taken it and not finished.
    let delivered = copy.channel("agent0", "delivered");
    let taken = copy.files("agent0", "delivered").expect("there").remove(0);
    fs::rename(delivered.join(&taken), delivered.join(taken.replace(".g0.", ".g3."))).expect("ours");
    let before = tree(&home.path());
    inside(&copy, "agent0", &["home", "adopt"])
        .fails(4, "the adoption of a home is for the owner, outside every session; nothing was changed");
    let told: Value =
        serde_json::from_str(netsky(&copy, &["home", "adopt", "--json"]).works()).expect("JSON");
    assert_eq!((&told["adopted"], &told["returned"]), (&Value::Bool(true), &Value::from(1)));
    assert_eq!((&told["id"], &told["was"]["id"]), (&id(&copy), &id(&home)));
    assert_ne!(id(&copy), id(&home));
    let screen = netsky(&copy, &["channel", "drain", "agent0"]);
    assert!(screen.works().contains("redelivered=\"true\" attempt=\"2\""), "{}", screen.out);
    assert!(screen.out.contains(">first<") && screen.out.contains(">second<"), "{}", screen.out);
    netsky(&copy, &["check"]).works();
    netsky(&copy, &["home", "adopt"])
        .works()
        .starts_with("the home $HOME was made here; there is nothing to adopt");
    assert!(tree(&home.path()) == before, "the original was not touched");
    netsky(&home, &["home", "adopt"]).works();
    netsky(&home, &["check"]).works();
}

#[test]
fn a25_fm_owner_page_an_adoption_tells_of_a_page_that_is_not_recorded() {
    let (_home, copy) = pair();
    // As a session of the original had taken it for the last time.
    let delivered = copy.channel("agent0", "delivered");
    let taken = copy.files("agent0", "delivered").expect("there").remove(0);
    fs::rename(delivered.join(&taken), delivered.join(taken.replace(".1.g0.", ".5.g3."))).expect("ours");
    fs::create_dir_all(copy.path().join("record/lock")).expect("in its place");
    let told = netsky(&copy, &["home", "adopt"]);
    assert_eq!(told.code, 6, "{}", told.err);
    let page = "netsky: the page of poison/agent0/first could not be recorded: ";
    assert!(
        told.err.starts_with(page) && told.err.ends_with("; it is done; a tick pages for it\n"),
        "{}",
        told.err
    );
    netsky(&copy, &["channel", "list", "agent0"]).works();
}

#[test]
fn a25_a_home_that_was_moved_under_its_sessions_is_not_adopted() {
    let (_home, copy) = pair();
    let agents = copy.path().join(".ostk/agents");
    fs::DirBuilder::new().mode(0o700).create(&agents).expect("ours");
    let lock = Lock::take(agents.join("agent0.lock")).expect("free");
    let before = tree(&copy.path());
    let refused = netsky(&copy, &["home", "adopt"]);
    refused.fails_with(4, &["was moved while its sessions run", "agent0.lock is held", "end them first"]);
    assert!(tree(&copy.path()).len() == before.len() + 1, "but for the lock of the try");
    drop(lock);
    // A program that another test has just started holds a copy of the lock until it is what it becomes.
    let adopted = (0..100).any(|_| netsky(&copy, &["home", "adopt"]).code == 0);
    assert!(adopted, "nobody holds it any more");
    assert!(!agents.exists(), "put aside");
}

#[test]
fn a25_an_adoption_that_is_killed_anywhere_is_completed_by_the_next() {
    let (_home, template) = pair();
    let fresh = || {
        let copy = Home::nowhere();
        fs::remove_dir(copy.path()).expect("empty");
        copied(&template.path(), &copy.path());
        copy
    };
    let mut index = 0;
    loop {
        let copy = fresh();
        let outcome = copy.stepper(["home", "adopt"]).kill_at(index).expect("a run");
        if outcome.hit.is_none() {
            break;
        }
        netsky(&copy, &["home", "adopt"]).works();
        let screen = netsky(&copy, &["channel", "drain", "agent0"]);
        assert!(screen.works().contains(">second<"), "killed at {index}: {}", screen.out);
        netsky(&copy, &["check"]).works();
        index += 3;
    }
    assert!(index > 60, "{index} points");
}

#[test]
fn a25_two_homes_of_one_origin_run_beside_each_other() {
    let stage = Stage::up(1, QUIET, "200ms");
    let roots = stage.living_roots();
    assert_eq!(roots, ["1"]);
    let copy = Home::nowhere();
    fs::remove_dir(copy.path()).expect("empty");
    copied(&stage.home(), &copy.path());
    netsky(&copy, &["home", "adopt"]).works();
    // The copy wants nothing yet, and ends nobody.
    netsky(&copy, &["watchdog", "tick"]).works();
    let up = ["up", "1", "--tick", "200ms", "--", "/bin/sh", "-c", QUIET];
    let started = netsky(&copy, &up);
    let ended = netsky(&copy, &["down"]);
    assert_eq!((started.code, ended.code), (0, 0), "{}{}", started.err, ended.err);
    assert_eq!(stage.living_roots(), roots, "the original's agent0 lived through it all");
    stage.ok(&["check"]);
    netsky(&copy, &["check"]).works();
}
