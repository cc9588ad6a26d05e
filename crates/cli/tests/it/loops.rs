//! `netsky loop` as people type it, and its tick under clocks that step, sleep and boot.

use std::fs;

use netsky_disk::layout::Layout;
use netsky_model::envelope::Envelope;
use serde_json::Value;

use crate::bus_home::Home;
use crate::cron::Clocked;
use crate::screen::{Said, inside, netsky, said};

const QUARTER: i64 = 15 * 60 * 1000;

fn clocked() -> Clocked {
    Clocked::with("")
}

/// The id that `create` says.
fn create(clocked: &Clocked, words: &[&str]) -> String {
    let said = clocked.ok(&[&["loop", "create"], words].concat());
    said.split(' ').next().expect("its id").to_owned()
}

/// A loop as an object.
fn shown(clocked: &Clocked, id: &str) -> Value {
    serde_json::from_str(&clocked.ok(&["loop", "show", id, "--json"])).expect("one object")
}

fn file(home: &Home, id: &str) -> std::path::PathBuf {
    home.path().join(format!("state/loops/{id}.toml"))
}

fn missed(envelope: &Envelope) -> u64 {
    envelope.missed.unwrap_or(0)
}

#[test]
fn what_loops_missed_is_one_event_of_a_tick_and_quiet_where_it_was_only_not_read() {
    let clocked = clocked();
    for prompt in ["one", "two", "three"] {
        create(&clocked, &["15m", prompt]);
    }
    let told = || -> Vec<(Value, usize)> {
        let told = clocked.ok(&["events", "--json", "--kind", "loop.missed"]);
        let told: Value = serde_json::from_str(&told).expect("one object");
        let texts = |event: &Value| {
            let text = event["text"].as_str().expect("text");
            (event["level"].clone(), text.matches(" and 2 more of agent0 missed an instant: ").count())
        };
        told["events"].as_array().expect("a list").iter().map(texts).collect()
    };
    clocked.slept(16 * 60 * 1000);
    clocked.ok(&["loop", "tick"]);
    assert_eq!(told(), [], "none came late");
    for file in clocked.home.files("agent0", "inbox").expect("read") {
        fs::remove_file(clocked.home.channel("agent0", "inbox").join(file)).expect("ours");
    }
    clocked.slept(8 * 60 * 60 * 1000);
    clocked.ok(&["loop", "tick"]);
    let passed = ("milestone".into(), 1);
    assert_eq!(told(), std::slice::from_ref(&passed));
    // Nobody reads: the first that passes is told of, and the rest counted.
    for _ in 0..3 {
        clocked.slept(15 * 60 * 1000);
        clocked.ok(&["loop", "tick"]);
    }
    assert_eq!(told().first(), Some(&passed));
    assert!(told().iter().skip(1).all(|(level, _)| *level == "quiet") && told().len() <= 2, "{:?}", told());
}

