//! `netsky tick --failsafe`: from nothing, what is wanted and missing; and nothing where nobody is wanted.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use netsky_disk::process::{Signal, is_alive};
use netsky_disk::sweep::marked;
use netsky_kernel::client::Client;
use netsky_model::process::ProcessId;
use serde_json::Value;

use super::units::{HOSTILE, printed};
use crate::stage::{QUIET, Stage};

/// The time from one failsafe to the next.
const INTERVAL: Duration = Duration::from_secs(120);

/// The value of the one line of a unit that begins so.
fn line(text: &str, key: &str) -> String {
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(key)).collect();
    assert_eq!(lines.len(), 1, "{key} in {text}");
    lines[0].to_owned()
}

/// Words of a line as systemd splits them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => word.extend(letters.next()),
            '%' => word.extend(letters.next().filter(|next| *next == '%')),
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// What a unit starts, from a shell that has nothing of anybody's.
fn bare(stage: &Stage, unit: usize) -> Command {
    let text = &printed(stage, &["--systemd"])[unit].1;
    let start = words(&line(text, "ExecStart="));
    let mut command = Command::new(start[0].strip_prefix(':').expect("no variable is one"));
    command.args(&start[1..]).env_clear().current_dir("/").stdin(Stdio::null());
    let environment = words(&line(text, "Environment="));
    let (key, value) = environment[0].split_once('=').expect("a variable");
    command.env(key, value);
    command
}

fn failsafe(stage: &Stage) -> Output {
    bare(stage, 1).output().expect("starts")
}

/// Both keepers and the anchor end, such that none of them sees the end of another.
fn kill_all(stage: &Stage) -> Vec<ProcessId> {
    let mut killed = vec![stage.program("netsky-ticker"), stage.program("agentinfinity")];
    stage.hold_triggers();
    killed.push(stage.kill_anchor());
    for keeper in &killed[..2] {
        stage.signal(keeper, Signal::KILL);
    }
    stage.until("their end", |_| (!killed.iter().any(is_alive)).then_some(()));
    killed
}

fn all_are_back(stage: &Stage) {
    for id in ["netsky-ticker", "agentinfinity"] {
        stage.until(id, |stage| stage.agent(id)["pid"].as_u64());
    }
    assert!(Client::connect(&stage.home().join(".ostk")).is_ok());
}

/// Everybody of this home that lives.
fn living(stage: &Stage) -> usize {
    let home = stage.home().display().to_string();
    marked("NETSKY_HOME", &home).expect("seen").iter().filter(|id| is_alive(id)).count()
}

#[test]
fn must_show_9_ticker_anchor_and_agentinfinity_are_back_within_one_failsafe_from_a_bare_shell() {
    let stage = Stage::up(1, QUIET, "60s");
    let agents = ["agent0", "agent1"].map(|id| stage.program(id));
    let killed = kill_all(&stage);
    let began = Instant::now();
    let ran = failsafe(&stage);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    all_are_back(&stage);
    assert!(began.elapsed() < INTERVAL);
    assert!(killed.iter().all(|id| !is_alive(id)) && agents.iter().all(is_alive), "the agents lived on");
    let last = stage.json("state/tick/failsafe.json");
    assert!(last["outcome"] == "done" && last["failed"].is_null(), "{last}");
    assert!(last["done"].to_string().contains("started the anchor"), "{last}");
    // With all well it does nothing.
    let anchor = stage.anchor();
    assert!(failsafe(&stage).status.success());
    assert_eq!(stage.anchor(), anchor);
}

#[test]
fn i7_a_failsafe_overrides_no_down_and_makes_no_home() {
    let stage = Stage::new();
    let ran = failsafe(&stage);
    assert!(ran.status.success() && !stage.home().exists(), "there was none");
    stage.ok(&["up", "1", "--tick", "60s", "--", "/bin/sh", "-c", QUIET]);
    stage.ok(&["down"]);
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let ran = failsafe(&stage);
        fastest = fastest.min(began.elapsed());
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(String::from_utf8_lossy(&ran.stdout).contains("nobody is wanted"));
    }
    eprintln!("a failsafe of a home that is down takes {} ms", fastest.as_millis());
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
    assert_eq!(living(&stage), 0);
    assert!(Client::connect(&stage.home().join(".ostk")).is_err());
}

#[test]
fn t24_two_failsafes_at_once_bring_back_one_of_each() {
    let stage = Stage::up(0, QUIET, "60s");
    kill_all(&stage);
    let start = || bare(&stage, 1).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let both = [start(), start()];
    for mut one in both {
        assert!(one.wait().expect("waited").success());
    }
    all_are_back(&stage);
    let home = stage.home().display().to_string();
    let tickers = marked("NETSKY_HOME", &home).expect("seen").into_iter().filter(|id| {
        let words = std::fs::read(format!("/proc/{}/cmdline", id.pid)).unwrap_or_default();
        is_alive(id) && String::from_utf8_lossy(&words).contains("netsky\0ticker\0")
    });
    assert_eq!(tickers.count(), 1);
}

