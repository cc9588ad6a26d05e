//! Killed at every step, handed out and reported once.

use super::Yard;

/// The steps of a hand-over, in their order.
const HAND_OVER: [&str; 5] = [
    "work.dispatch.decided",
    "work.dispatch.claimed",
    "work.dispatch.sent",
    "work.dispatch.recorded",
    "work.dispatch.briefed",
];

/// The steps of a report.
pub(super) const REPORT: [&str; 5] = [
    "work.report.decided",
    "work.report.moved",
    "work.report.recorded",
    "work.report.sent",
    "work.report.over",
];

#[test]
fn fm_dispatch_kill_at_every_step_a_repeat_makes_one_dispatch_of_it() {
    let yard = Yard::new();
    for (at, point) in HAND_OVER.iter().enumerate() {
        let (task, agent) = (yard.task(point), format!("agent{}", at + 1));
        yard.killed(point, yard.stage.command(&["clone", "brief", &task]));
        let is_last = *point == "work.dispatch.briefed";
        match is_last {
            true => assert_eq!(yard.stage.refused(&["clone", "brief", &task]).0, 4, "all was done"),
            false => drop(yard.stage.ok(&["clone", "brief", &task])),
        }
        is_handed_out_once(&yard, point, &task, &agent);
    }
}

#[test]
fn fm_dispatch_kill_once_the_brief_is_there_a_report_does_the_rest() {
    let yard = Yard::new();
    // Whose work is done is idle, and has the next.
    for (point, agent) in [
        ("work.dispatch.claimed", "agent1"),
        ("work.dispatch.sent", "agent2"),
        ("work.dispatch.recorded", "agent2"),
    ] {
        let task = yard.task(point);
        yard.killed(point, yard.stage.command(&["clone", "brief", &task]));
        let (code, line) = yard.report(agent, 1, &["--done", "it is", "--task", &task]);
        if agent == "agent1" {
            assert!(code != 0 && yard.is_in_hand(&task), "nobody was told: {code} {line}");
            continue;
        }
        assert!(code == 0 && line == format!("task {task} is reported done\n"), "{point}: {code} {line}");
        for kind in ["clone.briefed", "clone.finished"] {
            assert_eq!(yard.facts_of(kind, &task), 1, "{point}: {kind}");
        }
        assert!(!yard.is_in_hand(&task), "{point}");
    }
}

#[test]
fn fm_dispatch_kill_at_every_step_a_tick_does_the_rest() {
    let yard = Yard::new();
    for (at, point) in HAND_OVER.iter().enumerate() {
        let (task, agent) = (yard.task(point), format!("agent{}", at + 1));
        yard.killed(point, yard.stage.command(&["clone", "brief", &task]));
        if *point == "work.dispatch.decided" {
            // Nobody is up for it yet, and nobody was told; it may be taken back.
            let other = yard.task("taken back");
            yard.killed(point, yard.stage.command(&["clone", "brief", &other, "--agent", "7"]));
            yard.stage.ok(&["clone", "stop", "7"]);
            assert!(!yard.is_in_hand(&other) && yard.facts("clone.finished").is_empty());
            yard.stage.ok(&["task", "tick"]);
            assert!(yard.is_in_hand(&task) && yard.facts("clone.briefed").is_empty());
            yard.stage.ok(&["agent", "1"]);
        }
        yard.stage.ok(&["task", "tick"]);
        is_handed_out_once(&yard, point, &task, &agent);
    }
}

#[test]
fn fm_dispatch_kill_while_its_workspace_is_made_or_its_clone_is_started() {
    let yard = Yard::new();
    let points =
        ["work.workspace.filled", "work.workspace.named", "work.workspace.made", "watchdog.tick.decided"];
    for (at, point) in points.iter().enumerate() {
        let (task, agent) = (yard.work(point), format!("agent{}", at + 1));
        yard.killed(point, yard.stage.command(&["clone", "brief", &task]));
        // Who has nowhere to work is told nothing.
        yard.stage.ok(&["task", "tick"]);
        assert_eq!(yard.facts("clone.briefed").len(), at, "{point}");
        let told = yard.json(&["clone", "brief", &task, "--json"]);
        let folder = yard.stage.home().join(format!("workspaces/{task}/repo"));
        assert_eq!(told["folder"], folder.display().to_string(), "{point}");
        assert!(folder.join("a.txt").exists(), "{point}: it is whole");
        is_handed_out_once(&yard, point, &task, &agent);
    }
}

fn is_handed_out_once(yard: &Yard, point: &str, task: &str, agent: &str) {
    let state = yard.state(task);
    assert_eq!((&state["is"], &state["by"]), (&"claimed".into(), &agent.into()), "{point}");
    assert_eq!(yard.mail(agent, "brief").len(), 1, "{point}: one brief");
    let of_task = yard.facts("clone.briefed").into_iter().filter(|fact| fact.data["task"] == task).count();
    assert_eq!(of_task, 1, "{point}: one fact");
    let (code, line) = yard.report(agent, 1, &["--blocked", "what now?"]);
    assert_eq!(code, 0, "{point}: it is in hand: {line}");
}

#[test]
fn fm_report_kill_at_every_step_is_one_report_whoever_does_the_rest() {
    let yard = Yard::new();
    for is_ticked in [false, true] {
        for point in REPORT {
            let task = yard.task(point);
            yard.stage.ok(&["clone", "brief", &task, "--agent", "1"]);
            let before = yard.mail("agent0", "report").len();
            let say = ["report", "--done", point, "--task", &task];
            yard.killed(point, yard.as_agent("agent1", 1, &say));
            std::fs::remove_file(yard.stage.outside(&format!("hit-{point}"))).expect("it was hit");
            match is_ticked {
                true => drop(yard.stage.ok(&["task", "tick"])),
                false => assert_eq!(yard.report("agent1", 1, &say[1..]).0, 0, "{point}"),
            }
            assert_eq!(
                (&yard.state(&task)["is"], yard.is_in_hand(&task)),
                (&"ready".into(), false),
                "{point}"
            );
            let of_task =
                yard.facts("clone.finished").into_iter().filter(|fact| fact.data["task"] == *task).count();
            assert_eq!((of_task, yard.mail("agent0", "report").len()), (1, before + 1), "{point}: told once");
        }
    }
}
