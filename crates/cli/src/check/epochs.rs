//! I5: numbers that fence only rise, and nobody writes after a higher one.
//!
//! Anchor epochs over the journal, whose chain is whole; generations of each session; what a meta file says against the row
//! that reserved it; the child of a restart against the marker that names it. A torn last line is said, not damage.

use std::collections::BTreeMap;

use netsky_kernel::rpc::EventKind;
use netsky_model::id::{AgentId, Generation};

use super::read::Seen;
use super::read::kernel::{EPOCH, JOURNAL, Kernel};
use super::verdict::Verdict;

pub(super) fn check(seen: &Seen) -> Verdict {
    let mut verdict = Verdict::new("I5", "epochs and generations only rise, the journal is one chain");
    chain(&seen.kernel, &mut verdict);
    anchors(&seen.kernel, &mut verdict);
    generations(&seen.kernel, &mut verdict);
    metas(&seen.kernel, &mut verdict);
    children(seen, &mut verdict);
    verdict
}

fn line(line: u64) -> String {
    format!("{JOURNAL}:{line}")
}

fn chain(kernel: &Kernel, verdict: &mut Verdict) {
    let Some(audit) = &kernel.audit else { return };
    verdict.saw(usize::try_from(audit.rows).unwrap_or(usize::MAX));
    for broken in &audit.broken {
        verdict.broken(line(*broken), "does not follow from the row before");
    }
    for file in &audit.files {
        verdict.broken(JOURNAL, file.clone());
    }
    for row in &audit.heads.rewritten {
        verdict.broken(JOURNAL, format!("row {row} is not the one that its head was kept of"));
    }
    if let Some(cut) = audit.heads.cut {
        verdict.broken(JOURNAL, format!("ends at row {}, and went up to row {cut}", audit.head));
    }
    for file in &audit.heads.gone {
        verdict.broken(JOURNAL, format!("has lost {file}"));
    }
    for file in &audit.heads.unread {
        verdict.broken(JOURNAL, format!("has heads that do not read, or were changed: {file}"));
    }
    if audit.torn {
        verdict.note(JOURNAL, "its last line has no end: torn, or being written");
    }
    if let Some(newer) = audit.newer {
        verdict.note(line(newer), "is of a newer format: it was held against the chain, and not read");
    }
}

fn anchors(kernel: &Kernel, verdict: &mut Verdict) {
    let mut highest = 0;
    for row in &kernel.rows {
        if row.epoch < highest {
            verdict
                .broken(line(row.line), format!("was written in epoch {} after epoch {highest}", row.epoch));
        }
        if row.kind == EventKind::AnchorStarted && row.epoch == highest && highest > 0 {
            verdict.broken(line(row.line), format!("a second anchor started in epoch {highest}"));
        }
        highest = highest.max(row.epoch);
    }
    if let Some(epoch) = kernel.epoch
        && epoch < highest
    {
        // An anchor that comes to a full disk serves under a number that it had no room for; the next is above both.
        verdict.note(EPOCH, format!("says {epoch}, and the journal has rows of epoch {highest}"));
    }
}

fn generations(kernel: &Kernel, verdict: &mut Verdict) {
    let mut newest: BTreeMap<&AgentId, Generation> = BTreeMap::new();
    for row in &kernel.rows {
        let Some(about) = &row.about else { continue };
        if let Some(to) = &row.renamed_to {
            // Its generations go on under that name; whoever is called as it was begins anew.
            if let Some(generation) = newest.remove(&about.session) {
                newest.insert(to, generation);
            }
        }
        if row.kind != EventKind::Spawn {
            continue;
        }
        let before = newest.insert(&about.session, about.generation).unwrap_or_default();
        if about.generation <= before {
            let what = format!("{} generation {} after {before}", about.session, about.generation);
            verdict.broken(line(row.line), what);
        }
    }
}

fn metas(kernel: &Kernel, verdict: &mut Verdict) {
    for known in &kernel.metas {
        verdict.saw(1);
        let (meta, place) = (&known.meta, &known.place);
        let spawns = kernel.rows.iter().filter(|row| row.kind == EventKind::Spawn);
        // Not by its name, which may have been another then.
        let spawned = spawns
            .filter_map(|row| Some((row, row.about.as_ref()?)))
            .find(|(_, about)| about.lineage == meta.lineage && about.generation == meta.generation);
        match spawned {
            Some((row, _)) if row.epoch != meta.anchor_epoch => {
                let what = format!("was reserved in epoch {}, and says {}", row.epoch, meta.anchor_epoch);
                verdict.broken(place, what);
            }
            Some(_) => {}
            // Where part of the journal could not be read, its silence proves nothing.
            None if kernel.audit.as_ref().is_some_and(|audit| audit.newer.is_some()) => {}
            None => {
                let what = format!("is of generation {}, which the journal never reserved", meta.generation);
                verdict.broken(place, what);
            }
        }
    }
}

fn children(seen: &Seen, verdict: &mut Verdict) {
    let Some(inflight) = &seen.restart.inflight else { return };
    for (place, status) in seen.restart.statuses.iter().filter(|(_, status)| status.id == inflight.id) {
        verdict.saw(1);
        if status.epoch > inflight.epoch {
            let what =
                format!("was written by child {}, and the marker knows {}", status.epoch, inflight.epoch);
            verdict.broken(place, what);
        }
    }
}
