//! Reports of what nobody handed out, and of what was reported before and is to be reported anew.

use netsky_disk::process::Signal;
use netsky_model::id::{AgentId, Generation};
use netsky_model::task::{Actor, Draft, Title};
use netsky_work::task::Board;

use super::points::REPORT;
use super::{Yard, said};
use crate::landing::{commit, git};

impl Yard {
    /// An agent takes a task by itself.
    fn claimed(&self, agent: &str, generation: u64, task: &str) -> (i32, String) {
        said(&self.as_agent(agent, generation, &["task", "claim", task]).output().expect("it starts"))
    }

    /// How many facts of a kind there are of a task.
    pub(super) fn facts_of(&self, kind: &str, task: &str) -> usize {
        self.facts(kind).into_iter().filter(|fact| fact.data["task"] == task).count()
    }

    /// How many reports of a task an agent got.
    fn reports_to(&self, agent: &str, task: &str) -> usize {
        self.mail(agent, "report").into_iter().filter(|one| one["thread"] == task).count()
    }
}

#[test]
fn what_an_agent_has_claimed_itself_it_reports_of_once_to_whoever_made_it() {
    let yard = Yard::new();
    yard.stage.ok(&["channel", "send", "agent4", "hello", "--from", "owner", "--create"]);
    let maker = AgentId::numbered(4);
    let theirs = Board::new(&yard.layout(), Actor::Agent(maker, Generation(1)));
    for (verdict, kind, is) in [
        ("--done", "clone.finished", "ready"),
        ("--failed", "clone.finished", "blocked"),
        ("--blocked", "clone.blocked", "blocked"),
    ] {
        let title = Title::try_from(verdict.trim_start_matches('-').to_owned()).expect("a title");
        let of_another = theirs.create(Draft::new(title)).expect("made").id.to_string();
        for (task, to) in [(yard.task(verdict), "agent0"), (of_another, "agent4")] {
            assert_eq!(yard.claimed("agent5", 2, &task).0, 0);
            for (who, generation, code) in [("agent6", 1, 3), ("agent5", 1, 4)] {
                let (got, line) = yard.report(who, generation, &[verdict, "mine", "--task", &task]);
                assert_eq!(got, code, "{who} {generation}: {line}");
            }
            // The first names it by being at it, the second by its words; of the third the name is asked for.
            for (args, before) in [(&[verdict, "it is"][..], ""), (&[verdict, "it is"], " before")] {
                let (code, line) = yard.report("agent5", 2, args);
                let word = verdict.trim_start_matches('-');
                assert!(
                    code == 0 && line == format!("task {task} is reported {word}{before}\n"),
                    "{code} {line}"
                );
            }
            assert_eq!(yard.report("agent5", 2, &[verdict, "otherwise"]).0, 3);
            assert_eq!((&yard.state(&task)["is"], &yard.state(&task)["by"]), (&is.into(), &"agent5".into()));
            assert_eq!((yard.facts_of(kind, &task), yard.reports_to(to, &task)), (1, 1), "{verdict} {to}");
            assert!(!yard.is_in_hand(&task));
            for before in ["", " before"] {
                let (code, line) = yard.report("agent5", 2, &["--done", "after all", "--task", &task]);
                assert!(code == 0 && line == format!("task {task} is reported done{before}\n"), "{line}");
            }
            assert_eq!((&yard.state(&task)["is"], yard.reports_to(to, &task)), (&"ready".into(), 2));
            assert_eq!(
                yard.stage.ok(&["clone", "wait", &task]),
                format!("task {task}, agent5: done: after all\n")
            );
        }
    }
    // Nobody is told by itself.
    let own = yard.task("of agent0");
    assert_eq!(yard.claimed("agent0", 1, &own).0, 0);
    assert_eq!(yard.report("agent0", 1, &["--done", "it is"]).0, 0);
    assert_eq!((yard.facts_of("clone.finished", &own), yard.reports_to("agent0", &own)), (1, 0));
    yard.stage.ok(&["check"]);
}

#[test]
fn what_is_handed_out_and_what_is_claimed_are_named_where_both_are_in_hand() {
    let yard = Yard::new();
    let (handed, own) = (yard.task("handed out"), yard.task("claimed"));
    yard.stage.ok(&["clone", "brief", &handed]);
    assert_eq!(yard.claimed("agent1", 1, &own).0, 0);
    let (code, line) = yard.report("agent1", 1, &["--done", "which?"]);
    assert!(code == 2 && line.contains("agent1 has several tasks in hand: 1, 2"), "{code} {line}");
    assert_eq!(yard.report("agent1", 1, &["--done", "that one", "--task", &own]).0, 0);
    let (code, line) = yard.report("agent1", 1, &["--done", "and this"]);
    assert!(code == 0 && line == "task 1 is reported done\n", "{code} {line}");
}

