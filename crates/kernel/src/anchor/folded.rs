//! The process table as the journal alone has it: what is left to know where descriptions are gone or no anchor serves.

use std::io::{BufRead, BufReader};
use std::path::Path;

use netsky_disk::Error;
use netsky_disk::fs::open_to_read;
use netsky_model::id::{AgentId, Generation, LineageId};
use serde::{Deserialize, Serialize};

use super::recall::Recall;
use crate::audit;
use crate::journal::{Checkpoint, Fold, parse};
use crate::rpc::SessionState;

/// A session as the rows have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    /// Its name.
    pub name: AgentId,
    /// Its lineage.
    pub lineage: LineageId,
    /// The newest generation that was reserved.
    pub generation: Generation,
    /// What its last row made of it; a worker that died with its anchor is still as it was then.
    pub state: SessionState,
}

/// Folds the journal at `path` through the code that an anchor goes through; by name.
///
/// # Errors
/// The file cannot be read.
pub fn sessions(path: &Path) -> Result<Vec<Folded>, Error> {
    let recall = recall(path)?;
    let folded = recall.sessions().map(|(name, known)| Folded {
        name: name.clone(),
        lineage: known.lineage.clone(),
        generation: known.generation,
        state: known.state,
    });
    Ok(folded.collect())
}

/// What the rows say; nothing where there are none.
pub(super) fn recall(path: &Path) -> Result<Recall, Error> {
    let mut recall = Recall::default();
    audit::journal(path, |_, event| recall.fold(&event))?;
    Ok(recall)
}

/// The same as an anchor knows it when it starts: from the newest checkpoint on, where there is one that holds.
pub(super) fn newest(path: &Path) -> Result<Recall, Error> {
    behind_checkpoint(path).map_or_else(|| recall(path), Ok)
}

fn behind_checkpoint(path: &Path) -> Option<Recall> {
    // One file, also where it is sealed meanwhile.
    let mut lines = BufReader::new(open_to_read(path).ok()?).split(b'\n');
    let begin = Checkpoint::of(&lines.next()?.ok()?).filter(|begin| begin.holds)?;
    let mut recall = Recall::restored(begin.fold)?;
    for line in lines {
        if let Ok(row) = parse(&line.ok()?) {
            recall.fold(&row.event);
        }
    }
    Some(recall)
}
