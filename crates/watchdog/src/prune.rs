//! Pruning, as part of the tick: what its readers are done with goes, each kind at its own age.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::{Dir, sweep_tmp};
use netsky_disk::state;
use netsky_runtime::TAG_NONCE;

use crate::context::Context;
use crate::error::Result;
use crate::markers;
use crate::observe::Observed;

/// What a writer that died left in a `tmp` folder: no write takes an hour.
const STRAY: Duration = Duration::from_secs(60 * 60);
/// Up proofs of sessions that are gone.
const PROOF: Duration = Duration::from_secs(60 * 60);
/// Most bytes of the log of triggered ticks: weeks of a quiet constellation.
const LOG: u64 = 1024 * 1024;
/// Newest statuses of restarts that are kept for people.
const STATUSES: usize = 20;

/// Prune. What cannot be removed now is tried by the next tick.
pub(crate) fn prune(cx: &Context<'_>, seen: &Observed) -> Result<()> {
    for folder in cx.layout.folders() {
        sweep(folder.join("tmp"), STRAY)?;
    }
    // What a restart under way hands over is spared whatever its age, and its status wherever its name sorts: a wall clock
    // that was set makes both look old.
    let is_under_way = seen.restart.is_some() || state::exists(cx.layout.restart_inflight())?;
    if !is_under_way {
        prune_statuses(cx)?;
    }
    markers::prune(cx.layout, is_under_way)?;
    let nonces: Vec<&String> =
        seen.sessions.values().filter_map(|session| session.tags.get(TAG_NONCE)).collect();
    remove(&Dir::make(cx.layout.up_folder())?, PROOF, |name| nonces.iter().any(|nonce| *nonce == name))?;
    let tokens: Vec<_> = seen.sessions.values().map(|s| cx.layout.token(&s.name, s.generation)).collect();
    let folder = Dir::make(cx.layout.tokens())?;
    remove(&folder, STRAY, |name| tokens.iter().any(|token| *token == folder.path().join(name)))?;
    turn_over(&cx.layout.watchdog_log())
}

/// Markers alone, for who has looked at nothing else.
pub(crate) fn prune_markers(cx: &Context<'_>) -> Result<()> {
    markers::prune(cx.layout, state::exists(cx.layout.restart_inflight())?)
}

/// Begin a log anew when it is full; the one before is kept.
fn turn_over(log: &Path) -> Result<()> {
    let full = log.metadata().is_ok_and(|meta| meta.len() > LOG);
    if let (true, Some(folder), Some(name)) = (full, log.parent(), log.file_name()) {
        let folder = Dir::open(folder)?;
        folder.rename_over(name, &folder, format!("{}.prev", name.to_string_lossy()))?;
    }
    Ok(())
}

/// The newest are kept.
fn prune_statuses(cx: &Context<'_>) -> Result<()> {
    let folder = Dir::make(cx.layout.restart_status_folder())?;
    // Ids begin with the second they were made in, so names sort by age.
    let names: Vec<String> = folder.names()?.into_iter().filter(|name| name.ends_with(".json")).collect();
    for name in names.iter().rev().skip(STATUSES) {
        folder.remove(name)?;
    }
    Ok(())
}

/// Remove the files of a folder that are older than `age`, but for those to keep.
fn remove(folder: &Dir, age: Duration, keep: impl Fn(&str) -> bool) -> Result<()> {
    for (name, old) in folder.ages()? {
        if old > age && !keep(&name.to_string_lossy()) {
            // What is no file was not put there by us and stays.
            let _ = folder.remove(&name);
        }
    }
    Ok(())
}

/// Remove the old files of a folder; one that is not there has none.
pub(crate) fn sweep(folder: PathBuf, age: Duration) -> Result<()> {
    match Dir::open(folder) {
        Ok(dir) => Ok(sweep_tmp(&dir, age).map(drop)?),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::context::in_a_home;
    use crate::decide::tests::{seen, underway};
    use crate::markers::ARCHIVE;

    #[test]
    fn t25_the_draft_of_a_restart_under_way_is_spared_whatever_its_age() {
        in_a_home(|cx| {
            let draft = cx.layout.crash_handoff(&"restart-1".parse().expect("valid"));
            state::write(&draft, b"what is known").expect("written");
            let old = SystemTime::now() - ARCHIVE - STRAY;
            std::fs::File::open(&draft).and_then(|file| file.set_modified(old)).expect("aged");
            let mut look = seen(Vec::new(), Vec::new());
            look.restart = Some(underway(netsky_model::restart::Kind::Crash, None, 2));
            prune(cx, &look).expect("pruned");
            assert!(draft.exists());
            look.restart = None;
            prune(cx, &look).expect("pruned");
            assert!(!draft.exists());
        });
    }

    #[test]
    fn a_folder_that_is_not_there_has_nothing_to_sweep() {
        assert!(sweep(PathBuf::from("/nowhere/at/all"), STRAY).is_ok());
    }
}
