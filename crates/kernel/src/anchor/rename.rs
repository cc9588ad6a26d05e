//! `session/rename`: another name for a session that has ended; its lineage stays, with all that belongs to it.
//!
//! One that lives is refused: its worker, which may be weeks older, writes its end under the name that it was started by, and
//! its program has that name in its environment. Refused too is one that is about to come back, and one of a keeper above.
//!
//! Order: the row, synced; the description under the new name; every other file; last the description under the former
//! name goes. As long as that is there something is left to do: a repeat, the next anchor, and whoever wants to use
//! either name do it before anything else. Nothing is written over.

use netsky_disk::fault;
use netsky_disk::fs::Dir;
use netsky_disk::lock::Lock;
use netsky_model::id::{AgentId, LineageId};

use super::recall::Renamed;
use super::revive;
use super::settle::hold;
use super::state::{Anchor, about, internal, not_found, unwritten};
use super::table::Life;
use crate::log::say;
use crate::meta_file::{self, MetaFileError};
use crate::rpc::rename::Params;
use crate::rpc::{EventKind, Refusal, RefusalKind, SessionView, event_data};
use crate::session::{Keeper, Meta};

pub(super) fn rename(anchor: &Anchor, params: Params) -> Result<SessionView, Refusal> {
    let Params { session, to, guard } = params;
    if let Some(lineage) = begun_before(anchor, &session, &to, guard.request_id.as_ref()) {
        finish(anchor, &lineage)?;
        return anchor.view(&to);
    }
    let meta = anchor.entry(&session, |entry| entry.meta.clone()).ok_or_else(|| not_found(&session))?;
    guard.believes(&session, meta.generation)?;
    if session == to {
        let message = format!("{session} has that name already: there is nothing to rename");
        return Err(Refusal::new(RefusalKind::BadParams, message));
    }
    may_change(anchor, &meta)?;
    usable(anchor, &session)?;
    usable(anchor, &to)?;
    is_free(anchor, &to)?;
    let held = hold_both(anchor, &session, &to)?;
    let data = event_data::Renamed { to: to.clone(), request_id: guard.request_id };
    anchor.commit(EventKind::Renamed, Some(about(&meta)), data).map_err(unwritten)?;
    // From the row on that is its name, however far its files are.
    anchor.rename(&session, &to);
    drop(held);
    fault::point("anchor.rename.journalled").map_err(internal)?;
    finish(anchor, &meta.lineage)?;
    anchor.view(&to)
}

/// Whose row of that very call is there, or is not yet followed by all that it says: the anchor or its disk failed between.
fn begun_before(
    anchor: &Anchor,
    session: &AgentId,
    to: &AgentId,
    request_id: Option<&String>,
) -> Option<LineageId> {
    let same = |renamed: &Renamed| renamed.from == *session && renamed.to == *to;
    anchor.recall(|recall| {
        recall.renames().find_map(|(lineage, renamed)| {
            let repeated = request_id.is_some() && renamed.request_id.as_ref() == request_id;
            let found = same(renamed) && (repeated || is_left(anchor, lineage, renamed));
            found.then(|| lineage.clone())
        })
    })
}

fn is_left(anchor: &Anchor, lineage: &LineageId, renamed: &Renamed) -> bool {
    left(anchor, lineage, renamed).is_ok_and(|meta| meta.is_some())
}

/// The description that is still there under the former name; another session may have that name by now.
fn left(anchor: &Anchor, lineage: &LineageId, renamed: &Renamed) -> Result<Option<Meta>, MetaFileError> {
    match meta_file::read(&anchor.layout, &renamed.from) {
        // What does not read was not left by us.
        Err(MetaFileError::Meta { .. }) => Ok(None),
        read => Ok(read?.filter(|meta| meta.lineage == *lineage)),
    }
}

fn may_change(anchor: &Anchor, meta: &Meta) -> Result<(), Refusal> {
    let name = &meta.spec.name;
    let no = |kind, why: &str| Err(Refusal::new(kind, format!("{name} {why}")));
    if meta.spec.keeper == Keeper::Watchdog {
        return no(RefusalKind::Refused, "is named by its keeper, who is above the kernel");
    }
    match anchor.entry(name, |entry| (entry.life, entry.asking)) {
        None => Err(not_found(name)),
        Some((Life::Starting | Life::Live, _)) => {
            no(RefusalKind::Refused, "lives, and its worker writes under that name: end it first")
        }
        Some((Life::Foreign, _)) => {
            no(RefusalKind::Refused, "cannot be judged from here and may live: end it first")
        }
        Some((Life::Ending, _)) => no(RefusalKind::Busy, "is ending"),
        Some((Life::Gone, false)) if revive::wanted(anchor, &about(meta)) => {
            no(RefusalKind::Refused, "is about to come back: end it first")
        }
        Some((Life::Gone, _)) => Ok(()),
    }
}

