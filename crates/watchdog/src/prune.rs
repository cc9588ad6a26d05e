//! Pruning, as part of the tick: what its readers are done with goes, each kind at its own age.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::{Dir, sweep_tmp};
use netsky_disk::state;
use netsky_kernel::rpc::SessionView;
use netsky_model::id::Nonce;
use netsky_runtime::{TAG_NONCE, UpProof};

use crate::context::Context;
use crate::error::Result;
use crate::markers;
use crate::observe::Observed;

/// What a writer that died left in a `tmp` folder: no write takes an hour.
const STRAY: Duration = Duration::from_secs(60 * 60);
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
    prune_proofs(cx, seen)?;
    let tokens: Vec<_> = seen.sessions.values().map(|s| cx.layout.token(&s.name, s.generation)).collect();
    let folder = Dir::make(cx.layout.tokens())?;
    let is_kept = |name: &str| tokens.iter().any(|token| *token == folder.path().join(name));
    remove(&folder, |name, old| old > STRAY && !is_kept(name))?;
    turn_over(&cx.layout.watchdog_log())
}

/// Proofs of sessions that are over. Of those that this look cannot know, which came behind it, none goes; nor does that of an end
/// that an `up` may not have seen yet, or of a restart that is not verified.
fn prune_proofs(cx: &Context<'_>, seen: &Observed) -> Result<()> {
    let folder = Dir::make(cx.layout.up_folder())?;
    let nonce = |session: &'_ SessionView| session.tags.get(TAG_NONCE).cloned();
    let (living, ended): (Vec<_>, Vec<_>) =
        seen.sessions.values().partition(|session| session.state.may_live());
    // Of one whose description does not read nobody knows which proof is its own.
    if living.iter().any(|session| session.name.number().is_some() && nonce(session).is_none()) {
        return Ok(());
    }
    let mut kept: BTreeSet<String> = living.into_iter().filter_map(nonce).collect();
    let status = seen.restart.as_ref().and_then(|under| under.status.as_ref());
    kept.extend(status.into_iter().flat_map(|status| &status.agents).map(|new| new.nonce.to_string()));
    let ended: BTreeSet<String> = ended.into_iter().filter_map(nonce).collect();
    let is_over = |name: &str, old: Duration| match name.parse::<Nonce>() {
        Ok(_) => {
            seen.proofs.contains(name)
                && !kept.contains(name)
                && (old > UpProof::KEPT || !ended.contains(name))
        }
        Err(_) => old > STRAY,
    };
    remove(&folder, is_over)
}

/// All proofs, for who has seen that nobody lives.
pub(crate) fn prune_all_proofs(cx: &Context<'_>) -> Result<()> {
    remove(&Dir::make(cx.layout.up_folder())?, |name, _| name.parse::<Nonce>().is_ok())
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

/// Remove the files of a folder that are over by their names and ages.
fn remove(folder: &Dir, is_over: impl Fn(&str, Duration) -> bool) -> Result<()> {
    for (name, old) in folder.ages()? {
        if is_over(&name.to_string_lossy(), old) {
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

    use netsky_model::id::AgentId;
    use netsky_model::restart::Phase;

    use super::*;
    use crate::context::in_a_home;
    use crate::decide::tests::{SINCE, seen, session, underway};
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
    fn t25_a_proof_goes_with_its_session_and_none_that_somebody_may_wait_for() {
        in_a_home(|cx| {
            let nonce = |n: u8| format!("{n:032x}");
            let names = || {
                let names = Dir::open(cx.layout.up_folder()).and_then(|folder| folder.names());
                names.expect("listed").into_iter().filter(|name| name != "tmp").collect::<Vec<_>>()
            };
            let [over, fresh, late, lives, restart, came] = [1, 2, 3, 4, 5, 6].map(nonce);
            for name in [&over, &fresh, &late, &lives, &restart, &came] {
                std::fs::write(cx.layout.up_folder().join(name), "{}").expect("written");
            }
            let slot = |n, state, nonce: &String| {
                let mut view = session(&AgentId::numbered(n), 2, state, SINCE);
                view.tags.insert(TAG_NONCE.to_owned(), nonce.clone());
                view
            };
            let slots = [slot(1, "stopped", &fresh), slot(2, "stopped", &late), slot(3, "active", &lives)];
            let mut look = seen(Vec::new(), slots.to_vec());
            // What came behind the look is not in it.
            look.proofs = names().into_iter().filter(|name| *name != came).collect();
            let mut under = underway(netsky_model::restart::Kind::Crash, Some(Phase::HandedOff), 2);
            under.status.as_mut().expect("a status").agents[0].nonce = restart.parse().expect("a nonce");
            look.restart = Some(under);
            let age = |name| {
                let old = SystemTime::now() - UpProof::KEPT - Duration::from_secs(5);
                let file = std::fs::File::open(cx.layout.up_folder().join(name)).expect("there");
                file.set_modified(old).expect("aged");
            };
            [&late, &lives, &restart, &came].into_iter().for_each(age);
            prune(cx, &look).expect("pruned");
            assert_eq!(names(), [fresh, lives.clone(), restart, came.clone()]);
            look.restart = None;
            let untold = session(&AgentId::numbered(4), 1, "active", SINCE);
            look.sessions.insert(untold.name.clone(), untold.clone());
            prune(cx, &look).expect("pruned");
            assert_eq!(names().len(), 4, "somebody lives whose proof nobody knows");
            look.sessions.remove(&untold.name);
            prune(cx, &look).expect("pruned");
            assert_eq!(names(), [nonce(2), lives, came], "once it is verified or given up");
        });
    }

    #[test]
    fn a_folder_that_is_not_there_has_nothing_to_sweep() {
        assert!(sweep(PathBuf::from("/nowhere/at/all"), STRAY).is_ok());
    }
}
