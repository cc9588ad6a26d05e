//! `netsky service install` and `uninstall` at once: one after the other, and nothing is left of both.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use netsky_disk::lock::Lock;

use super::units::{files, folder, printed};
use crate::stage::Stage;

/// A stand-in for the user's systemd, which says what it is told and answers once somebody lets it.
fn slow(stage: &Stage) -> (PathBuf, PathBuf, PathBuf) {
    let [bin, noted, go] = ["bin", "noted", "go"].map(|name| stage.outside(name));
    std::fs::create_dir_all(&bin).expect("made");
    let script = format!(
        "#!/bin/sh\necho \"$2\" >>{}\nwhile ! test -e {}; do sleep 0.05; done\n",
        noted.display(),
        go.display()
    );
    std::fs::write(bin.join("systemctl"), script).expect("written");
    std::fs::set_permissions(bin.join("systemctl"), PermissionsExt::from_mode(0o755)).expect("ours");
    (bin, noted, go)
}

fn begun(stage: &Stage, bin: &Path, args: &[&str]) -> Child {
    let mut command = stage.command(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
}

/// Exit code, answer and complaint.
fn ended(child: Child) -> (Option<i32>, String, String) {
    let ran = child.wait_with_output().expect("ours");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (ran.status.code(), text(ran.stdout), text(ran.stderr))
}

#[test]
fn whoever_comes_second_waits_until_the_manager_has_answered_the_first() {
    let stage = Stage::new();
    stage.ok(&["init"]);
    let (bin, noted, go) = slow(&stage);
    let first = begun(&stage, &bin, &["service", "install"]);
    stage.until("a word to the manager", |_| noted.exists().then_some(()));
    let mut second = begun(&stage, &bin, &["service", "uninstall"]);
    netsky_disk::clock::pause(Duration::from_millis(500));
    assert!(second.try_wait().expect("ours").is_none(), "it waits");
    let there = files(&stage);
    assert!(printed(&stage, &[]).iter().all(|(name, _)| there.contains(name)), "all of it: {there:?}");
    assert_eq!(std::fs::read_to_string(&noted).expect("there"), "daemon-reload\n");
    std::fs::write(&go, "").expect("written");
    let (first, second) = (ended(first), ended(second));
    assert_eq!((first.0, first.1.matches("wrote ").count()), (Some(0), 4), "{first:?}");
    assert_eq!((second.0, second.1.matches("removed ").count()), (Some(0), 4), "{second:?}");
    assert_eq!(files(&stage), Vec::<String>::new(), "nor the lock");
    let words = std::fs::read_to_string(&noted).expect("there");
    assert_eq!(words, "daemon-reload\nenable\nrestart\ndisable\ndaemon-reload\n");
}

#[test]
fn many_at_once_all_end_well_and_leave_all_of_it_or_nothing() {
    let stage = Stage::new();
    let (bin, _, go) = slow(&stage);
    std::fs::write(&go, "").expect("written");
    for round in 0..4 {
        let mut verbs = vec![&["service", "install", "--no-start"][..]; 5];
        // In the first no install is undone; in each of the others somewhere in between.
        if round > 0 {
            verbs.insert(round, &["service", "uninstall"]);
        }
        let all: Vec<Child> = verbs.iter().map(|verb| begun(&stage, &bin, verb)).collect();
        for one in all.into_iter().map(ended) {
            assert_eq!((one.0, one.2.as_str()), (Some(0), ""), "{one:?}");
        }
        let left = files(&stage).len();
        assert!(left == 4 || round > 0 && left == 0, "{:?}", files(&stage));
    }
}

#[test]
fn whoever_is_killed_leaves_a_lock_that_the_next_takes_away_and_a_kept_one_is_5() {
    let stage = Stage::new();
    stage.ok(&["service", "install", "--no-start"]);
    let name = printed(&stage, &[])[3].0.replace("netsky-ticker", ".netsky").replace(".service", ".lock");
    let path = folder(&stage).join(&name);
    let (draft, text) = (format!("{}.0a1b2c3d-1-2", printed(&stage, &[])[3].0), "half");
    std::fs::write(folder(&stage).join(&draft), text).expect("written");
    let lock = Lock::try_take(&path).expect("opens").expect("nobody has it");
    let verbs = [&["service", "install", "--no-start"][..], &["service", "uninstall"]];
    let both = verbs.map(|verb| begun(&stage, Path::new("/bin"), verb));
    for (code, said, line) in both.map(ended) {
        assert_eq!((code, said.as_str(), line.lines().count()), (Some(5), "", 1), "{line}");
        assert!(
            line.contains("has been at work for 10 s; nothing was changed; repeat when it is done"),
            "{line}"
        );
    }
    assert!(folder(&stage).join(&draft).exists(), "what a living one writes is its own");
    drop(lock);
    assert!(path.exists(), "as one leaves it that was killed");
    let said = stage.ok(&["service", "install", "--no-start"]);
    assert_eq!((said.matches("unchanged ").count(), files(&stage).len()), (4, 4), "{:?}", files(&stage));
}
