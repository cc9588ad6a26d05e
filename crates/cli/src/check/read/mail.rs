//! The mailboxes: every file of every folder, by name and by content.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use netsky_disk::fs::{Dir, is_real_folder};
use netsky_disk::layout::Layout;
use netsky_model::envelope::{Envelope, Invalid, MAX_BYTES};
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::{RETIRED, STATES, State};
use netsky_model::name::{Key, Name, is_reason, reason_of};

use super::files::{self, Content, StateFile};
use super::place;

/// Most bytes of an entry in `ids/`: one file name.
const ENTRY: u64 = 4096;

/// One agent's folders.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) agent: AgentId,
    /// Every file of the folders.
    pub(crate) pieces: Vec<Piece>,
    /// Every message that any look found, in whatever folder.
    pub(crate) keys: BTreeSet<Key>,
    /// One of its folders could not be looked into: what is not found may be there.
    pub(crate) unseen: bool,
    /// Ids marked as placed: the mark, and which message it speaks of.
    pub(crate) placed: Vec<(String, Option<Key>)>,
}

/// One file of a mailbox.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) place: String,
    pub(crate) state: State,
    /// None for a name that is not one of the bus.
    pub(crate) name: Option<Name>,
    pub(crate) content: Content,
    /// Whether a reason stands beside it, as in `poison/`.
    pub(crate) has_reason: bool,
}

/// Reads every mailbox.
pub(super) fn read(layout: &Layout, files: &mut Vec<StateFile>) -> netsky_disk::Result<Vec<Mailbox>> {
    let Some(channels) = files::folder(layout, layout.channels(), files)? else { return Ok(Vec::new()) };
    if let Some(above) = channels.path().parent() {
        files::folder(layout, above, files)?;
    }
    let agents = channels.names()?;
    agents.iter().filter_map(|name| name.parse().ok()).map(|agent| one(layout, agent, files)).collect()
}

fn one(layout: &Layout, agent: AgentId, files: &mut Vec<StateFile>) -> netsky_disk::Result<Mailbox> {
    let before = files.len();
    files::folder(layout, layout.channel(&agent), files)?;
    if !is_real_folder(layout.channel(&agent)) {
        // Gone meanwhile, or a link, behind which nothing is looked for.
        let unseen = files.len() > before;
        return Ok(Mailbox { agent, pieces: Vec::new(), keys: BTreeSet::new(), unseen, placed: Vec::new() });
    }
    let placed = placed(layout, &agent, files)?;
    let mut folders = Vec::new();
    for state in STATES {
        if let Some(dir) = files::folder(layout, layout.folder(&agent, state), files)? {
            folders.push((state, dir));
        }
    }
    let unseen = files.len() > before;
    let (mut pieces, mut keys) = (Vec::new(), BTreeSet::new());
    for (state, dir) in &folders {
        let names = dir.raw_names()?;
        let reasons: BTreeSet<&OsStr> = names.iter().map(|name| name.as_os_str()).collect();
        for file in &names {
            pieces.extend(piece(layout, *state, dir, file, &reasons)?);
        }
    }
    // A message that moved on, or back, between two folders of the first pass is met in the second.
    for (_, dir) in &folders {
        keys.extend(dir.names()?.iter().filter_map(|file| named(file)).map(|name| name.key));
    }
    keys.extend(pieces.iter().filter_map(|piece| piece.name.as_ref()).map(|name| name.key.clone()));
    still_there(layout, &mut pieces)?;
    Ok(Mailbox { agent, pieces, keys, unseen, placed })
}

/// A name of the bus; in `poison/` a second one of the same name has a suffix.
fn named(file: &str) -> Option<Name> {
    Name::parse(file).or_else(|| Name::parse(file.rsplit_once('~')?.0))
}

fn piece(
    layout: &Layout,
    state: State,
    dir: &Dir,
    file: &OsStr,
    all: &BTreeSet<&OsStr>,
) -> netsky_disk::Result<Option<Piece>> {
    let text = file.to_str();
    let place = place(layout, dir.path().join(file));
    let name = text.and_then(|text| if state == State::Poisoned { named(text) } else { Name::parse(text) });
    if state == State::Poisoned {
        if is_reason(file) {
            return Ok(None);
        }
        let has_reason = text.is_some_and(|text| all.contains(OsStr::new(&reason_of(text))));
        return Ok(Some(Piece { place, state, name, content: Content::Whole, has_reason }));
    }
    let Some(read) = files::bytes(dir, file, MAX_BYTES as u64)? else { return Ok(None) };
    let content = match read {
        Ok(bytes) => envelope(&bytes, name.as_ref().map(|name| &name.key.id)),
        Err(why) => Content::Damaged(why),
    };
    Ok(Some(Piece { place, state, name, content, has_reason: false }))
}

fn envelope(bytes: &[u8], id: Option<&EnvelopeId>) -> Content {
    match Envelope::parse(bytes) {
        Err(Invalid::Newer(_)) => Content::Newer,
        Err(invalid) => Content::Damaged(invalid.to_string()),
        Ok(envelope) => match (envelope.id, id) {
            (Some(inside), Some(outside)) if inside != *outside => {
                Content::Damaged(format!("holds message {inside} under the name of {outside}"))
            }
            _ => Content::Whole,
        },
    }
}

/// Leaves out what has moved on since it was seen, so that a move is not taken for a second copy.
fn still_there(layout: &Layout, pieces: &mut Vec<Piece>) -> netsky_disk::Result<()> {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<Key> = pieces
        .iter()
        .filter_map(|piece| piece.name.as_ref())
        .filter(|name| !seen.insert(name.key.clone()))
        .map(|name| name.key.clone())
        .collect();
    let is_there = |piece: &Piece| {
        let doubled = piece.name.as_ref().is_some_and(|name| twice.contains(&name.key));
        !doubled || layout.home().join(&piece.place).symlink_metadata().is_ok()
    };
    // Twice, since a name that was given back may come to be again between two looks.
    for _ in 0..2 {
        pieces.retain(is_there);
    }
    Ok(())
}

/// The ids whose mark says that their message was placed. Read before the folders: what they speak of must then be there.
fn placed(
    layout: &Layout,
    agent: &AgentId,
    files: &mut Vec<StateFile>,
) -> netsky_disk::Result<Vec<(String, Option<Key>)>> {
    let Some(ids) = files::folder(layout, layout.channel_ids(agent), files)? else { return Ok(Vec::new()) };
    let mut placed = Vec::new();
    for file in ids.names()? {
        let Some(id) = file.strip_suffix(".done") else { continue };
        // Its message was kept for long enough and went.
        if files::bytes(&ids, file.as_ref(), ENTRY)?
            .is_some_and(|read| read.is_ok_and(|text| text == RETIRED))
        {
            continue;
        }
        let entry = files::bytes(&ids, id.as_ref(), ENTRY)?.and_then(Result::ok);
        let text = entry.and_then(|bytes| String::from_utf8(bytes).ok());
        let name = text.and_then(|text| Name::parse(text.trim_end_matches('\n')));
        placed.push((place(layout, ids.path().join(&file)), name.map(|name| name.key)));
    }
    Ok(placed)
}
