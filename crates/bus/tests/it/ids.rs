//! Chosen ids: one envelope, whatever happened to earlier senders.

use netsky_bus::{Draft, Sent};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::quota::Limits;
use netsky_model::witness::Nobody;

use crate::home::{Home, draft, drain};

fn chosen(text: &str) -> Draft {
    Draft { id: Some("job-1".parse().expect("valid")), ..draft(text) }
}

fn send(home: &Home, text: &str) -> Sent {
    home.bus(&Nobody).send(chosen(text)).expect("sent")
}

#[test]
fn a_second_send_of_an_id_places_nothing_wherever_the_first_one_is() {
    let home = Home::new();
    assert!(!send(&home, "first").duplicate);
    assert!(send(&home, "again").duplicate);
    assert_eq!(drain(&home.bus(&Nobody)), [("first".to_owned(), 1)]);
    assert!(send(&home, "after the drain").duplicate);
    home.bus(&Nobody).ack(&AgentId::root(), "job-1").expect("there");
    assert!(send(&home, "after the ack").duplicate);
    assert_eq!(home.counts(), [0, 0, 0, 1, 0]);
}

#[test]
fn an_id_that_was_made_for_a_message_is_not_sent_a_second_time() {
    let home = Home::new();
    let made = home.bus(&Nobody).send(draft("first")).expect("sent").id;
    let again = |text: &str| {
        home.bus(&Nobody).send(Draft { id: Some(made.clone()), ..draft(text) }).expect("answered")
    };
    assert!(again("again").duplicate);
    assert_eq!(drain(&home.bus(&Nobody)), [("first".to_owned(), 1)]);
    assert!(again("after the drain").duplicate);
    assert_eq!(home.counts(), [0, 0, 1, 0, 0]);
    let full = Limits { inbox_envelopes: 1, ..Limits::default() };
    home.bus(&Nobody).send(draft("second")).expect("sent");
    let bus = home.bus(&Nobody).with_limits(full);
    let again = bus.send(Draft { id: Some(made), ..draft("into a full inbox") });
    assert!(again.expect("it needs no room").duplicate);
    let ids = home.layout.channel_ids(&AgentId::root());
    assert_eq!(std::fs::read_dir(ids).expect("a folder").count(), 0, "no entry names what was never placed");
}

#[test]
fn an_id_outlives_its_envelope() {
    let home = Home::new();
    let sent = send(&home, "first");
    // As retention will do one day.
    std::fs::remove_file(sent.path.expect("placed")).expect("there");
    assert!(send(&home, "again").duplicate);
    assert_eq!(home.counts(), [0; 5]);
}

#[test]
fn t3_t18_a_sender_that_died_before_placing_is_completed_under_its_name() {
    let home = Home::new();
    let sent = send(&home, "first");
    let name = home.names(State::Written).remove(0);
    let ids = home.layout.channel_ids(&AgentId::root());
    // As if killed after the reservation and before the envelope.
    std::fs::remove_file(sent.path.expect("placed")).expect("there");
    std::fs::remove_file(ids.join("job-1.done")).expect("there");
    assert!(!send(&home, "again").duplicate);
    assert_eq!(home.names(State::Written), [name]);
    assert!(ids.join("job-1.done").exists());
}

#[test]
fn t3_t18_a_sender_that_died_after_placing_is_completed_without_a_second_envelope() {
    for state in ["written", "delivered"] {
        let home = Home::new();
        send(&home, "first");
        if state == "delivered" {
            drain(&home.bus(&Nobody));
        }
        let ids = home.layout.channel_ids(&AgentId::root());
        std::fs::remove_file(ids.join("job-1.done")).expect("there");
        assert!(send(&home, "again").duplicate, "{state}");
        assert_eq!(home.counts().iter().sum::<usize>(), 1, "{state}");
        assert!(ids.join("job-1.done").exists());
    }
}

#[test]
fn a_reservation_whose_name_was_torn_is_taken_anew() {
    for torn in ["", "0000000000000", "00000000000000000042-job-1.json", "00000000000000000042-other.json\n"]
    {
        let home = Home::new();
        home.bus(&Nobody).create(&AgentId::root()).expect("made");
        std::fs::write(home.layout.channel_ids(&AgentId::root()).join("job-1"), torn).expect("written");
        assert!(!send(&home, "first").duplicate, "{torn:?}");
        assert!(send(&home, "again").duplicate, "{torn:?}");
        assert_eq!(home.counts(), [1, 0, 0, 0, 0], "{torn:?}");
    }
}

#[test]
fn fm_send_two_racers_of_one_id_place_one_envelope() {
    let home = Home::new();
    home.bus(&Nobody).create(&AgentId::root()).expect("made");
    for round in 0..20 {
        let id = format!("race-{round}");
        let placed: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|_| {
                    let draft = Draft { id: Some(id.parse().expect("valid")), ..draft("x") };
                    let home = &home;
                    scope.spawn(move || usize::from(!home.bus(&Nobody).send(draft).expect("sent").duplicate))
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
        });
        assert_eq!(placed, 1, "{id}");
    }
    assert_eq!(home.counts(), [20, 0, 0, 0, 0]);
}

#[test]
fn t18_a_duplicate_without_its_mark_needs_no_room() {
    let home = Home::new();
    let limits = Limits { inbox_envelopes: 4, share_percent: 25, burst: 100_000, ..Limits::default() };
    let send = || {
        let draft = Draft { id: Some("job-1".parse().expect("valid")), ..draft("x") };
        home.bus(&Nobody).with_limits(limits).send(draft).expect("sent").duplicate
    };
    assert!(!send());
    std::fs::remove_file(home.layout.channel_ids(&AgentId::root()).join("job-1.done")).expect("there");
    assert!(send(), "its sender's share is used up");
}
