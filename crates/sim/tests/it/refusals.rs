//! The bus on a machine that refuses single calls.

use std::path::Path;
use std::rc::Rc;

use netsky_bus::{Bus, Draft, Sent};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
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