#[test]
fn must_show_1_each_command_of_the_seed_and_the_envelope_as_it_says() {
    let clocked = clocked();
    let fixed = create(&clocked, &["15m", "check CI and report delta only"]);
    let every = create(&clocked, &["every 15m", "the same", "--agent", "agentinfinity"]);
    let dynamic = create(&clocked, &["wait for the next review wave, then summarize blockers"]);
    let keys = |id: &str| -> Vec<String> {
        let text = fs::read_to_string(file(&clocked.home, id)).expect("there");
        text.lines()
            .filter_map(|line| Some(line.split_once(" =")?.0.to_owned()))
            .take_while(|k| k != "of")
            .collect()
    };
    assert_eq!(keys(&dynamic), ["id", "agent", "created_utc", "mode", "prompt", "next_fire_utc"]);
    assert_eq!(
        keys(&fixed),
        ["id", "agent", "created_utc", "mode", "prompt", "next_fire_utc", "interval_secs"]
    );
    assert_eq!(
        (&shown(&clocked, &every)["interval_secs"], &shown(&clocked, &every)["agent"]),
        (&900.into(), &"agentinfinity".into())
    );
    let list = clocked.ok(&["loop", "list"]);
    let head: Vec<&str> = list.lines().next().expect("a head").split_whitespace().collect();
    assert_eq!(head.join(" "), "ID MODE AGENT INTERVAL NEXT FIRE LAST FIRE STATE MISSED LAST ERROR PROMPT");
    let ids: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert!(ids.len() == 3 && ids[2] == dynamic, "25 minutes come behind 15: {list}");
    assert_eq!(clocked.ok(&["loop", "tick"]), "nothing is due\n");
    clocked.ok(&["loop", "reschedule", &dynamic, "300"]);
    let seconds = |id: &str, key: &str| -> i64 {
        let at: jiff::Timestamp =
            shown(&clocked, id)[key].as_str().expect("an instant").parse().expect("RFC 3339");
        at.as_second()
    };
    let left = seconds(&dynamic, "next_fire_utc") - jiff::Timestamp::now().as_second();
    assert!((290..=300).contains(&left), "{left}");
    clocked.slept(300_000);
    let ticked = clocked.ok(&["loop", "tick"]);
    assert!(ticked.starts_with(&format!("{dynamic}: told agent0 for ")), "{ticked}");
    let told = clocked.told();
    let [envelope] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        (envelope.from.as_str(), envelope.to.as_ref().expect("for whom").as_str()),
        ("agentloop", "agent0")
    );
    assert_eq!(envelope.text, "wait for the next review wave, then summarize blockers");
    assert_eq!((envelope.kind.as_deref(), envelope.thread.as_deref()), (Some("loop-tick"), Some(&*dynamic)));
    let drained = clocked.ok(&["channel", "drain", "agent0"]);
    let begins =
        format!("<channel source=\"agent\" from=\"agentloop\" kind=\"loop-tick\" thread=\"{dynamic}\"");
    assert!(drained.starts_with(&begins) && !drained.contains("missed="), "{drained}");
    assert_eq!(
        (&shown(&clocked, &dynamic)["standing"], &shown(&clocked, &dynamic)["armed"]),
        (&"waiting".into(), &false.into())
    );
    assert_eq!(seconds(&dynamic, "next_fire_utc") - seconds(&dynamic, "last_fire_utc"), 1500);
    clocked.ok(&["loop", "delete", &dynamic]);
    netsky(&clocked.home, &["loop", "delete", &dynamic]).fails_with(3, &["there is no", &dynamic]);
    netsky(&clocked.home, &["loop", "reschedule", &fixed, "300"]).fails_with(2, &["is fixed"]);
}

#[test]
fn what_is_no_loop_is_refused_in_a_line_and_creates_nothing() {
    let home = Home::init();
    for (args, code, word) in [
        (&["loop", "create", "15", "x"][..], 2, "s, m, h or d"),
        (&["loop", "create", "0m", "x"], 2, "s, m, h or d"),
        (&["loop", "create", " "], 2, "prompt is empty"),
        (&["loop", "create", "1m", "x", "--keep-alive"], 2, "--keep-alive"),
        (&["loop", "create", "1m", "x", "--agent", "agent7"], 4, "no agent agent7 is known"),
        (&["loop", "create", "1m", "x", "y"], 2, "no more were expected"),
        (&["loop", "show", "loop-1"], 2, "loop-<8 hex digits>"),
        (&["loop", "show", "../../etc/passwd"], 2, "loop-<8 hex digits>"),
        (&["loop", "pause", "loop-00000000"], 3, "there is no loop-00000000"),
        (&["loop", "reschedule", "loop-00000000", "99999999999"], 2, "ten years"),
        (&["loop", "reschedule", "loop-00000000", "99999999999999999999999"], 2, "ten years"),
        (&["loop", "reschedule", "loop-00000000", "abc"], 2, "not a whole number of seconds, 0 or more"),
        (&["loop", "reschedule", "loop-00000000", "-1"], 2, "not a whole number of seconds, 0 or more"),
        (&["loop", "create", "99999999999999999999h", "x"], 2, "is over ten years"),
        (&["loop", "create", "-5m", "x"], 2, "'-5' found: no value here is below 0"),
        (&["quiet", "99999999999999999999h", "x"], 2, "is too long"),
    ] {
        let said = netsky(&home, args);
        assert!(said.code == code && said.err.contains(word), "{args:?}: {said:?}");
    }
    assert_eq!(
        fs::read_dir(home.path().join("state/loops"))
            .expect("there")
            .filter(|file| {
                file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|ext| ext == "toml"))
            })
            .count(),
        0
    );
}

