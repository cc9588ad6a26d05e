//! Retention: what has reached its end goes when its time is over, and nothing else does.

use std::cell::{Cell, RefCell};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use netsky_model::id::AgentId;
use netsky_model::life::{STATES, State};
use netsky_model::witness::{Nobody, Transition, Witness};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::home::{Home, OUTSIDE, draft};

fn me() -> AgentId {
    AgentId::root()
}

/// One envelope with a chosen id in each state.
fn home_with_all_states() -> Home {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::numbered(2)).expect("made");
    let send = |id: &str| {
        let mut draft = draft(id);
        draft.id = Some(id.parse().expect("valid"));
        bus.send(draft).expect("sent");
    };
    send("acked");
    bus.ack(&me(), "acked").expect("acked");
    send("forwarded");
    bus.forward(&me(), "forwarded", &AgentId::numbered(2), &me().into()).expect("forwarded");
    send("poisoned");
    for _ in 1..=5 {
        let _ = bus.drain(&me(), 1, OUTSIDE, |_| Err(std::io::Error::other("gone")));
    }
    send("delivered");
    bus.drain(&me(), 9, OUTSIDE, |_| Ok(())).expect("drained");
    send("written");
    home
}

#[test]
fn only_what_has_reached_its_end_and_its_time_is_removed() {
    let home = home_with_all_states();
    let bus = home.bus(&Nobody);
    for state in STATES {
        assert_eq!(bus.remove_finished(&me(), state, 9, |_| false).expect("looked").envelopes, 0);
    }
    assert_eq!(home.counts(), [1, 0, 1, 1, 1]);
    for state in STATES {
        let removed = bus.remove_finished(&me(), state, 9, |_| true).expect("removed").envelopes;
        let ends = [State::Acked, State::Forwarded, State::Poisoned].contains(&state);
        assert_eq!(removed, usize::from(ends), "{state}");
    }
    assert_eq!(home.counts(), [1, 0, 1, 0, 0]);
    assert_eq!(
        std::fs::read_dir(home.folder(State::Poisoned)).expect("there").count(),
        0,
        "no reason is left"
    );
}

/// What it was told of, and whether all of that was there still; refuses to keep any.
struct Refuses<'h>(&'h Home, RefCell<Vec<bool>>);

impl Witness for Refuses<'_> {
    fn saw(&self, _: &Transition) {}

    fn removed(&self, gone: &[Transition]) -> std::io::Result<()> {
        self.1.borrow_mut().push(self.0.names(State::Acked).len() == gone.len());
        Err(std::io::Error::other("full"))
    }
}

#[test]
fn i1_nothing_goes_that_is_not_told_before() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for n in 0..3 {
        let id = bus.send(draft(&n.to_string())).expect("sent").id;
        bus.ack(&me(), id.as_str()).expect("acked");
    }
    let refuses = Refuses(&home, RefCell::default());
    let failed = home.bus(&refuses).remove_finished(&me(), State::Acked, 9, |_| true);
    assert!(failed.expect_err("refused").to_string().contains("full"));
    assert_eq!(*refuses.1.borrow(), [true], "all at once, and before");
    assert_eq!(home.names(State::Acked).len(), 3);
}

#[test]
fn i3_the_reason_of_a_dead_letter_that_goes_is_told() {
    let home = home_with_all_states();
    let told = RefCell::new(Vec::new());
    let witness = Reasons(&told);
    let removed = home.bus(&witness).remove_finished(&me(), State::Poisoned, 9, |_| true).expect("removed");
    assert_eq!(removed.envelopes, told.borrow().len());
    assert!(!told.borrow().is_empty() && told.borrow().iter().all(Option::is_some), "{told:?}");
}

/// Keeps why what was removed had died.
struct Reasons<'a>(&'a RefCell<Vec<Option<String>>>);

impl Witness for Reasons<'_> {
    fn saw(&self, _: &Transition) {}

    fn removed(&self, seen: &[Transition]) -> std::io::Result<()> {
        self.0.borrow_mut().extend(seen.iter().map(|gone| gone.reason.clone()));
        Ok(())
    }
}

#[test]
fn a5_folders_among_the_dead_letters_keep_nothing_that_may_go() {
    let home = home_with_all_states();
    let bus = home.bus(&Nobody);
    for name in ["0-full/inside", "1-empty"] {
        std::fs::create_dir_all(home.folder(State::Written).join(name)).expect("made");
    }
    bus.drain(&me(), 9, OUTSIDE, |_| Ok(())).expect("drained");
    assert_eq!(home.names(State::Poisoned).len(), 3);
    let removed = bus.remove_finished(&me(), State::Poisoned, 9, |_| true).expect("removed");
    assert_eq!((removed.envelopes, removed.stuck.count()), (2, 1), "{removed:?}");
    assert_eq!(home.names(State::Poisoned), ["0-full"]);
}

