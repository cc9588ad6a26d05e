//! What an inbox takes, from whom, and that the folder is the truth about it.

use std::time::Instant;

use netsky_bus::{Bus, Draft, Error};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::quota::Limits;
use netsky_model::witness::Nobody;

use crate::home::{Home, agent, draft, drain};

fn limited(home: &Home, limits: Limits) -> Bus<'static> {
    home.bus(&Nobody).with_limits(limits)
}

fn small() -> Limits {
    Limits { inbox_envelopes: 100, ..Limits::default() }
}

fn from(sender: &str) -> Draft {
    Draft { from: sender.parse().expect("valid"), ..draft("x") }
}

/// How many of so many sends are taken; the others must be refused for want of room.
fn taken(bus: &Bus<'_>, sender: &str, sends: usize) -> usize {
    let answers = bus.send_all((0..sends).map(|_| from(sender)).collect());
    let taken = answers.iter().filter(|answer| answer.is_ok()).count();
    for refused in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, Error::Full { .. }), "{refused}");
    }
    taken
}

#[test]
fn a24_a_flood_fills_a_share_and_the_reserve_stays() {
    let home = Home::new();
    let bus = limited(&home, small());
    for flooding in ["agent1", "agent2", "agent3"] {
        assert_eq!(taken(&bus, flooding, 60), 25, "{flooding}");
    }
    assert_eq!(taken(&bus, "agent4", 60), 15, "what nobody may take is left");
    assert_eq!(taken(&bus, "owner", 1), 1);
    assert_eq!(taken(&bus, "agentinfinity", 60), 9, "the reserve is bounded too");
    let full = bus.send(from("agent1")).expect_err("full").to_string();
    assert_eq!(
        full.split(" and ").next(),
        Some("the inbox of agent0 takes no more from agent1: it holds 100 of at most 90 envelopes")
    );
    assert_eq!(drain(&bus).len(), 100);
    assert_eq!(taken(&bus, "agent1", 30), 25, "a drained inbox takes mail again");
}

#[test]
fn a24_bytes_count_as_envelopes_do() {
    let home = Home::new();
    let bus = limited(&home, Limits { inbox_bytes: 400_000, ..Limits::default() });
    let large = || Draft { text: "x".repeat(40_000), ..draft("") };
    assert!(bus.send(large()).is_ok() && bus.send(large()).is_ok());
    assert!(matches!(bus.send(large()), Err(Error::Full { .. })), "a third is over a quarter");
    assert!(bus.send(draft("small")).is_ok());
}

#[test]
fn fm_send_kill_the_folder_is_the_truth_whatever_the_numbers_say() {
    let home = Home::new();
    let usage = home.layout.usage();
    // Senders that took room and died before they filled it.
    let ghosts = || {
        let bus = limited(&home, small());
        let unplaced = Draft { to: agent("agent7"), create: true, ..draft("x") };
        bus.send(unplaced.clone()).expect("made");
        let tmp = home.layout.channel_tmp(&unplaced.to);
        std::fs::remove_dir(&tmp).expect("empty");
        std::fs::write(&tmp, b"").expect("a file in its place takes no mail");
        for _ in 0..40 {
            let _ = bus.send(unplaced.clone()).expect_err("nothing can be placed");
        }
        std::fs::remove_file(&tmp).expect("there");
        std::fs::create_dir(&tmp).expect("back");
        std::fs::set_permissions(&tmp, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
        assert!(bus.send(unplaced).is_ok(), "one that lives is not refused for them");
    };
    ghosts();
    let bus = limited(&home, small());
    assert_eq!(taken(&bus, "agent1", 30), 25);
    // Lost, damaged or of another boot: the next send counts.
    for spoil in [None, Some(vec![0xff; 80]), Some(Vec::new())] {
        for file in std::fs::read_dir(&usage).expect("there").flatten() {
            match &spoil {
                None => std::fs::remove_file(file.path()).expect("there"),
                Some(bytes) => std::fs::write(file.path(), bytes).expect("ours"),
            }
        }
        let bus = limited(&home, small());
        let _ = bus.send(from("agent2"));
        assert_eq!(taken(&bus, "agent1", 3), 0, "{:?}", spoil.map(|bytes| bytes.len()));
    }
    assert!(home.names(State::Written).len() <= 28);
}

#[test]
fn a24_a_pair_that_is_too_fast_is_told_so_and_others_are_not() {
    let home = Home::new();
    let bus = limited(&home, Limits { rate_per_second: 1, burst: 3, ..Limits::default() });
    let began = Instant::now();
    let (mut sent, mut refused) = (0, None);
    while refused.is_none() {
        match bus.send(from("agent1")) {
            Ok(_) => sent += 1,
            Err(error) => refused = Some(error),
        }
    }
    assert!(matches!(refused, Some(Error::TooFast { rate: 1, burst: 3, .. })), "{refused:?}");
    // One more for each second that it took, on a machine that takes seconds for this.
    assert!((3..=3 + began.elapsed().as_secs()).contains(&sent), "{sent}");
    bus.send(from("agent2")).expect("another pair");
    for _ in 0..10 {
        bus.send(from("agentloop")).expect("a component");
    }
    assert_eq!(bus.count(&AgentId::root(), State::Written).expect("readable") as u64, sent + 11);
}

#[test]
fn a_duplicate_needs_no_room() {
    let home = Home::new();
    let bus = limited(&home, Limits { inbox_envelopes: 4, ..Limits::default() });
    let once = Draft { id: Some("job-1".parse().expect("valid")), ..draft("x") };
    assert!(!bus.send(once.clone()).expect("room").duplicate);
    assert!(matches!(bus.send(draft("more")), Err(Error::Full { .. })));
    assert!(bus.send(once).expect("it was sent").duplicate);
}