#[test]
fn a_loop_is_for_who_makes_it_and_edited_paused_and_let_expire() {
    let clocked = clocked();
    clocked.ok(&["channel", "send", "agent3", "x", "--from", "owner", "--create"]);
    let made = inside(&clocked.home, "agent3", &["loop", "create", "1h", "mine"]);
    let id = made.works().split(' ').next().expect("its id").to_owned();
    assert_eq!(shown(&clocked, &id)["agent"], "agent3");
    clocked.ok(&[
        "loop",
        "edit",
        &id,
        "--prompt",
        "ours",
        "--interval",
        "15m",
        "--agent",
        "0",
        "--expires",
        "20m",
    ]);
    let now = shown(&clocked, &id);
    assert_eq!(
        (&now["prompt"], &now["interval_secs"], &now["agent"]),
        (&"ours".into(), &900.into(), &"agent0".into())
    );
    clocked.ok(&["loop", "pause", &id]);
    clocked.slept(QUARTER);
    assert_eq!(clocked.ok(&["loop", "tick"]), "nothing is due\n");
    clocked.ok(&["loop", "edit", &id, "--expires", "20m"]);
    clocked.ok(&["loop", "resume", &id]);
    clocked.slept(2 * QUARTER);
    assert!(clocked.ok(&["loop", "tick"]).contains("told agent0"));
    assert_eq!(shown(&clocked, &id)["standing"], "expired", "the next one would be too late");
    clocked.slept(9 * QUARTER);
    assert_eq!(clocked.ok(&["loop", "tick"]), "nothing is due\n");
    // By a hand, seen at once by who says so.
    let path = file(&clocked.home, &id);
    let text = fs::read_to_string(&path).expect("there").replace("\"ours\"", "\"by hand\"");
    fs::write(&path, text).expect("written");
    let mut edit = clocked.command(&["loop", "edit", &id]);
    assert!(edit.env_remove("VISUAL").env("EDITOR", "true").output().expect("starts").status.success());
    assert_eq!(shown(&clocked, &id)["prompt"], "by hand");
    let mut edit = clocked.command(&["loop", "edit", &id]);
    let broken = edit.env_remove("VISUAL").env("EDITOR", "sed -i s/.fixed./fixed/").output();
    let said = said(&clocked.home, broken.expect("starts"));
    assert!(said.code == 2 && said.err.contains("line 4, column"), "{said:?}");
}

#[test]
fn a16_a_session_changes_its_own_loops_and_agent0_those_of_all() {
    let clocked = clocked();
    for agent in ["agent3", "agent4"] {
        clocked.ok(&["channel", "send", agent, "x", "--from", "owner", "--create"]);
    }
    let as_agent = |agent: &str, args: &[&str]| inside(&clocked.home, agent, args);
    let made = |said: Said| {
        assert_eq!(said.code, 0, "{said:?}");
        said.out.split(' ').next().expect("its id").to_owned()
    };
    let own = made(as_agent("agent3", &["loop", "create", "15m", "mine"]));
    let once = made(as_agent("agent3", &["loop", "create", "mine, once"]));
    let root = create(&clocked, &["the root's"]);
    let before = [&own, &once, &root].map(|id| fs::read(file(&clocked.home, id)).expect("there"));
    let refused = |said: Said, me: &str| {
        assert!(
            said.code == 4 && said.err.contains(&format!("is refused: this session is {me}")),
            "{said:?}"
        );
    };
    refused(as_agent("agent3", &["loop", "create", "x", "--agent", "agent0"]), "agent3");
    refused(as_agent("agent3", &["loop", "edit", &own, "--agent", "agent0"]), "agent3");
    for (me, id) in [("agent3", &root), ("agent4", &once)] {
        for words in [&["pause"][..], &["resume"], &["delete"], &["edit"]] {
            let words = [&["loop", words[0], id], &words[1..]].concat();
            refused(as_agent(me, &words), me);
        }
        refused(as_agent(me, &["loop", "reschedule", id, "1"]), me);
        refused(as_agent(me, &["loop", "edit", id, "--agent", me]), me);
        refused(as_agent(me, &["loop", "edit", id, "--prompt", "another"]), me);
    }
    let after = [&own, &once, &root].map(|id| fs::read(file(&clocked.home, id)).expect("there"));
    assert!(before == after, "nothing was changed");
    assert_eq!(as_agent("agent3", &["loop", "pause", &own]).code, 0);
    assert_eq!(as_agent("agent0", &["loop", "resume", &own]).code, 0);
    assert_eq!(as_agent("agentinfinity", &["loop", "delete", &own]).code, 0);
    assert_eq!(clocked.run(&["loop", "delete", &once]).code, 0);
}