#[test]
fn a5_what_cannot_be_removed_takes_no_room_from_what_can() {
    let home = home_with_all_states();
    let bus = home.bus(&Nobody);
    for name in ["0-0", "0-1", "0-2", "00000000000000000003-three-1.json", "00000000000000000004-four-1.json"]
    {
        std::fs::create_dir_all(home.folder(State::Poisoned).join(name).join("inside")).expect("made");
    }
    let removed = bus.remove_finished(&me(), State::Poisoned, 2, |_| true).expect("removed");
    assert_eq!((removed.envelopes, removed.stuck.count(), removed.more), (1, 5, false), "{removed:?}");
    assert_eq!(home.names(State::Poisoned).len(), 5);
}

/// Puts three dead letters before the others; what their reasons are is up to `reason`.
fn three_more(home: &Home, reason: impl Fn(&Path)) {
    for n in 0..3 {
        let letter = home.folder(State::Poisoned).join(format!("0000000000000000000{n}-more{n}-1.json"));
        std::fs::write(&letter, "x").expect("written");
        reason(&letter.with_extension("json.reason"));
    }
}

#[test]
fn i3_a5_dead_letters_whose_reasons_do_not_read_take_no_room_from_those_that_may_go() {
    let home = home_with_all_states();
    three_more(&home, |reason| {
        std::fs::write(reason, "why").expect("written");
        std::fs::set_permissions(reason, Permissions::from_mode(0o000)).expect("ours");
    });
    // In a thread of its own, which reads what is not its to read no more than anybody but root would.
    let pass = || {
        let own =
            CapabilitySets { effective: CapabilitySet::empty(), ..capabilities(None).expect("its own") };
        set_capabilities(None, own).expect("fewer");
        home.bus(&Nobody).remove_dead_letters(&me(), 2, |_| true, |_| true)
    };
    let removed =
        std::thread::scope(|threads| threads.spawn(pass).join()).expect("it ends").expect("removed");
    assert_eq!((removed.envelopes, removed.stuck.count(), removed.more), (1, 3, false), "{removed:?}");
    assert_eq!(home.names(State::Poisoned).len(), 3);
}

#[test]
fn a5_a_folder_in_the_place_of_a_reason_keeps_nothing_that_may_go() {
    let home = home_with_all_states();
    three_more(&home, |reason| std::fs::create_dir_all(reason.join("inside")).expect("made"));
    let removed = home.bus(&Nobody).remove_dead_letters(&me(), 9, |_| true, |_| true).expect("removed");
    assert_eq!((removed.envelopes, removed.stuck.count()), (4, 3), "{removed:?}");
    assert_eq!(home.names(State::Poisoned), [""; 0]);
}

#[test]
fn fm_owner_page_a_dead_letter_that_has_its_page_goes_from_behind_any_number_that_have_none() {
    let home = home_with_all_states();
    // More than one look takes in, and all of them before it.
    for number in 0..10_001 {
        std::fs::write(home.folder(State::Poisoned).join(format!("0-{number}")), "").expect("written");
    }
    let bus = home.bus(&Nobody);
    let removed = bus.remove_dead_letters(&me(), 9, |id| id == "poisoned", |_| true).expect("removed");
    assert_eq!((removed.envelopes, removed.more), (1, false), "{removed:?}");
    assert!(home.names(State::Poisoned).iter().all(|name| name.starts_with("0-")));
}

#[test]
fn a5_a_folder_in_the_place_of_a_note_keeps_nothing_else_that_may_go() {
    let home = home_with_all_states();
    let bus = home.bus(&Nobody);
    let other = bus.send(draft("x")).expect("sent").id;
    bus.ack(&me(), other.as_str()).expect("acked");
    let note = home.layout.channel_ids(&me()).join("acked.done");
    std::fs::remove_file(&note).expect("noted when it was acked");
    std::fs::create_dir_all(note.join("inside")).expect("made");
    let removed = bus.remove_finished(&me(), State::Acked, 9, |_| true).expect("removed");
    assert_eq!((removed.envelopes, removed.stuck.count()), (1, 1), "{removed:?}");
    assert_eq!(home.names(State::Acked).len(), 1);
}

/// Counts what it was told of.
struct Counts(Cell<usize>);

impl Witness for Counts {
    fn saw(&self, _: &Transition) {}

    fn removed(&self, gone: &[Transition]) -> std::io::Result<()> {
        self.0.set(self.0.get() + gone.len());
        Ok(())
    }
}

