//! Contexts that end: handoffs asked for, kept, and read by who comes next.

use netsky_disk::process::Signal;
use serde_json::Value;

use super::Driven;

impl Driven {
    /// The conversation that a start of the fake was for.
    fn conversations(&self) -> Vec<String> {
        let named = |line: String| {
            let word =
                |flag: &str| line.split(&format!("{flag} ")).nth(1)?.split(' ').next().map(str::to_owned);
            word("--session-id").or_else(|| word("--resume")).expect("each start names one")
        };
        self.lines("starts").into_iter().map(named).collect()
    }

    /// The texts of turns that were netsky's own words, in order.
    pub(super) fn own_words(&self) -> Vec<String> {
        let text = |line: String| {
            let line: Value = serde_json::from_str(&line).expect("one line of JSON");
            line["message"]["content"][0]["text"].as_str().expect("text").to_owned()
        };
        self.lines("turns").into_iter().map(text).filter(|text| text.starts_with("[netsky]")).collect()
    }

    fn until_own_words(&self, count: usize) -> Vec<String> {
        self.stage.until(&format!("{count} words of netsky's own"), |_| {
            Some(self.own_words()).filter(|words| words.len() >= count)
        })
    }

    pub(super) fn until_generation(&self, generation: u64) {
        self.stage.until(&format!("generation {generation}"), |stage| {
            let agent = stage.agent("agent0");
            (agent["generation"] == generation && agent["up"] == true).then_some(())
        });
    }

    /// One whose successor reads its handoff, and goes on with that as long as `hold-reader` is there.
    pub(super) fn with_a_reader() -> Driven {
        let driven = Driven::up();
        driven.touch("hold-reader");
        driven.send("grow [[context 185000]]");
        driven.until_generation(2);
        driven.until_doing("working");
        driven
    }

    /// At its last turn, which does what the files say.
    fn at_its_end(files: &[&str]) -> Driven {
        let driven = Driven::up();
        files.iter().for_each(|file| driven.touch(file));
        let id = driven.send("grow [[context 185000]]");
        driven.until_state(&id, "acked");
        driven.stage.until("its last turn", |stage| {
            let book = stage.json("state/drivers/agent0.json");
            (book["lifecycle"] == "draining").then_some(())
        });
        driven.until_doing("working");
        driven
    }

    pub(super) fn lets_go(&self, file: &str) {
        std::fs::remove_file(self.file(file)).expect("ours");
    }

    /// The successor of a conversation was told what that left.
    fn until_told_of(&self, conversation: &str) {
        self.stage.until("a successor that was told", |_| {
            let told = format!("handoff of {conversation} at ");
            self.own_words()
                .iter()
                .any(|words| words.contains("You take over") && words.contains(&told))
                .then_some(())
        });
    }

    /// What the journal says of handoffs: the step, and whose.
    fn handoffs(&self) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(self.stage.home().join(".ostk/journal.jsonl")).expect("there");
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a row"));
        rows.filter(|row| row["kind"] == "handoff" && row["session"] == "agent0")
            .map(|row| {
                (
                    row["data"]["is"].as_str().expect("a word").to_owned(),
                    row["data"]["of"].as_u64().expect("whose"),
                )
            })
            .collect()
    }

    pub(super) fn until_acknowledged(&self, of: u64) {
        self.stage.until(&format!("generation {of} to be reaped"), |_| {
            self.handoffs().contains(&("acknowledged".to_owned(), of)).then_some(())
        });
    }
}

