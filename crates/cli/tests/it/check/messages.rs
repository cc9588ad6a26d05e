//! I1, I2 and I4 over mailboxes.

use std::fs;
use std::process::Command;

use netsky_model::name::{Name, Stage};
use serde_json::{Value, json};

use super::prepared::{Root, Rows, check, check_with, dead, ended, file, running, send, whole};
use crate::bus_home::Home;
use crate::screen::{inside, netsky, program};

/// Moves a message to another folder of agent0 under another name.
fn move_to(home: &Home, from: &str, folder: &str, name: &Name) -> String {
    let to = format!("channels/agent/agent0/{folder}/{name}");
    fs::rename(home.path().join(from), home.path().join(&to)).expect("moved");
    to
}

fn name_of(place: &str) -> Name {
    Name::parse(place.rsplit_once('/').expect("a path").1).expect("a name of the bus")
}

fn telemetry(home: &Home) -> std::path::PathBuf {
    let logs = fs::read_dir(home.path().join("logs")).expect("logs");
    let mut lines =
        logs.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("telemetry"));
    lines.next().expect("telemetry").path()
}

#[test]
fn i1_a_second_copy_in_another_folder_is_found() {
    let home = whole();
    let acked = file(&home, "acked", "one");
    let copy = format!("channels/agent/agent0/inbox/{}", name_of(&acked).to(Stage::Waiting).given_back());
    fs::copy(home.path().join(&acked), home.path().join(&copy)).expect("copied");
    check(&home).found(&format!("I1 {copy}: is also {acked}"));
}

#[test]
fn i1_a_copy_that_was_put_aside_with_its_reason_is_a_note() {
    let home = whole();
    let acked = file(&home, "acked", "one");
    let aside = format!("channels/agent/agent0/poison/{}", name_of(&acked).to(Stage::Waiting));
    fs::copy(home.path().join(&acked), home.path().join(&aside)).expect("copied");
    check(&home).found(&format!("I1 {acked}: is also {aside}"));
    fs::write(home.path().join(format!("{aside}.reason")), "a copy\n").expect("written");
    let verdicts = check(&home);
    assert!(verdicts.hold().notes()[0].starts_with(&format!("I1 {aside}: ")), "{:?}", verdicts.notes());
}

#[test]
fn i1_a_dead_letter_is_a_note() {
    let home = whole();
    let acked = file(&home, "acked", "one");
    let dead = move_to(&home, &acked, "poison", &name_of(&acked).to(Stage::Waiting));
    fs::write(home.path().join(format!("{dead}.reason")), "surfaced in vain\n").expect("written");
    let note = format!("I1 {dead}: a dead letter, with its reason beside it");
    assert_eq!(check(&home).hold().notes(), [note]);
}

#[test]
fn i1_a_message_that_is_gone_is_missed_by_whoever_told_of_it() {
    let home = whole();
    send(&home, "lost");
    netsky(&home, &["channel", "send", "agent0", "text", "--from", "owner"]).works();
    let acknowledged = json!({"acknowledged": {"agent": "agent0", "id": "lost"}});
    check_with(&home, std::slice::from_ref(&acknowledged)).hold();
    fs::remove_file(home.path().join(file(&home, "inbox", "lost"))).expect("removed");
    let told = check_with(&home, std::slice::from_ref(&acknowledged));
    for start in [
        "I1 channels/agent/agent0/ids/lost.done: says that",
        "I1 channels/agent/agent0: lost was acknowledged",
        "I1 channels/agent/agent0: the record saw",
    ] {
        told.found_among(start);
    }
    assert_eq!(told.findings().len(), 3, "{:?}", told.findings());
    fs::remove_file(home.path().join("channels/agent/agent0/ids/lost.done")).expect("removed");
    fs::remove_file(telemetry(&home)).expect("removed");
    check(&home).hold();
    check_with(&home, &[acknowledged]).found("I1 channels/agent/agent0: lost was acknowledged");
    let elsewhere = json!({"acknowledged": {"agent": "agent9", "id": "waits"}});
    check_with(&home, &[elsewhere]).found("I1 channels/agent/agent9: waits was acknowledged");
}

