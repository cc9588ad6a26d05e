//! Dispatches of a throwaway home: what a report does while its brief is still in its reader's hands.

use std::time::Duration;

use netsky_bus::{Bus, Put};
use netsky_disk::clock;
use netsky_model::dispatch::{Ask, Seen, Verdict};
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::life::State;
use netsky_model::witness::Nobody;
use netsky_work::dispatch::{Dispatches, Speaker};

use crate::task::home;

const FIRST: Generation = Generation(1);

#[test]
fn a24_a_report_below_the_reader_of_its_brief_waits_for_nobody_and_the_reader_ends_the_brief() {
    let home = home();
    netsky_disk::fs::Dir::make(home.layout.state()).expect("made");
    let (bus, board) = (Bus::open(&home.layout, &Nobody), home.board());
    let (agent, task) = (AgentId::numbered(1), home.create("one").id);
    let seen = [Seen {
        agent: agent.clone(),
        is_wanted: true,
        is_stopped: false,
        generation: FIRST,
        lives: true,
        is_up: true,
        mail: 0,
        runtime: None,
    }];
    let ask = Ask { agent: None, runtime: None, most: 1, highest: 1 };
    let dispatches = Dispatches::new(&home.layout, &bus, &board);
    let decided = dispatches.decide(&task, &Sender::owner(), &ask, &seen).expect("decided");
    bus.create(&agent).expect("it has a mailbox");
    dispatches.brief(&decided, FIRST).expect("briefed");
    let claim = bus.claim(&agent, 1, FIRST).expect("claimed").claims.remove(0);
    let by = Speaker { agent: agent.clone(), generation: Some(FIRST), newest: Some(FIRST), is_proved: false };
    let asked = clock::boot();
    dispatches.report(&by, Some(&task), Verdict::Done, "it is there").expect("reported");
    assert!(clock::boot() - asked < Duration::from_secs(3), "all others waited for as long");
    assert!(!home.layout.dispatch(&task).exists(), "it is over");
    bus.surface(claim, FIRST, |_| Put::Taken).expect("still its reader's");
    assert_eq!(bus.count(&agent, State::Delivered).expect("reads"), 1, "it ends by its turn");
}
