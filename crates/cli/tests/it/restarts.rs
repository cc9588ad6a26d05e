//! Restarts that meet what is broken: each comes to an end, and agent0 comes back.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use netsky_disk::process::{Signal, is_alive};
use netsky_model::restart::Status;

use crate::full_disk::{Said, apart};
use crate::stage::{QUIET, Stage};

/// Ways to make a file one that the program does not read.
fn spoils() -> [fn(&Path); 2] {
    let linked = |path: &Path| std::fs::hard_link(path, path.with_extension("too")).expect("linked");
    // root reads what is closed to it, and only root can give it away.
    let closed = |path: &Path| {
        if chown(path, Some(65_534), None).is_err() {
            set_permissions(path, Permissions::from_mode(0o000)).expect("ours");
        }
    };
    [linked, closed]
}

/// Ticks of the test's own until agent0 is of this generation and nothing is under way.
fn tick_until_verified(stage: &Stage, generation: u64) {
    stage.until("a verified restart", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        let root = stage.agent("agent0");
        let is_new = root["generation"] == generation && root["up"] == true;
        (is_new && stage.status()["restart"].is_null()).then_some(())
    });
}

#[test]
fn fm_restart_request_corrupt_one_that_does_not_read_keeps_no_agent0_dead() {
    let stage = Stage::up(0, QUIET, "100ms");
    stage.hold_triggers();
    for (generation, spoil) in (2..).zip(spoils()) {
        let request = stage.home().join("state/restart-request");
        std::fs::write(&request, "who knows whose words").expect("written");
        spoil(&request);
        let _ = std::fs::remove_file(stage.home().join("state/agent0-restart-attempts"));
        stage.signal(&stage.program("agent0"), Signal::KILL);
        stage.until_dead();
        tick_until_verified(&stage, generation);
        let inbox = stage.ok(&["channel", "drain", "agent0"]);
        assert!(inbox.contains("; the restart request is refused: failed to read "), "{inbox}");
        assert!(!inbox.contains("whose words"), "{inbox}");
        let archive = stage.names("state/restart-archive");
        let refused = archive.iter().filter(|name| name.ends_with(".refused")).count();
        assert_eq!(refused as u64, generation - 1, "kept for people: {archive:?}");
    }
}

#[test]
fn fm_restart_request_corrupt_one_that_reads_no_more_once_all_were_ended_is_refused_then() {
    let stage = Stage::up(0, QUIET, "100ms");
    stage.hold_triggers();
    stage.ok(&["restart"]);
    stage.ends_nothing(&["watchdog", "tick"]);
    let child = stage.stopped();
    let [linked, _] = spoils();
    linked(&stage.home().join("state/restart-request.processing"));
    stage.signal(&child, Signal::CONT);
    tick_until_verified(&stage, 2);
    let inbox = stage.ok(&["channel", "drain", "agent0"]);
    assert!(
        inbox.contains("agent0 ended without a handoff (the restart request is refused: failed to read "),
        "{inbox}"
    );
}

#[test]
fn i7_a_mailbox_of_agent0_that_does_not_read_during_its_restart_keeps_nobody_else_down() {
    let stage = Stage::up(1, QUIET, "100ms");
    stage.hold_triggers();
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_dead();
    stage.until("a child that is done", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.status()["restart"]["phase"] == "handed-off").then_some(())
    });
    // Where the handoff lies.
    let inbox = stage.home().join("channels/agent/agent0/inbox");
    let aside = stage.outside("aside");
    std::fs::rename(&inbox, &aside).and_then(|()| std::fs::write(&inbox, "")).expect("a file in its place");
    stage.signal(&stage.program("agent1"), Signal::KILL);
    stage.until("another agent1", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.agent("agent1")["generation"] == 2).then_some(())
    });
    assert!(!stage.status()["restart"].is_null(), "not proved, and not given up");
    std::fs::remove_file(&inbox).and_then(|()| std::fs::rename(&aside, &inbox)).expect("back");
    tick_until_verified(&stage, 2);
}

#[test]
fn fm_detached_restart_a_clone_whose_folder_is_gone_keeps_no_restart_from_its_work() {
    let stage = Stage::up(2, QUIET, "100ms");
    let [one, two] = ["agent1", "agent2"].map(|name| stage.program(name));
    stage.edit("state/desired/agent1.json", |wish| wish["cwd"] = "/nowhere/at/all".into());
    stage.ok(&["restart"]);
    stage.until_verified(2);
    assert!(is_alive(&one), "who could not come back is not ended");
    assert!(!is_alive(&two) && stage.agent("agent2")["generation"] == 2, "all others are");
}