/// Whether nobody has that name, as far as the table, the journal and the files know. Of one that was renamed only its lock
/// is left, which is nobody's.
fn is_free(anchor: &Anchor, name: &AgentId) -> Result<(), Refusal> {
    let taken = |by: &str| Err(Refusal::new(RefusalKind::Refused, format!("{name} is taken: {by}")));
    if anchor.entry(name, |_| ()).is_some() {
        return taken("there is such a session");
    }
    if anchor.recall(|recall| recall.session(name).is_some()) {
        return taken("the journal knows such a session, whose description is lost");
    }
    let files = Dir::open(anchor.layout.agents()).and_then(|agents| agents.names()).map_err(internal)?;
    match files.iter().find(|file| ending(file, name).is_some_and(|ending| ending != "lock")) {
        Some(file) => taken(&format!("agents/{file} is there")),
        None => Ok(()),
    }
}

/// How a file's name goes on behind that of a session; none of another's.
fn ending<'a>(file: &'a str, name: &AgentId) -> Option<&'a str> {
    file.strip_prefix(name.as_str())?.strip_prefix('.')
}

/// Before a name is used: does what is left to do of renames from it or to it.
pub(super) fn usable(anchor: &Anchor, name: &AgentId) -> Result<(), Refusal> {
    let of = |renamed: &Renamed| renamed.from == *name || renamed.to == *name;
    let lineages: Vec<LineageId> = anchor.recall(|recall| {
        recall.renames().filter(|(_, renamed)| of(renamed)).map(|(lineage, _)| lineage.clone()).collect()
    });
    lineages.iter().try_for_each(|lineage| finish(anchor, lineage))
}

/// Does what the row of a lineage's newest rename says, as far as it is not done.
fn finish(anchor: &Anchor, lineage: &LineageId) -> Result<(), Refusal> {
    let Some(renamed) = anchor.recall(|recall| recall.renamed(lineage).cloned()) else { return Ok(()) };
    let Some(meta) = left(anchor, lineage, &renamed).map_err(internal)? else { return Ok(()) };
    let Renamed { from, to, .. } = &renamed;
    let _held = hold_both(anchor, from, to)?;
    move_files(anchor, meta, &renamed).map_err(|why| {
        let message = format!("{from} is {to}, and not all of its files are: {why}; a repeat goes on");
        Refusal::new(RefusalKind::Internal, message)
    })
}

/// Keeps everybody else away from both names.
fn hold_both(anchor: &Anchor, from: &AgentId, to: &AgentId) -> Result<(Lock, Lock), Refusal> {
    let busy = || Refusal::new(RefusalKind::Busy, format!("somebody is at {from} or {to}"));
    hold(anchor, from).zip(hold(anchor, to)).ok_or_else(busy)
}

fn move_files(anchor: &Anchor, meta: Meta, renamed: &Renamed) -> Result<(), MetaFileError> {
    let Renamed { from, to, .. } = renamed;
    if meta_file::read(&anchor.layout, to)?.is_none() {
        anchor.write_meta(&named(anchor, meta, to))?;
    }
    let cut = |error| netsky_disk::Error::new("rename", anchor.layout.meta(from), error);
    fault::point("anchor.rename.described").map_err(cut)?;
    let agents = Dir::open(anchor.layout.agents())?;
    for file in agents.names()? {
        match ending(&file, from) {
            None | Some("lock" | "meta") => {}
            Some("sock") => drop(agents.remove(&file)?),
            Some(rest) => agents.rename(&file, &agents, format!("{to}.{rest}"))?,
        }
    }
    netsky_disk::state::remove(anchor.layout.heartbeat(from))?;
    // Before the one is gone by which somebody would know that others are not.
    agents.sync()?;
    netsky_disk::state::remove(anchor.layout.meta(from))?;
    Ok(())
}

fn named(anchor: &Anchor, mut meta: Meta, name: &AgentId) -> Meta {
    meta.spec.name = name.clone();
    meta.socket = anchor.layout.worker_sock(name);
    meta.written_at = netsky_disk::clock::stamp();
    meta
}

/// A description that an anchor found when it started, under the name that its session has; none where it is among these
/// files under that name too. What could not be finished is tried again by whoever uses either name.
pub(super) fn found(anchor: &Anchor, meta: Meta, files: &[String]) -> Option<Meta> {
    let renamed = anchor.recall(|recall| recall.renamed(&meta.lineage).cloned());
    let Some(Renamed { to, .. }) = renamed.filter(|renamed| renamed.from == meta.spec.name) else {
        return Some(meta);
    };
    if let Err(refusal) = finish(anchor, &meta.lineage) {
        say!("{refusal}");
    }
    let twice = files.contains(&format!("{to}.meta"));
    (!twice).then(|| named(anchor, meta, &to))
}
