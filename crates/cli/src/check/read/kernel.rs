//! The kernel's root: metas, journal, epoch.

use std::collections::BTreeMap;
use std::path::Path;

use netsky_disk::layout::{KernelLayout, Layout};
use netsky_kernel::audit::{self, Audit};
use netsky_kernel::rpc::{Event, EventKind};
use netsky_kernel::session::{Meta, MetaError, Phase};
use netsky_ledger::Move;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::stamp::Stamp;
use serde::Deserialize;

use super::files::{self, Content, StateFile, does_not_read};
use super::place;

/// Most bytes of a number in a file of its own.
const NUMBER: u64 = 1024;
/// The role whose epochs the journal bears.
const ROLE: &str = "anchor";

/// The journal, as a finding names it.
pub(crate) const JOURNAL: &str = ".ostk/journal.jsonl";
/// The anchors' epochs, as a finding names them.
pub(crate) const EPOCH: &str = ".ostk/epochs/anchor";

/// What the root says.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) metas: Vec<Known>,
    pub(crate) rows: Vec<Row>,
    /// None where there is no journal.
    pub(crate) audit: Option<Audit>,
    /// None where there is no such file: the next anchor starts above the journal.
    pub(crate) epoch: Option<u64>,
}

/// A session's description.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) place: String,
    pub(crate) meta: Meta,
}

/// What matters of a row of the journal.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) line: u64,
    pub(crate) epoch: u64,
    pub(crate) kind: EventKind,
    pub(crate) about: Option<About>,
    /// What its session is called from here on.
    pub(crate) renamed_to: Option<AgentId>,
    /// When the worker saw it, where a worker did.
    pub(crate) at: Option<Stamp>,
    end: bool,
}

/// Whom a row is about.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) session: AgentId,
    pub(crate) lineage: LineageId,
    pub(crate) generation: Generation,
}

/// The newest generation of a lineage, and whether it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) generation: Generation,
    pub(crate) ended: bool,
}

impl Newest {
    fn take(&mut self, generation: Generation, ended: bool) {
        if generation > self.generation {
            *self = Newest { generation, ended };
        } else if generation == self.generation {
            self.ended |= ended;
        }
    }
}

impl Row {
    pub(super) fn new(line: u64, event: Event) -> Row {
        #[derive(Deserialize)]
        struct Seen {
            at: Stamp,
        }
        let (end, renamed_to) = (event.is_end(), event.renamed_to());
        let about = match (event.session, event.lineage, event.generation) {
            (Some(session), Some(lineage), Some(generation)) => Some(About { session, lineage, generation }),
            _ => None,
        };
        let at = Seen::deserialize(&event.data).ok().map(|seen| seen.at);
        Row { line, epoch: event.epoch, kind: event.kind, about, renamed_to, at, end }
    }

    /// The lineage that had this name until then.
    fn gave_up(&self, name: &AgentId) -> Option<&LineageId> {
        let about = self.about.as_ref().filter(|about| about.session == *name)?;
        self.renamed_to.as_ref().map(|_| &about.lineage)
    }

    /// Whether a generation came to its end with it.
    pub(crate) fn is_end(&self) -> bool {
        self.end
    }
}

impl Kernel {
    /// Every lineage of this root with its newest generation, by metas and journal.
    pub(crate) fn lineages(&self) -> BTreeMap<LineageId, Newest> {
        let mut newest: BTreeMap<LineageId, Newest> = BTreeMap::new();
        let mut take = |lineage: &LineageId, generation, ended| {
            let known = newest.entry(lineage.clone()).or_insert(Newest { generation, ended: false });
            known.take(generation, ended);
        };
        for Known { meta, .. } in &self.metas {
            take(&meta.lineage, meta.generation, !meta.phase.may_live());
        }
        for row in &self.rows {
            if let Some(about) = &row.about {
                take(&about.lineage, about.generation, row.end);
            }
        }
        newest
    }

