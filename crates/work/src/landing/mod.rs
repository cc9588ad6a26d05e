//! How a task's work lands, told to everybody whom it concerns: what `netsky workspace` and `netsky task harvest` do.
//!
//! Promise: each step is durable before the next: the fact that a harvest began, `main`, the fact that it landed, the closed task,
//! the messages, the push. Whoever harvests again after a death finds by `main` and the record what is missing, and does that once.
//! Leaves to others: what becomes of `main` (`harvest`), what a task may become (`task`), printing (`cli`).
//!
//! Reading order: [`Desk`] → `place` (where a task's work is, and where it goes) → `workspaces` → `harvest` → `story`, `tell`, `push`
//! → `queue`.

mod harvest;
mod place;
mod push;
mod queue;
mod story;
mod tell;
mod workspaces;

use std::path::Path;

use netsky_bus::Bus;
use netsky_disk::layout::Layout;
use netsky_ledger::{Fact, Facts};
use netsky_model::id::{AgentId, Sender, TaskId};
use netsky_model::task::{Actor, Task};
use netsky_runtime::Config;

pub use harvest::{Harvested, Wish};
pub use workspaces::{Consent, Created, Standing, Sweep};

use crate::Result;
use crate::git::Git;
use crate::task::Board;

/// The first argument by which a program of ours runs a gate: [`crate::gate::serve`].
pub const GATE: &str = "__gate";

/// What work lands with.
pub struct Desk<'a> {
    layout: &'a Layout,
    bus: &'a Bus<'a>,
    facts: Facts,
    board: Board,
    config: Config,
    git: Git,
    /// The program that runs a gate, with its first argument.
    helper: Vec<String>,
    /// Who asks, where an agent does.
    asker: Option<AgentId>,
}

impl<'a> Desk<'a> {
    /// Of a home; `netsky` is the program that answers to [`GATE`].
    ///
    /// # Errors
    /// `config.toml` does not read (a gate that is not known is not left out), or there is no git.
    pub fn open(layout: &'a Layout, bus: &'a Bus<'a>, netsky: &Path, actor: Actor) -> Result<Desk<'a>> {
        Ok(Desk {
            layout,
            bus,
            facts: Facts::new(layout),
            asker: actor.name().as_str().parse().ok(),
            board: Board::new(layout, actor),
            config: Config::load(layout)?,
            git: Git::find()?,
            helper: vec![crate::git::text(netsky)?.to_owned(), GATE.to_owned()],
        })
    }

    fn task(&self, id: &TaskId) -> Result<Task> {
        Ok(self.board.get(id)?.ok_or_else(|| crate::task::Error::Unknown(id.clone()))?)
    }

    /// Who had a task done: who dispatched it last, else who made it.
    fn asked_by(&self, task: &Task) -> Result<Sender> {
        let dispatches = netsky_ledger::latest(self.layout, "clone")?.into_values();
        let own = dispatches.filter(|fact| fact.data["task"] == task.id.as_str());
        let by = own.max_by_key(|fact| fact.seq).and_then(|fact| fact.data["by"].as_str()?.parse().ok());
        Ok(by.unwrap_or_else(|| task.by.clone()))
    }

    /// The newest fact of a key among those whose kind begins so.
    fn last(&self, family: &str, key: &str) -> Result<Option<Fact>> {
        Ok(netsky_ledger::latest(self.layout, family)?.remove(key))
    }
}
