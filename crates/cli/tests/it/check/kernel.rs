//! I4, I5, I7 and I11 over the kernel's root, the restart machine and `/proc`.

use std::fs;

use netsky_disk::clock;
use serde_json::{Value, json};

use super::prepared::{Chain, ROOT, Root, Rows, Somebody, at, check, dead, ended, folder, running, whole};
use crate::bus_home::Home;

const JOURNAL: &str = ".ostk/journal.jsonl";

/// A marker and a status of a restart that began, and whose child was started, so long ago.
fn restart(home: &Home, seconds_ago: u64, child: Value, status_epoch: u64) {
    let now = u64::try_from(clock::boot().as_millis()).expect("small");
    let then = at(now.saturating_sub(seconds_ago * 1000));
    let wall = clock::wall() - std::time::Duration::from_secs(seconds_ago);
    let mut then = then;
    then["wall"] = wall.to_string().into();
    if now < seconds_ago * 1000 {
        // This machine has not been up for so long: another boot, judged by the wall clock.
        then["boot_id"] = "00000000".into();
    }
    let inflight = json!({
        "v": 1, "id": "r-1", "kind": "crash", "epoch": 2, "began": then, "child_since": then,
        "child": child, "observed": null,
    });
    let status = json!({
        "v": 1, "id": "r-1", "epoch": status_epoch, "pid": dead(), "phase": "teardown",
        "started_at": then, "updated_at": then, "agents": [],
    });
    fs::write(home.path().join("state/restart-inflight"), inflight.to_string()).expect("written");
    fs::write(home.path().join("state/restart-status/r-1.json"), status.to_string()).expect("written");
}

