//! The room on the disk of the home: told before it is gone, while there is room to tell it.

use std::time::Duration;

use crate::context::Context;
use crate::error::Result;
use crate::standing::Found;

/// The condition.
pub(crate) const DISK: &str = "disk";
/// Below that it is told: an afternoon of logs.
pub(crate) const LOW: u64 = 512 << 20;
/// Below that the owner is told: starts, facts and mail have room yet.
pub(crate) const SCARCE: u64 = 64 << 20;

/// What there is to tell.
pub(crate) fn found(cx: &Context<'_>) -> Result<Option<Found>> {
    let place = cx.layout.home().display().to_string();
    Ok(judge(&place, netsky_disk::room(cx.layout.home())?))
}

fn judge(place: &str, left: u64) -> Option<Found> {
    (left < LOW).then(|| Found {
        condition: DISK.to_owned(),
        of: String::new(),
        reason: format!("the disk of {place} is nearly full: {} MiB are left; make room", left >> 20),
        tell: Some(Duration::ZERO),
        page: (left < SCARCE).then_some(Duration::ZERO),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fm_owner_page_enospc_a_disk_is_told_before_it_is_a_page_and_a_page_before_it_is_full() {
        let judged = |left| judge("/home", left).map(|found| (found.tell.is_some(), found.page.is_some()));
        for (left, is) in [
            (LOW, None),
            (LOW - 1, Some((true, false))),
            (SCARCE, Some((true, false))),
            (SCARCE - 1, Some((true, true))),
            (0, Some((true, true))),
        ] {
            assert_eq!(judged(left), is, "{left}");
        }
        let one = |left| judge("/home", left).expect("found").of;
        assert_eq!(one(SCARCE), one(0), "it gets worse and is the same one");
    }
}