#[test]
fn an_editor_that_is_open_for_long_takes_back_nothing_that_others_did() {
    let clocked = clocked();
    let edited = |id: &str, meanwhile: &str, change: &str| {
        let script = clocked.home.path().with_extension("editor");
        fs::write(&script, format!("#!/bin/sh\n{meanwhile}\n{change}\n")).expect("written");
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
        let mut edit = clocked.command(&["loop", "edit", id]);
        said(&clocked.home, edit.env_remove("VISUAL").env("EDITOR", &script).output().expect("starts"))
    };
    let netsky = env!("CARGO_BIN_EXE_netsky");
    let id = create(&clocked, &["15m", "check CI"]);
    let reworded = "sed -i 's/check CI/check all/' \"$1\"";
    let meanwhile = format!("{netsky} loop pause {id}; {netsky} loop edit {id} --interval 30m");
    let paused = edited(&id, &meanwhile, reworded);
    assert_eq!(paused.code, 0, "{paused:?}");
    let now = shown(&clocked, &id);
    assert_eq!(
        (&now["paused"], &now["interval_secs"], &now["prompt"]),
        (&true.into(), &1800.into(), &"check all".into()),
        "{now}"
    );
    // What is no loop is kept for who wrote it, and changes nothing.
    let garbage = edited(&id, ":", "echo 'agent = 7' > \"$1\"");
    assert!(garbage.code == 2 && garbage.err.contains("what you wrote is in"), "{garbage:?}");
    let kept = garbage.err.rsplit(' ').next().expect("a path").trim();
    let kept = kept.replace("$HOME", clocked.home.path().to_str().expect("text"));
    assert_eq!(
        (shown(&clocked, &id), fs::read_to_string(kept).expect("kept")),
        (now, "agent = 7\n".to_owned())
    );
    let deleted = edited(&id, &format!("{netsky} loop delete {id}"), "sed -i 's/check/look at/' \"$1\"");
    assert!(deleted.code == 3 && deleted.err.contains("what you wrote is in"), "{deleted:?}");
    assert!(!file(&clocked.home, &id).exists(), "it never fires again");
}

#[test]
fn what_nobody_would_be_told_of_is_refused() {
    let clocked = clocked();
    for words in [
        &["create", "2s", "x", "--expires", "2s"][..],
        &["create", "x", "--expires", "10m"],
        &["create", "15m", &"\u{1}".repeat(12_000)],
    ] {
        let said = clocked.run(&[&["loop"], words].concat());
        assert!(said.code == 2 && said.err.ends_with("nothing was changed\n"), "{said:?}");
    }
    let id = create(&clocked, &["once", "--expires", "1h"]);
    assert_eq!(clocked.run(&["loop", "reschedule", &id, "7200"]).code, 2);
    clocked.slept(3 * QUARTER);
    clocked.ok(&["loop", "tick"]);
    assert_eq!(shown(&clocked, &id)["standing"], "expired", "it would be too late");
    assert_eq!(clocked.run(&["loop", "reschedule", &id, "7200"]).code, 2);
    clocked.read();
    let long = "\u{1b}".repeat(12_000);
    assert_eq!(clocked.run(&["loop", "edit", &id, "--prompt", &long]).code, 2);
    // Nor is what is due counted by another interval than its own.
    let overdue = create(&clocked, &["1m", "x"]);
    clocked.slept(4 * QUARTER);
    let edited = clocked.run(&["loop", "edit", &overdue, "--interval", "1h"]);
    assert!(edited.code == 5 && edited.err.contains("is due: the next tick tells it"), "{edited:?}");
    clocked.ok(&["loop", "delete", &overdue]);
    // What comes behind its end is not missed.
    let id = create(&clocked, &["15m", "for two hours", "--expires", "2h"]);
    clocked.slept(44 * QUARTER);
    clocked.ok(&["loop", "tick"]);
    assert_eq!((&shown(&clocked, &id)["missed"], clocked.told().len()), (&6.into(), 2));
}

