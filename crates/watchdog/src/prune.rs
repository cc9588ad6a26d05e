//! Pruning, as part of the tick: what its readers are done with goes, each kind at its own age.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::fs::{Dir, sweep_tmp};
use netsky_runtime::TAG_NONCE;

use crate::context::Context;
use crate::error::Result;
use crate::observe::Observed;

/// What a writer that died left in a `tmp` folder: no write takes an hour.
const STRAY: Duration = Duration::from_secs(60 * 60);
/// Up proofs of sessions that are gone.
const PROOF: Duration = Duration::from_secs(60 * 60);
/// Logs of restart children, used requests, drafts of crash handoffs.
const ARCHIVE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Prune. What cannot be removed now is tried by the next tick.
pub(crate) fn prune(cx: &Context<'_>, seen: &Observed) -> Result<()> {
    for folder in cx.layout.folders() {
        sweep(folder.join("tmp"), STRAY)?;
    }
    sweep(cx.layout.restart_archive(), ARCHIVE)?;
    sweep(cx.layout.crash_handoffs(), ARCHIVE)?;
    let proofs = Dir::create(cx.layout.up_folder())?;
    let nonces: Vec<&String> =
        seen.sessions.values().filter_map(|session| session.tags.get(TAG_NONCE)).collect();
    for name in proofs.names_older(PROOF)? {
        if !nonces.iter().any(|nonce| name == nonce.as_str()) && name != "tmp" {
            proofs.remove(&name)?;
        }
    }
    Ok(())
}

/// Remove the old files of a folder; one that is not there has none.
fn sweep(folder: PathBuf, age: Duration) -> Result<()> {
    match Dir::open(folder) {
        Ok(dir) => Ok(sweep_tmp(&dir, age).map(drop)?),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_has_nothing_to_sweep() {
        assert!(sweep(PathBuf::from("/nowhere/at/all"), STRAY).is_ok());
    }
}
