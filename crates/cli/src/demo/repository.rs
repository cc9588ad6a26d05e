//! The repository that the clones' work lands in: a copy of the one that was named, of the one we stand in, or of one made
//! for the purpose.
//!
//! Promise: the original is only read, and only by git itself.

use std::path::{Path, PathBuf};

use crate::demo::place::Place;
use crate::demo::programs::git;
use crate::error::{Error, Kind};

/// What was copied.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Repository {
    /// Where from; none for one that was made.
    pub(crate) source: Option<PathBuf>,
    /// The commit that the clones start from.
    pub(crate) head: String,
    /// Files in that commit.
    pub(crate) files: usize,
}

/// A small project with things to count and things left to do.
const MADE: [(&str, &str); 6] = [
    (
        "README.md",
        "# Weather station\n\nReads a sensor and keeps a log.\n\nTODO: say how to wire the sensor\n",
    ),
    (
        "src/main.rs",
        "mod sensor;\n\nfn main() {\n    // TODO: read the interval from the settings\n    println!(\"{}\", sensor::read());\n}\n",
    ),
    (
        "src/sensor.rs",
        "/// Degrees.\npub fn read() -> f64 {\n    // TODO: this is the same temperature all year\n    21.5\n}\n",
    ),
    (
        "tools/plot.py",
        "import sys\n\n# TODO: axes\nfor line in sys.stdin:\n    print('*' * int(float(line)))\n",
    ),
    (
        "tools/plot-old.py",
        "import sys\n\n# TODO: axes\nfor line in sys.stdin:\n    print('*' * int(float(line)))\n",
    ),
    ("data/june.csv", "day,degrees\n1,19.0\n2,21.5\n3,24.0\n"),
];

/// Copies the repository at `named`, else the one around the working folder, else makes one.
pub(crate) fn prepare(place: &Place, named: Option<&Path>) -> Result<Repository, Error> {
    // Without git every folder would look like no repository.
    git(place, place.folder(), ["--version"])?;
    let source = match named {
        Some(path) => Some(root_of(place, path).ok_or_else(|| {
            Error::new(
                Kind::Usage,
                format!("{} is no git repository with a commit and its whole history", path.display()),
            )
            .hint("name another with --repo")
        })?),
        None => std::env::current_dir().ok().and_then(|here| root_of(place, &here)),
    };
    match &source {
        Some(source) => copy(place, source)?,
        None => copy(place, &make(place)?)?,
    }
    let head = text(&git(place, &place.origin(), ["rev-parse", "HEAD"])?);
    let listed = git(place, &place.origin(), ["ls-tree", "-r", "-z", "--name-only", "HEAD"])?;
    Ok(Repository { source, head, files: listed.iter().filter(|byte| **byte == 0).count() })
}

/// Copies a repository's present commit, whatever its branch is called, as the `main` of one without files; nothing is
/// shared with the original.
fn copy(place: &Place, source: &Path) -> Result<(), Error> {
    let options = ["clone", "--quiet", "--bare", "--no-local", "--single-branch", "--no-tags", "--template="];
    let origin = place.origin();
    let arguments = options.iter().map(Path::new).chain([Path::new("--"), source, origin.as_path()]);
    git(place, place.folder(), arguments)?;
    git(place, &origin, ["update-ref", "refs/heads/main", "HEAD"])?;
    git(place, &origin, ["symbolic-ref", "HEAD", "refs/heads/main"]).map(drop)
}

/// The root of the repository around a folder, if it has a commit and all that came before; a bare one is its own root.
fn root_of(place: &Place, folder: &Path) -> Option<PathBuf> {
    git(place, folder, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).ok()?;
    // Work does not land on a history that was cut.
    let is_shallow = git(place, folder, ["rev-parse", "--is-shallow-repository"]).ok()?;
    if text(&is_shallow) == "true" {
        return None;
    }
    let top = git(place, folder, ["rev-parse", "--show-toplevel"])
        .or_else(|_| git(place, folder, ["rev-parse", "--absolute-git-dir"]));
    top.ok().map(|top| PathBuf::from(text(&top)))
}

fn make(place: &Place) -> Result<PathBuf, Error> {
    let made = place.made();
    for (name, content) in MADE {
        place.put(&made, name, content.as_bytes())?;
    }
    git(place, &made, ["init", "--quiet", "--template="])?;
    git(place, &made, ["add", "."])?;
    git(place, &made, ["commit", "--quiet", "-m", "A weather station"])?;
    Ok(made)
}

/// A line that git printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
