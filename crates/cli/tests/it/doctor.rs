//! `netsky doctor`: what is wrong with a home and its machine, each with its remedy.

use std::fs::File;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::full_disk::{Said, apart};
use crate::stage::{QUIET, Stage};

fn examined(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let output = stage.run(&[&["doctor", "--json"], args].concat());
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    found["checks"].as_array().expect("a list").clone()
}

fn state(found: &[Value], id: &str) -> String {
    let one = found.iter().find(|one| one["id"] == id).expect(id);
    one["state"].as_str().expect("a state").to_owned()
}

#[test]
fn a_fresh_home_is_well_and_what_is_not_needed_is_a_note() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let found = examined(&stage, &[]);
    for (id, is) in [
        ("home", "good"),
        ("permissions", "good"),
        ("config", "good"),
        ("locks", "good"),
        ("markers", "good"),
        ("pages", "note"),
        ("service", "note"),
        ("claude", "note"),
    ] {
        assert_eq!(state(&found, id), is, "{found:?}");
    }
    let table = stage.ok(&["doctor"]);
    assert!(table.contains("pages") && table.contains("reach nobody"), "{table}");
    for one in &found {
        assert_eq!(one["state"] == "good", one["remedy"].is_null(), "{one}");
    }
}

#[test]
fn t25_what_is_bad_is_an_exit_code_and_what_is_safe_to_mend_is_mended_on_request() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let marker = stage.home().join("state/agent0-hang-suspected");
    std::fs::write(&marker, "{}").expect("written");
    let file = File::options().write(true).open(&marker).expect("opens");
    file.set_modified(SystemTime::now() - Duration::from_secs(2 * 86_400)).expect("aged");
    std::fs::remove_dir(stage.home().join("workspaces")).expect("it is empty");
    std::fs::write(stage.home().join("config.toml"), "[defaults\n").expect("written");
    let (code, said) = stage.refused(&["doctor"]);
    assert!(code == 1 && said.contains("home, config, markers needs somebody"), "{code} {said}");
    assert!(marker.exists() && !stage.home().join("workspaces").exists(), "looking changes nothing");
    let mut inside = stage.command(&["doctor", "--fix"]);
    let inside = inside.env("NETSKY_AGENT", "agent0").env("NETSKY_GENERATION", "1").output().expect("starts");
    assert_eq!(inside.status.code(), Some(4));
    let found = examined(&stage, &["--fix"]);
    assert_eq!(
        [state(&found, "home"), state(&found, "markers"), state(&found, "config")],
        ["fixed", "fixed", "bad"]
    );
    assert!(!marker.exists() && stage.home().join("workspaces").is_dir());
    std::fs::remove_file(stage.home().join("config.toml")).expect("there");
    stage.ok(&["doctor"]);
}

fn age(path: &std::path::Path) {
    let file = File::open(path).expect("opens");
    file.set_modified(SystemTime::now() - Duration::from_secs(40 * 86_400)).expect("aged");
}

#[test]
fn t25_the_proof_of_a_session_that_lives_is_never_past_its_time() {
    let stage = Stage::up(0, QUIET, "10m");
    let proofs = || stage.names("state/up").into_iter().filter(|name| name != "tmp").collect::<Vec<_>>();
    let before = proofs();
    assert!(!before.is_empty());
    before.iter().for_each(|proof| age(&stage.home().join("state/up").join(proof)));
    assert_eq!(state(&examined(&stage, &[]), "markers"), "good");
    assert!(!stage.ok(&["markers"]).contains("past its time"));
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(proofs(), before);
}

#[test]
fn t25_what_mending_could_not_remove_is_not_said_to_be_mended() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let old = stage.home().join("state/crash-handoffs/old.md");
    std::fs::write(&old, "x").expect("written");
    age(&old);
    assert_eq!(state(&examined(&stage, &["--fix"]), "markers"), "fixed");
    assert!(!old.exists());
    // No file, so nobody's to remove.
    std::fs::create_dir(&old).expect("made");
    age(&old);
    let found = examined(&stage, &["--fix"]);
    assert!(state(&found, "markers") == "bad" && old.exists(), "{found:?}");
    assert!(found.iter().any(|one| one["remedy"].to_string().contains("crash-handoffs/old.md")), "{found:?}");
}

#[test]
fn a4_a_folder_that_lets_others_in_is_told_and_left_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    stage.ok(&["init"]);
    let folder = stage.home().join("workspaces");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let (code, said) = stage.refused(&["doctor", "--fix"]);
    assert!(code == 1 && said.contains("permissions needs somebody"), "{code} {said}");
    assert_eq!(std::fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o755);
    // What keeps its owner out lets nobody in.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).expect("ours");
    let found = examined(&stage, &["--fix"]);
    assert_eq!(state(&found, "permissions"), "bad");
    assert!(found.iter().any(|one| one["what"].to_string().contains("its mode 0500 keeps its owner out")));
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("ours");
    assert_eq!(state(&examined(&stage, &[]), "permissions"), "good");
}

#[test]
fn t24_an_actor_that_does_not_get_on_is_told_with_the_way_out() {
    let stage = Stage::up(0, QUIET, "10m");
    stage.hold_triggers();
    assert_eq!(state(&examined(&stage, &[]), "locks"), "good");
    let lock = netsky_disk::lock::Lock::take_within(
        stage.home().join("state/tick/watchdog.lock"),
        Duration::from_secs(10),
    );
    let mut lock = lock.expect("ours").expect("free");
    let mut since = netsky_disk::clock::stamp();
    since.boot_ms -= 90_000;
    // Nobody whom a tick could end for it.
    let mut holder = netsky_disk::process::identity().expect("of this process");
    holder.start_time += 1;
    lock.note(&serde_json::json!({ "process": holder, "since": since })).expect("noted");
    let found = examined(&stage, &[]);
    let one = found.iter().find(|one| one["id"] == "locks").expect("looked at");
    assert!(
        one["state"] == "bad" && one["remedy"].as_str().is_some_and(|way| way.contains("kill -9")),
        "{one}"
    );
}

/// A home whose file system becomes small, and then read-only under it.
const READ_ONLY: &str = r#"
mount -t tmpfs -o size=1g,mode=0700 none "$PLACE" || exit 99
umask 077
export NETSKY_HOME="$PLACE/home" HOME="$PLACE"
"$NETSKY" init >/dev/null || exit 98
"$NETSKY" doctor >/dev/null; echo "doctor $?"
mount -o remount,size=32m "$PLACE" || exit 97
"$NETSKY" doctor | grep -c "^disk  *bad .* MiB are left"
mount -o remount,ro "$PLACE" || exit 96
"$NETSKY" doctor; echo "doctor $?"
"#;

#[test]
fn fm_erofs_a_home_in_which_nothing_can_be_written_is_bad_with_its_remedy() {
    let Some(Said { out, err, .. }) = apart(READ_ONLY) else { return };
    assert!(out.starts_with("doctor 0\n1\n") && out.ends_with("doctor 1\n"), "{out}{err}");
    let row = |id: &str| out.lines().find(|line| line.starts_with(id)).expect(id).to_owned();
    let disk = row("disk");
    for words in ["bad", "Read-only file system", "mount it writable again"] {
        assert!(disk.contains(words), "{words:?} in {disk}");
    }
    assert!(row("permissions").contains("good"), "its modes are as they should be: {out}");
    assert!(err.contains("disk needs somebody"), "{err}");
}
