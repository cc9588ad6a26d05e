//! Deaths in the middle of a turn: of the program, its worker, netsky-drivers, the anchor.

use std::time::Duration;

use netsky_disk::layout::KernelLayout;
use netsky_disk::process::Signal;
use netsky_kernel::frame::Form;
use netsky_kernel::worker_client::WorkerClient;
use netsky_model::id::AgentId;

use super::Driven;

/// Where agent0's program is in a turn whose end waits for the gate.
fn in_a_turn(text: &str) -> (Driven, String) {
    let driven = Driven::up();
    let id = driven.send(text);
    driven.stage.until("its turn", |_| driven.lines("starts").first().map(drop));
    driven.stage.until("its turn", |_| (driven.envelope(&id).0 == "delivered").then_some(()));
    (driven, id)
}

#[test]
fn a_program_that_dies_in_a_turn_goes_on_with_its_conversation_and_is_told_again_flagged() {
    for text in ["plain [[gate]]", "with a tool [[tool]]"] {
        let (driven, id) = in_a_turn(text);
        driven.stage.until("a turn that is under way", |_| {
            driven.doing()["is"].as_str().filter(|is| ["working", "tool-running"].contains(is)).map(drop)
        });
        driven.kill("agent0");
        driven.touch("gate");
        assert_eq!(driven.until_state(&id, "acked"), 2, "{text}");
        assert_eq!(driven.turns_of(&id), 1, "{text}");
        assert!(driven.lines("turns")[0].contains("redelivered=\\\"true\\\" attempt=\\\"2\\\""));
        let starts = driven.lines("starts");
        let word_behind =
            |line: &String, flag: &str| line.split(&format!("{flag} ")).nth(1).map(str::to_owned);
        let first = word_behind(&starts[0], "--session-id").expect("it began one");
        assert_eq!(word_behind(&starts[1], "--resume"), Some(first), "the same conversation");
    }
}

#[test]
fn a_turn_that_ended_unheard_is_found_in_the_transcript_and_not_told_again() {
    let (driven, id) = in_a_turn("say nothing [[mute]]");
    driven.stage.until("the end of its turn", |_| driven.file("muted").exists().then_some(()));
    // With its worker dies what it was about to say.
    let worker = driven.stage.worker("agent0");
    driven.stage.signal(&worker, Signal::KILL);
    driven.touch("heard");
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
    let next = driven.send("next");
    assert_eq!(driven.until_state(&next, "acked"), 1);
    assert_eq!((driven.turns_of(&id), driven.turns_of(&next)), (1, 1));
}

#[test]
fn netsky_drivers_may_die_at_any_time_of_a_turn_and_nothing_is_told_twice() {
    let (driven, id) = in_a_turn("work on [[gate]]");
    let program = driven.stage.program("agent0");
    for _ in 0..3 {
        driven.kill("netsky-drivers");
        driven.stage.until("its successor", |stage| stage.agent("netsky-drivers")["pid"].as_u64().map(drop));
    }
    driven.kill("netsky-drivers");
    driven.touch("gate");
    assert_eq!(driven.until_state(&id, "acked"), 1, "it was told once");
    assert_eq!(driven.turns_of(&id), 1);
    assert_eq!(driven.stage.program("agent0"), program, "its program went on");
}

#[test]
fn i5_what_netsky_drivers_says_under_an_old_epoch_is_refused_and_said_anew_once() {
    let driven = Driven::up();
    driven.until_doing("idle");
    let drivers = driven.stage.program("netsky-drivers");
    driven.stage.signal(&drivers, Signal::STOP);
    // Somebody else speaks to the program meanwhile.
    let socket = KernelLayout::new(driven.stage.home().join(".ostk")).worker_sock(&AgentId::root());
    let mut other = WorkerClient::connect(&socket).expect("a worker");
    let epoch = other.hello().input_epoch + 1;
    other.type_once(epoch, Form::Keys, "another", b"\n", Duration::from_secs(5)).expect("taken");
    let id = driven.send("work");
    driven.stage.signal(&drivers, Signal::CONT);
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
    assert!(driven.stage.ok(&["logs", "netsky-drivers"]).contains("another netsky-drivers speaks to it"));
}