#[test]
fn i1_one_id_at_two_places_in_the_order_is_found() {
    let home = whole();
    let (waits, three) = (file(&home, "inbox", "waits"), file(&home, "delivered", "three"));
    let mut name = name_of(&waits);
    name.key.hlc.0 += 1;
    let copy = format!("channels/agent/agent0/inbox/{name}");
    fs::copy(home.path().join(&waits), home.path().join(&copy)).expect("copied");
    check(&home).found(&format!("I1 {copy}: has the id of {waits}"));
    assert!(home.path().join(three).exists());
}

#[test]
fn i1_a_claim_of_the_dead_is_on_its_way_back() {
    let home = whole();
    let waits = file(&home, "inbox", "waits");
    let claimed = move_to(&home, &waits, "claimed", &name_of(&waits).to(Stage::Claimed(dead())));
    let verdicts = check(&home);
    assert_eq!(verdicts.hold().notes(), [format!("I1 {claimed}: to be returned: process 4242 is dead")]);
    netsky(&home, &["channel", "drain", "agent0"]).works();
    assert_eq!(check(&home).hold().notes(), [] as [&str; 0]);
}

#[test]
fn i2_a_repeat_without_its_number_is_found_before_and_after() {
    let home = whole();
    let shown = file(&home, "delivered", "two");
    let again = move_to(&home, &shown, "inbox", &name_of(&shown).to(Stage::Waiting));
    check(&home).found(&format!("I2 {again}: waits as attempt 1, and attempt 1 was surfaced"));
    netsky(&home, &["channel", "drain", "agent0"]).works();
    check(&home).found("I2 channels/agent/agent0: ");
    assert!(check(&home).findings()[0].ends_with("-two was surfaced twice as attempt 1"));
}

#[test]
fn i2_a_repeat_that_follows_no_death_is_found_and_a_told_kill_explains_it() {
    let home = whole();
    let shown = file(&home, "delivered", "two");
    move_to(&home, &shown, "inbox", &name_of(&shown).given_back());
    let element = netsky(&home, &["channel", "drain", "agent0"]);
    assert!(element.works().contains("attempt=\"2\""));
    let found = check_with(&home, &[]);
    found.found("I2 channels/agent/agent0: ");
    assert!(found.findings()[0].ends_with("attempt 2, and whoever had attempt 1 lives"));
    // The line about its release may be one that a full disk did not take.
    let noted = check(&home);
    assert!(noted.hold().notes()[0].ends_with("whoever had attempt 1 lives: no line tells why"));
    let lines = fs::read_to_string(telemetry(&home)).expect("lines");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let surfacer = lines
        .filter(|line| line["event"] == "surfaced" && line["id"] == "two")
        .map(|line| line["process"].clone())
        .next()
        .expect("it was told");
    let killed = json!({"killed": {"pid": surfacer["pid"], "start_time": surfacer["start_time"]}});
    check_with(&home, &[killed]).hold();
}

#[test]
fn i2_the_end_of_the_generation_that_took_it_explains_a_repeat() {
    let home = whole();
    let rows = Rows::default().anchor(1).life(1, 1, 1, 2).life(1, 2, 3, 4);
    send(&home, "mine");
    inside(&home, "agent0", &["channel", "drain", "agent0"]).works();
    let shown = file(&home, "delivered", "mine");
    move_to(&home, &shown, "inbox", &name_of(&shown).given_back());
    inside(&home, "agent0", &["channel", "drain", "agent0"]).works();
    home.journal(&rows.clone().start(1, 3, 5));
    home.meta(3, 1, running());
    check_with(&home, &[]).found("I2 channels/agent/agent0: ");
    home.meta(3, 1, ended());
    check(&home).hold();
    home.journal(&rows.life(1, 3, 5, 6));
    home.meta(3, 1, running());
    check(&home).hold();
}

#[test]
fn i2_what_the_harness_saw_must_rise() {
    let home = whole();
    let seen = |attempt: u32| json!({"surfaced": {"agent": "agent0", "id": "two", "attempt": attempt}});
    check_with(&home, &[seen(1), seen(2)]).hold();
    check_with(&home, &[seen(1), seen(1)]).found("I2 channels/agent/agent0: two was seen as attempt 1");
}

