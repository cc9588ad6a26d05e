//! Agents that hang, each by its name.

use netsky_disk::process::Signal;

use super::Driven;

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