#[test]
fn who_runs_is_given_its_mail_though_its_wish_is_gone() {
    let driven = Driven::up();
    let first = driven.send("first");
    driven.until_state(&first, "acked");
    std::fs::remove_file(driven.stage.home().join("state/desired/agent0.json")).expect("there");
    driven.kill("netsky-drivers");
    let second = driven.send("second");
    driven.until_state(&second, "acked");
    assert_eq!(driven.turns_of(&second), 1);
}

#[test]
fn with_everybody_dead_in_the_middle_of_a_turn_it_is_told_again_on_the_same_conversation() {
    let (driven, id) = in_a_turn("work on [[tool]]");
    driven.until_doing("tool-running");
    let others = ["netsky-drivers", "agentinfinity", "netsky-ticker"].map(|name| driven.stage.worker(name));
    let worker = driven.stage.worker("agent0");
    let anchor = driven.stage.anchor();
    for process in others.iter().chain([&anchor, &worker]) {
        driven.stage.signal(process, Signal::KILL);
    }
    driven.touch("gate");
    // The ticks that were at work may have to see first that their anchor is gone.
    driven.stage.until("a tick", |stage| stage.run(&["watchdog", "tick"]).status.success().then_some(()));
    let attempt = driven.until_state(&id, "acked");
    assert!(attempt >= 2, "{attempt}");
    assert_eq!(driven.turns_of(&id), 1);
    assert!(driven.lines("starts").last().expect("a start").contains("--resume"));
}

#[test]
fn what_its_provider_refuses_waits_flagged_and_goes_under_another_name_once_that_is_mended() {
    let driven = Driven::up();
    let id = driven.send("pay [[refused]]");
    let doing = driven.until_doing("failed-auth");
    assert!(
        doing["why"].as_str().expect("why").contains("401") || doing["why"] == "Invalid API key",
        "{doing}"
    );
    driven
        .stage
        .until("it waits again", |_| (driven.envelope(&id) == ("written".to_owned(), 2)).then_some(()));
    // Nobody but a person mends that: a page, and the agent is up without having answered.
    // Whichever generation meets it, it is one condition.
    let page = "SELECT count(*) AS n FROM facts WHERE kind = 'page' AND key LIKE 'cannot-work.agent0-%.g1.auth' \
        AND data LIKE '%\"condition\":\"cannot-work.agent0.auth\"%'";
    driven
        .stage
        .until("a page", |stage| stage.ok(&["query", page, "--json"]).contains("\"n\":1").then_some(()));
    let status = driven.stage.ok(&["status"]);
    let remedy = "problem: agent0 is up and cannot work: its keys or its login do not hold (log in and `netsky agent retry` it, or";
    assert!(status.contains(remedy) && status.contains(", no turn yet, mail waits until "), "{status}");
    let answered = || driven.stage.agent("agent0")["driven"]["answered"].clone();
    assert_eq!(answered(), false);
    let (code, said) = driven.stage.refused(&["agent", "retry", "1"]);
    assert_eq!(code, 3, "{said}");
    // A wait that was over before this one began.
    let path = driven.stage.home().join("state/answers/agent0.retry-1790000000000.json");
    std::fs::write(&path, "{}").expect("written");
    for _ in 0..20 {
        assert_eq!(driven.envelope(&id), ("written".to_owned(), 2));
    }
    // Too early: it is refused once more.
    assert!(driven.stage.ok(&["agent", "retry", "0"]).contains("is told to try its mail now"));
    driven
        .stage
        .until("the next refusal", |_| (driven.envelope(&id) == ("written".to_owned(), 3)).then_some(()));
    // No death is behind its repeats, and what is behind them is told: also to who knows of all deaths.
    std::fs::write(driven.file("facts"), "").expect("written");
    let facts = driven.file("facts").display().to_string();
    driven.stage.ok(&["check", "--facts", &facts]);
    driven.touch("key");
    // A new program is tried at once.
    driven.kill("agent0");
    driven.until_state(&id, "acked");
    // The book is written behind the receipt.
    driven.stage.until("its answer", |_| (answered() == true).then_some(()));
    assert_eq!(driven.turns_of(&id), 1);
}

#[test]
fn keys_that_do_not_hold_are_told_with_their_remedy_while_the_program_tries_again() {
    let driven = Driven::up();
    driven.send("pay [[refused]] [[patient]]");
    let remedy = "problem: agent0 is up and cannot work: its keys or its login do not hold (log in and `netsky agent retry` it, or";
    driven.stage.until("its remedy", |stage| stage.ok(&["status"]).contains(remedy).then_some(()));
    assert_eq!(driven.doing()["is"], "failed-auth");
    driven.touch("gate");
    driven.stage.until("its end", |stage| {
        let told = stage.ok(&["status"]);
        (told.contains("mail waits until ") && told.matches(remedy).count() == 1).then_some(())
    });
}

