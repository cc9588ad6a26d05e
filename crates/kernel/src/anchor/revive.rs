//! Sessions this anchor brings back itself; those of a keeper above (`keeper = "watchdog"`) are only reported.
//!
//! Promise: the first revival comes at once, the next ones after pauses that grow ([`pause`]), up to a crash loop. What is
//! counted stands in the journal: an anchor that ends, or is ended, between two of them changes neither number nor pause; nor
//! does a wall clock that is set, or a machine that sleeps ([`pauses`]). A session
//! that was stopped on purpose stays down, and so does one whose very first start, or one that somebody asked for, came to
//! nothing: whoever asked for it was told so, or repeats. Many at once start a few at a time.
//!
//! `keeper = "anchor"` is kept whatever happens. `keeper = "policy"` was taken away and is treated as the root's settings
//! say: revived (and tried once an hour in a crash loop), put aside, or left until
//! somebody says which. What is known of a lineage and does not read is asked about in any case.

use std::rc::Rc;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::layout::KernelLayout;
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;

use super::intensity::{INTENSITY, pause, pause_of_refused, still_counted};
use super::settle::Found;
use super::state::Anchor;
use super::table::{Entry, Life};
use super::{kill, pauses, reap, spawn, succeed};
use crate::drain::DrainError;
use crate::journal::About;
use crate::log::say;
use crate::rpc::{EventKind, event_data};
use crate::session::{End, Heartbeat, Keeper, Phase};
use crate::settings::RevivalPolicy;

/// Revivals at once: a mass of them must not make the machine, or whom the programs talk to, worse.
pub(super) const AT_ONCE: usize = 4;

/// Revives a session that is gone, or what else its keeper wants, if it is ours.
pub(super) fn consider(anchor: &Rc<Anchor>, about: &About, found: Found) {
    if comes_back(anchor, about) {
        revive(anchor, about, found);
    }
}

/// Whether a session that is gone is to be revived now; what else is wanted of it is done.
fn comes_back(anchor: &Anchor, about: &About) -> bool {
    if anchor.is_stopping() || !is_ours(anchor, about) {
        return false;
    }
    // What the disk only refuses is tried again by the revival itself.
    let damaged = match anchor.check_drain(&about.lineage) {
        Err(error @ DrainError::Damaged { .. }) => Some(error.to_string()),
        Err(DrainError::Disk(_) | DrainError::Misfit(_) | DrainError::Full { .. }) | Ok(()) => None,
    };
    match policy(anchor, about) {
        _ if damaged.is_some() => ask(anchor, about, damaged),
        RevivalPolicy::Revive => return true,
        RevivalPolicy::Ask => ask(anchor, about, None),
        RevivalPolicy::Reap => {
            if let Err(refusal) = reap::put_aside(anchor, about) {
                say!("failed to put {} aside: {refusal}", about.session);
            }
        }
    }
    false
}

/// Leaves a session until somebody says what becomes of it.
fn ask(anchor: &Anchor, about: &About, why: Option<String>) {
    let asked = anchor.entry(&about.session, |entry| std::mem::replace(&mut entry.asking, true));
    // A successor finds it again and asks again; nobody starts it meanwhile.
    if asked == Some(false) {
        anchor.observe(EventKind::Asking, Some(about.clone()), event_data::Asking { why });
    }
}

fn policy(anchor: &Anchor, about: &About) -> RevivalPolicy {
    match anchor.entry(&about.session, |entry| entry.meta.spec.keeper) {
        Some(Keeper::Policy) if !succeed::is_under_way(anchor, about) => anchor.settings().revival_policy,
        _ => RevivalPolicy::Revive,
    }
}

