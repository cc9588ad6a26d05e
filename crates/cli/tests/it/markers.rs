//! The alphabet of `state/`: listed with age and meaning, pruned inside the tick, and quiet windows among it.

use std::fs::File;
use std::time::{Duration, SystemTime};

use netsky_disk::clock;
use serde_json::{Value, json};

use crate::stage::{QUIET, Stage};

fn listed(stage: &Stage) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&stage.ok(&["markers", "--json"])).expect("one JSON object");
    listed["markers"].as_array().expect("a list").clone()
}

fn of(listed: &[Value], id: &str) -> Value {
    listed.iter().find(|marker| marker["id"] == id).cloned().unwrap_or(Value::Null)
}

fn plant(stage: &Stage, name: &str, text: &str, age: Duration) {
    let path = stage.home().join("state").join(name);
    std::fs::write(&path, text).expect("written");
    let file = File::options().write(true).open(&path).expect("opens");
    file.set_modified(SystemTime::now() - age).expect("aged");
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn t25_every_marker_is_told_with_its_meaning_and_what_is_nobodys_too() {
    let stage = Stage::up(0, QUIET, "10m");
    let found = listed(&stage);
    let told = |id: &str| of(&found, id);
    assert_eq!(told("agentinfinity-ready")["meaning"], "the watchdog session has started");
    assert_eq!(told("desired/agent0.json")["writer"], "up, down");
    assert_eq!(told("tick/ticker.json")["is_past"], false);
    let strange: Vec<&Value> = found.iter().filter(|marker| marker["meaning"].is_null()).collect();
    assert!(strange.is_empty(), "each file that netsky itself makes is known: {strange:?}");
    // Where nobody ticks.
    let stage = Stage::new();
    stage.ok(&["init"]);
    plant(&stage, "left-behind", "x", DAY);
    plant(&stage, "agent0-hang-suspected", "{}", DAY * 2);
    let table = stage.ok(&["markers"]);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
    let head: Vec<&str> = table.lines().next().expect("a head").split_whitespace().collect();
    assert_eq!(head.join(" "), "MARKER AGE MOST MEANING WRITTEN BY READ BY CLEARED BY");
    assert!(row("left-behind").contains("no marker of netsky's"), "{table}");
    assert!(
        row("agent0-hang-suspected")
            .contains("nothing excuses that, past its time: the next tick removes it"),
        "{table}"
    );
}

#[test]
fn t25_the_tick_removes_what_is_past_its_age_and_nothing_else() {
    let stage = Stage::up(0, QUIET, "10m");
    let old = DAY * 2;
    for past in ["agent0-hang-suspected", "agent3-crashloop-suspected", "agentinit-failures"] {
        plant(&stage, past, "{}", old);
    }
    // What stands until it changes, what is young, and what is not ours.
    for (stays, age) in
        [("agent7-pane-hash", old), ("agent1-hang-suspected", DAY / 2), ("left-behind", old), ("key", old)]
    {
        if !stage.home().join("state").join(stays).exists() {
            plant(&stage, stays, "{}", age);
        }
    }
    stage.ok(&["watchdog", "tick"]);
    let names = stage.names("state");
    let is_there = |name: &str| names.iter().any(|found| found == name);
    for past in ["agent0-hang-suspected", "agent3-crashloop-suspected", "agentinit-failures"] {
        assert!(!is_there(past), "{past}: {names:?}");
    }
    for stays in ["agent7-pane-hash", "agent1-hang-suspected", "left-behind", "key", "agentinfinity-ready"] {
        assert!(is_there(stays), "{stays}: {names:?}");
    }
}

#[test]
fn a_quiet_window_is_a_file_with_its_end_in_its_name_and_goes_when_it_is_over() {
    let stage = Stage::up(1, QUIET, "10m");
    assert_eq!(stage.ok(&["quiet", "2h", "a long build"]), "agent0 may be silent for 2h 0m: a long build\n");
    let windows = |stage: &Stage| {
        let mut names = stage.names("state");
        names.retain(|name| name.contains("-quiet-until-"));
        names
    };
    let [window] = &windows(&stage)[..] else { panic!("one window: {:?}", windows(&stage)) };
    let until: i64 = window.strip_prefix("agent0-quiet-until-").expect("its name").parse().expect("seconds");
    let left = until - clock::wall().as_second();
    assert!((7100..=7200).contains(&left), "{left}");
    assert!(stage.ok(&["status"]).contains("agent0: quiet for 1h 59m"), "{}", stage.ok(&["status"]));
    // A later word replaces an earlier one.
    stage.ok(&["quiet", "1h", "shorter"]);
    stage.ok(&["quiet", "30m", "another", "--agent", "1"]);
    assert_eq!(windows(&stage).len(), 2, "{:?}", windows(&stage));
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(windows(&stage).len(), 2, "one that holds is not pruned");
    assert_eq!(stage.ok(&["quiet", "--end", "--agent", "1"]), "agent1 is watched again\n");
    let (code, said) = stage.refused(&["quiet", "--end", "--agent", "1"]);
    assert!(code == 3 && said.contains("no quiet window of agent1"), "{code} {said}");
    // Its time is over, by the boot clock; and one that says nothing.
    let path = stage.home().join("state").join(&windows(&stage)[0]);
    let mut over: Value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("one object");
    over["for_ms"] = json!(1);
    std::fs::write(&path, over.to_string()).expect("written");
    plant(&stage, "agent1-quiet-until-9999999999", "no window", Duration::ZERO);
    assert!(!stage.ok(&["status"]).contains("quiet for"));
    stage.ok(&["watchdog", "tick"]);
    assert_eq!(windows(&stage), [""; 0]);
}

#[test]
fn a_quiet_window_is_the_owners_and_bounded() {
    let stage = Stage::up(0, QUIET, "10m");
    for (args, words) in [
        (&["quiet", "25h", "x"][..], "a window takes at most"),
        (&["quiet", "0s", "x"], "a whole number above 0"),
        (&["quiet", "soon", "x"], "soon"),
        (&["quiet", "1h", " "], "takes 1 to 500 bytes"),
        (&["quiet", "1h"], "WHY"),
        (&["quiet", "1h", "x", "--end"], "--end"),
        (&["quiet", "1h", "x", "--agent", "../agent0"], "../agent0"),
    ] {
        let (code, said) = stage.refused(args);
        assert!(code == 2 && said.contains(words), "{args:?}: {code} {said}");
    }
    let (code, said) = stage.refused(&["quiet", "1h", "x", "--agent", "9"]);
    assert!(code == 3 && said.contains("agent9 was never started here"), "{code} {said}");
    let mut inside = stage.command(&["quiet", "1h", "let me be"]);
    let inside = inside.env("NETSKY_AGENT", "agent0").env("NETSKY_GENERATION", "1").output().expect("starts");
    assert_eq!(inside.status.code(), Some(4), "an agent does not silence its own watchdog");
    assert!(!stage.names("state").iter().any(|name| name.contains("quiet")));
}

#[test]
fn an_agentinfinity_that_never_comes_up_is_a_page_and_told_to_the_next_agent0() {
    let stage = Stage::up(0, QUIET, "200ms");
    let infinity = |stage: &Stage| stage.agent("agentinfinity")["pid"].as_u64();
    // Nobody of that name becomes ready any more: it cannot say so again.
    stage.signal(&stage.program("agentinfinity"), netsky_disk::process::Signal::STOP);
    stage.edit("state/agentinfinity-ready", |ready| ready["process"]["pid"] = json!(u32::MAX / 2));
    assert!(infinity(&stage).is_some());
    let pages = "SELECT count(*) AS n FROM facts WHERE kind = 'page' AND key LIKE 'agentinit.%'";
    stage.until("a page", |stage| stage.ok(&["query", pages, "--json"]).contains("\"n\":1").then_some(()));
    stage.until("its marker", |stage| {
        stage.names("state").contains(&"agentinit-escalation".to_owned()).then_some(())
    });
    // A new one is ready.
    let program = stage.program("agentinfinity");
    stage.signal(&program, netsky_disk::process::Signal::KILL);
    let names = |stage: &Stage| {
        stage.names("state").into_iter().filter(|name| name.starts_with("agentinit-")).count()
    };
    stage.until("both cleared", |stage| (names(stage) == 0).then_some(()));
    assert!(stage.ok(&["query", pages, "--json"]).contains("\"n\":1"));
}

#[test]
fn fm_markers_corrupt_one_that_says_nothing_of_agentinfinity_is_written_again_by_who_serves() {
    let stage = Stage::up(0, QUIET, "1s");
    let process = || stage.json("state/agentinfinity-ready")["process"]["pid"].clone();
    let serves = process();
    for nothing in ["", "{}", "no JSON"] {
        std::fs::write(stage.home().join("state/agentinfinity-ready"), nothing).expect("written");
        stage.until("its word again", |stage| {
            let text = std::fs::read_to_string(stage.home().join("state/agentinfinity-ready")).ok()?;
            (text.contains("process") && process() == serves).then_some(())
        });
    }
    let place = stage.home().join("state/agentinfinity-ready");
    std::fs::remove_file(&place).expect("there");
    std::fs::create_dir(&place).expect("made");
    std::fs::write(place.join("mine"), "").expect("written");
    stage.until("its word in the place of a folder", |_| place.is_file().then_some(()));
}

#[test]
fn fm_up_corrupt_a_folder_in_the_place_of_a_marker_keeps_nobody_down() {
    for marker in ["restart-attempts", "crashloop-suspected", "revive-failed"] {
        let stage = Stage::new();
        stage.ok(&["init"]);
        let folder = stage.home().join(format!("state/agent0-{marker}"));
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(folder.join("mine"), "what somebody put there").expect("written");
        let told = stage.ok(&["up", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
        assert!(told.contains("agent0 session 1 starting at "), "{told}");
        let aside =
            stage.names("state").into_iter().find(|name| name.contains(&format!("{marker}.damaged-")));
        let aside = stage.home().join("state").join(aside.expect("it is out of the way"));
        assert!(aside.join("mine").exists(), "nothing is lost");
    }
}
