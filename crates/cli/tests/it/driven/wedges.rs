//! Agents that hang, each by its name.

use netsky_disk::process::Signal;

use super::Driven;
use crate::stage::Stage;

const QUICK: &str = "[drivers]\nsilence = \"2s\"\nprobe = \"500ms\"\nanswer = \"1s\"\n";

#[test]
fn a_model_that_does_not_answer_or_stops_in_the_middle_is_said_so_and_the_program_lives() {
    for (text, how) in [("[[no answer]]", "no-answer"), ("[[stall]]", "stalled")] {
        let driven = Driven::with(QUICK);
        driven.send(text);
        let doing = driven.until_doing("wedged");
        assert_eq!(doing["how"], how);
        driven.kill("agent0");
    }
}

#[test]
fn a_frozen_program_is_said_so_and_goes_on_when_it_thaws() {
    // That it answers nothing would tell as well, and later.
    let driven = Driven::with(&QUICK.replace("1s", "60s"));
    let id = driven.send("work [[gate]]");
    driven.until_doing("working");
    let program = driven.stage.program("agent0");
    driven.stage.signal(&program, Signal::STOP);
    let doing = driven.until_doing("wedged");
    assert_eq!(doing["how"], "frozen");
    driven.touch("gate");
    driven.stage.signal(&program, Signal::CONT);
    driven.until_state(&id, "acked");
    driven.until_doing("idle");
}

#[test]
fn i10_a_keeper_that_is_stopped_is_one_page_and_ended_by_nobody() {
    let driven = Driven::up();
    driven.until_doing("idle");
    for keeper in ["netsky-drivers", "agentinfinity", "netsky-ticker"] {
        let process = driven.stage.program(keeper);
        driven.stage.signal(&process, Signal::STOP);
        let kind = format!("silent.{keeper}");
        // Whoever is stopped, the ticker too: the others see to the next look.
        driven.stage.until("a page", |_| (!sent(&driven, &kind).is_empty()).then_some(()));
        for _ in 0..5 {
            driven.stage.ok(&["watchdog", "tick"]);
        }
        let pages = sent(&driven, &kind);
        let way = format!("`kill -CONT {}`", process.pid);
        assert!(pages.len() == 1 && pages[0].contains(&way), "{pages:?}");
        assert_eq!(driven.stage.ok(&["status"]).matches(&way).count(), 1);
        driven.stage.signal(&process, Signal::CONT);
        assert_eq!(driven.stage.program(keeper), process);
        driven.stage.until("the end of it", |stage| (!stage.ok(&["status"]).contains(&way)).then_some(()));
    }
    let id = driven.send("next");
    driven.until_state(&id, "acked");
}

/// Pages of a kind that were sent, where nobody is reached beyond this machine.
fn sent(driven: &Driven, kind: &str) -> Vec<String> {
    let text = std::fs::read_to_string(driven.stage.home().join("logs/pages.jsonl")).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"key\":\"{kind}"))).map(str::to_owned).collect()
}

#[test]
fn i10_one_hang_is_one_page_also_where_who_drives_and_agent0_die_over_it() {
    let driven = Driven::many(1, QUICK);
    driven.sent_to("agent1", &["[[stall]]"]);
    driven.stage.until("a page", |_| (!sent(&driven, "hang.agent1").is_empty()).then_some(()));
    let suspected = |stage: &Stage| {
        stage
            .names("state")
            .contains(&"agent1-hang-suspected".to_owned())
            .then(|| stage.json("state/agent1-hang-suspected")["at"].clone())
    };
    for dies in ["netsky-drivers", "agent0"] {
        let before = suspected(&driven.stage);
        driven.kill(dies);
        if dies == "agent0" {
            driven.stage.until_verified(2);
        } else {
            driven.stage.until("it is suspected anew", |stage| {
                let now = suspected(stage);
                (now.is_some() && now != before).then_some(())
            });
        }
        // Two looks decide, and the third sends.
        for _ in 0..5 {
            driven.stage.ok(&["watchdog", "tick"]);
        }
        assert_eq!(sent(&driven, "hang.agent1").len(), 1, "{dies}: {:?}", sent(&driven, "hang.agent1"));
    }
}
