//! A copy of the record in a folder of its own: the facts, the lines, and the database.
//!
//! Promise: a copy with its `backup.json` is whole and survives a power cut; facts are a prefix of what is recorded while
//! it is made. Of two that are made in one folder at once the second is refused. Envelopes are not copied: they are the bus's.

use std::path::Path;

use netsky_disk::clock;
use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::identity::FileId;
use netsky_disk::layout::Layout;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::facts::{file_name, numbers, torn};
use crate::{logs, meta};

/// Most bytes of a file that is copied.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Where files of a backup are before they are whole.
const TMP: &str = "tmp";

/// What was copied; `backup.json`, written last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// Format version.
    pub v: u64,
    /// When it was made.
    pub at: String,
    /// The home that it is of.
    pub home: String,
    /// Files of facts and of lines in it.
    pub files: usize,
    /// Whether there was a database to copy.
    pub database: bool,
}

/// Copies the record into a folder that is not there yet, or has nothing in it.
///
/// # Errors
/// The folder is in the home, or is there already; the database is damaged; a file cannot be read, or the disk refuses: what
/// was copied until then is removed, as far as that can be done.
pub fn backup(layout: &Layout, to: &Path) -> Result<Backup> {
    if netsky_disk::state::exists(to)? && !is_empty(to) {
        return Err(Error::Occupied(to.to_owned()));
    }
    if is_inside(to, layout.home())? {
        return Err(Error::Inside(to.to_owned()));
    }
    if let Some(db) = meta::readable(layout)? {
        meta::need_sound(&db)?;
    }
    let folder = Dir::create(to)?;
    // Whose it is, the folder is.
    let tmp = match Dir::make_new(to.join(TMP)) {
        Err(error) if error.is_exists() => return Err(Error::Occupied(to.to_owned())),
        made => made?,
    };
    let made = fill(layout, &folder, &tmp);
    if made.is_err() {
        // What is left has no `backup.json`.
        let _ = undo(&folder, &tmp);
    }
    made
}

fn fill(layout: &Layout, folder: &Dir, tmp: &Dir) -> Result<Backup> {
    let mut files = 0;
    let record = Dir::make(layout.record())?;
    let facts = numbers(&record)?.into_iter().map(file_name);
    for name in facts.chain(torn(&record)?) {
        copy(&record, tmp, folder, &name)?;
        files += 1;
    }
    for stem in [logs::TELEMETRY, logs::REFUSED] {
        for file in logs::files(layout, stem)? {
            copy(&Dir::open(layout.logs())?, tmp, folder, &file.name)?;
            files += 1;
        }
    }
    let database = meta::copy(layout, folder)?;
    let home = layout.home().display().to_string();
    let backup = Backup { v: 1, at: clock::wall().to_string(), home, files, database };
    let text = serde_json::to_vec_pretty(&backup).expect("a backup holds only plain data");
    write_durable(tmp, folder, "backup.json", &text, Place::New)?;
    Ok(backup)
}

/// Whether it is a folder of ours with nothing in it, as a backup that failed leaves it.
fn is_empty(folder: &Path) -> bool {
    Dir::open(folder).and_then(|dir| dir.names()).is_ok_and(|names| names.is_empty())
}

/// Removes what was made of a backup, but for the folder itself. Last what says whose that is: from then on it is another's.
fn undo(folder: &Dir, tmp: &Dir) -> netsky_disk::Result<()> {
    for dir in [tmp, folder] {
        for name in dir.names()?.iter().filter(|name| *name != TMP) {
            dir.remove_any(name)?;
        }
    }
    folder.remove_any(TMP).map(drop)
}

/// Whether a path that is not there yet would be below a folder, by whatever links it leads there.
fn is_inside(path: &Path, folder: &Path) -> Result<bool> {
    // With a dot behind it, so that a link is what it leads to.
    let itself = |path: &Path| FileId::at(path.join("."));
    let folder = itself(folder)?;
    for above in path.ancestors().skip(1) {
        let Some(mut here) = itself(above)? else { continue };
        let mut at = above.to_owned();
        // From here on as the disk has it, not as the path is spelled.
        while Some(here) != folder {
            at.push("..");
            match itself(&at)? {
                Some(up) if up != here => here = up,
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    Ok(false)
}

/// Copies the whole lines of a file of lines, and any other as it is.
fn copy(from: &Dir, tmp: &Dir, to: &Dir, name: &str) -> Result<()> {
    let path = from.path().join(name);
    let mut bytes = from.read(name, MAX_BYTES).map_err(|error| error.on("read", path))?;
    if name.ends_with(".jsonl") {
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
    }
    Ok(write_durable(tmp, to, name, &bytes, Place::New)?)
}