#[test]
fn must_show_8_an_agent_that_was_down_for_eight_hours_is_told_once_how_many_it_missed() {
    let clocked = clocked();
    let id = create(&clocked, &["15m", "check CI"]);
    for quarter in 1..=33 {
        clocked.slept(quarter * QUARTER);
        clocked.ok(&["loop", "tick"]);
    }
    assert_eq!((clocked.told().len(), &shown(&clocked, &id)["missed"]), (1, &32.into()));
    let drained = clocked.ok(&["channel", "drain", "agent0"]);
    assert!(drained.contains(" missed=\"32\"") && drained.matches("<channel").count() == 1, "{drained}");
    clocked.slept(34 * QUARTER);
    clocked.ok(&["loop", "tick"]);
    assert_eq!((clocked.told().len(), &shown(&clocked, &id)["missed"]), (2, &Value::Null));
}

/// agentinfinity answers nobody: agent0 is asked, once until it has read it, and told what it missed.
#[test]
fn fm_loop_fm_cron_what_is_due_for_agentinfinity_is_said_to_agent0_and_waits_there() {
    let clocked = clocked();
    create(&clocked, &["15m", "look", "--agent", "agentinfinity"]);
    clocked.ok(&["cron", "add", "*/15 * * * *", "count", "--agent", "agentinfinity"]);
    for quarter in 1..=4 {
        clocked.slept(quarter * QUARTER);
        clocked.ok(&["loop", "tick"]);
        clocked.ok(&["cron", "tick"]);
    }
    let mut told: Vec<String> = clocked.told().into_iter().filter_map(|one| one.kind).collect();
    told.sort();
    assert_eq!(told, ["cron-tick", "loop-tick"], "agent0 has not read the one before");
    let drained = clocked.ok(&["channel", "drain", "agent0"]);
    assert_eq!(drained.matches(" missed=").count(), 2, "{drained}");
}

#[test]
fn fm_loop_fire_an_outage_is_one_catch_up() {
    let clocked = clocked();
    create(&clocked, &["15m", "check CI"]);
    clocked.slept(32 * QUARTER);
    clocked.ok(&["loop", "tick"]);
    assert_eq!(clocked.ok(&["loop", "tick"]), "nothing is due\n");
    let told = clocked.told();
    assert_eq!((told.len(), missed(&told[0])), (1, 31));
}

#[test]
fn must_show_5_t9_no_step_of_the_wall_clock_fires_an_instant_twice_or_stops_a_loop() {
    const HOUR: i64 = 60 * 60 * 1000;
    for step in [-3 * HOUR, 3 * HOUR, -24 * HOUR] {
        let clocked = clocked();
        create(&clocked, &["15m", "check CI"]);
        let mut ids = Vec::new();
        for quarter in 1..=8 {
            if quarter == 5 {
                clocked.wall(step);
                // A look that may count from now.
                clocked.ok(&["loop", "tick"]);
            }
            clocked.slept(quarter * QUARTER + 1000);
            clocked.ok(&["loop", "tick"]);
            clocked.read();
            ids.extend(clocked.told().into_iter().filter_map(|envelope| envelope.id));
        }
        ids.sort();
        ids.dedup();
        assert!((7..=9).contains(&ids.len()), "{step}: {} in two hours", ids.len());
    }
}

#[test]
fn t3_who_dies_between_the_envelope_and_the_loop_sends_the_same_again() {
    let clocked = clocked();
    let id = create(&clocked, &["15m", "check CI"]);
    clocked.slept(QUARTER);
    let killed = clocked.command(&["loop", "tick"]).env("NETSKY_FAULT", "watchdog.loop.sent=kill").output();
    assert_eq!(killed.expect("starts").status.code(), None);
    assert_eq!(clocked.told().len(), 1);
    clocked.read();
    // Much later: what was read told of its own instant alone, and those since are told of too.
    clocked.slept(4 * QUARTER);
    let ticked = clocked.ok(&["loop", "tick"]);
    assert!(ticked.contains("had told agent0") && ticked.contains("told agent0 for"), "{ticked}");
    let told = clocked.told();
    assert_eq!((told.len(), told[1].missed, &shown(&clocked, &id)["missed"]), (2, Some(2), &2.into()));
}