#[test]
fn fm_report_kill_at_every_step_of_what_was_claimed_is_one_report_whoever_does_the_rest() {
    let yard = Yard::new();
    for is_ticked in [false, true] {
        for point in REPORT {
            for verdict in ["--done", "--blocked"] {
                let task = yard.task(point);
                assert_eq!(yard.claimed("agent5", 1, &task).0, 0);
                let say = ["report", verdict, point, "--task", &task];
                yard.killed(point, yard.as_agent("agent5", 1, &say));
                std::fs::remove_file(yard.stage.outside(&format!("hit-{point}"))).expect("it was hit");
                match is_ticked {
                    true => drop(yard.stage.ok(&["task", "tick"])),
                    false => assert_eq!(yard.report("agent5", 1, &say[1..]).0, 0, "{point}"),
                }
                let (kind, is) = match verdict {
                    "--done" => ("clone.finished", "ready"),
                    _ => ("clone.blocked", "blocked"),
                };
                assert_eq!(
                    (&yard.state(&task)["is"], yard.is_in_hand(&task)),
                    (&is.into(), false),
                    "{point}"
                );
                assert_eq!((yard.facts_of(kind, &task), yard.reports_to("agent0", &task)), (1, 1), "{point}");
            }
        }
    }
}

/// A clone's work on a task of the repository is committed and reported done, and its dispatch is over.
fn handed_in(yard: &Yard, task: &str, file: &str, text: &str) -> std::path::PathBuf {
    let told = yard.json(&["clone", "brief", task, "--json"]);
    let folder = yard.stage.home().join(format!("workspaces/{task}/repo"));
    assert_eq!(told["folder"], folder.display().to_string());
    commit(&folder, file, text);
    let (code, line) = yard.report("agent1", 1, &["--done", "it is there", "--task", task]);
    assert_eq!(code, 0, "{line}");
    assert!(!yard.is_in_hand(task));
    folder
}

#[test]
fn t19_work_that_conflicts_is_mended_reported_anew_in_the_same_words_and_lands() {
    let yard = Yard::new();
    let task = yard.work("one");
    let folder = handed_in(&yard, &task, "a.txt", "of the clone\n");
    commit(&yard.repository(), "a.txt", "of the owner\n");
    let (code, line) = yard.stage.refused(&["task", "harvest", &task]);
    assert!(code == 1 && line.contains("agent1 is told"), "{code} {line}");
    let told = yard.mail("agent1", "harvest-conflict");
    let way = format!("netsky report --task {task} --done");
    assert!(told.len() == 1 && told[0]["text"].as_str().is_some_and(|text| text.contains(&way)), "{told:?}");
    git(&folder, &["fetch", "-q", "origin", "main"]);
    git(&folder, &["rebase", "-q", "-X", "theirs", "FETCH_HEAD"]);
    for (again, end) in [(false, "is reported done\n"), (true, "is reported done before\n")] {
        let (code, line) = yard.report("agent1", 1, &["--done", "it is there", "--task", &task]);
        assert!(code == 0 && line.ends_with(end), "{again}: {code} {line}");
    }
    assert_eq!((yard.facts_of("clone.finished", &task), yard.reports_to("agent0", &task)), (2, 2));
    assert_eq!(
        (&yard.state(&task)["is"], &yard.state(&task)["note"]),
        (&"ready".into(), &"it is there".into())
    );
    yard.stage.ok(&["task", "harvest", "--ready"]);
    assert_eq!(yard.state(&task)["how"], "landed");
    // What has landed is not reported any more; the last words stay said.
    let (code, line) = yard.report("agent1", 1, &["--done", "it is there", "--task", &task]);
    assert!(code == 0 && line.ends_with(" before\n"), "{code} {line}");
    assert_eq!(yard.report("agent1", 1, &["--done", "more", "--task", &task]).0, 3);
    assert_eq!(yard.facts_of("clone.finished", &task), 2);
    yard.stage.ok(&["check"]);
}

#[test]
fn a22_work_that_failed_its_gate_is_mended_and_reported_anew_by_the_next_incarnation_too() {
    let yard =
        Yard::with(crate::stage::QUIET, "[gate]\ncommand = [\"/bin/sh\", \"-c\", \"test ! -e bad\"]\n");
    let task = yard.work("one");
    let folder = handed_in(&yard, &task, "bad", "x\n");
    yard.stage.signal(&yard.stage.program("agent1"), Signal::KILL);
    yard.stage.until("the next one", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.agent("agent1")["generation"] == 2).then_some(())
    });
    for point in REPORT {
        let (code, line) = yard.stage.refused(&["task", "harvest", &task]);
        assert!(code == 1 && line.contains("the gate of task 1"), "{code} {line}");
        let before = (yard.facts_of("clone.finished", &task), yard.reports_to("agent0", &task));
        let say = ["report", "--done", "it is there", "--task", &task];
        let (code, line) = yard.report("agent1", 1, &say[1..]);
        assert!(code == 4 && line.contains("generation 1 has no say in it any more"), "{code} {line}");
        yard.killed(point, yard.as_agent("agent1", 2, &say));
        assert_eq!(yard.report("agent1", 2, &say[1..]).0, 0, "{point}");
        assert_eq!(
            (yard.facts_of("clone.finished", &task), yard.reports_to("agent0", &task)),
            (before.0 + 1, before.1 + 1),
            "{point}: told once"
        );
        assert_eq!(
            (&yard.state(&task)["is"], &yard.state(&task)["generation"]),
            (&"ready".into(), &2.into())
        );
    }
    git(&folder, &["rm", "-q", "bad"]);
    git(&folder, &["commit", "-q", "-m", "mended"]);
    commit(&folder, "good", "x\n");
    assert_eq!(yard.report("agent1", 2, &["--done", "without it", "--task", &task]).0, 0);
    yard.stage.ok(&["task", "harvest", &task]);
    assert_eq!(yard.state(&task)["how"], "landed");
}
