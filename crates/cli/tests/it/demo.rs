//! `netsky demo` under what it must withstand (issue "First light", Must show 1 to 3).

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netsky_disk::process::{self, PidFd};
use netsky_disk::sweep;
use netsky_model::process::ProcessId;
use serde_json::Value;
use tempfile::TempDir;

use crate::demo_run::{command, left, run, run_all, run_alone};

/// Everything that can be killed beside agent0 itself.
const OTHERS: [&str; 4] = ["anchor", "agentinfinity", "ticker", "worker"];

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn must_show_1_agent0_dies_twice_and_every_message_and_restart_is_accounted_for() {
    let told = run(&[]).expect("it holds");
    let kills: Vec<&str> =
        told["kills"].as_array().expect("kills").iter().filter_map(|kill| kill["moment"].as_str()).collect();
    assert_eq!(kills, ["while it held a claim", "in the middle of a harvest"]);
    let restarts = told["restarts"].as_array().expect("restarts");
    assert_eq!(restarts.len(), 2);
    for restart in restarts {
        let times = ["detected_ms", "begun_ms", "respawned_ms", "up_ms", "handed_over_ms", "ended_ms"];
        let times: Vec<u64> = times.iter().filter_map(|key| restart[key].as_u64()).collect();
        assert_eq!(times.len(), 6, "a phase without its time: {restart}");
    }
    let envelopes = told["envelopes"].as_array().expect("envelopes");
    let mut kinds = BTreeMap::new();
    for envelope in envelopes {
        *kinds.entry(text(&envelope["kind"])).or_insert(0) += 1;
    }
    // The clone whose work conflicts reports twice. What lands is told to its clone and to those that are at work beside it.
    let wanted = [
        ("brief", 3),
        ("handoff", 2),
        ("harvest-conflict", 1),
        ("harvest-landed", 3 + 2 + 1),
        ("owner", 2),
        ("report", 3 + 1),
    ];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), wanted);
    let again = envelopes.iter().filter(|envelope| envelope["redelivered"] == true);
    assert_eq!(again.map(|envelope| text(&envelope["kind"])).collect::<Vec<_>>(), ["owner", "report"]);
    assert_eq!(told["repeats"]["flagged"], 2);
}

#[test]
fn t19_what_the_clones_commit_lands_once_and_a_conflict_is_resolved_by_its_clone() {
    let told = run(&[]).expect("it holds");
    let tasks = told["tasks"].as_array().expect("tasks");
    let whose: Vec<_> = tasks.iter().map(|task| (text(&task["id"]), text(&task["agent"]))).collect();
    assert_eq!(whose, [("inventory", "agent1"), ("largest", "agent3"), ("todos", "agent2")]);
    let conflicts: Vec<_> = tasks.iter().filter_map(|task| task["conflicts"].as_u64()).collect();
    assert!([[0, 0, 1], [1, 0, 0]].contains(&conflicts[..].try_into().expect("three")), "{conflicts:?}");
    let feed = told["feed"].as_array().expect("a feed");
    let of = |kind: &str| feed.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((of("harvest.landed"), of("harvest.conflict"), of("harvest.refused")), (3, 1, 0));
    assert_eq!((of("clone.finished"), of("watchdog.repaired"), of("owner.message")), (4, 2, 1));
    let summary = feed.iter().find(|event| event["kind"] == "owner.message").expect("one");
    for task in tasks {
        let said = format!("{} is on main as {:.12}", text(&task["id"]), text(&task["sha"]));
        assert!(text(&summary["text"]).contains(&said), "{said}: {summary}");
    }
}

#[test]
fn must_show_1_the_one_program_that_cargo_run_builds_is_enough() {
    let told = run_alone(&["--agents", "1"]).expect("it holds");
    assert_eq!(told["tasks"][0]["conflicts"], 0, "with nobody else there is no conflict");
}

#[test]
fn must_show_2_agent0_killed_at_twenty_random_moments_comes_back_every_time() {
    let runs: Vec<Vec<String>> =
        (0..20).map(|seed| words(&["--kill", "root", "--seed", &seed.to_string()])).collect();
    run_all(&runs);
}

