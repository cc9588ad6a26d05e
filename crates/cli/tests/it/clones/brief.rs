//! Who gets a task, and what it is told.

use super::{Yard, said};
use crate::stage::QUIET;

/// It reads what comes, says what became of it, and is done with it.
const DILIGENT: &str = "netsky session up; while netsky channel wait $NETSKY_AGENT; do netsky channel drain $NETSKY_AGENT; \
    netsky report --done \"it is there\"; done";

#[test]
fn a_task_goes_to_a_clone_that_is_started_in_its_workspace_and_its_report_comes_back() {
    let yard = Yard::with(DILIGENT, "");
    let task = yard.work("the first");
    let told = yard.json(&["clone", "brief", &task, "--json"]);
    assert_eq!(
        (&told["agent"], &told["generation"], &told["started"]),
        (&"agent1".into(), &1.into(), &true.into())
    );
    let folder = yard.stage.home().join(format!("workspaces/{task}/repo"));
    assert_eq!(yard.stage.json("state/desired/agent1.json")["cwd"], folder.display().to_string());
    assert!(folder.join("a.txt").exists());
    let waited = yard.json(&["clone", "wait", &task, "--timeout", "60s", "--json"]);
    let one = &waited["dispatches"][0];
    assert_eq!((&one["verdict"], &one["text"]), (&"done".into(), &"it is there".into()));
    let briefs = yard.mail("agent1", "brief");
    let [brief] = briefs.as_slice() else { panic!("one brief: {briefs:?}") };
    // Whoever hands it out: the words of a task may be an agent's.
    assert_eq!((&brief["thread"], &brief["from"]), (&task.as_str().into(), &"agent0".into()));
    assert_eq!((&brief["id"], &brief["requires_ack"]), (&told["envelope"], &true.into()));
    assert_eq!(brief["state"], "acked", "who has reported is done with it");
    let text = brief["text"].as_str().expect("a text");
    let branch = format!("task/{task}");
    for part in [
        "the first",
        "Make it so.",
        &folder.display().to_string(),
        &branch,
        "of main",
        "netsky report --task",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let reports = yard.mail("agent0", "report");
    let [report] = reports.as_slice() else { panic!("one report: {reports:?}") };
    assert_eq!((&report["from"], &report["thread"]), (&"agent1".into(), &brief["thread"]));
    assert_eq!(report["reply_to"], brief["id"]);
    let [briefed] = yard.facts("clone.briefed").try_into().expect("one fact");
    let [finished] = yard.facts("clone.finished").try_into().expect("one fact");
    assert_eq!(briefed.key, format!("{task}/{}", told["id"].as_str().expect("an id")));
    assert_eq!((&finished.key, &finished.data["verdict"]), (&briefed.key, &"done".into()));
    assert_eq!((yard.state(&task)["is"].clone(), yard.is_in_hand(&task)), ("ready".into(), false));
}

#[test]
fn a_clone_that_is_idle_is_used_again_where_it_is_and_told_the_folder() {
    let yard = Yard::with(DILIGENT, "");
    let tasks = [yard.work("the first"), yard.work("the second")];
    let told = tasks.clone().map(|task| {
        let told = yard.json(&["clone", "brief", &task, "--json"]);
        yard.stage.ok(&["clone", "wait", "agent1", "--timeout", "60s"]);
        // Until its turn is over, too, it has something to do.
        yard.stage.until("nothing to do", |stage| (stage.agent("agent1")["unfinished"] == 0).then_some(()));
        told
    });
    let second = &told[1];
    assert_eq!((&second["agent"], &second["generation"]), (&"agent1".into(), &1.into()));
    assert_eq!((&told[0]["started"], &second["started"]), (&true.into(), &false.into()));
    let folder = |task: &str| yard.stage.home().join(format!("workspaces/{task}/repo")).display().to_string();
    assert_eq!(
        yard.stage.json("state/desired/agent1.json")["cwd"],
        folder(&tasks[0]),
        "it stays where it is"
    );
    let briefs = yard.mail("agent1", "brief");
    assert!(briefs[1]["text"].as_str().is_some_and(|text| text.contains(&folder(&tasks[1]))), "{briefs:?}");
    let asked = "SELECT task, agent, dispatcher, verdict, text, ended_utc >= briefed_utc AS ended \
        FROM clone_dispatches ORDER BY task";
    let row = |task| {
        serde_json::json!({
            "task": task, "agent": "agent1", "dispatcher": "owner", "verdict": "done", "text": "it is there", "ended": 1,
        })
    };
    assert_eq!(yard.json(&["query", asked, "--json"])["rows"], serde_json::json!([row("1"), row("2")]));
    yard.stage.ok(&["check"]);
}

#[test]
fn two_who_hand_out_one_task_at_once_make_one_dispatch() {
    let yard = Yard::new();
    let task = yard.work("one");
    let begun: Vec<_> = (0..2)
        .map(|_| {
            let mut command = yard.stage.command(&["clone", "brief", &task]);
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .expect("started")
        })
        .collect();
    let said: Vec<_> =
        begun.into_iter().map(|child| said(&child.wait_with_output().expect("it ends"))).collect();
    assert!(said.iter().any(|(code, _)| *code == 0), "{said:?}");
    assert!(said.iter().all(|(code, text)| [0, 4].contains(code) && text.contains("agent1")), "{said:?}");
    assert_eq!(yard.facts("clone.briefed").len(), 1);
    assert_eq!(yard.mail("agent1", "brief").len(), 1);
    assert!(!yard.stage.home().join("state/desired/agent2.json").exists(), "one clone was started");
}

#[test]
fn a_task_in_hand_is_refused_with_who_has_it() {
    let yard = Yard::new();
    let task = yard.task("one");
    yard.stage.ok(&["clone", "brief", &task]);
    for args in [&["clone", "brief", &task][..], &["clone", "brief", &task, "--agent", "2"]] {
        let (code, line) = yard.stage.refused(args);
        assert!(code == 4 && line.contains("is with agent1, generation 1, since 20"), "{code} {line}");
    }
    assert_eq!(yard.mail("agent1", "brief").len(), 1);
    let closed = yard.task("over");
    yard.board()
        .act(
            &super::id(&closed),
            netsky_model::task::Event::Closed { how: netsky_model::task::How::Dropped, why: None },
        )
        .expect("closed");
    let (code, line) = yard.stage.refused(&["clone", "brief", &closed]);
    assert!(code == 4 && line.contains("it is closed"), "{code} {line}");
    assert_eq!(yard.stage.refused(&["clone", "brief", "nowhere"]).0, 3);
}

#[test]
fn a12_no_more_clones_are_started_for_tasks_than_the_owner_allows() {
    let yard = Yard::with(QUIET, "[clones]\nmost = 1\n");
    let tasks = [yard.task("one"), yard.task("two")];
    yard.stage.ok(&["clone", "brief", &tasks[0]]);
    for more in [&[][..], &["--agent", "7"]] {
        let args: Vec<&str> = ["clone", "brief", &tasks[1]].iter().chain(more).copied().collect();
        let (code, line) = yard.stage.refused(&args);
        assert!(code == 5 && line.contains("1 clones run or are about to, of at most 1"), "{code} {line}");
    }
    assert!(!yard.is_in_hand(&tasks[1]));
    // Who runs may have more than one, if that is said.
    yard.stage.ok(&["clone", "brief", &tasks[1], "--agent", "1"]);
    let (code, line) = yard.report("agent1", 1, &["--done", "which?"]);
    assert!(code == 2 && line.contains("agent1 has several tasks in hand: 1, 2"), "{code} {line}");
    let (code, line) = yard.report("agent1", 1, &["--done", "that one", "--task", &tasks[1]]);
    assert!(code == 0 && line.contains("task 2 is reported done"), "{code} {line}");
}

#[test]
fn a1_only_the_owner_and_agent0_hand_out_work_or_take_it_back() {
    let yard = Yard::new();
    let task = yard.task("one");
    for args in [&["clone", "brief", &task][..], &["clone", "stop", "1"]] {
        let (code, line) = said(&yard.as_agent("agent1", 1, args).output().expect("it starts"));
        assert!(code == 4 && line.contains("is for agent0, or for the owner"), "{code} {line}");
    }
    assert!(!yard.is_in_hand(&task));
    let (code, line) =
        said(&yard.as_agent("agent0", 1, &["clone", "brief", &task]).output().expect("it starts"));
    assert!(
        code == 0 && line.contains("task 1 is with agent1, generation 1, which was started"),
        "{code} {line}"
    );
    assert_eq!(yard.mail("agent1", "brief")[0]["from"], "agent0");
    for agent in ["0", "agentinfinity", "x"] {
        let other = yard.task("other");
        let (code, line) = yard.stage.refused(&["clone", "brief", &other, "--agent", agent]);
        assert!(code == 2 && line.contains("is no clone"), "{code} {line}");
    }
}

#[test]
fn what_could_never_start_is_not_begun() {
    let yard = Yard::with(QUIET, "[agents.agent1]\nargv = [\"/bin/no-such-program\"]\n");
    let task = yard.task("one");
    let (code, line) = yard.stage.refused(&["clone", "brief", &task, "--runtime", "no-such"]);
    assert!(code == 2 && line.contains("no-such"), "{code} {line}");
    assert!(!yard.is_in_hand(&task), "nobody is decided on");
    let placed = yard.work("placed");
    let (code, line) = yard.stage.refused(&["clone", "brief", &placed, "--runtime", "no-such"]);
    assert!(code == 2 && line.contains("no-such"), "{code} {line}");
    assert!(!yard.stage.home().join(format!("workspaces/{placed}")).exists(), "nothing is kept");
    let nowhere = yard.make("two", Some("/no/such/repository".to_owned()));
    let (code, line) = yard.stage.refused(&["clone", "brief", &nowhere, "--agent", "2"]);
    assert!(code != 0 && line.contains("/no/such/repository"), "{code} {line}");
    assert!(!yard.is_in_hand(&nowhere), "nobody is decided on");
    assert_eq!(yard.state(&task)["is"], "open");
}

#[test]
fn a_clone_stays_where_its_task_put_it_whoever_asks_for_it_by_number() {
    let yard = Yard::new();
    let task = yard.work("one");
    yard.stage.ok(&["clone", "brief", &task]);
    let before = yard.stage.program("agent1");
    let told = yard.stage.ok(&["up", "1"]);
    assert!(told.contains("agent0 session 1"), "{told}");
    assert_eq!(yard.stage.program("agent1"), before, "it is left as it is");
    let wish = yard.stage.json("state/desired/agent1.json");
    assert!(wish["cwd"].as_str().is_some_and(|cwd| cwd.ends_with("/workspaces/1/repo")), "{wish}");
}

#[test]
fn a_hand_over_takes_no_claim_of_another_and_nobody_claims_what_is_on_its_way() {
    let yard = Yard::new();
    let (task, other) = (yard.task("one"), yard.task("two"));
    let claim = |args: &[&str]| {
        let args: Vec<&str> = ["task", "claim"].iter().chain(args).copied().collect();
        said(&yard.as_agent("agent5", 1, &args).output().expect("it starts"))
    };
    yard.killed("work.dispatch.decided", yard.stage.command(&["clone", "brief", &task]));
    let (code, line) = claim(&[&task]);
    assert!(code == 5 && line.contains("task 1 is about to be given to agent1"), "{code} {line}");
    let (code, line) = claim(&[]);
    assert!(code == 0 && line.contains("two"), "the next one is free: {code} {line}");
    // Whoever came between the look at the board and the choice.
    let file = yard.stage.home().join(format!("state/dispatches/{task}.json"));
    let chosen = std::fs::read(&file).expect("kept");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(claim(&[&task]).0, 0);
    for is_ticked in [false, true] {
        std::fs::write(&file, &chosen).expect("written");
        match is_ticked {
            true => drop(yard.stage.ok(&["task", "tick"])),
            false => {
                let (code, line) = yard.stage.refused(&["clone", "brief", &task]);
                assert!(code == 5 && line.contains("claimed by agent5"), "{code} {line}");
            }
        }
        assert_eq!(yard.state(&task)["by"], "agent5", "its claim stands");
        assert!(!yard.is_in_hand(&task) && yard.mail("agent1", "brief").is_empty());
    }
    assert_eq!(yard.state(&other)["by"], "agent5");
}

#[test]
fn what_cannot_be_handed_out_any_more_is_not_kept() {
    use netsky_model::task::Event;
    let yard = Yard::new();
    let (task, first) = (yard.task("one"), yard.task("before it"));
    yard.stage.ok(&["agent", "1"]);
    yard.killed("work.dispatch.decided", yard.stage.command(&["clone", "brief", &task, "--agent", "1"]));
    let assign = |to: Option<u32>| {
        let to = to.map(netsky_model::id::AgentId::numbered);
        yard.board().act(&super::id(&task), Event::Assigned { to }).expect("assigned");
    };
    assign(Some(2));
    yard.stage.run(&["task", "tick"]);
    assert!(!yard.is_in_hand(&task) && yard.mail("agent1", "brief").is_empty(), "it is another's");
    assign(None);
    yard.stage.ok(&["clone", "brief", &task, "--agent", "1"]);
    assert_eq!(yard.facts("clone.briefed").len(), 1);
    // A text that no message holds is refused before anybody is chosen.
    let brief = Some(yard.board().keep_brief(&"\\".repeat(200 * 1024)).expect("kept"));
    let change = netsky_model::task::Change { brief, ..Default::default() };
    yard.board().act(&super::id(&first), Event::Updated(Box::new(change))).expect("updated");
    let (code, line) = yard.stage.refused(&["clone", "brief", &first]);
    assert!(code == 4 && line.contains("its brief is too long"), "{code} {line}");
    assert!(!yard.is_in_hand(&first) && yard.state(&first)["is"] == "open");
}

#[test]
fn a_clone_that_cannot_start_is_not_kept_and_the_next_task_is_begun_as_the_settings_say() {
    let yard = Yard::new();
    let (one, two) = (yard.task("one"), yard.task("two"));
    let (code, line) = yard.stage.refused(&["clone", "brief", &one, "--runtime", "claude"]);
    assert!(code == 2 && line.contains("program \"claude\" is not there"), "{code} {line}");
    assert!(!yard.is_in_hand(&one) && !yard.stage.home().join("state/desired/agent1.json").exists());
    let told = yard.json(&["clone", "brief", &two, "--json"]);
    assert_eq!((&told["agent"], &told["started"]), (&"agent1".into(), &true.into()));
    let (code, line) = yard.stage.refused(&["clone", "stop", "0"]);
    assert!(code == 2 && line.contains("agent0 is no clone"), "{code} {line}");
}
