//! What an agent asks, and who answers.

use netsky_disk::layout::Layout;
use netsky_disk::process::{Signal, identify};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_runtime::driver::Answer;
use netsky_runtime::leave_answer;

use super::Driven;

#[test]
fn what_it_asks_is_shown_and_the_owners_word_reaches_it_once() {
    let driven = Driven::up();
    let id = driven.send("clean up [[ask]]");
    let doing = driven.until_doing("blocked");
    assert_eq!(doing["on"], "Bash: rm -rf build");
    let status = driven.stage.ok(&["status"]);
    let line = "agent0 asks: Bash: rm -rf build  (`netsky agent allow agent0 --ask q1`, or deny)";
    assert!(status.contains(line), "{status}");
    driven.stage.ok(&["agent", "allow", "agent0", "--ask", "q1"]);
    driven.until_state(&id, "acked");
    assert!(driven.lines("answers")[0].contains("\"behavior\":\"allow\""));
    // Whoever looked before that and answers behind it is too late.
    let late = Answer { ask: "q1".to_owned(), allow: false, text: None };
    let home = Layout::new(driven.stage.home());
    assert!(!leave_answer(&home, &AgentId::root(), Generation(1), &late).expect("looked"));
    let (code, line) = driven.stage.refused(&["agent", "allow", "0", "--ask", "q1"]);
    assert!(code == 3 && line.contains("agent0 asks nothing of the id \"q1\""), "{code} {line}");
}

#[test]
fn an_agent_answers_no_question_and_words_that_mean_nothing_are_refused() {
    let driven = Driven::up();
    let id = driven.send("clean up [[ask]]");
    driven.until_doing("blocked");
    let mut inside = driven.stage.command(&["agent", "allow", "agent0", "--ask", "q1"]);
    let output = inside.env("NETSKY_AGENT", "agent0").env("NETSKY_GENERATION", "1").output().expect("starts");
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    for (args, code, words) in [
        (&["agent", "allow", "agent0", "--ask", "q9"][..], 3, "agent0 asks nothing of the id \"q9\""),
        (&["agent", "allow", "agent0", "--ask", ""], 3, "agent0 asks nothing of the id"),
        (&["agent", "netsky-ticker", "--runtime", "claude"], 2, "netsky-ticker is no slot"),
        (&["agent", "1", "--runtime", "claude", "--resume", "no-such"], 2, "has no conversation no-such"),
        (&["agent", "deny", "agent7", "--ask", "q1"], 3, "agent7 is driven by nobody"),
        (&["agent", "show", "agent7"], 3, "agent7 is driven by nobody"),
        (&["agent", "5", "--runtime", "clade"], 2, "clade"),
        (&["up", "--runtime", "clade"], 2, "clade"),
    ] {
        let (got, line) = driven.stage.refused(args);
        assert!(got == code && line.contains(words), "{args:?}: {got} {line}");
    }
    assert_eq!(driven.doing()["is"], "blocked", "nothing was answered");
    driven.stage.ok(&["agent", "deny", "0", "not today", "--ask", "q"]);
    driven.until_state(&id, "acked");
    assert!(driven.lines("answers")[0].contains("not today"));
}

#[test]
fn who_is_dead_is_told_nothing_though_its_worker_has_not_seen_it_yet() {
    let driven = Driven::up();
    driven.send("clean up [[ask]]");
    driven.until_doing("blocked");
    let pid = driven.stage.agent("agent0")["worker_pid"].as_u64().expect("it lives");
    let worker = identify(u32::try_from(pid).expect("a pid")).expect("it lives");
    driven.stage.signal(&worker, Signal::STOP);
    driven.kill("agent0");
    let (code, line) = driven.stage.refused(&["agent", "allow", "0", "--ask", "q1"]);
    driven.stage.signal(&worker, Signal::CONT);
    assert!(code == 3 && line.contains("agent0 does not run"), "{code} {line}");
}

#[test]
fn an_answer_that_does_not_read_is_put_aside_and_may_be_given_again() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let id = driven.send("clean up [[ask]]");
    driven.until_doing("blocked");
    let name = EnvelopeId::derived(&["agent0", "1", "q1"]);
    let file = format!("agent0.{name}.json");
    std::fs::write(driven.stage.home().join("state/answers").join(&file), "{ no answer").expect("written");
    driven.stage.until("it aside", |stage| {
        let names = stage.names("state/answers");
        (!names.contains(&file) && names.iter().any(|name| name.contains(".damaged-"))).then_some(())
    });
    driven.stage.ok(&["agent", "allow", "agent0", "--ask", "q1"]);
    driven.until_state(&id, "acked");
    assert_eq!(driven.lines("answers").len(), 1);
}