#[test]
fn a_book_that_does_not_read_is_put_aside_and_its_agent_goes_on() {
    let (driven, id) = in_a_turn("work on [[gate]]");
    let book = driven.stage.home().join("state/drivers/agent0.json");
    let drivers = driven.stage.program("netsky-drivers");
    driven.stage.signal(&drivers, Signal::STOP);
    std::fs::write(&book, "{ no book").expect("written");
    driven.stage.signal(&drivers, Signal::KILL);
    driven.touch("gate");
    driven.stage.until("the damaged one aside", |stage| {
        let names = stage.names("state/drivers");
        names.iter().any(|name| name.starts_with("agent0.json.damaged-")).then_some(())
    });
    // Nobody knows any more whose receipt that was; with the next program it is told again or found to be answered.
    driven.kill("agent0");
    driven.until_state(&id, "acked");
    assert_eq!(driven.turns_of(&id), 1);
    let next = driven.send("next");
    driven.until_state(&next, "acked");
}

#[test]
fn a_slot_that_gets_a_program_of_its_own_mind_takes_its_own_mail_again() {
    let driven = Driven::up();
    let first = driven.send("for the one");
    driven.until_state(&first, "acked");
    driven.stage.ok(&["down"]);
    let script =
        "netsky session up && exec netsky channel watch agent0 --no-ack -- sh -c 'cat >> $HOME/watched'";
    driven.stage.ok(&["up", "--runtime", "command", "--tick", "200ms", "--", "/bin/sh", "-c", script]);
    let second = driven.send("for the other");
    driven.stage.until("its reader", |_| {
        driven.lines("watched").iter().any(|line| line.contains(&second)).then_some(())
    });
    driven.stage.until("what its driver knew to be over", |stage| {
        stage.ok(&["agent", "show", "0"]).contains(": down").then_some(())
    });
    driven.stage.ok(&["down"]);
    driven.stage.ok(&[
        "up",
        "--runtime",
        "claude",
        "--tick",
        "200ms",
        "--",
        driven.file("claude").to_str().expect("text"),
    ]);
    let third = driven.send("for the first again");
    driven.until_state(&third, "acked");
    assert_eq!((driven.turns_of(&first), driven.turns_of(&third)), (1, 1));
    assert!(driven.lines("starts").last().expect("a start").contains("--resume"), "its conversation goes on");
}

#[test]
fn must_show_7_netsky_drivers_is_replaced_under_twenty_agents_in_mid_turn_and_nothing_is_lost_or_repeated() {
    let driven = Driven::many(19, "");
    let agents: Vec<String> = (0..20).map(|n| format!("agent{n}")).collect();
    let ids: Vec<String> = agents.iter().map(|agent| driven.sent_to(agent, &["work [[gate]]"])).collect();
    let states = |wanted: &str| {
        let is = |(agent, id): (&String, &String)| driven.envelope_of(agent, id) == (wanted.to_owned(), 1);
        agents.iter().zip(&ids).all(is).then_some(())
    };
    driven.stage.until("a turn of each", |_| states("delivered"));
    // A wish for it stays, so another process of it comes, of whatever build lies there by then.
    driven.kill("netsky-drivers");
    driven.touch("gate");
    driven.stage.until("an end of each", |_| states("acked"));
    assert!(ids.iter().all(|id| driven.turns_of(id) == 1));
}

#[test]
fn a_message_whose_book_was_lost_in_its_turn_is_finished_all_the_same() {
    let (driven, id) = in_a_turn("work on [[gate]]");
    let drivers = driven.stage.program("netsky-drivers");
    driven.stage.signal(&drivers, Signal::STOP);
    std::fs::write(driven.stage.home().join("state/drivers/agent0.json"), "{ no book").expect("written");
    driven.stage.signal(&drivers, Signal::KILL);
    driven.touch("gate");
    driven.until_state(&id, "acked");
    assert!((1..=2).contains(&driven.turns_of(&id)), "a repeat is flagged");
    let next = driven.send("next");
    driven.until_state(&next, "acked");
}