#[test]
fn must_show_4_three_generations_by_context_pressure_each_with_the_handoff_of_the_one_before() {
    let driven = Driven::up();
    for generation in 1..=3 {
        let words = driven.own_words().len();
        let id = driven.send("grow [[context 150000]]");
        driven.until_state(&id, "acked");
        let asked = driven.until_own_words(words + 1).pop().expect("one");
        assert!(asked.contains("Your context is 75 % full, so a successor"), "{asked}");
        let id = driven.send("grow [[context 185000]]");
        driven.until_state(&id, "acked");
        let asked = driven.until_own_words(words + 2).pop().expect("one");
        assert!(asked.contains("Your context is 92 % full, and this is your last turn"), "{asked}");
        let waits = driven.send("for who comes next");
        driven.until_generation(generation + 1);
        let told = driven.until_own_words(words + 3).pop().expect("one");
        let conversations = driven.conversations();
        let former = &conversations[conversations.len() - 2];
        assert!(told.contains(&format!("You take over from generation {generation} of agent0")), "{told}");
        assert!(told.contains(&format!("handoff of {former} at 185000\n</handoff>")), "{told}");
        assert_eq!(driven.until_state(&waits, "acked"), 1, "it was put before nobody else");
        driven.until_acknowledged(generation);
    }
    let mut all = driven.conversations();
    all.dedup();
    assert_eq!(all.len(), 4, "each has its own");
    let steps: Vec<_> =
        driven.handoffs().into_iter().filter(|(_, of)| *of == 2).map(|(step, _)| step).collect();
    assert_eq!(steps, ["prepared", "written", "written", "acknowledged"]);
}

#[test]
fn fm_snapshot_kill_netsky_drivers_may_die_while_the_last_handoff_is_written() {
    let driven = Driven::at_its_end(&["hold"]);
    let later = driven.send("for who comes next");
    for _ in 0..2 {
        driven.kill("netsky-drivers");
        driven.stage.until("its successor", |stage| stage.agent("netsky-drivers")["pid"].as_u64().map(drop));
    }
    driven.kill("netsky-drivers");
    driven.lets_go("hold");
    driven.until_generation(2);
    driven.until_acknowledged(1);
    driven.until_state(&later, "acked");
    let words = driven.own_words();
    assert_eq!(words.len(), 2, "asked once and told once: {words:?}");
    assert!(words[1].contains(&format!("handoff of {} at 185000", driven.conversations()[0])), "{words:?}");
}

#[test]
fn t18_a_program_that_dies_in_its_last_turn_is_asked_again_on_the_same_conversation() {
    let driven = Driven::at_its_end(&["hold"]);
    let later = driven.send("for who comes next");
    driven.kill("agent0");
    driven.until_generation(2);
    driven.until_doing("working");
    driven.lets_go("hold");
    driven.until_generation(3);
    driven.until_acknowledged(2);
    driven.until_state(&later, "acked");
    let conversations = driven.conversations();
    assert_eq!((conversations.len(), &conversations[0]), (3, &conversations[1]), "{conversations:?}");
    assert_ne!(conversations[1], conversations[2]);
    let words = driven.own_words();
    assert!(words.last().expect("one").contains(&format!("handoff of {}", conversations[0])), "{words:?}");
}

#[test]
fn t18_a_successor_that_dies_while_it_reads_its_handoff_is_told_it_again() {
    let driven = Driven::with_a_reader();
    driven.kill("agent0");
    driven.lets_go("hold-reader");
    driven.until_generation(3);
    driven.until_acknowledged(1);
    let words = driven.own_words();
    assert!(words.last().expect("one").contains("You take over from generation 1"), "{words:?}");
    let next = driven.send("go on");
    driven.until_state(&next, "acked");
}

#[test]
fn fm_snapshot_kill_a_tick_that_dies_between_the_end_and_the_successor_leaves_neither_the_old_conversation_nor_nobody()
 {
    let driven = Driven::up();
    driven.stage.hold_triggers();
    driven.send("grow [[context 185000]]");
    let hits = driven.file("hits");
    driven.stage.until("a tick that ends there", |stage| {
        let mut tick = stage.command(&["watchdog", "tick"]);
        tick.env("NETSKY_FAULT", "watchdog.succeed.killed=kill").env("NETSKY_FAULT_LOG", &hits);
        tick.output().expect("it starts");
        hits.exists().then_some(())
    });
    for trigger in ["netsky-ticker", "agentinfinity"] {
        driven.stage.signal(&driven.stage.program(trigger), Signal::CONT);
    }
    driven.until_generation(2);
    driven.until_acknowledged(1);
    let conversations = driven.conversations();
    assert!(conversations.len() == 2 && conversations[0] != conversations[1], "{conversations:?}");
}

