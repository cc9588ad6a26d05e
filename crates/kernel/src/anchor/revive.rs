//! Sessions this anchor keeps alive itself (`keeper = "anchor"`); everybody else's are only reported.
//!
//! Promise: the first revival comes at once, then 1 s, doubled up to 60 s, counted anew after a minute of life. A session
//! that was stopped on purpose stays down, and so does one whose very first start came to nothing: whoever asked for it was
//! told so, or repeats.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use super::settle::Found;
use super::spawn;
use super::state::Anchor;
use super::table::Life;
use crate::journal::About;
use crate::log::say;
use crate::rpc::EventKind;
use crate::session::Phase;

/// The first pause after a revival that did not hold …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … and the longest: a minute without its keeper is what a constellation is built to bear.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A generation that lived this long was well.
const WELL: Duration = Duration::from_secs(60);

/// The pause before revival number `attempt`, counted from 0.
fn pause(attempt: u32) -> Duration {
    match attempt {
        0 => Duration::ZERO,
        n => FIRST_PAUSE.saturating_mul(2u32.saturating_pow(n - 1)).min(LONGEST_PAUSE),
    }
}

/// Revives a session that is gone, if it is ours to keep.
pub(super) fn consider(anchor: &Rc<Anchor>, about: &About, found: Found) {
    if anchor.is_stopping() || !wanted(anchor, about) {
        return;
    }
    let attempt = anchor.entry(&about.session, |entry| {
        if found == Found::AtStart || lived(&entry.meta.phase) >= WELL {
            entry.revivals = 0;
        }
        let attempt = entry.revivals;
        entry.revivals += 1;
        attempt
    });
    let attempt = attempt.unwrap_or(0);
    let pause = pause(attempt);
    let data = json!({"after_ms": pause.as_millis() as u64, "attempt": attempt});
    anchor.observe(EventKind::Revive, Some(about.clone()), data);
    let (anchor, about) = (Rc::clone(anchor), about.clone());
    tokio::task::spawn_local(async move {
        tokio::time::sleep(pause).await;
        again(&anchor, &about).await;
    });
}

async fn again(anchor: &Rc<Anchor>, about: &About) {
    let spec = anchor.entry(&about.session, |entry| {
        let same = entry.meta.generation == about.generation && entry.life == Life::Gone;
        same.then(|| entry.meta.spec.clone())
    });
    let Some(spec) = spec.flatten() else { return };
    if anchor.is_stopping() || !wanted(anchor, about) {
        return;
    }
    if let Err(refusal) = spawn::revived(anchor, spec, about.generation).await {
        say!("failed to revive {}: {refusal}", about.session);
        let newest = anchor.entry(&about.session, |entry| super::state::about(&entry.meta));
        if let Some(newest) = newest {
            consider(anchor, &newest, Found::Watched);
        }
    }
}

/// Whether a session that is gone is to come back.
pub(super) fn wanted(anchor: &Anchor, about: &About) -> bool {
    let asked_down = anchor.recall(|recall| {
        recall
            .session(&about.session)
            .is_some_and(|known| known.kill_asked && known.generation == about.generation)
    });
    anchor.entry(&about.session, |entry| entry.meta.is_kept()).unwrap_or(false) && !asked_down
}

fn lived(phase: &Phase) -> Duration {
    match phase {
        Phase::Ended { at, started_at: Some(started), .. } => at.since(started),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use netsky_model::id::Generation;

    use super::*;
    use crate::anchor::reap::reap;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::anchor::state::about;
    use crate::session::{Keeper, Meta};

    #[test]
    fn a_first_start_that_came_to_nothing_is_not_run_later_and_can_be_put_aside() {
        on_stage(async |anchor| {
            let mut failed = session("agentinfinity", Keeper::Anchor);
            let Phase::Ended { started_at, .. } = &mut failed.phase else { panic!("it has ended") };
            *started_at = None;
            let later = Meta { generation: Generation(2), ..failed.clone() };
            for (meta, told) in [(failed, vec![EventKind::Reaped]), (later, vec![EventKind::Revive])] {
                let before = rows(&anchor).len();
                anchor.put(meta.clone(), Life::Gone);
                consider(&anchor, &about(&meta), Found::AtStart);
                let reaped = reap(&anchor).expect("answers").reaped.len();
                assert_eq!((rows(&anchor).split_off(before), reaped), (told, usize::from(before == 0)));
            }
        });
    }

    #[test]
    fn the_first_revival_is_at_once_and_the_pauses_double_up_to_a_minute() {
        let pauses: Vec<u64> = (0..9).map(|attempt| pause(attempt).as_secs()).collect();
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