#[test]
fn t3_a_catch_up_that_was_sent_by_who_died_is_the_only_one() {
    let clocked = clocked();
    let id = create(&clocked, &["15m", "check CI"]);
    clocked.slept(4 * QUARTER);
    let killed = clocked.command(&["loop", "tick"]).env("NETSKY_FAULT", "watchdog.loop.sent=kill").output();
    assert_eq!(killed.expect("starts").status.code(), None);
    clocked.read();
    clocked.slept(4 * QUARTER + 60_000);
    let ticked = clocked.ok(&["loop", "tick"]);
    assert!(ticked.contains("had told agent0") && !ticked.contains(": told"), "{ticked}");
    assert_eq!((clocked.told().len(), &shown(&clocked, &id)["missed"]), (1, &3.into()));
    clocked.slept(5 * QUARTER);
    clocked.ok(&["loop", "tick"]);
    assert_eq!(clocked.told().len(), 2, "it goes on in its phase");
}

#[test]
fn fm_loop_fire_one_that_cannot_be_delivered_keeps_its_time_and_the_others_go_on() {
    let clocked = clocked();
    clocked.ok(&["channel", "send", "agent3", "x", "--from", "owner", "--create"]);
    let lost = create(&clocked, &["15m", "for nobody", "--agent", "agent3"]);
    create(&clocked, &["15m", "for agent0"]);
    let away = clocked.home.path().join("channels/agent/agent3");
    fs::rename(&away, clocked.home.path().join("away")).expect("moved");
    let next = shown(&clocked, &lost)["next_fire_utc"].clone();
    clocked.slept(QUARTER);
    let said = clocked.run(&["loop", "tick"]);
    assert!(said.code == 1 && said.err.contains(&lost) && said.out.contains("told agent0"), "{said:?}");
    let now = shown(&clocked, &lost);
    assert!(
        now["next_fire_utc"] == next && now["last_error"].as_str().expect("why").contains("agent3"),
        "{now}"
    );
    fs::rename(clocked.home.path().join("away"), away).expect("back");
    clocked.ok(&["loop", "tick"]);
    assert_eq!(
        (&shown(&clocked, &lost)["last_error"], crate::cron::told(&clocked.home, "agent3").len()),
        (&Value::Null, 2)
    );
}

#[test]
fn must_show_7_one_broken_file_among_many_is_named_put_aside_and_paged_for_once() {
    let clocked = clocked();
    let first = create(&clocked, &["15m", "check CI"]);
    let text = fs::read_to_string(file(&clocked.home, &first)).expect("there");
    for number in 1..200_u32 {
        let id = format!("loop-{number:08x}");
        fs::write(file(&clocked.home, &id), text.replace(&first, &id)).expect("written");
    }
    let broken = file(&clocked.home, "loop-0000000a");
    fs::write(&broken, text.replace(&first, "loop-0000000a").replace("mode = \"fixed\"", "mode = fixed"))
        .expect("written");
    clocked.slept(QUARTER);
    let said = clocked.run(&["loop", "tick"]);
    assert!(said.code == 7 && said.err.contains("loop-0000000a.toml: line 4, column 8: "), "{said:?}");
    assert_eq!(clocked.told().len(), 199);
    assert!(!broken.exists() && clocked.home.path().join("state/loops/broken/loop-0000000a.toml").exists());
    clocked.ok(&["loop", "tick"]);
    let facts = netsky_ledger::facts(&Layout::new(clocked.home.path())).expect("they read");
    let pages = facts.iter().filter(|fact| fact.data["condition"] == "loop-broken.loop-0000000a.toml");
    assert_eq!(pages.count(), 1);
}