#[test]
fn a_program_that_compacts_itself_is_healthy_again_and_lives_on() {
    let driven = Driven::up();
    let program = driven.stage.program("agent0");
    let id = driven.send("grow [[context 150000]]");
    driven.until_state(&id, "acked");
    driven.until_own_words(1);
    let id = driven.send("shrink [[compact]]");
    driven.until_state(&id, "acked");
    driven.stage.until("a healthy context", |stage| {
        let lineage = stage.ok(&["agent", "show", "0", "--json"]);
        let book: Value = serde_json::from_str(&lineage).expect("one JSON object");
        (book["lifecycle"] == "healthy" && book["context_pct"] == 0).then_some(())
    });
    // It is asked anew when it is full again.
    let id = driven.send("grow [[context 150000]]");
    driven.until_state(&id, "acked");
    driven.until_own_words(2);
    assert_eq!(driven.stage.program("agent0"), program);
}

#[test]
fn t18_who_compacts_in_its_last_turn_and_dies_in_it_comes_to_its_end_all_the_same() {
    let driven = Driven::at_its_end(&["hold", "compacts"]);
    driven.stage.until("a smaller context", |stage| {
        (stage.json("state/drivers/agent0.json")["context_pct"] == 0).then_some(())
    });
    driven.kill("agent0");
    driven.until_generation(2);
    driven.until_doing("working");
    driven.lets_go("hold");
    driven.until_generation(3);
    driven.until_acknowledged(2);
}

#[test]
fn t18_a_last_turn_that_its_provider_fails_is_not_the_end() {
    let driven = Driven::at_its_end(&["fails", "hold"]);
    let first = driven.conversations()[0].clone();
    driven.lets_go("hold");
    driven.until_doing("idle");
    // A new program is tried at once.
    driven.kill("agent0");
    driven.until_told_of(&first);
    assert_eq!(driven.conversations()[1], first, "it was asked again where it knows what it did");
}

#[test]
fn t18_a_last_turn_that_the_owner_stops_is_asked_for_again() {
    let driven = Driven::at_its_end(&["stops"]);
    driven.stage.ok(&["agent", "interrupt", "0"]);
    driven.until_told_of(&driven.conversations()[0]);
}

/// What the owner says waits, for all that a driver that begins anew would do.
fn waits(driven: &Driven) -> String {
    let starts = |driven: &Driven| {
        driven.stage.ok(&["logs", "netsky-drivers"]).matches("netsky-drivers is ready").count()
    };
    let before = starts(driven);
    let urgent = driven.sent_to("agent0", &["stop that", "--kind", "owner"]);
    let met = driven.stage.json("state/drivers/agent0.json")["since"].clone();
    driven.stage.signal(&driven.stage.program("netsky-drivers"), Signal::KILL);
    driven.stage.until("its successor", |_| (starts(driven) > before).then_some(()));
    // Its first round takes a few milliseconds, and a look at the mail as many.
    for _ in 0..50 {
        assert_eq!(driven.envelope(&urgent), ("written".to_owned(), 1));
    }
    assert_eq!(driven.stage.json("state/drivers/agent0.json")["since"], met, "its turn goes on");
    urgent
}