#[test]
fn must_show_2_three_repositories_of_different_size() {
    let folder = TempDir::new().expect("a folder");
    let sizes = [("one file", 1, 1), ("some", 150, 8), ("many", 2_500, 30)];
    let runs: Vec<Vec<String>> = sizes
        .iter()
        .map(|(name, files, commits)| {
            let repo = folder.path().join(name);
            make_repository(&repo, *files, *commits);
            words(&["--repo", repo.to_str().expect("text"), "--agents", "6"])
        })
        .collect();
    let before: Vec<String> = sizes.iter().map(|(name, ..)| state_of(&folder.path().join(name))).collect();
    run_all(&runs);
    let after: Vec<String> = sizes.iter().map(|(name, ..)| state_of(&folder.path().join(name))).collect();
    assert_eq!(before, after, "the originals are as they were");
}

#[test]
fn must_show_3_each_of_the_others_killed() {
    let runs: Vec<Vec<String>> = (20u32..)
        .zip(OTHERS)
        .map(|(seed, who)| words(&["--kill", who, "--seed", &seed.to_string()]))
        .collect();
    run_all(&runs);
}

#[test]
fn must_show_3_each_two_of_the_others_killed_at_once() {
    let mut runs = Vec::new();
    for (first, one) in OTHERS.iter().enumerate() {
        for two in &OTHERS[first + 1..] {
            let seed = (30 + runs.len()).to_string();
            runs.push(words(&["--kill", one, "--kill", two, "--seed", &seed]));
        }
    }
    run_all(&runs);
}

#[test]
fn must_show_3_agent0_killed_at_once_with_who_would_see_it() {
    let runs: Vec<Vec<String>> = (40u32..)
        .zip(OTHERS)
        .map(|(seed, who)| words(&["--kill", "root", "--kill", who, "--seed", &seed.to_string()]))
        .collect();
    run_all(&runs);
}

#[test]
fn must_show_3_the_restart_child_stopped_for_ten_seconds() {
    let told = run(&["--pause-child", "10s"]).expect("it holds");
    let restarts = told["restarts"].as_array().expect("restarts");
    assert_eq!(restarts.len(), 2, "it was waited for, not given up: {restarts:?}");
    assert!(restarts[0]["ended_ms"].as_u64() > Some(10_000), "it stood still: {}", restarts[0]);
}

