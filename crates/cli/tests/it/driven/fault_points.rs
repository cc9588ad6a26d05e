//! netsky-drivers ends at each of its named points.

use std::process::{Command, Stdio};

use netsky_disk::process::{Signal, identify};

use super::Driven;
impl Driven {
    /// A netsky-drivers of the test's own in the place of the kept one, which ends at a point; what becomes of it is told by
    /// `during`. Then the kept one comes back.
    fn with_drivers_that_end_at(&self, point: &str, during: impl FnOnce(&Driven)) {
        let stage = &self.stage;
        stage.hold_triggers();
        let kept = stage.worker("netsky-drivers");
        let root = stage.home().join(".ostk");
        let mut kill = Command::new(env!("CARGO_BIN_EXE_ostk"));
        // The bare call: the verb has it started again.
        kill.arg("--root").arg(root).args(["rpc", "call", "session/kill", r#"{"session":"netsky-drivers"}"#]);
        assert!(kill.output().expect("it starts").status.success());
        let hits = self.file("hits");
        let mut ours = stage.command(&["drivers"]);
        ours.env("NETSKY_FAULT", format!("{point}=kill"))
            .env("NETSKY_FAULT_LOG", &hits)
            .stdout(Stdio::null());
        let mut ours = ours.spawn().expect("it starts");
        during(self);
        stage.until(&format!("the end at {point}"), |_| ours.try_wait().expect("ours"));
        let hits = std::fs::read_to_string(hits).unwrap_or_default();
        assert_eq!(hits.lines().collect::<Vec<_>>(), [point]);
        stage.ok(&["watchdog", "tick"]);
        for trigger in ["netsky-ticker", "agentinfinity"] {
            stage.signal(&stage.program(trigger), Signal::CONT);
        }
        assert!(identify(kept.pid).is_none_or(|now| now != kept));
    }
}

#[test]
fn fm_deliver_kill_a_message_is_one_turn_wherever_netsky_drivers_ends() {
    for point in ["drivers.put.shown", "drivers.put.kept", "drivers.turn.settled"] {
        let driven = Driven::up();
        let mut id = String::new();
        driven.with_drivers_that_end_at(point, |driven| id = driven.send("work"));
        let attempt = driven.until_state(&id, "acked");
        assert_eq!(driven.turns_of(&id), 1, "{point}");
        assert!(attempt <= 2, "{point}: told {attempt} times");
        let next = driven.send("next");
        assert_eq!(driven.until_state(&next, "acked"), 1, "{point}");
    }
}

#[test]
fn fm_deliver_kill_a_turn_that_failed_is_told_again_wherever_netsky_drivers_ends() {
    let driven = Driven::up();
    let mut id = String::new();
    driven.with_drivers_that_end_at("drivers.turn.handed-back", |driven| id = driven.send("pay [[refused]]"));
    driven.stage.until("its wait", |stage| stage.agent("agent0")["driven"]["waits"]["failures"].as_u64());
    assert_eq!(driven.envelope(&id), ("written".to_owned(), 2), "one failure is one attempt");
    driven.touch("key");
    driven.stage.ok(&["agent", "retry", "0"]);
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn fm_deliver_kill_who_meets_a_generation_may_end_before_that_is_written() {
    let driven = Driven::up();
    let id = driven.send("work [[gate]]");
    driven.until_doing("working");
    driven.with_drivers_that_end_at("drivers.met.looked", |driven| {
        driven.kill("agent0");
        driven.touch("gate");
        driven.stage.until("its successor", |stage| {
            stage.run(&["watchdog", "tick"]);
            (stage.agent("agent0")["generation"] == 2).then_some(())
        });
    });
    assert_eq!(driven.until_state(&id, "acked"), 2);
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn fm_deliver_kill_an_answer_reaches_its_program_once_wherever_netsky_drivers_ends() {
    let driven = Driven::up();
    let id = driven.send("clean up [[ask]]");
    driven.until_doing("blocked");
    driven.with_drivers_that_end_at("drivers.answer.taken", |driven| {
        driven.stage.until("an answer", |stage| {
            let told = stage.run(&["agent", "allow", "0", "--ask", "q1"]);
            (told.status.code() == Some(0)).then_some(())
        });
    });
    driven.until_state(&id, "acked");
    assert_eq!(driven.lines("answers").len(), 1);
}

#[test]
fn fm_snapshot_kill_a_handoff_is_asked_for_and_read_once_wherever_netsky_drivers_ends() {
    for point in ["drivers.own.asked", "drivers.own.shown", "drivers.own.given"] {
        let driven = Driven::up();
        driven.with_drivers_that_end_at(point, |driven| drop(driven.send("grow [[context 185000]]")));
        driven.until_generation(2);
        driven.until_acknowledged(1);
        assert_eq!(driven.own_words().len(), 2, "{point}");
    }
    let driven = Driven::with_a_reader();
    driven.with_drivers_that_end_at("drivers.own.read", |driven| {
        driven.lets_go("hold-reader");
    });
    driven.until_acknowledged(1);
    assert_eq!(driven.own_words().len(), 2);
}