#[test]
fn what_the_owner_says_waits_while_a_handoff_is_read_or_a_context_is_at_its_end() {
    let driven = Driven::with_a_reader();
    let urgent = waits(&driven);
    driven.lets_go("hold-reader");
    assert_eq!(driven.until_state(&urgent, "acked"), 1);
    let driven = Driven::up();
    let id = driven.send("first");
    driven.until_state(&id, "acked");
    driven.send("grow [[crosses]]");
    driven.stage.until("the end of its context in sight", |stage| {
        (stage.json("state/drivers/agent0.json")["lifecycle"] == "dying").then_some(())
    });
    let urgent = waits(&driven);
    driven.touch("gate");
    driven.until_generation(2);
    assert_eq!(driven.until_state(&urgent, "acked"), 1);
}

#[test]
fn t18_a_handoff_that_the_kernel_never_heard_is_told_from_the_book() {
    let driven = Driven::up();
    let id = driven.send("first");
    driven.until_state(&id, "acked");
    let first = driven.conversations()[0].clone();
    let (drivers, program, anchor) =
        (driven.stage.program("netsky-drivers"), driven.stage.program("agent0"), driven.stage.anchor());
    // What it has been told and not answered yet it hears later: one report, and not of this turn.
    driven.stage.signal(&anchor, Signal::STOP);
    driven.send("grow [[context 185000]]");
    driven.stage.until("the end of its context", |stage| {
        (stage.json("state/drivers/agent0.json")["lifecycle"] == "dead").then_some(())
    });
    for victim in [drivers, program] {
        driven.stage.signal(&victim, Signal::KILL);
    }
    driven.stage.signal(&anchor, Signal::CONT);
    driven.until_told_of(&first);
}

#[test]
fn that_a_handoff_was_read_is_told_again_by_the_next_netsky_drivers() {
    let driven = Driven::with_a_reader();
    let (drivers, anchor) = (driven.stage.program("netsky-drivers"), driven.stage.anchor());
    driven.stage.signal(&anchor, Signal::STOP);
    driven.lets_go("hold-reader");
    driven.stage.until("a reader who has it", |stage| {
        (stage.json("state/drivers/agent0.json")["left"]["read"] == true).then_some(())
    });
    driven.stage.signal(&drivers, Signal::KILL);
    driven.stage.signal(&anchor, Signal::CONT);
    driven.until_acknowledged(1);
}

#[test]
fn t18_after_a_planned_restart_the_handoff_is_the_first_word_to_the_new_agent0() {
    let driven = Driven::up();
    let first = driven.send("at work [[gate]]");
    driven.until_state(&first, "delivered");
    let second = driven.send("waits");
    let file = driven.file("handoff.md");
    std::fs::write(&file, "REMEMBER THE MILK").expect("written");
    driven.stage.ok(&["restart", "--handoff", file.to_str().expect("text")]);
    driven.until_generation(2);
    driven.touch("gate");
    for id in [&first, &second] {
        driven.until_state(id, "acked");
    }
    let turns = driven.lines("turns");
    let place = |text: &str| turns.iter().position(|line| line.contains(text)).expect(text);
    assert_eq!(place("REMEMBER THE MILK"), 0, "{turns:?}");
    assert!(place("at work") < place("waits</channel>"), "{turns:?}");
}

#[test]
fn must_show_6_words_of_netskys_own_that_are_given_back_each_time_wait_and_are_given_up() {
    let driven = Driven::up();
    driven.touch("takes-own");
    driven.send("grow [[context 185000]]");
    driven
        .stage
        .until("it waits", |stage| stage.agent("agent0")["driven"]["waits"].is_object().then_some(()));
    let taken = driven.lines("taken").len();
    assert!(taken <= 3, "{taken}");
    // Sooner than it would be.
    driven.stage.until("a successor", |stage| {
        stage.run(&["agent", "retry", "0"]);
        (stage.agent("agent0")["generation"] == 2).then_some(())
    });
    std::fs::remove_file(driven.file("takes-own")).expect("there");
    let id = driven.send("and you");
    driven.stage.until("it is read", |stage| {
        stage.run(&["agent", "retry", "0"]);
        (driven.envelope(&id).0 == "acked").then_some(())
    });
}
