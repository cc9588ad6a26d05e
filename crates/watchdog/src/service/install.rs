//! Writing the files of a service and taking them away, and having its manager follow.
//!
//! Promise: one of them at a time for the units of a home, its calls of the manager included.

use std::path::{Path, PathBuf};

use netsky_disk::clock;
use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::lock::{Lock, PATIENCE};
use serde::Serialize;

use super::look::{folder, standing, wants};
use super::systemd::Names;
use super::{Error, File, Manager, Plan, Result, Standing, manager};

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Did {
    /// It is new.
    Wrote,
    /// It said something else before.
    Changed,
    /// It was as it should be.
    Unchanged,
    /// It is gone.
    Removed,
}

/// One file, and what became of it.
#[derive(Debug, Serialize)]
pub struct Placed {
    /// Where.
    pub path: PathBuf,
    /// What was done.
    pub did: Did,
}

impl Placed {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self.did {
            Did::Wrote => "wrote",
            Did::Changed => "changed",
            Did::Unchanged => "unchanged",
            Did::Removed => "removed",
        }
    }
}

/// Writes the files of a plan, and has them started unless told otherwise. What was written is in `placed`, also where the
/// rest failed.
///
/// # Errors
/// A file that is not ours, or was edited, unless by `force`: nothing is written then. Or its manager does not take them, or
/// another is at this.
pub fn install(
    plan: &Plan,
    manager: Manager,
    (force, start): (bool, bool),
    placed: &mut Vec<Placed>,
) -> Result<()> {
    let folder = folder(manager)?;
    // Before anything is looked at: what another changes meanwhile would be another's, or half of ours.
    let alone = Alone::take(plan, make(&folder)?)?;
    let (files, mut standings) = (plan.files(manager), Vec::new());
    for file in &files {
        standings.push(standing(&folder, file)?);
    }
    let paths: Vec<PathBuf> = files.iter().map(|file| folder.join(&file.name)).collect();
    refuse_others(&paths, &standings, force, "replaces")?;
    let dir = &alone.dir;
    sweep(dir, &files)?;
    for ((file, path), was) in files.iter().zip(&paths).zip(&standings) {
        let did = match was {
            Standing::Current => Did::Unchanged,
            Standing::Missing => Did::Wrote,
            _ => Did::Changed,
        };
        if did != Did::Unchanged {
            write_durable(dir, dir, &file.name, file.text.as_bytes(), Place::Over)?;
        }
        placed.push(Placed { path: path.clone(), did });
    }
    if !start {
        return Ok(());
    }
    let begin = manager::begin(plan, manager, &folder);
    manager::run(&begin).map_err(|why| no_manager("the units are written", manager, why, &begin))
}

fn no_manager(files: &'static str, manager: Manager, why: String, commands: &[Vec<String>]) -> Error {
    Error::NoManager { files, manager: manager.name(), why, later: manager::typed(commands) }
}

fn refuse_others(paths: &[PathBuf], standings: &[Standing], force: bool, forced: &'static str) -> Result<()> {
    let named = paths.iter().zip(standings).filter_map(|(path, standing)| match standing {
        Standing::Edited => Some(format!("{} was edited", path.display())),
        Standing::Foreign => Some(format!("{} is not of netsky and this home", path.display())),
        _ => None,
    });
    let files: Vec<String> = named.collect();
    if files.is_empty() || force { Ok(()) } else { Err(Error::NotOurs { files, forced }) }
}

/// Who has the units of a home to himself, by a lock. Its file stands beside them, since there may be no home yet, and goes with
/// it: whoever is killed leaves an empty one, which the next takes away.
struct Alone {
    dir: Dir,
    name: String,
    lock: Lock,
}