/// agent0 lives on a disk with hardly more room than one start needs, and a restart is asked for.
const HARDLY_ROOM: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 0 --tick 300ms -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
"$NETSKY" watchdog tick >/dev/null || exit 97
pid=$("$NETSKY" status | awk '$1 == "agent0" {print $6}')
cat /dev/zero > "$PLACE/fill" 2>/dev/null
truncate -s -400K "$PLACE/fill"
"$NETSKY" restart >/dev/null || exit 96
for _ in $(seq 300); do
  test -e "$NETSKY_HOME/state/agent0-revive-failed" && break
  sleep 0.1
done
"$NETSKY" status | grep '^problem: the last restart failed'
kill -0 "$pid" && echo lives
rm "$PLACE/fill"
"$NETSKY" down >/dev/null
"#;

#[test]
fn fm_detached_restart_enospc_nobody_is_ended_for_a_start_that_the_disk_may_not_take() {
    let Some(Said { out, err, .. }) = apart(HARDLY_ROOM) else { return };
    let lines: Vec<&str> = out.lines().collect();
    let [why, lives] = lines[..] else { panic!("{out}{err}") };
    assert!(why.contains(" is full (") && lives == "lives", "{out}{err}");
}

/// agent0 dies where clones come back with it, and there is hardly any room: theirs may be too little.
const HARDLY_ROOM_FOR_CLONES: &str = r#"
mount -t tmpfs -o size=8m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 1 --tick 300ms -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
printf '[restart]\nclones = "restart"\n' > "$NETSKY_HOME/config.toml"
"$NETSKY" watchdog tick >/dev/null || exit 97
pid_of() { "$NETSKY" status | awk -v id="$1" '$1 == id {print $6}'; }
pid=$(pid_of agent0); one=$(pid_of agent1)
cat /dev/zero > "$PLACE/fill" 2>/dev/null
truncate -s -400K "$PLACE/fill"
kill -9 "$pid"
for _ in $(seq 300); do
  now=$(pid_of agent0)
  test "$now" != "$pid" && kill -0 "$now" 2>/dev/null && echo back && break
  sleep 0.1
done
kill -0 "$one" && echo lives
rm "$PLACE/fill"
"$NETSKY" down >/dev/null
"#;

#[test]
fn fm_detached_restart_enospc_a_crash_ends_no_clone_for_a_start_that_the_disk_may_not_take() {
    let Some(Said { out, err, .. }) = apart(HARDLY_ROOM_FOR_CLONES) else { return };
    assert_eq!(out.lines().collect::<Vec<_>>(), ["back", "lives"], "{out}{err}");
}

/// agent0 dies while nothing can be written, and then everything can.
const READ_ONLY_FOR_A_WHILE: &str = r#"
mount -t tmpfs -o size=32m,mode=0700 none "$PLACE" || exit 99
export NETSKY_HOME="$PLACE/home"
"$NETSKY" up 0 --tick 300ms -- sh -c 'netsky session up; exec sleep 100000' >/dev/null || exit 98
pid_of() { "$NETSKY" status | awk -v id="$1" '$1 == id {print $6}'; }
pid=$(pid_of agent0)
mount --bind "$PLACE" "$PLACE" || exit 97
# Busy as long as somebody writes.
for _ in $(seq 300); do
  mount -o remount,bind,ro "$PLACE" 2>/dev/null && break
  sleep 0.01
done
touch "$PLACE/probe" 2>/dev/null && exit 97
kill -9 "$pid"
sleep 2
mount -o remount,bind,rw "$PLACE" || exit 96
for _ in $(seq 300); do
  now=$(pid_of agent0)
  test "$now" != "$pid" && kill -0 "$now" 2>/dev/null && echo back && break
  sleep 0.1
done
"$NETSKY" down >/dev/null
"#;

#[test]
fn i7_who_died_while_the_home_was_read_only_comes_back_once_it_is_not() {
    let Some(Said { out, err, .. }) = apart(READ_ONLY_FOR_A_WHILE) else { return };
    assert_eq!(out.trim(), "back", "{out}{err}");
}

