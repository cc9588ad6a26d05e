//! The bus on a machine that refuses single calls.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use netsky_bus::{Bus, Draft, Error, Sent};
use netsky_disk::clock;
use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_disk::lock::{self, Lock};
use netsky_disk::sim::{self, Errno, Inside};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::witness::Nobody;
use netsky_sim::memory::{Call, Memory, Model, Refusal, Rng};

/// A machine with a home, and a thread that is on it.
fn machine() -> (Inside, Rc<Memory>, Layout) {
    let memory = Memory::new(1);
    let inside = sim::enter(memory.clone());
    let layout = Layout::new("/home");
    Home::init(&layout).expect("an empty disk");
    Bus::open(&layout, &Nobody).create(&AgentId::root()).expect("made");
    (inside, memory, layout)
}

fn send(layout: &Layout) -> netsky_bus::Result<Sent> {
    let from = "owner".parse().expect("valid");
    let draft = Draft::new(from, AgentId::root(), "x");
    Bus::open(layout, &Nobody).send(Draft { id: Some("job-1".parse().expect("valid")), ..draft })
}

#[test]
fn fm_send_eio_an_entry_whose_sync_failed_is_written_anew() {
    let (_inside, memory, layout) = machine();
    memory.refuse(Refusal { call: Call::Sync, part: "job-1", errno: Errno::IO, times: 1 });
    assert!(send(&layout).is_err(), "its entry is not durable");
    assert!(!send(&layout).expect("sent").duplicate);
    let entry = |folder: &Path, image: &netsky_sim::memory::Image| {
        let mut files = image.files(folder);
        files.find(|(name, _)| *name == "job-1").map(|(_, bytes)| bytes.to_vec())
    };
    let ids = layout.channel_ids(&AgentId::root());
    for image in memory.disk().cuts(Model::Worst, 256, &mut Rng::new(1)) {
        let says = entry(&ids, &image).unwrap_or_default();
        assert!(says.ends_with(b"-job-1.json\n"), "{:?}", String::from_utf8_lossy(&says));
    }
}

#[test]
fn t18_a_mark_that_cannot_be_written_fails_no_send_and_its_repeat_is_a_duplicate() {
    for errno in [Errno::NOSPC, Errno::MFILE, Errno::IO] {
        let (_inside, memory, layout) = machine();
        memory.refuse(Refusal { call: Call::Open, part: "job-1.done", errno, times: usize::MAX });
        assert!(!send(&layout).expect("it is durable").duplicate);
        assert!(send(&layout).expect("looked for").duplicate);
        let waits = Bus::open(&layout, &Nobody).count(&AgentId::root(), State::Written).expect("counted");
        assert_eq!(waits, 1);
    }
}

/// The lock of the home's clock, as a stopped process keeps it.
fn keep_the_clock(layout: &Layout) -> Lock {
    Lock::try_take(layout.state().join("clock.lock")).expect("it opens").expect("nobody has it")
}

/// How long something takes by the clock of the machine.
fn time(done: impl FnOnce()) -> Duration {
    let began = clock::boot();
    done();
    clock::boot() - began
}

fn is_kept<T>(answer: &netsky_bus::Result<T>) -> bool {
    matches!(answer, Err(Error::Disk(error)) if error.is_kept())
}

#[test]
fn t16_who_keeps_the_clock_is_waited_for_once_and_not_by_each_message_of_a_batch() {
    let (_inside, _memory, layout) = machine();
    let bus = Bus::open(&layout, &Nobody);
    let draft = |text: &str| Draft::new("owner".parse().expect("valid"), AgentId::root(), text);
    let stopped = keep_the_clock(&layout);
    let waited = time(|| {
        let answers = bus.send_all(["a", "b", "c"].map(draft).into());
        assert!(answers.len() == 3 && answers.iter().all(is_kept), "{answers:?}");
    });
    assert!(waited >= lock::PATIENCE && waited < lock::PATIENCE * 2, "{waited:?}");
    // After as long again it is looked at again.
    clock::pause(lock::PATIENCE);
    assert!(time(|| assert!(is_kept(&bus.send(draft("d"))))) >= lock::PATIENCE);
    // And as soon as nobody has it.
    drop(stopped);
    for text in ["e", "f"] {
        bus.send(draft(text)).expect("nobody has it");
    }
    assert_eq!(bus.count(&AgentId::root(), State::Written).expect("counted"), 2);
}

#[test]
fn t16_replies_that_wait_for_who_keeps_the_clock_end_the_go_and_lose_nothing() {
    let (_inside, _memory, layout) = machine();
    let bus = Bus::open(&layout, &Nobody);
    let agents = [AgentId::numbered(7), AgentId::numbered(8)];
    let reply = br#"{"from":"x","text":"t","ts":"2026-04-19T17:22:57Z"}"#;
    for agent in &agents {
        bus.create(agent).expect("made");
        let outbox = Dir::open(layout.outbox(agent)).expect("there");
        let tmp = Dir::open(layout.channel_tmp(agent)).expect("there");
        for name in ["r1", "r2"] {
            write_durable(&tmp, &outbox, name, reply, Place::New).expect("written");
        }
    }
    let stopped = keep_the_clock(&layout);
    let waited = time(|| {
        for agent in &agents {
            assert!(is_kept(&bus.carry_outbox(agent, &AgentId::root())));
        }
    });
    assert!(waited < lock::PATIENCE * 2, "{waited:?}");
    drop(stopped);
    clock::pause(lock::PATIENCE);
    for agent in &agents {
        assert_eq!(bus.carry_outbox(agent, &AgentId::root()).expect("carried").sent.count(), 2);
    }
}
