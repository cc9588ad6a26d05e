//! Several harvests: in a queue, and at once.

use netsky_model::id::Generation;
use netsky_model::task::{Change, Event, Priority};

use netsky_sim::campaign::Share;

use super::{Bench, Kept, commit, git, id};

#[test]
fn a_queue_lands_its_tasks_one_by_one_and_goes_on_after_one_that_cannot() {
    let bench = Bench::new();
    for task in ["1", "2", "3"] {
        commit(&bench.workspace(task), task, "new\n");
    }
    commit(&bench.clone_of("2"), "a", "of the agent\n");
    commit(&bench.repo(), "a", "of the owner\n");
    let said = bench.run(&["task", "harvest", "3", "2", "1"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(said.code == 1 && lines.len() == 3, "{said:?}");
    assert!(lines[0].starts_with("harvested task 3 sha=") && lines[2].starts_with("harvested task 1 sha="));
    assert!(lines[1].starts_with("task 2 did not land as asked: task 2 conflicts with main"), "{}", lines[1]);
    assert_eq!(
        said.err,
        "netsky: 1 of 3 tasks did not land as asked: 2; nothing was lost; the lines above say why\n"
    );
    assert_eq!(bench.times_landed("3") + bench.times_landed("1"), 2);
    assert_eq!(bench.times_landed("2"), 0, "of a branch all lands or nothing");
    let json = bench.command(&["task", "harvest", "1", "2", "--json"]).output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one object");
    let outcomes: Vec<_> =
        json["tasks"].as_array().expect("a list").iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["already-landed", "conflict"]);
    bench.assert_whole();
}

#[test]
fn all_that_are_ready_land_by_priority_and_age() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["task", "harvest", "--ready"]).works(), "no task is reported ready\n");
    for task in ["1", "2", "3", "4"] {
        commit(&bench.workspace(task), task, "new\n");
        bench.claimed(task, "agent7");
        if task != "2" {
            bench.ready(task, "agent7");
        }
    }
    bench.run(&["task", "create", "words alone", "--id", "w"]).works();
    let claimed = Event::Claimed { by: "agent7".parse().expect("an agent"), generation: Generation(1) };
    bench.board().act(&id("w"), claimed).expect("claimed");
    bench.ready("w", "agent7");
    let high = Change { priority: Some(Priority::High), ..Change::default() };
    bench.board().act(&id("4"), Event::Updated(Box::new(high))).expect("changed");
    let out = bench.run(&["task", "harvest", "--ready"]).works().to_owned();
    let tasks: Vec<&str> = out.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(tasks, ["4", "1", "3"], "what has no repository lands nowhere");
    assert!(!bench.is_closed("2"));
    bench.run(&["task", "harvest", "--ready", "2"]).fails_with(2, &["--ready"]);
}

/// Tasks of one repository that are harvested at once.
struct Race {
    tasks: Vec<String>,
    kept: Kept,
}

impl Race {
    fn of(tasks: usize) -> Race {
        let bench = Bench::new();
        let tasks: Vec<String> = (1..=tasks).map(|task| task.to_string()).collect();
        for task in &tasks {
            commit(&bench.workspace(task), task, "new\n");
        }
        Race { tasks, kept: Kept::of(bench) }
    }

    /// Each lands its own, once; nothing else does.
    fn run(&self) {
        let bench = self.kept.anew();
        let verb = |task: &String| bench.command(&["task", "harvest", task]).spawn().expect("it starts");
        let verbs: Vec<_> = self.tasks.iter().map(verb).collect();
        for (verb, task) in verbs.into_iter().zip(&self.tasks) {
            let output = verb.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let sha =
                said.strip_prefix(&format!("harvested task {task} sha=")).and_then(|said| said.get(..40));
            assert!(output.status.success() && sha.is_some(), "{output:?}");
            let own = git(&bench.repo(), &["show", "--format=", "--name-only", sha.expect("there")]);
            assert_eq!(own, *task, "it says the commit of its own");
        }
        for task in &self.tasks {
            assert_eq!((bench.times_landed(task), bench.is_closed(task)), (1, true), "{task}");
        }
        assert_eq!(bench.facts("harvest.landed").len(), self.tasks.len());
        // Beside the three of the bench.
        let all = (3 + self.tasks.len()).to_string();
        assert_eq!(git(&bench.repo(), &["rev-list", "--count", "main"]), all);
        bench.assert_whole();
    }
}

#[test]
fn a9_verbs_on_several_tasks_of_one_repository_at_once_land_each_its_own() {
    Race::of(4).run();
}

/// A batch of `cargo xtask campaign harvest-races`.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_harvest_races() {
    let races = [2, 8].map(Race::of);
    Share::asked().run(|_| {
        races.iter().for_each(Race::run);
        1
    });
}

#[test]
fn a9_t19_two_verbs_on_one_task_at_once_land_it_once_and_both_say_so() {
    let bench = Bench::new();
    commit(&bench.workspace("1"), "d", "new\n");
    bench.claimed("1", "agent7");
    let verbs = [(); 3].map(|()| bench.command(&["task", "harvest", "1"]).spawn().expect("it starts"));
    let said = verbs.map(|verb| {
        let output = verb.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    });
    let (main, count) =
        (bench.main(), |begin: &str| said.iter().filter(|said| said.starts_with(begin)).count());
    assert!(said.iter().all(|said| said.contains(&format!("sha={main} into main"))), "{said:?}");
    assert_eq!((count("harvested task 1"), count("task 1 has landed before")), (1, 2));
    assert_eq!((bench.times_landed("1"), bench.facts("harvest.landed").len()), (1, 1));
    assert_eq!(bench.told("agent7", "harvest-landed").len(), 1);
    bench.assert_whole();
}
