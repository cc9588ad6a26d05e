//! The verb dies at every one of its steps, and around every run of git, every sync and every rename; then it is said again.
//!
//! After that the commits stand once, the task is closed, the record, the trailers and `main` agree, and nobody was told twice.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use netsky_model::task::{How, State};
use serde_json::json;

use super::{Bench, Kept, commit, git};

/// Every named step of the verb beside those of the harvest itself.
const STEPS: &[&str] = &[
    "work.landing.started",
    "work.land.noted",
    "work.land.moved",
    "work.landing.harvested",
    "work.landing.recorded",
    "work.landing.closed",
    "work.landing.told",
    "work.landing.pushed",
];

/// How work lands, and whether `main` is pushed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The words of the verb.
    pub(super) words: &'static [&'static str],
    /// How many commits come to `main`, and how many of them say whose they are.
    commits: [usize; 2],
    is_pushed: bool,
}

pub(super) const PICK: Way = Way { words: &["task", "harvest", "3"], commits: [2, 2], is_pushed: true };
const SQUASH: Way = Way { words: &["task", "harvest", "3", "--squash"], commits: [1, 1], ..PICK };
const MERGE: Way = Way { words: &["task", "harvest", "3", "--merge"], commits: [3, 1], ..PICK };

pub(super) const WAYS: [Way; 6] = [
    PICK,
    Way { is_pushed: false, ..SQUASH },
    MERGE,
    Way { is_pushed: false, ..PICK },
    SQUASH,
    Way { is_pushed: false, ..MERGE },
];

impl Way {
    /// A task of two commits, ready, and one beside it of another agent; `main` has moved since.
    pub(super) fn bench(self) -> Bench {
        let bench = Bench::new();
        git(bench.beside("").as_path(), &["init", "-q", "--bare", "--template=", "remote.git"]);
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        if self.is_pushed {
            bench.config(&format!(
                "[repositories.own]\npath = \"{}\"\npush = \"{}\"\n",
                text(&bench.repo()),
                text(&bench.beside("remote.git"))
            ));
        }
        let clone = bench.workspace("3");
        bench.claimed("3", "agent7");
        commit(&clone, "d", "new\n");
        commit(&clone, "a", "changed\n");
        bench.ready("3", "agent7");
        bench.workspace("4");
        bench.claimed("4", "agent8");
        commit(&bench.repo(), "c", "of the owner\n");
        bench
    }

    /// After one that died: `main` is what it was or what it was to be, whole. Then the verb is said again, and what there is is
    /// held against what there must be; `old` is where `main` was.
    pub(super) fn ends_well(self, bench: &Bench, old: &str, at: &str) {
        let [all, marked] = self.commits;
        let added = git(&bench.repo(), &["rev-list", "--count", &format!("{old}..main")]);
        assert!(added == "0" || added == all.to_string(), "{at}: not the old tip, nor the new one: {added}");
        git(&bench.repo(), &["fsck", "--strict", "--full"]);
        // A git of the repository that is pushed to leaves its lock when it is killed, and only who keeps that one may remove it.
        let lock = bench.beside("remote.git/refs/heads/main.lock");
        if lock.exists() {
            let refused = bench.run(self.words);
            let is_told =
                ["it has landed", "main.lock': File exists"].iter().all(|words| refused.err.contains(words));
            assert!(refused.code == 6 && is_told, "{at}: {refused:?}");
            std::fs::remove_file(lock).expect("ours");
        }
        let again = bench.run(self.words);
        let sha = bench.main();
        let is_said = again.out.ends_with(&format!("sha={sha} into main\n"))
            || again.out == format!("harvested task 3 sha={sha} into main gate=none\n");
        assert!(again.code == 0 && is_said, "{at}: {again:?}");
        let added = git(&bench.repo(), &["rev-list", "--count", &format!("{old}..main")]);
        assert_eq!((added, bench.times_landed("3")), (all.to_string(), marked), "{at}: each commit once");
        let landed = State::Closed { how: How::Landed { sha: sha.clone(), main: "main".into() }, why: None };
        assert_eq!(bench.task("3").state, landed, "{at}");
        let facts = bench.facts("harvest.landed");
        let [fact] = &facts[..] else { panic!("{at}: {facts:?}") };
        let agent = fact.data["agent"].as_str();
        assert_eq!((&*fact.key, agent), (&*format!("3/{sha}"), Some("agent7")), "{at}");
        assert_eq!(fact.data["files"], json!(["a", "d"]), "{at}");
        assert_eq!(bench.facts("task.landed").len(), 1, "{at}");
        for agent in ["agent7", "agent8"] {
            assert_eq!(bench.told(agent, "harvest-landed").len(), 1, "{at}: {agent} is told once");
        }
        if self.is_pushed {
            assert_eq!(git(&bench.beside("remote.git"), &["rev-parse", "main"]), sha, "{at}");
        }
        assert_eq!(bench.facts("harvest.pushed").len(), usize::from(self.is_pushed), "{at}");
        bench.assert_whole();
        bench.run(&["check"]).works();
    }
}