#[test]
fn i4_each_file_of_state_that_does_not_read_is_found() {
    let home = whole();
    restart(&home, 1, Value::Null, 2);
    check(&home).hold();
    for place in [
        "state/desired/agent0.json",
        "state/restart-inflight",
        "state/restart-status/r-1.json",
        ".ostk/agents/agent0.meta",
        ".ostk/epochs/anchor",
        "state/up/0123456789abcdef0123456789abcdef",
    ] {
        let path = home.path().join(place);
        let before = fs::read(&path).ok();
        fs::write(&path, "{").expect("written");
        check(&home).found(&format!("I4 {place}: "));
        match before {
            Some(bytes) => fs::write(&path, bytes).expect("written"),
            None => fs::remove_file(&path).expect("removed"),
        }
    }
    fs::write(home.path().join("state/restart-inflight"), r#"{"v":9,"anything":1}"#).expect("written");
    assert_eq!(
        check(&home).hold().notes(),
        ["I4 state/restart-inflight: is of a newer format and was left alone"]
    );
}

#[test]
fn i4_a_folder_that_is_open_to_others_is_found() {
    use std::os::unix::fs::PermissionsExt;
    let home = whole();
    let mailbox = "channels/agent/agent0";
    for folder in [
        "channels",
        "channels/agent",
        mailbox,
        &format!("{mailbox}/inbox"),
        &format!("{mailbox}/acked"),
        ".ostk",
    ] {
        let mode = |bits| {
            fs::set_permissions(home.path().join(folder), fs::Permissions::from_mode(bits)).expect("ours")
        };
        mode(0o755);
        let verdicts = check(&home);
        verdicts.found_among(&format!("I4 {folder}: cannot be looked into: its mode 0755"));
        let others: Vec<String> =
            verdicts.findings().into_iter().filter(|finding| !finding.starts_with("I4 ")).collect();
        assert_eq!(others, [] as [&str; 0], "{folder}: what could not be looked at is not lost");
        mode(0o700);
    }
    check(&home).hold();
}

#[test]
fn i5_a_changed_row_is_found_by_its_line_and_a_torn_end_is_said() {
    let home = whole();
    let path = home.root("journal.jsonl");
    let text = fs::read_to_string(&path).expect("reads");
    fs::write(&path, format!("{text}{{\"v\":1,\"seq\":9,")).expect("written");
    assert_eq!(
        check(&home).hold().notes(),
        [format!("I5 {JOURNAL}: its last line has no end: torn, or being written")]
    );
    fs::write(&path, text.replacen("\"boot_ms\":10,", "\"boot_ms\":11,", 1)).expect("written");
    check(&home).found(&format!("I5 {JOURNAL}:3: does not follow from the row before"));
    let without: Vec<&str> =
        text.lines().enumerate().filter(|(n, _)| *n != 2).map(|(_, line)| line).collect();
    fs::write(&path, format!("{}\n", without.join("\n"))).expect("written");
    check(&home).found(&format!("I5 {JOURNAL}:3: does not follow from the row before"));
}

#[test]
fn i5_a_write_after_a_higher_epoch_is_found() {
    let home = whole();
    let rows = Rows::default().anchor(1).life(1, 1, 1, 2).anchor(2).start(2, 2, 3);
    home.journal(&rows.clone().row(1, "adopted", 2, json!({})));
    check(&home).found(&format!("I5 {JOURNAL}:8: was written in epoch 1 after epoch 2"));
    home.journal(&rows.clone().anchor(2));
    check(&home).found(&format!("I5 {JOURNAL}:8: a second anchor started in epoch 2"));
    home.journal(&rows.anchor(3));
    // As an anchor leaves it that came to a full disk.
    let note = "I5 .ostk/epochs/anchor: says 2, and the journal has rows of epoch 3";
    assert_eq!(check(&home).hold().notes(), [note]);
    fs::write(home.root("epochs/anchor"), "3\n").expect("written");
    check(&home).hold();
    fs::remove_file(home.root("epochs/anchor")).expect("removed");
    check(&home).hold();
}

#[test]
fn i5_generations_only_rise_and_a_meta_is_of_one_that_was_reserved() {
    let home = whole();
    home.journal(&Rows::default().anchor(1).life(1, 2, 1, 2).life(1, 1, 3, 4));
    home.meta(2, 1, ended());
    check(&home).found_among(&format!("I5 {JOURNAL}:5: agent0 generation 1 after 2"));
    let rows = Rows::default().anchor(1).life(1, 1, 1, 2).life(1, 2, 3, 4);
    home.journal(&rows);
    home.meta(3, 1, ended());
    check(&home).found("I5 .ostk/agents/agent0.meta: is of generation 3, which the journal never reserved");
    home.meta(2, 2, ended());
    check(&home).found("I5 .ostk/agents/agent0.meta: was reserved in epoch 1, and says 2");
    home.meta(2, 1, ended());
    check(&home).hold();
}

#[test]
fn i5_generations_go_on_under_another_name_and_the_former_one_begins_anew() {
    let home = whole();
    home.meta(2, 1, ended());
    // The rows from that one on are of another session.
    let called = |mut rows: Rows, from: usize, name: &str| {
        rows.0.iter_mut().skip(from).for_each(|row| row["session"] = json!(name));
        rows
    };
    let lives = || Rows::default().anchor(1).life(1, 1, 1, 2).life(1, 2, 3, 4);
    let renamed = |rows: Rows, to: &str| rows.row(1, "renamed", 2, json!({"to": to}));
    home.journal(&called(renamed(called(lives(), 1, "scout"), "agent0"), 7, "scout"));
    check(&home).hold();
    home.journal(&called(renamed(lives(), "scout").life(1, 3, 5, 6), 8, "scout"));
    check(&home).hold();
    home.journal(&renamed(lives(), "scout").life(1, 1, 5, 6));
    check(&home).hold();
    home.journal(&called(renamed(lives(), "scout").life(1, 2, 5, 6), 8, "scout"));
    check(&home).found_among(&format!("I5 {JOURNAL}:9: scout generation 2 after 2"));
}

#[test]
fn i5_a_status_of_a_child_that_the_marker_does_not_know_is_found() {
    let home = whole();
    restart(&home, 1, Value::Null, 3);
    check(&home).found("I5 state/restart-status/r-1.json: was written by child 3, and the marker knows 2");
}

#[test]
fn i7_a_restart_that_nobody_works_on_is_found_past_its_bound() {
    let home = whole();
    restart(&home, 60, json!(dead()), 2);
    check(&home).hold();
    restart(&home, 34 * 60, json!(dead()), 2);
    check(&home)
        .found("I7 state/restart-inflight: r-1 began more than 33 minutes ago and nobody works on it");
    restart(&home, 34 * 60, Value::Null, 2);
    check(&home)
        .found("I7 state/restart-inflight: r-1 began more than 33 minutes ago and nobody works on it");
    let me = json!(netsky_disk::process::me());
    restart(&home, 60, me.clone(), 2);
    check(&home).hold();
    restart(&home, 34 * 60, me, 2);
    check(&home).found("I7 state/restart-inflight: child 2 of r-1 lives past the bound of a restart");
    let marker = home.path().join("state/restart-inflight");
    let mut slept: Value = serde_json::from_slice(&fs::read(&marker).expect("there")).expect("JSON");
    slept["looked"] =
        json!({ "last": slept["began"], "gap_ms": 0, "unseen_ms": 20 * 60 * 1000, "resumed": null });
    fs::write(&marker, slept.to_string()).expect("written");
    check(&home).hold();
}

#[test]
fn i7_two_living_agent0_of_two_generations_are_found() {
    let home = whole();
    // No mark of the kernel: only the agent's own words tell who they are.
    let one = Somebody::new(&home, "agent0", 1, "");
    let also = Somebody::new(&home, "agent0", 1, "");
    let clone = Somebody::new(&home, "agent1", 2, "");
    check(&home).hold();
    let two = Somebody::new(&home, "agent0", 2, "");
    let verdicts = check(&home);
    let found = verdicts.findings();
    assert!(
        found.len() == 1
            && [one.place(), also.place()].iter().any(|p| found[0].starts_with(&format!("I7 {p}: "))),
        "{found:?}"
    );
    drop((two, clone));
    let elsewhere = whole();
    let foreign = Somebody::new(&elsewhere, "agent0", 2, "");
    check(&home).hold();
    drop(foreign);
}

#[test]
fn i7_a_start_before_the_end_of_the_one_before_is_found() {
    let home = whole();
    let begun = Rows::default().anchor(1).start(1, 1, 10);
    let exited = |rows: Rows, ms| rows.row(1, "exited", 1, json!({"at": at(ms)}));
    home.meta(2, 1, running());
    home.journal(&exited(begun.clone().start(1, 2, 30), 40));
    check(&home)
        .found(&format!("I7 {JOURNAL}:5: agent0 generation 2 started before the end of generation 1"));
    home.journal(&exited(begun.clone(), 40).start(1, 2, 30));
    check(&home).found(&format!("I7 {JOURNAL}:6: agent0 generation 2 started before generation 1 ended, by"));
    home.journal(&begun.clone().start(1, 2, 30));
    check(&home).found(&format!("I7 {JOURNAL}:5: agent0 generation 2 started and the end"));
    home.journal(&exited(begun.clone(), 20).start(1, 2, 30));
    check(&home).hold();
    home.meta(2, 2, running());
    home.journal(&begun.anchor(2).start(2, 2, 30));
    assert!(check(&home).hold().notes()[0].ends_with("never written; an anchor died in between"));
}

#[test]
fn i11_what_a_dead_generation_left_alive_is_found() {
    let home = whole();
    let newest = Somebody::new(&home, "agent0", 2, &format!("{ROOT}.g2"));
    check(&home).hold();
    let (looked_at, place) = (check(&home).looked_at("I11"), newest.place());
    assert_eq!(looked_at, 1);
    home.meta(2, 2, ended());
    check(&home).found(&format!("I11 {place}: lives, of {ROOT} generation 2, which has ended"));
    home.meta(2, 2, running());
    drop(newest);
    let old = Somebody::new(&home, "none", 0, &format!("{ROOT}.g1"));
    check(&home).found(&format!("I11 {}: lives, of {ROOT} generation 1, and the newest is 2", old.place()));
    drop(old);
    let foreign = Somebody::new(&home, "none", 0, "agent0-00000000.g1");
    check(&home).hold();
    drop(foreign);
}

#[test]
fn i11_a_chain_of_short_lived_processes_is_found() {
    let home = whole();
    // A lineage of its own: a mark is looked for in all processes, those of the tests beside this one too.
    // And of this run alone, as the other one is; no pid is that high.
    let lineage = &*format!("agent0-{:08x}", std::process::id() | 1 << 31);
    let mut rows = Rows::default().anchor(1).life(1, 1, 10, 20).anchor(2).start(2, 2, 30);
    rows.0
        .iter_mut()
        .filter(|row| row["lineage"] == ROOT.to_string())
        .for_each(|row| row["lineage"] = lineage.into());
    home.journal(&rows);
    let meta = home.root("agents/agent0.meta");
    fs::write(&meta, fs::read_to_string(&meta).expect("there").replace(&ROOT.to_string(), lineage))
        .expect("written");
    let chain = Chain::new(&home, &format!("{lineage}.g1"));
    let findings = check(&home).findings();
    assert!(!findings.is_empty(), "no look saw it");
    let lives = format!("lives, of {lineage} generation 1, and the newest is 2");
    assert!(
        findings.iter().all(|one| one.starts_with("I11 process ") && one.ends_with(&lives)),
        "{findings:?}"
    );
    drop(chain);
    check(&home).hold();
}

#[test]
fn i11_stray_files_are_notes() {
    let home = whole();
    let tmp = home.path().join("state/tmp");
    folder(&tmp);
    let old = fs::File::create(tmp.join("desired.json.0badcafe")).expect("made");
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    old.set_modified(then).expect("aged");
    fs::write(tmp.join("young"), "").expect("written");
    let proof = json!({"v": 1, "agent": "agent0", "generation": 1, "at": "2026-04-19T17:22:57Z"});
    let up = home.path().join("state/up/0123456789abcdef0123456789abcdef");
    fs::write(&up, proof.to_string()).expect("written");
    let aged = fs::File::open(up).and_then(|file| file.set_modified(then));
    aged.expect("aged");
    assert_eq!(
        check(&home).hold().notes(),
        [
            "I11 state/tmp: 1 files of writers that died more than an hour ago",
            "I11 state/up: 1 up proofs of sessions that are over",
        ]
    );
}