impl Alone {
    fn take(plan: &Plan, dir: Dir) -> Result<Alone> {
        let name = format!(".netsky{}.lock", plan.suffix);
        let (path, until) = (dir.path().join(&name), clock::boot() + PATIENCE);
        loop {
            let left = until.saturating_sub(clock::boot());
            let lock = Lock::take_within(&path, left)?.ok_or(Error::Busy(PATIENCE))?;
            // Whoever had it before took its file away.
            if lock.has_its_name()? {
                return Ok(Alone { dir, name, lock });
            }
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // While it is held.
        if self.lock.has_its_name().unwrap_or(false) {
            let _ = self.dir.remove(&self.name);
        }
    }
}

/// Removes what an install that was killed left half written beside its files; for who has them to himself.
fn sweep(dir: &Dir, files: &[File]) -> Result<()> {
    let is_left = |name: &str| files.iter().any(|file| name.strip_prefix(&file.name).is_some_and(is_draft));
    for name in dir.names()?.iter().filter(|name| is_left(name)) {
        dir.remove(name)?;
    }
    Ok(())
}

/// Whether that stands behind the name of a file in the name of its draft: `.<boot>-<…>`. A drop-in's folder ends in `.d`.
fn is_draft(rest: &str) -> bool {
    let boot = rest.strip_prefix('.').and_then(|rest| rest.split_once('-')).map(|(boot, _)| boot);
    boot.is_some_and(|boot| boot.len() == 8 && boot.chars().all(|c| c.is_ascii_hexdigit()))
}

/// A folder of the user's settings: made if it is missing, and others may look into it.
fn make(folder: &Path) -> Result<Dir> {
    match Dir::look_into(folder) {
        Err(error) if error.is_not_found() => {}
        opened => return Ok(opened?),
    }
    if let Some(above) = folder.parent() {
        make(above)?;
    }
    match Dir::make_new(folder) {
        Err(error) if error.is_exists() => Ok(Dir::look_into(folder)?),
        made => Ok(made?),
    }
}

/// Ends the service, and removes its files; agents live on.
///
/// # Errors
/// As of [`install`]. Where the manager does not answer the files are gone all the same.
pub fn uninstall(plan: &Plan, manager: Manager, force: bool, placed: &mut Vec<Placed>) -> Result<()> {
    let folder = folder(manager)?;
    let alone = match Dir::look_into(&folder) {
        Err(error) if error.is_not_found() => return Ok(()),
        opened => Alone::take(plan, opened?)?,
    };
    let mut there = Vec::new();
    for file in plan.files(manager) {
        let standing = standing(&folder, &file)?;
        if standing != Standing::Missing {
            there.push((file.name, standing));
        }
    }
    let (names, standings): (Vec<String>, Vec<Standing>) = there.into_iter().unzip();
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    refuse_others(&paths, &standings, force, "removes")?;
    // While it knows them: what has no file any more cannot be disabled.
    let (end, stop) = (manager::end(plan, manager), manager::stop(plan, manager));
    let ended = match names.is_empty() {
        true => {
            // What an uninstall left whose manager did not answer; who still does not answer may run nothing.
            if manager == Manager::Systemd && manager::is_of(&Names::of(&plan.suffix).ticker, &folder) {
                let _ = manager::run(&stop);
            }
            Ok(())
        }
        false => manager::run(&end),
    };
    for (name, path) in names.iter().zip(paths) {
        if alone.dir.remove(name)? {
            placed.push(Placed { path, did: Did::Removed });
        }
    }
    sweep(&alone.dir, &plan.files(manager))?;
    alone.dir.sync()?;
    if manager == Manager::Systemd {
        for link in wants(&Names::of(&plan.suffix)) {
            let link = folder.join(link);
            if let (Some(Ok(dir)), Some(name)) = (link.parent().map(Dir::look_into), link.file_name()) {
                dir.remove(name)?;
            }
        }
    }
    let reload = [manager::systemctl(&["daemon-reload"])];
    let told = match manager {
        Manager::Systemd if !names.is_empty() => ended.and_then(|()| manager::run(&reload)),
        _ => ended,
    };
    told.map_err(|why| no_manager("the units are removed", manager, why, &stop))
}
