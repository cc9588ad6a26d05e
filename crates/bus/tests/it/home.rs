//! A throwaway home with a bus, and the questions tests ask of it.

use std::cell::RefCell;
use std::path::PathBuf;

use netsky_bus::{Bus, Draft, Sent};
use netsky_disk::home::Home as HomeFile;
use netsky_disk::layout::Layout;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::witness::{Transition, Witness};

pub(crate) const OUTSIDE: Generation = Generation::NONE;

pub(crate) fn agent(text: &str) -> AgentId {
    text.parse().expect("a valid id")
}

pub(crate) fn draft(text: &str) -> Draft {
    Draft::new(agent("agent1").into(), AgentId::root(), text)
}

/// A home that is gone when the test ends.
pub(crate) struct Home {
    pub(crate) layout: Layout,
    _folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        // In memory where that is there and no other place is said: nothing here cuts the power, so a disk would only be
        // slow.
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() && std::env::var_os("TMPDIR").is_none() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let folder = folder.expect("a temporary folder");
        let layout = Layout::new(folder.path().join("home"));
        HomeFile::init(&layout).expect("an empty place");
        Home { layout, _folder: folder }
    }

    pub(crate) fn bus<'w>(&self, witness: &'w dyn Witness) -> Bus<'w> {
        Bus::open(&self.layout, witness)
    }

    pub(crate) fn folder(&self, state: State) -> PathBuf {
        self.layout.folder(&AgentId::root(), state)
    }

    /// Names in one folder of agent0, sorted, reasons left out.
    pub(crate) fn names(&self, state: State) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.folder(state)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|name| !name.ends_with(".reason"));
        names.sort();
        names
    }

    /// How many files of agent0 are in inbox, claimed, delivered, acked and poison.
    pub(crate) fn counts(&self) -> [usize; 5] {
        [State::Written, State::Claimed, State::Delivered, State::Acked, State::Poisoned]
            .map(|state| self.names(state).len())
    }

    pub(crate) fn reason(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder(State::Poisoned).join(format!("{name}.reason")))
            .expect("a reason")
    }

    /// Renames a file as another process would.
    pub(crate) fn forge(&self, from: (State, &str), to: (State, &str)) {
        std::fs::rename(self.folder(from.0).join(from.1), self.folder(to.0).join(to.1))
            .expect("both folders exist");
    }
}

/// Drains all of agent0; the texts and attempts in order.
pub(crate) fn drain(bus: &Bus<'_>) -> Vec<(String, u32)> {
    let mut seen = Vec::new();
    bus.drain(&AgentId::root(), usize::MAX, OUTSIDE, |claim| {
        seen.push((claim.envelope().text.clone(), claim.attempt()));
        Ok(())
    })
    .expect("a drain that works");
    seen
}

/// What was placed by a send.
pub(crate) fn placed(sent: &Sent) -> Envelope {
    let path = sent.path.as_ref().expect("placed");
    Envelope::parse(&std::fs::read(path).expect("there")).expect("whole")
}

/// Remembers what it was told.
#[derive(Default)]
pub(crate) struct Memory(pub(crate) RefCell<Vec<String>>);

impl Witness for Memory {
    fn saw(&self, seen: &Transition) {
        self.0.borrow_mut().push(format!("{} {}", seen.to, seen.attempt));
    }

    fn surfaced(&self, seen: &Transition) {
        self.0.borrow_mut().push(format!("surfaced {}", seen.attempt));
    }
}
