//! Room on the disk that belongs to nobody until it is needed: an agent may fill a disk, and must not keep itself from
//! being ended by that, nor what has to go from going. The two have rooms of their own: whoever fills the disk lives on
//! while the retention works, and may take what that sets free. A `down` may take both: it ends whoever fills the disk first.

use std::path::Path;

use netsky_disk::state;

use crate::context::Context;
use crate::error::{Error, Result};

/// How much of each: the wishes of a large constellation, its handoff and a few folders; a block for the id of each
/// message that one tick removes, and what is told of them.
const SIZE: usize = 1024 * 1024;

/// Have what `down` needs, where there is room; a full disk is no trouble of this tick's own.
pub(crate) fn keep(cx: &Context<'_>) -> Result<()> {
    have(cx, &cx.layout.reserve())
}

/// As [`keep`], for the retention: mail is kept, and goes, also where nobody is wanted.
pub(crate) fn keep_for_retention(cx: &Context<'_>) -> Result<()> {
    have(cx, &cx.layout.retention_reserve())
}

/// Have it for certain: of what could not be noted as unwanted nothing must be wanted.
pub(crate) fn need(cx: &Context<'_>) -> Result<()> {
    have(cx, &cx.layout.reserve())?;
    if state::exists(cx.layout.reserve())? { Ok(()) } else { Err(Error::NoReserve) }
}

/// Whether there is any to give up.
pub(crate) fn is_there(cx: &Context<'_>) -> Result<bool> {
    Ok(state::exists(cx.layout.reserve())? || state::exists(cx.layout.retention_reserve())?)
}

/// Give up both, for what must be noted now.
pub(crate) fn give_up(cx: &Context<'_>) -> Result<()> {
    state::remove(cx.layout.reserve())?;
    state::remove(cx.layout.retention_reserve())?;
    Ok(())
}

fn have(cx: &Context<'_>, path: &Path) -> Result<()> {
    // Asked before: to try is to fill the disk.
    if state::exists(path)? || netsky_disk::room(cx.layout.home())? < SIZE as u64 {
        return Ok(());
    }
    // Written, not only set aside: a hole in a file keeps no room.
    match state::write(path, &vec![b'.'; SIZE]) {
        Err(error) if error.is_full() => Ok(()),
        written => Ok(written?),
    }
}

/// Does the retention's `work`; where the disk is full, once more with its room, which is taken back after it.
pub(crate) fn lend<T>(cx: &Context<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    match work() {
        Err(error) if error.is_full() && state::remove(cx.layout.retention_reserve())? => {
            let done = work();
            // What came of the work is the answer; the next tick tries for the room again, and says what is wrong.
            let _ = have(cx, &cx.layout.retention_reserve());
            done
        }
        done => done,
    }
}