#[test]
fn i7_a_failsafe_that_is_killed_in_the_middle_is_repeated_by_the_next() {
    let stage = Stage::up(0, QUIET, "60s");
    kill_all(&stage);
    let root = stage.program("agent0");
    // Its tick ends: the failsafe says so, by its exit code and to the owner.
    let mut cut = bare(&stage, 1);
    let cut = cut.env("NETSKY_FAULT", "watchdog.tick.decided=kill").output().expect("starts");
    assert_eq!(cut.status.code(), Some(1));
    let said = String::from_utf8(cut.stderr).expect("text");
    assert!(said.lines().count() == 1 && said.contains("its tick came to nothing"), "{said}");
    let pages = std::fs::read_to_string(stage.home().join("logs/pages.jsonl")).expect("he was told");
    assert!(pages.contains("the failsafe of "), "{pages}");
    // It ends itself, with its tick held where it has decided.
    let mut held = bare(&stage, 1);
    let mut held =
        held.env("NETSKY_FAULT", "watchdog.tick.decided=stop").stdout(Stdio::null()).spawn().expect("starts");
    let home = stage.home().display().to_string();
    let is_stopped = |id: &ProcessId| netsky_disk::process::is_stopped(id);
    let tick = stage.until("a tick that is held", |_| {
        marked("NETSKY_HOME", &home).expect("seen").into_iter().find(is_stopped)
    });
    held.kill().expect("ours");
    held.wait().expect("ours");
    stage.signal(&tick, Signal::KILL);
    assert!(failsafe(&stage).status.success());
    all_are_back(&stage);
    assert!(is_alive(&root));
}

#[test]
fn t24_a_ticker_that_no_tick_brings_back_is_an_exit_code_and_a_page() {
    let stage = Stage::up(0, QUIET, "60s");
    stage.hold_triggers();
    stage.edit("state/tick/ticker.json", |beat| {
        let ago = beat["at"]["boot_ms"].as_u64().expect("a number");
        beat["at"]["boot_ms"] = ago.saturating_sub(3_600_000).into();
    });
    let ran = failsafe(&stage);
    assert_eq!(ran.status.code(), Some(1));
    let said = String::from_utf8(ran.stderr).expect("text");
    assert!(said.contains("the ticker is silent ") && said.lines().count() == 1, "{said}");
    let last = stage.json("state/tick/failsafe.json");
    assert!(last["failed"].as_str().is_some_and(|failed| failed.contains("silent")), "{last}");
    assert!(
        std::fs::read_to_string(stage.home().join("logs/pages.jsonl"))
            .expect("told")
            .contains("the ticker is silent")
    );
}

#[test]
fn t27_the_page_of_a_failsafe_that_failed_is_no_program_of_ours_in_a_hostile_home_too() {
    let stage = Stage::named(HOSTILE);
    stage.ok(&["init"]);
    let ran = bare(&stage, 0).env("PATH", "/usr/bin:/bin").output().expect("starts");
    assert!(ran.status.success());
    let kept = std::fs::read_to_string(stage.home().join("logs/failsafe-failed.txt")).expect("kept");
    assert!(kept.contains(&*stage.home().to_string_lossy()), "{kept}");
    assert_eq!(String::from_utf8(ran.stderr).expect("text"), kept, "for the journal");
    assert!(failsafe(&stage).status.success(), "the words of its unit are the right ones");
}

#[test]
fn a_round_by_hand_is_the_three_ticks() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let round: Value = serde_json::from_str(&stage.ok(&["tick", "--json"])).expect("JSON");
    let ticks = round["ticks"].as_array().expect("a list").iter();
    assert_eq!(
        ticks.map(|one| (one["tick"].clone(), one["outcome"].clone())).collect::<Vec<_>>(),
        [("watchdog".into(), "done".into()), ("cron".into(), "done".into()), ("loop".into(), "done".into()),]
    );
    std::fs::write(stage.home().join("config.toml"), "[defaults\n").expect("written");
    std::fs::remove_file(stage.home().join("home.json")).expect("there");
    assert_eq!(stage.refused(&["tick"]).0, 3, "no home");
}

#[test]
fn a_service_and_a_session_tick_in_turn_and_each_is_there_for_the_other() {
    let stage = Stage::up(0, QUIET, "60s");
    let seat = || -> Option<ProcessId> {
        netsky_disk::lock::Lock::noted(stage.home().join("state/tick/netsky-ticker.lock"))
    };
    let session = stage.program("netsky-ticker");
    stage.until("its seat", |_| (seat()? == session).then_some(()));
    let listener = std::os::unix::net::UnixDatagram::bind(stage.outside("notify")).expect("bound");
    listener.set_read_timeout(Some(Duration::from_secs(90))).expect("set");
    let mut service = stage.command(&["ticker", "--service", "--tick", "1s"]);
    let service = service.env("NOTIFY_SOCKET", stage.outside("notify")).stdout(Stdio::null());
    let mut service = service.spawn().expect("starts");
    let began = Instant::now();
    let heard = |word: &str| loop {
        assert!(began.elapsed() < INTERVAL, "it never says {word}");
        let mut bytes = [0; 200];
        let length = listener.recv(&mut bytes).expect("it speaks");
        let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
        assert!(said.starts_with("READY=1\nWATCHDOG=1\n"), "{said}");
        if said.contains(word) {
            break;
        }
    };
    heard("another ticker runs");
    assert_eq!(seat(), Some(session), "no two tick");
    stage.ok(&["down"]);
    heard("STATUS=ticks");
    assert_eq!(seat().map(|id| id.pid), Some(service.id()));
    assert!(Client::connect(&stage.home().join(".ostk")).is_err(), "it starts nobody");
    stage.ok(&["up", "0"]);
    let session = stage.program("netsky-ticker");
    heard("STATUS=ticks");
    heard("STATUS=ticks");
    assert_eq!(seat().map(|id| id.pid), Some(service.id()));
    service.kill().expect("ours");
    service.wait().expect("ours");
    stage.until("its seat", |_| (seat()? == session).then_some(()));
}