#[test]
fn i4_bytes_that_changed_or_are_no_message_are_found() {
    let home = whole();
    let waits = file(&home, "inbox", "waits");
    let text = fs::read_to_string(home.path().join(&waits)).expect("reads");
    fs::write(home.path().join(&waits), text.replace("\"text\":\"text\"", "\"text\":\"tent\""))
        .expect("written");
    check(&home).found(&format!("I4 {waits}: the digest does not match"));
    fs::write(home.path().join(&waits), "").expect("written");
    check(&home).found(&format!("I4 {waits}: not an envelope"));
    let three = file(&home, "delivered", "three");
    fs::copy(home.path().join(&three), home.path().join(&waits)).expect("copied");
    check(&home).found(&format!("I4 {waits}: holds message three under the name of waits"));
    fs::write(home.path().join(&waits), text.replace("\"v\":1", "\"v\":2")).expect("written");
    assert!(check(&home).hold().notes()[0].contains("newer format"));
}

#[test]
fn i4_a5_whatever_else_lies_in_a_mailbox_is_found_by_its_name() {
    let home = whole();
    let inbox = "channels/agent/agent0/inbox";
    let path = home.path().join(inbox);
    fs::create_dir(path.join("folder")).expect("made");
    assert!(Command::new("mkfifo").arg(path.join("pipe")).status().expect("mkfifo").success());
    std::os::unix::fs::symlink("/etc/passwd", path.join("link")).expect("linked");
    fs::write(path.join("00000000000000000042-note.1.g0.json"), "{}").expect("written");
    let verdicts = check(&home);
    for (file, why) in [
        ("folder", "its name is not one of the bus"),
        ("folder", "not a regular file"),
        ("pipe", "not a regular file"),
        ("link", "not a regular file"),
        ("00000000000000000042-note.1.g0.json", "its name belongs to another folder"),
    ] {
        verdicts.found_among(&format!("I4 {inbox}/{file}: {why}"));
    }
    netsky(&home, &["channel", "drain", "agent0"]);
    check(&home).hold();
}

#[test]
fn i2_a_way_back_by_hand_that_was_cut_before_it_was_told_is_no_damage() {
    let cut = |home: &Home, point: &str, args: &[&str]| {
        let ended =
            program(home, args).env("NETSKY_FAULT", format!("{point}=kill")).output().expect("it starts");
        assert_eq!(ended.status.code(), None, "{point} was not hit");
    };
    let home = Home::init();
    let drain = || {
        netsky(&home, &["channel", "drain", "agent0"]).works();
    };
    // A repeat that no line explains is a note.
    let holds = || assert_eq!(check(&home).hold().notes(), [] as [String; 0]);
    let send = ["channel", "send", "agent0", "text", "--from", "owner", "--id", "one"];
    netsky(&home, &send).works();
    drain();
    cut(&home, "bus.back.renamed", &["channel", "release", "agent0", "one"]);
    drain();
    holds();
    for _ in 2..5 {
        netsky(&home, &["channel", "release", "agent0", "one"]).works();
        drain();
    }
    netsky(&home, &["channel", "release", "agent0", "one"]).works();
    cut(&home, "bus.retry.renamed", &["channel", "poison", "retry", "agent0", "one"]);
    drain();
    holds();
}

#[test]
fn i4_a_changed_line_of_the_facts_is_found() {
    let home = whole();
    for n in 0..3 {
        fs::write(home.path().join(format!("channels/agent/agent0/inbox/{n:020}-g-{n}.json")), "{")
            .expect("written");
    }
    assert_eq!(
        program(&home, &["channel", "drain", "agent0"]).output().expect("starts").status.code(),
        Some(7)
    );
    let facts = home.path().join("record/facts-1.jsonl");
    let text = fs::read_to_string(&facts).expect("pages are facts");
    assert!(text.contains("g-1"), "{text}");
    fs::write(&facts, text.replace("g-1", "g-9")).expect("written");
    check(&home).found("I4 record/facts-1.jsonl:2: does not have its own hash");
}
