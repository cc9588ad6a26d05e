//! What keeps netsky-drivers from an agent: it is told of, it costs no message an attempt, and it is over when it is over.

use std::time::Duration;

use netsky_disk::clock;

use super::Driven;

const QUICK: &str = "[drivers]\nsilence = \"20s\"\nprobe = \"500ms\"\nanswer = \"10s\"\n";

#[test]
fn who_cannot_be_driven_is_told_of_with_the_reason_and_is_spoken_to_again_when_that_is_over() {
    let driven = Driven::up();
    let first = driven.send("one");
    driven.until_state(&first, "acked");
    driven.until_doing("idle");
    driven.stage.edit("state/drivers/agent0.json", |book| book["v"] = 99.into());
    driven.kill("netsky-drivers");
    let id = driven.send("two");
    let told = driven.stage.until("it is told", |stage| {
        let status = stage.ok(&["status"]);
        status.contains("problem: agent0 is not driven for ").then_some(status)
    });
    assert!(
        told.contains("newer than this program; its mail waits, and what stands here of it is old"),
        "{told}"
    );
    assert_eq!(driven.envelope(&id), ("written".to_owned(), 1));
    driven.stage.until("a look at who hangs", |stage| {
        stage.names("state").iter().any(|name| name == "agent0-hang-suspected").then_some(())
    });
    assert_eq!(driven.stage.json("state/agent0-hang-suspected")["word"], "undriven");
    driven.stage.edit("state/drivers/agent0.json", |book| book["v"] = 1.into());
    assert_eq!(driven.until_state(&id, "acked"), 1);
    assert!(!driven.stage.ok(&["status"]).contains("is not driven"));
}

#[test]
fn a_program_that_has_closed_its_input_is_deaf_and_costs_no_message_an_attempt() {
    let driven = Driven::with(QUICK);
    let last = driven.send("work [[closes]]");
    driven.until_state(&last, "acked");
    let id = driven.send("next");
    driven.until_doing("wedged");
    assert_eq!(driven.doing()["how"], "deaf");
    // Several tries by then.
    clock::pause(Duration::from_secs(4));
    assert_eq!(driven.envelope(&id), ("written".to_owned(), 1));
    driven.touch("opens");
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn what_a_program_takes_back_and_nobody_here_did_comes_again() {
    let driven = Driven::up();
    let id = driven.send("work [[takes back]]");
    assert_eq!(driven.until_state(&id, "acked"), 2, "it comes again, flagged");
    assert_eq!(driven.turns_of(&id), 1);
}