#[test]
fn the_ticker_tells_what_is_due() {
    let stage = crate::stage::Stage::up(0, crate::stage::QUIET, "200ms");
    stage.ok(&["loop", "create", "1s", "look"]);
    std::fs::write(
        stage.home().join("cron.toml"),
        "[[entries]]\nid = \"each\"\nagent = \"agent0\"\nschedule = \"* * * * * *\"\nprompt = \"look\"\n",
    )
    .expect("written");
    stage.until("both", |stage| {
        let kinds = stage.ok(&["channel", "list", "agent0", "--json"]);
        (kinds.contains("loop-tick") && kinds.contains("cron-tick")).then_some(())
    });
}

#[test]
fn must_show_3_eight_ticks_at_once_send_each_instant_once() {
    let clocked = clocked();
    let first = create(&clocked, &["15m", "check CI"]);
    let text = fs::read_to_string(file(&clocked.home, &first)).expect("there");
    for number in 1..100_u32 {
        let id = format!("loop-{number:08x}");
        fs::write(file(&clocked.home, &id), text.replace(&first, &id)).expect("written");
    }
    for quarter in 1..=3 {
        clocked.slept(quarter * QUARTER);
        let ticks: Vec<_> =
            (0..8).map(|_| clocked.command(&["loop", "tick"]).spawn().expect("starts")).collect();
        for tick in ticks {
            assert_eq!(said(&clocked.home, tick.wait_with_output().expect("ends")).code, 0);
        }
        clocked.read();
        assert_eq!(clocked.told().len(), 100 * usize::try_from(quarter).expect("small"));
    }
    let ids: std::collections::BTreeSet<_> = clocked.told().into_iter().filter_map(|one| one.id).collect();
    assert_eq!(ids.len(), 300);
}

#[test]
fn files_that_are_no_loops_have_a_line_each_and_exit_7_and_a_round_of_ticks_goes_on() {
    let clocked = clocked();
    let text =
        fs::read_to_string(file(&clocked.home, &create(&clocked, &["15m", "check CI"]))).expect("there");
    let break_some = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let id = format!("loop-{number:08x}");
            fs::write(file(&clocked.home, &id), format!("{text}prompt = [\n# {}\n", "x".repeat(200)))
                .expect("written");
        }
    };
    break_some(0..12);
    let said = clocked.run(&["loop", "tick"]);
    let lines = said.out.lines().filter(|line| line.starts_with("put aside: state/loops/loop-000000"));
    assert!(said.code == 7 && lines.count() == 12, "{said:?}");
    let named =
        ["it lies in state/loops/broken now", "; and 11 more, of which standard output has a line each\n"];
    assert!(
        named.iter().all(|words| said.err.contains(words)) && !said.err.contains("tries again"),
        "{said:?}"
    );
    assert_eq!((said.err.lines().count(), clocked.ok(&["loop", "tick"]).as_str()), (1, "nothing is due\n"));

    // Of a newer version: it stays, and so nothing was put aside.
    fs::write(file(&clocked.home, "loop-000000aa"), "v = 9\n").expect("written");
    assert!(
        clocked.ok(&["loop", "tick"]).contains("warning: state/loops/loop-000000aa.toml: it is of version 9")
    );

    // What is tried again is another thing.
    break_some(12..13);
    clocked.ok(&["channel", "send", "agent3", "x", "--from", "owner", "--create"]);
    let lost = create(&clocked, &["15m", "for nobody", "--agent", "agent3"]);
    let away = clocked.home.path().join("channels/agent/agent3");
    fs::rename(&away, clocked.home.path().join("away")).expect("moved");
    clocked.slept(QUARTER);
    let said = clocked.run(&["loop", "tick", "--json"]);
    let ticked: Value = serde_json::from_str(&said.out).expect("one object");
    let of = |list: &str| ticked[list].as_array().expect("a list").len();
    assert_eq!((said.code, of("aside"), of("problems")), (1, 1, 1), "{said:?}");
    assert!(said.err.contains(&lost) && said.err.ends_with("; the next tick tries again\n"), "{said:?}");
    fs::rename(clocked.home.path().join("away"), away).expect("back");

    break_some(13..14);
    let said = clocked.run(&["tick"]);
    assert!(said.code == 7 && said.err.contains("the tick of loop found damage"), "{said:?}");
    assert!(
        said.out.contains("loop tick: ended with code 7") && said.out.contains("watchdog tick: done"),
        "{said:?}"
    );
}