    /// Whether a generation of an agent is over; one that the root does not know of is.
    pub(crate) fn has_ended(&self, agent: &AgentId, generation: Generation) -> bool {
        let metas = self.metas.iter().filter(|known| known.meta.spec.name == *agent);
        let metas = metas.map(|known| (known.meta.generation, !known.meta.phase.may_live()));
        // One that was called so before and has another name now is somebody else.
        let gone: Vec<&LineageId> = self.rows.iter().filter_map(|row| row.gave_up(agent)).collect();
        let rows = self.rows.iter().filter_map(|row| Some((row.about.as_ref()?, row.end)));
        let rows = rows.filter(|(about, _)| about.session == *agent && !gone.contains(&&about.lineage));
        let rows = rows.map(|(about, end)| (about.generation, end));
        let (mut known, mut over) = (false, false);
        for (newest, ended) in metas.chain(rows) {
            known |= newest >= generation;
            over |= newest > generation || (newest == generation && ended);
        }
        over || !known
    }

    /// Whether the generation that bears this number began after something that one of that number did: a home that was
    /// adopted, or lost its kernel's root, counts anew.
    pub(crate) fn began_after(&self, agent: &AgentId, generation: Generation, done: &Move) -> bool {
        let Some(process) = &done.process else { return false };
        let is_later = |began: &Stamp| process.boot_id != began.boot_id || began.boot_ms > done.boot_ms;
        self.metas.iter().any(|Known { meta, .. }| match &meta.phase {
            Phase::Running { started_at } => {
                meta.spec.name == *agent && meta.generation == generation && is_later(started_at)
            }
            _ => false,
        })
    }
}

/// Reads the root; the metas first.
pub(super) fn read(layout: &Layout, files: &mut Vec<StateFile>) -> netsky_disk::Result<Kernel> {
    let root = KernelLayout::new(layout.kernel_root());
    let metas = metas(layout, &root, files)?;
    let mut rows = Vec::new();
    let audit = audit::journal(&root.journal(), |line, event| rows.push(Row::new(line, event)))?;
    let epoch = epoch(layout, &root.epoch(ROLE), files)?;
    Ok(Kernel { metas, rows, audit, epoch })
}

fn metas(
    layout: &Layout,
    root: &KernelLayout,
    files: &mut Vec<StateFile>,
) -> netsky_disk::Result<Vec<Known>> {
    let mut metas = Vec::new();
    let Some(agents) = files::folder(layout, root.agents(), files)? else { return Ok(metas) };
    for file in agents.names()? {
        let Some(name) = file.strip_suffix(".meta") else { continue };
        let Some(read) = files::bytes(&agents, file.as_ref(), Meta::MAX_BYTES)? else { continue };
        let place = place(layout, agents.path().join(&file));
        let content = match read.map(|bytes| Meta::parse(&bytes)) {
            Ok(Ok(meta)) if meta.spec.name.as_str() == name => {
                metas.push(Known { place: place.clone(), meta });
                Content::Whole
            }
            Ok(Ok(meta)) => Content::Damaged(format!("describes {}", meta.spec.name)),
            Ok(Err(MetaError::Newer { .. })) => Content::Newer,
            Ok(Err(MetaError::Malformed(error))) => Content::Damaged(does_not_read(&error)),
            Err(why) => Content::Damaged(why),
        };
        files.push(StateFile { place, content });
    }
    Ok(metas)
}

fn epoch(layout: &Layout, path: &Path, files: &mut Vec<StateFile>) -> netsky_disk::Result<Option<u64>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let Some(dir) = files::folder(layout, parent, files)? else { return Ok(None) };
    let Some(read) = files::bytes(&dir, name, NUMBER)? else { return Ok(None) };
    let number = read.and_then(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        text.trim().parse::<u64>().map_err(|_| "is not a number".to_owned())
    });
    let content = number.as_ref().map_or_else(|why| Content::Damaged(why.clone()), |_| Content::Whole);
    files.push(StateFile { place: place(layout, path), content });
    Ok(number.ok())
}
