//! The board of a throwaway home.

mod claims;
mod lines;
mod moves;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Generation, Sender, TaskId};
use netsky_model::task::{Actor, Draft, Event, Task, Title};
use netsky_work::task::Board;

pub(crate) struct Home {
    _folder: tempfile::TempDir,
    pub(crate) layout: Layout,
}

pub(crate) fn home() -> Home {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::new(folder.path().join("home"));
    Dir::create(layout.record()).expect("made");
    Home { layout, _folder: folder }
}

impl Home {
    /// The board as the owner has it.
    pub(crate) fn board(&self) -> Board {
        Board::new(&self.layout, Actor::Keeper(Sender::owner()))
    }

    /// The board as an agent has it.
    pub(crate) fn board_of(&self, name: &str, generation: u64) -> Board {
        Board::new(&self.layout, Actor::Agent(agent(name), Generation(generation)))
    }

    pub(crate) fn create(&self, title: &str) -> Task {
        self.board().create(draft(title)).expect("made")
    }

    /// The kinds of all facts, with their keys.
    pub(crate) fn told(&self) -> Vec<String> {
        let facts = netsky_ledger::facts(&self.layout).expect("reads");
        facts.iter().map(|fact| format!("{} {}", fact.kind, fact.key)).collect()
    }
}

pub(crate) fn agent(name: &str) -> AgentId {
    name.parse().expect("an agent")
}

pub(crate) fn id(text: &str) -> TaskId {
    text.parse().expect("an id")
}

pub(crate) fn draft(title: &str) -> Draft {
    Draft::new(Title::try_from(title.to_owned()).expect("a title"))
}

pub(crate) fn claim(name: &str, generation: u64) -> Event {
    Event::Claimed { by: agent(name), generation: Generation(generation) }
}
