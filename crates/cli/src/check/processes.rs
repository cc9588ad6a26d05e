//! I11: nothing of a dead generation lives.
//!
//! A process is of this home by the environment mark of one of its lineages. Stray files are notes: whoever comes next
//! sweeps them.

use std::collections::BTreeMap;

use netsky_model::id::LineageId;

use super::read::Seen;
use super::read::kernel::Newest;
use super::verdict::Verdict;

pub(super) fn check(seen: &Seen) -> Verdict {
    let mut verdict = Verdict::new("I11", "nothing of a dead generation lives");
    let newest: BTreeMap<LineageId, Newest> = seen.kernel.lineages();
    for bearer in &seen.bearers {
        let Some((lineage, generation)) = &bearer.mark else { continue };
        let Some(known) = newest.get(lineage) else { continue };
        verdict.saw(1);
        let why = if *generation < known.generation {
            format!("and the newest is {}", known.generation)
        } else if *generation == known.generation && known.ended {
            "which has ended".to_owned()
        } else {
            continue;
        };
        let key = format!("{lineage}.g{generation}");
        verdict.lives(&bearer.process, key, format!("lives, of {lineage} generation {generation}, {why}"));
    }
    for (place, what) in &seen.strays {
        verdict.note(place, what);
    }
    verdict
}