/// Lets the verb meet its fate at the nth hit of a point, and says it again; false if it did not get there.
fn meets(kept: &Kept, point: &str, action: &str, nth: usize) -> bool {
    let bench = kept.anew();
    let old = bench.main();
    let fault = format!("{point}={action}@{nth}");
    let mut command = bench.command(PICK.words);
    let output = command.env("NETSKY_FAULT", &fault).env("NETSKY_FAULT_LOG", bench.beside("hits")).output();
    let output = output.expect("it starts");
    let is_hit = bench.beside("hits").exists();
    assert_eq!(is_hit && action == "kill", output.status.signal() == Some(9), "{fault}: {output:?}");
    PICK.ends_well(bench, &old, &fault);
    is_hit
}

#[test]
fn t19_i9_fm_harvest_kill_at_every_step_of_the_verb_a_repeat_does_what_is_missing_once() {
    let kept = Kept::of(PICK.bench());
    for step in STEPS {
        assert!(meets(&kept, step, "kill", 1), "{step} is a step");
    }
}

#[test]
fn t19_i9_fm_harvest_eio_at_every_step_of_the_verb_a_repeat_does_what_is_missing_once() {
    let kept = Kept::of(PICK.bench());
    for step in STEPS {
        assert!(meets(&kept, step, "error", 1), "{step} is a step");
    }
}

#[test]
fn t19_i9_fm_harvest_kill_around_every_durable_write_of_the_verb_a_repeat_does_what_is_missing_once() {
    let kept = Kept::of(PICK.bench());
    for point in ["disk.write.written", "disk.write.renamed", "ledger.facts.sync"] {
        let hits = (1..120).take_while(|nth| meets(&kept, point, "kill", *nth)).count();
        assert!((3..119).contains(&hits), "{point}: {hits}");
    }
}

#[test]
fn t19_i9_fm_harvest_kill_what_was_not_told_is_told_before_its_workspace_goes() {
    let kept = Kept::of(PICK.bench());
    for step in ["work.landing.recorded", "work.landing.closed", "work.landing.told"] {
        let bench = kept.anew();
        let old = bench.main();
        let died = bench.command(PICK.words).env("NETSKY_FAULT", format!("{step}=kill")).output();
        assert_eq!(died.expect("it starts").status.signal(), Some(9), "{step}");
        if !bench.task("3").state.is_closed() {
            bench.run(&["task", "close", "3", "--dropped"]).works();
        }
        // Who works beside it may be told or not; who did it is.
        for (agent, is_kept) in [("agent7", true), ("agent8", false)] {
            let channel = bench.home.path().join("channels/agent").join(agent);
            let away = bench.home.path().join("away");
            std::fs::rename(&channel, &away).expect("there");
            std::fs::create_dir(&channel).expect("made");
            for part in std::fs::read_dir(&away).expect("listed") {
                std::fs::write(channel.join(part.expect("one").file_name()), "no folder").expect("written");
            }
            let said = bench.run(&["workspace", "gc"]);
            assert_eq!((said.code, bench.clone_of("3").exists()), (0, is_kept), "{step}, {agent}: {said:?}");
            assert_eq!(said.out.contains("stays until all is told of its landing"), is_kept, "{said:?}");
            std::fs::remove_dir_all(&channel).expect("ours");
            std::fs::rename(&away, &channel).expect("there");
        }
        assert_eq!(bench.facts("workspace.removed").len(), 1, "{step}");
        let (sha, landed) = (bench.main(), bench.task("3").state);
        assert_eq!(
            landed,
            State::Closed { how: How::Landed { sha, main: "main".into() }, why: None },
            "{step}"
        );
        assert_eq!(bench.told("agent7", "harvest-landed").len(), 1, "{step}");
        assert_eq!(bench.facts("harvest.landed").len(), 1, "{step}");
        assert_eq!(git(&bench.beside("remote.git"), &["rev-parse", "main"]), bench.main(), "{step}");
        assert_eq!(git(&bench.repo(), &["rev-list", "--count", &format!("{old}..main")]), "2", "{step}");
        bench.run(&["check"]).works();
    }
}

#[test]
fn fm_workspace_kill_before_it_is_recorded_a_repeat_records_it_once() {
    let bench = Bench::new();
    bench.task_of("3", &bench.repo());
    let mut command = bench.command(&["workspace", "create", "3", "--agent", "agent7"]);
    let output = command.env("NETSKY_FAULT", "work.workspace.made=kill").output().expect("it starts");
    assert!(output.status.signal() == Some(9) && bench.facts("workspace.created").is_empty());
    bench.run(&["workspace", "create", "3", "--agent", "agent7"]).works();
    bench.run(&["workspace", "create", "3", "--agent", "agent7"]).works();
    assert_eq!(bench.facts("workspace.created").len(), 1);
    assert!(bench.home.path().join("channels/agent/agent7").is_dir());
}
