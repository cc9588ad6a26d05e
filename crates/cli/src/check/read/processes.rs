//! Live processes that say, by the environment they were started with, that they are of this home.

use std::collections::BTreeMap;
use std::path::Path;

use netsky_disk::env::{AGENT, GENERATION, HOME, MARK};
use netsky_disk::layout::Layout;
use netsky_disk::sweep;
use netsky_kernel::audit::unmark;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) process: ProcessId,
    /// Which agent of this home, and which incarnation.
    pub(crate) agent: Option<(AgentId, Generation)>,
    /// The kernel's mark, of this root or of another.
    pub(crate) mark: Option<(LineageId, Generation)>,
}

/// Looks at every process. Whoever is answered lived when it was seen, and may be gone by now: of a chain of short-lived
/// ones hardly any would be there at a second look.
pub(super) fn read(layout: &Layout) -> netsky_disk::Result<Vec<Bearer>> {
    let found = sweep::environments(&[AGENT, GENERATION, HOME, MARK])?;
    let mut homes: BTreeMap<String, bool> = BTreeMap::new();
    let mut bearers = Vec::new();
    for (process, values) in found {
        let ours = values.get(HOME).is_some_and(|home| {
            *homes.entry(home.clone()).or_insert_with(|| is_same(Path::new(home), layout.home()))
        });
        let agent = values.get(AGENT).filter(|_| ours).and_then(|agent| agent.parse().ok());
        let generation = values.get(GENERATION).and_then(|text| text.parse().ok()).unwrap_or_default();
        let mark = values.get(MARK).and_then(|mark| unmark(mark));
        // A session of another kernel that was started from inside an agent inherits the agent's name, not its mark.
        let foreign = matches!((&agent, &mark), (Some(agent), Some((lineage, _))) if !is_of(lineage, agent));
        let agent = agent.filter(|_| !foreign).map(|agent| (agent, Generation(generation)));
        if agent.is_some() || mark.is_some() {
            bearers.push(Bearer { process, agent, mark });
        }
    }
    Ok(bearers)
}

fn is_of(lineage: &LineageId, agent: &AgentId) -> bool {
    lineage.as_str().rsplit_once('-').is_some_and(|(name, _)| name == agent.as_str())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || match (one.canonicalize(), other.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
}
