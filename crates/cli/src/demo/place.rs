//! Where a demo happens: one throwaway folder with a home, a copy of the repository, and settings of git of its own.

use std::path::{Path, PathBuf};

use netsky_disk::fs::{self, Dir};
use netsky_disk::layout::Layout;
use netsky_disk::{state, throwaway};

use crate::error::Error;

/// What git is told instead of the user's and the system's settings: no hook runs, and a repository that belongs to
/// somebody else (a mounted one) may be read.
const GITCONFIG: &str = "[core]\n\thooksPath = /dev/null\n[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n\
    [user]\n\tname = netsky demo\n\temail = demo@netsky.invalid\n[commit]\n\tgpgSign = false\n[gc]\n\tauto = 0\n\
    [maintenance]\n\tauto = false\n[advice]\n\tdetachedHead = false\n";

/// The folder of one demo.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    folder: PathBuf,
}

impl Place {
    /// Makes one.
    pub(crate) fn create() -> Result<Place, Error> {
        let place = Place { folder: throwaway::create("netsky-demo-")? };
        state::write(place.gitconfig(), GITCONFIG.as_bytes())?;
        Ok(place)
    }

    /// One that is there.
    pub(crate) fn at(folder: &Path) -> Place {
        Place { folder: folder.to_owned() }
    }

    /// Writes a file of a repository; its scratch stays outside of it.
    pub(crate) fn put(&self, repository: &Path, file: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = repository.join(file);
        let folder = Dir::create(path.parent().unwrap_or(repository))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(file);
        Ok(fs::write_durable(&Dir::create(self.folder.join("tmp"))?, &folder, name, bytes, fs::Place::Over)?)
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The home of the demo's constellation.
    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.folder.join("home"))
    }

    /// What is copied where nobody has a repository.
    pub(crate) fn made(&self) -> PathBuf {
        self.folder.join("made")
    }

    /// The copy of the repository, which the clones' work lands in.
    pub(crate) fn origin(&self) -> PathBuf {
        self.folder.join("origin")
    }

    /// Where real programs work: an empty folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Git's settings.
    pub(crate) fn gitconfig(&self) -> PathBuf {
        self.folder.join("gitconfig")
    }

    /// Held by agent0 for its life: a second one would not get it.
    pub(crate) fn root_lock(&self) -> PathBuf {
        self.folder.join("agent0.lock")
    }

    /// Where a second agent0 says that it was one.
    pub(crate) fn second_root(&self) -> PathBuf {
        self.folder.join("second-agent0")
    }

    /// What only the demo knows, for `netsky check`.
    pub(crate) fn facts(&self) -> PathBuf {
        self.folder.join("facts.json")
    }

    /// What the owner was told, a page or a digest a line.
    pub(crate) fn told(&self) -> PathBuf {
        self.folder.join("told.jsonl")
    }
}
