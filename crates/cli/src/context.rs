//! What every verb may ask of its surroundings: the global options, the home, and who calls.

use std::cell::OnceCell;
use std::path::PathBuf;

use netsky_disk::env::{self, Caller};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Generation};

use crate::error::{Error, Kind};

/// The surroundings of one invocation.
pub(crate) struct Context {
    /// Print one JSON object instead of a sentence or a table.
    pub(crate) json: bool,
    /// The kernel root named with `--root` (only `ostk` has that option).
    #[expect(dead_code, reason = "read by the first verb of ostk")]
    pub(crate) root: Option<PathBuf>,
    home: OnceCell<Layout>,
}

impl Context {
    /// The surroundings of a `netsky` verb.
    pub(crate) fn netsky(json: bool) -> Self {
        Self { json, root: None, home: OnceCell::new() }
    }

    /// The surroundings of an `ostk` verb.
    pub(crate) fn ostk(json: bool, root: Option<PathBuf>) -> Self {
        Self { json, root, home: OnceCell::new() }
    }

    /// Where the home is, whether or not there is one.
    pub(crate) fn layout() -> Result<Layout, Error> {
        Layout::from_env().ok_or_else(|| {
            Error::new(Kind::Usage, "neither $NETSKY_HOME nor $HOME is set").hint("set one of them")
        })
    }

    /// The home, checked once: it is there, ours, closed to others, and of a format this program knows.
    pub(crate) fn home(&self) -> Result<&Layout, Error> {
        if let Some(layout) = self.home.get() {
            return Ok(layout);
        }
        let layout = Self::layout()?;
        Home::open(&layout)?;
        Ok(self.home.get_or_init(|| layout))
    }

    /// The home, if this invocation came to use it.
    pub(crate) fn used_home(&self) -> Option<&Layout> {
        self.home.get()
    }

    /// Who this process says it is.
    pub(crate) fn caller(&self) -> Caller {
        env::caller()
    }

    /// The generation that what is done for `agent` counts for: its session's own, none for anybody else.
    pub(crate) fn generation_of(&self, agent: &AgentId) -> Generation {
        match env::caller() {
            Caller::Inside { agent: Some(me), generation } if me == *agent => generation,
            _ => Generation::NONE,
        }
    }
}
