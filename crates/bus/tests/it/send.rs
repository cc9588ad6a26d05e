//! `send`: durable or not at all, in an order that agrees with cause.

use netsky_bus::{Draft, Error};
use netsky_model::envelope::{Invalid, MAX_BYTES};
use netsky_model::hlc::Hlc;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::name::{Key, Name};
use netsky_model::witness::Nobody;

use crate::home::{Home, Memory, agent, draft, drain, placed};

#[test]
fn what_was_sent_is_one_whole_file_in_the_inbox() {
    let home = Home::new();
    let memory = Memory::default();
    let sent = home.bus(&memory).send(draft("gate is green")).expect("sent");
    let envelope = placed(&sent);
    assert_eq!((envelope.text.as_str(), envelope.from.as_str()), ("gate is green", "agent1"));
    assert_eq!(envelope.id, Some(sent.id));
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
    assert_eq!(*memory.0.borrow(), ["written 1"]);
}

#[test]
fn t26_an_unknown_target_is_refused_and_makes_no_folder() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let mut to_nobody = draft("x");
    to_nobody.to = agent("agent77");
    assert!(matches!(bus.send(to_nobody.clone()), Err(Error::UnknownTarget(_))));
    assert!(!home.layout.channel(&agent("agent77")).exists());
    to_nobody.create = true;
    bus.send(to_nobody.clone()).expect("made");
    to_nobody.create = false;
    bus.send(to_nobody).expect("known now");
}

#[test]
fn a_channel_that_lost_what_a_send_needs_gets_it_again_with_the_next_send() {
    let home = Home::new();
    let (bus, root) = (home.bus(&Nobody), AgentId::root());
    bus.create(&root).expect("made");
    let needed = [home.layout.folder(&root, State::Written), home.layout.channel_ids(&root)];
    for (folder, id) in needed.iter().zip(["one", "two"]) {
        std::fs::remove_dir_all(folder).expect("there");
        bus.send(Draft { id: Some(id.parse().expect("an id")), ..draft("x") }).expect("sent");
    }
    assert_eq!(home.counts(), [2, 0, 0, 0, 0]);
}

#[test]
fn fm_send_huge_is_refused_before_anything_is_written() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    let huge = draft(&"x".repeat(MAX_BYTES));
    assert!(matches!(bus.send(huge), Err(Error::Envelope(Invalid::TooLarge { .. }))));
    let mut label = draft("x");
    label.kind = Some("two words".to_owned());
    assert!(matches!(bus.send(label), Err(Error::Envelope(Invalid::Label { .. }))));
    assert_eq!(home.counts(), [0; 5]);
    assert_eq!(std::fs::read_dir(home.layout.channel_tmp(&AgentId::root())).expect("there").count(), 0);
}

#[test]
fn t5_a_wall_clock_that_steps_back_does_not_reorder() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let first = bus.send(draft("first")).expect("sent");
    // A name from the far future, as a wall clock far ahead would have left it; the clock starts above all of them.
    let ahead = Name::fresh(Key {
        hlc: Hlc(first.hlc.expect("placed").0 + (1 << 40)),
        id: "ahead".parse().expect("valid"),
    });
    let mut file = placed(&first);
    file.id = Some("ahead".parse().expect("valid"));
    file.text = "ahead".to_owned();
    let path = home.folder(State::Written).join(ahead.to_string());
    std::fs::write(path, file.to_bytes().expect("small")).expect("written");
    std::fs::remove_file(home.layout.state().join("clock")).expect("there");
    let last = home.bus(&Nobody).send(draft("last")).expect("sent");
    assert!(last.hlc.expect("placed") > ahead.key.hlc);
    let texts: Vec<String> = drain(&bus).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["first", "ahead", "last"]);
}

#[test]
fn t5_many_senders_get_distinct_names_and_each_keeps_its_order() {
    let home = Home::new();
    let (senders, each) = (8, 50);
    home.bus(&Nobody).create(&AgentId::root()).expect("made");
    std::thread::scope(|scope| {
        for sender in 0..senders {
            let home = &home;
            scope.spawn(move || {
                let bus = home.bus(&Nobody);
                for n in 0..each {
                    bus.send(draft(&format!("{sender} {n}"))).expect("sent");
                }
            });
        }
    });
    let seen = drain(&home.bus(&Nobody));
    assert_eq!(seen.len(), senders * each);
    for sender in 0..senders {
        let own: Vec<&str> =
            seen.iter().filter_map(|(text, _)| text.strip_prefix(&format!("{sender} "))).collect();
        let expected: Vec<String> = (0..each).map(|n| n.to_string()).collect();
        assert_eq!(own, expected, "sender {sender}");
    }
}

#[test]
fn a_channel_that_was_half_made_is_completed() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    for folder in ["tmp", "ids", "poison"] {
        std::fs::remove_dir(home.layout.channel(&AgentId::root()).join(folder)).expect("empty");
    }
    bus.send(draft("x")).expect("sent");
    assert_eq!(home.counts(), [1, 0, 0, 0, 0]);
    assert!(home.folder(State::Poisoned).is_dir());
}

#[test]
fn a_home_that_was_moved_gets_no_ghost_of_a_channel() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("its home is there");
    std::fs::rename(home.layout.home(), home.layout.home().with_extension("moved")).expect("ours");
    assert!(bus.create(&AgentId::root()).is_err());
    assert!(bus.create(&agent("agent7")).is_err());
    assert!(!home.layout.home().exists());
}

#[test]
fn channels_that_were_removed_with_all_their_mail_are_made_again() {
    let home = Home::new();
    std::fs::remove_dir_all(home.layout.home().join("channels")).expect("ours");
    home.bus(&Nobody).create(&AgentId::root()).expect("its home is there");
    assert!(home.folder(State::Poisoned).is_dir());
}

#[test]
fn t5_a_lost_clock_does_not_follow_a_name_from_the_far_future() {
    let home = Home::new();
    home.bus(&Nobody).send(draft("first")).expect("sent");
    std::fs::remove_file(home.layout.state().join("clock")).expect("there");
    for name in ["18446744073709551615-x.json", "09223372036854775807-y.json"] {
        std::fs::write(home.folder(State::Written).join(name), "{}").expect("written");
    }
    let before = home.names(State::Written)[0].clone();
    let sent = home.bus(&Nobody).send(draft("second")).expect("sent").hlc.expect("placed");
    let day = 24 * 60 * 60 * 1000;
    let first = netsky_model::name::Name::parse(&before).expect("ours").key.hlc;
    assert!(sent > first && sent.millis() < first.millis() + day, "{first} {sent}");
}

#[test]
fn a_clock_or_usage_file_that_was_moved_under_a_running_sender_is_used_no_more() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("one")).expect("sent");
    let usage =
        std::fs::read_dir(home.layout.usage()).expect("there").next().expect("one").expect("readable");
    for file in [home.layout.state().join("clock"), usage.path()] {
        std::fs::rename(&file, home.layout.state().join("elsewhere")).expect("moved");
        bus.send(draft("two")).expect("sent");
        assert!(file.exists(), "{} is left to itself, and others have another", file.display());
    }
}