fn revive(anchor: &Rc<Anchor>, about: &About, found: Found) {
    let seen = last_beat(&anchor.layout, about).map(|beat| beat.at);
    let is_used_up = succeed::is_due(anchor, about);
    let attempt = anchor.entry(&about.session, |entry| {
        // Once for its end: a start that is refused is one more try after the same life.
        if !std::mem::replace(&mut entry.counted, true) {
            entry.revivals = still_counted(entry.revivals, lived(&entry.meta.phase, seen), is_used_up);
        }
        let attempt = entry.revivals;
        entry.revivals += 1;
        let is_new = entry.announced.replace(attempt) != Some(attempt);
        let keeper = entry.meta.spec.keeper;
        let wanted = match entry.refusals {
            0 => pause(keeper, attempt),
            refusals => pause_of_refused(keeper, refusals),
        };
        (keeper, wanted, attempt, is_new)
    });
    let Some((keeper, wanted, attempt, is_new)) = attempt else { return };
    let now = clock::stamp();
    let (announced, told, is_reserved) = anchor.recall(|recall| {
        let known = recall.of(about);
        known.map_or((None, false, false), |known| {
            let announced = known.reviving.filter(|_| known.revivals == attempt);
            let announced = announced.map(|at| pauses::passed(at, known.began.as_ref(), &now));
            (announced, known.crashloop, known.generation > about.generation)
        })
    });
    let pause = match announced.filter(|_| found == Found::AtStart) {
        // By an anchor that ended before it was over.
        Some(passed) => wanted.saturating_sub(passed),
        // It was over when the next generation was reserved, which came to nothing: of that no anchor knows how often.
        None if is_reserved && found == Found::AtStart => wanted.min(pause_of_refused(keeper, 1)),
        None => wanted,
    };
    // A refused one is the same try again: on a disk that is full for hours a row of each would take the room of what waits.
    if is_new || found == Found::AtStart {
        if attempt == INTENSITY && !told {
            let data = event_data::Crashloop { revivals: attempt };
            anchor.observe(EventKind::Crashloop, Some(about.clone()), data);
        }
        let data = event_data::Revive { after_ms: pause.as_millis() as u64, attempt, at: Some(now) };
        anchor.observe(EventKind::Revive, Some(about.clone()), data);
    }
    anchor.entry(&about.session, |entry| entry.revives_at = Some(clock::boot() + pause));
    let (anchor, about) = (Rc::clone(anchor), about.clone());
    tokio::task::spawn_local(async move {
        pauses::wait(clock::boot, pause).await;
        again(&anchor, &about).await;
    });
}

async fn again(anchor: &Rc<Anchor>, about: &About) {
    // The gate is never closed.
    let _turn = anchor.reviving.acquire().await;
    let spec = anchor.entry(&about.session, |entry| {
        let same = entry.meta.generation == about.generation && entry.life == Life::Gone;
        same.then(|| entry.meta.spec.clone())
    });
    let Some(spec) = spec.flatten() else { return };
    // The settings, or its files, may be others since its pause began.
    if !comes_back(anchor, about) {
        return;
    }
    if let Err(refusal) = spawn::revived(anchor, spec, about.generation, None).await {
        say!("failed to revive {}: {refusal}", about.session);
        let newest = anchor.entry(&about.session, |entry| {
            // Nothing ran, so that nothing crashed: it is the same revival that is tried again.
            if entry.meta.generation == about.generation {
                entry.revivals = entry.revivals.saturating_sub(1);
                entry.refusals = entry.refusals.saturating_add(1);
            }
            super::state::about(&entry.meta)
        });
        if let Some(newest) = newest {
            consider(anchor, &newest, Found::Watched);
        }
    }
}

/// Whether a session that is gone comes back, or may.
pub(super) fn wanted(anchor: &Anchor, about: &About) -> bool {
    is_ours(anchor, about) && policy(anchor, about) != RevivalPolicy::Reap
}

/// Whether it is ours to decide about a session that is gone.
pub(super) fn is_ours(anchor: &Anchor, about: &About) -> bool {
    if kill::asked_before(anchor, about) {
        return false;
    }
    let seen = anchor.entry(&about.session, |Entry { meta, .. }| {
        // Its name may be another's by now.
        if meta.lineage != about.lineage {
            return (false, false);
        }
        // A generation that gives way is followed by the next one, unless it was put aside.
        let may_be_due =
            meta.spec.keeper != Keeper::Watchdog && !matches!(meta.phase, Phase::Inactive { .. });
        (meta.is_kept(), may_be_due)
    });
    seen.is_some_and(|(kept, may_be_due)| kept || may_be_due && succeed::is_due(anchor, about))
}

/// How long the program ran. Of one whose end nobody saw, up to the last beat of its worker: what has passed until an
/// anchor looked is no life.
fn lived(phase: &Phase, seen: Option<Stamp>) -> Duration {
    match phase {
        Phase::Ended { how: End::Orphaned, at, started_at: Some(started) } => {
            seen.as_ref().unwrap_or(at).since(started)
        }
        Phase::Ended { at, started_at: Some(started), .. } => at.since(started),
        _ => Duration::ZERO,
    }
}

/// What the worker of a generation beat last, as far as its file says.
pub(super) fn last_beat(layout: &KernelLayout, about: &About) -> Option<Heartbeat> {
    let bytes = netsky_disk::state::read(layout.heartbeat(&about.session)).ok().flatten()?;
    let beat: Heartbeat = serde_json::from_slice(bytes.trim_ascii_end()).ok()?;
    (beat.generation == about.generation).then_some(beat)
}

/// The last word of the worker of a generation: how its program ended, and when. On a full disk nobody else may have
/// written that down.
pub(super) fn last_word(
    layout: &KernelLayout,
    about: &About,
    worker: Option<&ProcessId>,
) -> Option<(End, Stamp)> {
    let beat = last_beat(layout, about).filter(|beat| Some(&beat.worker) == worker)?;
    Some((beat.end()?, beat.at))
}

#[cfg(test)]
mod tests;
