//! Rows of a turns log that the journal has not: whoever took them died, or had no room, before it told.

use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_model::id::LineageId;

use super::{Drain, DrainError, current, previous};
use crate::drain::snapshot::{self, Read};
use crate::drain::{Progress, Row};

/// Shows each row behind the first `told` ones, and how its generation stood before and after it.
pub(crate) fn untold(
    layout: &KernelLayout,
    lineage: &LineageId,
    told: u64,
    mut tell: impl FnMut(&Row, &Progress, &Progress),
) -> Result<(), DrainError> {
    let mut drain = Drain::new(layout, lineage);
    let Some(dir) = drain.dir()? else { return Ok(()) };
    drain.begin_at(&dir, told);
    let mut before = drain.state.clone();
    drain.follow(&dir, |row, state| {
        if row.n > told {
            let [was, is] = [&before, state].map(|state| state.progress(row.generation, false));
            tell(row, &was, &is);
        }
        if row.n >= told {
            before = state.clone();
        }
    })
}

impl Drain {
    /// Goes on from the newest snapshot that is not beyond a row; without one from the first.
    fn begin_at(&mut self, dir: &Dir, told: u64) {
        for name in [current(&self.lineage), previous(&self.lineage)] {
            // One that does not read was said so.
            let read =
                dir.read(&name, snapshot::MAX_READ).ok().and_then(|bytes| snapshot::parse(&bytes).ok());
            if let Some(Read::Whole(snapshot)) = read
                && snapshot.log.rows <= told
            {
                (self.state, self.place) = (snapshot.state(), snapshot.log.clone());
                return;
            }
        }
    }
}