#[test]
fn a_demo_that_is_killed_or_interrupted_leaves_nothing() {
    for signal in [process::Signal::KILL, process::Signal::INT] {
        let folder = TempDir::new().expect("a folder");
        let mut demo = command(folder.path(), &["demo"]).stdout(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(demo.stdout.take().expect("piped")).lines();
        let up = lines.map_while(Result::ok).find(|line| line.contains(" up  "));
        assert!(up.is_some(), "it never came up");
        let place = left(folder.path()).expect("lists").pop().expect("a throwaway home");
        let janitor = janitor_of(&place);
        process::signal(&process::identify(demo.id()).expect("it runs"), signal).expect("ours");
        demo.wait().expect("it is our child");
        if let Some(held) = PidFd::open(&janitor).expect("a pidfd") {
            assert!(held.wait(Duration::from_secs(60)).expect("waits"), "the janitor does not end");
        }
        assert_eq!(left(folder.path()).expect("lists"), [] as [std::path::PathBuf; 0]);
        let home = place.join("home").display().to_string();
        assert_eq!(sweep::marked("NETSKY_HOME", &home).expect("looks"), [], "{signal:?}");
    }
}

#[test]
fn a_narration_without_a_terminal_is_plain_and_tells_the_story_in_order() {
    let folder = TempDir::new().expect("a folder");
    let output = command(folder.path(), &["demo", "--tick", "500ms", "--agents", "1", "--keep"]);
    let output = { output }.output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let mut rest = text.as_str();
    for word in [
        "agents",
        "`--runtime claude` ",
        "up ",
        "order",
        "killed",
        "handoff",
        "redelivered",
        "verified",
        "killed",
        "verified",
        "Verdict",
    ] {
        let at = rest.find(word).unwrap_or_else(|| panic!("no {word:?} in its place:\n{text}"));
        rest = &rest[at + word.len()..];
    }
    for said in [" harvest ", " landed ", " to you ", "What landed on main", "What you were told"] {
        assert!(text.contains(said), "no {said:?}:\n{text}");
    }
    let kept = left(folder.path()).expect("lists");
    assert_eq!(kept.len(), 1, "--keep keeps it");
    assert!(text.contains(&format!("kept: {}", kept[0].display())), "{text}");
}

#[test]
fn must_show_5_without_a_real_program_it_says_what_it_would_use() {
    let folder = TempDir::new().expect("a folder");
    for runtime in ["claude", "codex"] {
        let mut demo = command(folder.path(), &["demo", "--runtime", runtime]);
        // Nobody installs one there.
        let output = demo.env("PATH", folder.path()).output().expect("runs");
        let complaint = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &[][..]), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        for said in [
            format!("{runtime} is not installed: no program of that name is in PATH"),
            format!("would use `{runtime}`"),
        ] {
            assert!(complaint.contains(&said), "{said}: {complaint}");
        }
        assert_eq!(left(folder.path()).expect("lists"), [] as [std::path::PathBuf; 0]);
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let folder = TempDir::new().expect("a folder");
    for args in [
        &["demo", "--repo", "/proc"][..],
        &["demo", "--keep", "--repo", "/proc"],
        &["demo", "--agents", "0"],
        &["demo", "--agents", "7"],
        &["demo", "--tick", "1ms"],
        &["demo", "--kill", "owner"],
        &["demo", "--kill", "anchor,owner"],
        &["demo", "--pause-child", "0s"],
        &["demo", "--runtime", "command"],
        &["demo", "--runtime", "claude", "--agents", "3"],
    ] {
        let output = command(folder.path(), args).output().expect("runs");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {complaint}");
        assert_eq!(complaint.trim_end().lines().count(), 1, "{complaint}");
        assert_eq!(left(folder.path()).expect("lists"), [] as [std::path::PathBuf; 0], "{args:?}");
    }
    for args in [
        &["demo", "--kill", "anchor,agentinfinity,ticker"][..],
        &["demo", "--kill", "anchor,ticker", "--kill", "agentinfinity"],
    ] {
        let output = command(folder.path(), args).output().expect("runs");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(complaint.contains("killed at once nobody is left who notices"), "{args:?}: {complaint}");
    }
}

/// The process that waits for the end of the demo at `place`.
fn janitor_of(place: &Path) -> ProcessId {
    let place = place.display().to_string();
    let pids = fs::read_dir("/proc").expect("lists").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_janitor = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        words.contains(&b"demo-janitor".as_slice()) && words.contains(&place.as_bytes())
    };
    pids.into_iter().find(is_janitor).and_then(process::identify).expect("every demo has one")
}

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=someone", "-c", "user.email=someone@example.com"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder)
        .output()
        .expect("git is there");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn make_repository(repo: &Path, files: usize, commits: usize) {
    fs::create_dir(repo).expect("a folder");
    git(repo, &["init", "--quiet", "--initial-branch", "trunk"]);
    for commit in 0..commits {
        for file in (commit * files / commits)..((commit + 1) * files / commits) {
            let folder = repo.join(format!("part {}", file % 40));
            fs::create_dir_all(&folder).expect("a folder");
            let text =
                format!("// file {}\n// TODO: say what it is for\n{}\n", file % 900, "x\n".repeat(file % 50));
            fs::write(folder.join(format!("f{file}.rs")), text).expect("a file");
        }
        fs::write(repo.join("NOTES"), format!("{commit}\n")).expect("a file");
        git(repo, &["add", "."]);
        git(repo, &["commit", "--quiet", "-m", &format!("step {commit}")]);
    }
}

/// What a demo must not change: the commit, the branches, the files.
fn state_of(repo: &Path) -> String {
    let parts =
        [&["rev-parse", "HEAD"][..], &["branch", "--all"], &["status", "--porcelain"], &["stash", "list"]];
    parts.iter().map(|args| git(repo, args)).collect()
}
