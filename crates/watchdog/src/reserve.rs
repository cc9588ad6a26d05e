//! Room on the disk that belongs to nobody until `down` or the retention needs it: an agent may fill a disk, and must
//! not keep itself from being ended by that, nor what has to go from going.

use netsky_disk::state;

use crate::context::Context;
use crate::error::Result;

/// How much: the wishes of a large constellation, its handoff and a few folders.
const SIZE: usize = 1024 * 1024;

/// Have it, if there is room; a full disk is no trouble of this tick's own.
pub(crate) fn keep(cx: &Context<'_>) -> Result<()> {
    let path = cx.layout.reserve();
    if state::exists(&path)? {
        return Ok(());
    }
    // Asked first: to try is to fill the disk.
    if netsky_disk::room(cx.layout.home())? < SIZE as u64 {
        return Ok(());
    }
    // Written, not only set aside: a hole in a file keeps no room.
    match state::write(&path, &vec![b'.'; SIZE]) {
        Err(error) if error.is_full() => Ok(()),
        written => Ok(written?),
    }
}

/// Does `work`; where the disk is full once more with this room, which is taken back after it if there is any left.
pub(crate) fn lend<T>(cx: &Context<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    match work() {
        Err(error) if error.is_full() && state::remove(cx.layout.reserve())? => {
            let done = work();
            keep(cx)?;
            done
        }
        done => done,
    }
}