#[test]
fn a_folder_that_lets_nothing_go_is_told_of_no_more_than_one_pass_may() {
    let home = Home::new();
    for n in 0..5 {
        let id = home.bus(&Nobody).send(draft(&n.to_string())).expect("sent").id;
        home.bus(&Nobody).ack(&me(), id.as_str()).expect("acked");
    }
    let may = |mode| {
        std::fs::set_permissions(home.folder(State::Acked), Permissions::from_mode(mode)).expect("ours")
    };
    may(0o500);
    let counts = Counts(Cell::new(0));
    let removed = home.bus(&counts).remove_finished(&me(), State::Acked, 2, |_| true);
    may(0o700);
    let removed = removed.expect("the others may go");
    // Root may always.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(
        (removed.envelopes, removed.stuck.count()),
        if is_root { (2, 0) } else { (0, 2) },
        "{removed:?}"
    );
    assert_eq!(counts.0.get(), 2);
}

#[test]
fn one_pass_removes_as_many_as_it_may() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for n in 0..7 {
        let id = bus.send(draft(&n.to_string())).expect("sent").id;
        bus.ack(&me(), id.as_str()).expect("acked");
    }
    let first = bus.remove_finished(&me(), State::Acked, 3, |_| true).expect("removed");
    assert_eq!((first.envelopes, first.more), (3, true));
    assert_eq!(home.names(State::Acked).len(), 4);
    bus.remove_finished(&me(), State::Acked, 3, |_| true).expect("removed");
    let last = bus.remove_finished(&me(), State::Acked, 3, |_| true).expect("removed");
    assert_eq!((last.envelopes, last.more), (1, false));
}

#[test]
fn an_id_is_remembered_while_its_envelope_is_there_and_until_its_time_is_over() {
    let home = home_with_all_states();
    let bus = home.bus(&Nobody);
    let again = |id: &str| {
        let mut draft = draft("again");
        draft.id = Some(id.parse().expect("valid"));
        bus.send(draft).expect("answered").duplicate
    };
    assert_eq!(bus.forget_ids(&me(), None, 99, |_| true).expect("looked").0.ids, 0, "all are somewhere");
    bus.remove_finished(&me(), State::Acked, 9, |_| true).expect("removed");
    assert!(again("acked"), "its envelope is gone, its id is known");
    assert_eq!(bus.forget_ids(&me(), None, 99, |_| false).expect("looked").0.ids, 0);
    assert_eq!(bus.forget_ids(&me(), None, 99, |_| true).expect("forgotten").0.ids, 1);
    assert!(!again("acked"), "a new message");
    assert!(again("delivered"));
}

#[test]
fn a_sender_that_waits_for_a_forgotten_id_takes_it_anew() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    for round in 0..200 {
        let send = || {
            let mut draft = draft("x");
            draft.id = Some("job-1".parse().expect("valid"));
            home.bus(&Nobody).send(draft).expect("sent").duplicate
        };
        send();
        bus.ack(&me(), "job-1").expect("acked");
        bus.remove_finished(&me(), State::Acked, 9, |_| true).expect("removed");
        let placed: usize = std::thread::scope(|scope| {
            let forget = scope.spawn(|| drop(home.bus(&Nobody).forget_ids(&me(), None, 9, |_| true)));
            let senders: Vec<_> = (0..3).map(|_| scope.spawn(send)).collect();
            forget.join().expect("no panic");
            senders.into_iter().map(|sender| usize::from(!sender.join().expect("no panic"))).sum()
        });
        assert!(placed <= 1, "round {round}: {placed} placed");
        let there = home.names(State::Written).len();
        assert_eq!(there, placed, "round {round}");
        if there == 1 {
            bus.ack(&me(), "job-1").expect("acked");
            bus.remove_finished(&me(), State::Acked, 9, |_| true).expect("removed");
        }
        bus.forget_ids(&me(), None, 9, |_| true).expect("forgotten");
    }
}

#[test]
fn an_id_that_a_sender_touches_before_its_lock_is_taken_is_not_forgotten() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    let send = || {
        let mut draft = draft("x");
        draft.id = Some("job-1".parse().expect("valid"));
        bus.send(draft).expect("sent").duplicate
    };
    send();
    bus.ack(&me(), "job-1").expect("acked");
    bus.remove_finished(&me(), State::Acked, 9, |_| true).expect("removed");
    // Entry and mark are old at the first look, and not at the one under the lock.
    let looks = RefCell::new(0);
    let is_past = |_| {
        *looks.borrow_mut() += 1;
        *looks.borrow() <= 2
    };
    assert_eq!(bus.forget_ids(&me(), None, 9, is_past).expect("looked").0.ids, 0);
    assert!(send(), "its id is known");
}