#[test]
fn a5_a_marker_of_a_restart_with_a_second_name_keeps_agent0_alone_down_and_is_paged_for() {
    let stage = Stage::up(1, QUIET, "200ms");
    stage.hold_triggers();
    let marker = stage.home().join("state/restart-inflight");
    std::fs::write(stage.outside("copy"), "{}").expect("written");
    std::fs::hard_link(stage.outside("copy"), &marker).expect("one file system");
    for agent in ["agent0", "agent1"] {
        stage.signal(&stage.program(agent), Signal::KILL);
    }
    let pages = || std::fs::read_to_string(stage.home().join("logs/pages.jsonl")).unwrap_or_default();
    stage.until("a page, and the other", |stage| {
        drop(stage.run(&["watchdog", "tick"]));
        let is_back = stage.agent("agent1")["generation"] == 2;
        (is_back && pages().contains("between.agent0")).then_some(())
    });
    assert!(stage.agent("agent0")["pid"].is_null());
    std::fs::remove_file(&marker).expect("there");
    stage.until("agent0", |stage| {
        drop(stage.run(&["watchdog", "tick"]));
        (stage.agent("agent0")["generation"] == 2).then_some(())
    });
}

#[test]
fn i7_whose_start_took_a_generation_and_no_more_when_its_anchor_died_is_started_all_the_same() {
    let stage = Stage::up(1, QUIET, "10m");
    stage.hold_triggers();
    stage.kill_anchor();
    let mut serve = std::process::Command::new(env!("CARGO_BIN_EXE_ostk"));
    serve.args(["serve", "--root"]).arg(stage.home().join(".ostk"));
    serve.env("NETSKY_FAULT", "anchor.spawn.journalled=kill").stderr(std::process::Stdio::null());
    let mut doomed = serve.spawn().expect("it starts");
    stage.until("it serves", |stage| stage.status()["anchor_epoch"].as_u64());
    stage.signal(&stage.program("agent1"), Signal::KILL);
    stage.until("its end", |stage| stage.agent("agent1")["pid"].is_null().then_some(()));
    // A tick that was under way when it was stopped may have the lock, and be the one that meets it.
    let ended = stage.until("it dies in the middle of a start", |stage| {
        drop(stage.run(&["watchdog", "tick"]));
        doomed.try_wait().expect("ours")
    });
    assert!(!ended.success());
    let _ = std::fs::remove_file(stage.home().join("state/agent1-restart-attempts"));
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(stage.agent("agent1")["generation"], 3, "the second one was taken by nobody");
}

#[test]
fn must_show_7_agentinfinity_alone_sees_a_restart_verified_an_interval_after_its_handoff() {
    let stage = Stage::up(0, QUIET, "2s");
    let infinity = stage.program("agentinfinity");
    stage.hold_triggers();
    stage.signal(&infinity, Signal::CONT);
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(2);
    let verified = netsky_disk::clock::stamp();
    let mut statuses = stage.names("state/restart-status");
    statuses.retain(|name| name.ends_with(".json"));
    let [status] = &statuses[..] else { panic!("one restart: {statuses:?}") };
    let status: Status =
        serde_json::from_value(stage.json(&format!("state/restart-status/{status}"))).expect("a status");
    let took = verified.since(&status.updated_at);
    assert!(took >= Duration::from_millis(1900), "a whole interval was watched: {took:?}");
    assert!(took < Duration::from_secs(4), "and not another one: {took:?}");
}

#[test]
fn a_crash_of_agent0_leaves_clones_alone_or_brings_them_back_with_it_as_the_owner_wants() {
    let stage = Stage::up(1, QUIET, "100ms");
    let one = stage.program("agent1");
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(2);
    assert!(is_alive(&one), "who works is left alone");
    let config = stage.home().join("config.toml");
    std::fs::write(&config, "[restart]\nclones = \"restart\"\n").expect("written");
    let _ = std::fs::remove_file(stage.home().join("state/agent0-restart-attempts"));
    stage.signal(&stage.program("agent0"), Signal::KILL);
    stage.until_verified(3);
    assert!(!is_alive(&one));
    assert_eq!(
        (stage.agent("agent1")["generation"].clone(), stage.agent("agent1")["up"].clone()),
        (2.into(), true.into())
    );
    std::fs::write(&config, "[restart]\nclones = \"spare\"\n").expect("written");
    let said = stage.ok(&["status"]);
    assert!(said.contains("config.toml") && said.contains("`leave` or `restart`"), "{said}");
}
