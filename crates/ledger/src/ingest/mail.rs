//! Envelopes on their way in: the folder is the state, the name says the rest, the file is read once.
//!
//! A folder whose times are as they were is not listed. Folders are listed in the order of a life, so that what moves
//! meanwhile is met again; what is met nowhere is looked for a second time before it counts as gone. What is gone was
//! removed by retention: the last line about it says how it ended, and without a line it is forgotten.

use std::ffi::OsStr;

use netsky_disk::fs::Dir;
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::AgentId;
use netsky_model::life::{STATES, State};
use netsky_model::name::{Name, REASON_BYTES, is_reason, reason_of};
use rusqlite::{OptionalExtension, Statement};
use serde::Deserialize;

use super::batch::Batch;
use super::refused::Row;
use super::told::sort_of;
use crate::error::{Result, sql};

/// Takes what is new or has moved.
pub(super) fn ingest(batch: &mut Batch<'_>) -> Result<()> {
    let mut rows = Rows::prepare(batch)?;
    for agent in batch.layout.channel_agents()? {
        let mut seen = Seen::default();
        for state in STATES {
            look(batch, &mut rows, &agent, state, &mut seen, false)?;
        }
        if rows.keep_lost(&mut seen)? {
            for state in STATES {
                look(batch, &mut rows, &agent, state, &mut seen, true)?;
            }
            rows.settle(&mut seen)?;
        }
        for (source, version) in &seen.versions {
            batch.saw(source, version.as_deref())?;
        }
    }
    Ok(())
}

/// What was seen of one agent's folders.
#[derive(Default)]
struct Seen {
    /// Rows whose files are where they were no more: in which folder, under which name.
    lost: Vec<(i64, State, String)>,
    /// What the folders were like before they were listed; said when all of it is in.
    versions: Vec<(String, Option<String>)>,
}

/// Tries an envelope once more that was refused; true if it is in now, or has moved on and was met elsewhere.
pub(super) fn again(batch: &mut Batch<'_>, path: &str) -> Result<bool> {
    let mut parts = path.split('/').skip(2);
    let (Some(agent), Some(folder), Some(file), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Ok(false);
    };
    let state = STATES.into_iter().find(|state| state.folder() == folder);
    let (Ok(agent), Some(state)) = (agent.parse::<AgentId>(), state) else { return Ok(false) };
    let Ok(dir) = Dir::open(batch.layout.folder(&agent, state)) else { return Ok(true) };
    if !dir.exists(file)? {
        return Ok(true);
    }
    let mut rows = Rows::prepare(batch)?;
    let before = batch.done.envelopes;
    rows.meet(batch, &Folder { agent: &agent, state, dir: &dir }, file)?;
    Ok(batch.done.envelopes > before)
}

/// A folder that is looked at.
struct Folder<'a> {
    agent: &'a AgentId,
    state: State,
    dir: &'a Dir,
}

impl Folder<'_> {
    fn path(&self, file: &str) -> String {
        format!("channels/agent/{}/{}/{file}", self.agent, self.state.folder())
    }
}

/// Compares a folder with what is known of it, if its times have changed or it `must` be.
fn look(
    batch: &mut Batch<'_>,
    rows: &mut Rows<'_>,
    agent: &AgentId,
    state: State,
    seen: &mut Seen,
    must: bool,
) -> Result<()> {
    let source = format!("channels/agent/{agent}/{}", state.folder());
    let dir = match Dir::open(batch.layout.folder(agent, state)) {
        Err(e) if e.is_not_found() => None,
        opened => Some(opened?),
    };
    let version = dir.as_ref().map(Dir::version).transpose()?.flatten();
    let known = batch.version(&source)?;
    if !must && (version.is_some() && version == known || dir.is_none() && known.is_none()) {
        return Ok(());
    }
    let names = dir.as_ref().map(|dir| envelopes_in(dir, state)).transpose()?.unwrap_or_default();
    batch.unlist_gone(&source, &names)?;
    let new = rows.compare(agent, state, names, &mut seen.lost)?;
    if let Some(dir) = &dir {
        for file in new {
            rows.meet(batch, &Folder { agent, state, dir }, &file)?;
            if batch.is_full() {
                batch.turn_over()?;
            }
        }
    }
    seen.versions.push((source, version));
    Ok(())
}

/// The files of a folder that are no reasons, sorted.
fn envelopes_in(dir: &Dir, state: State) -> Result<Vec<String>> {
    let mut names = dir.names()?;
    if state == State::Poisoned {
        names.retain(|name| !is_reason(OsStr::new(name)));
    }
    Ok(names)
}

/// What is read of an envelope's file; what it lacks is left out, and its digest is the business of `check`.
#[derive(Default, Deserialize)]
struct Content {
    /// Bytes of the file; none where it was not read.
    #[serde(skip)]
    bytes: Option<usize>,
    from: Option<String>,
    ts: Option<String>,
    kind: Option<String>,
    thread: Option<String>,
    text: Option<String>,
}

/// Statements for envelopes.
struct Rows<'db> {
    known: Statement<'db>,
    lost: Statement<'db>,
    told: Statement<'db>,
    forget: Statement<'db>,
    silence: Statement<'db>,
    found: Statement<'db>,
    place: Statement<'db>,
    fill: Statement<'db>,
    make: Statement<'db>,
    say: Statement<'db>,
}

impl<'db> Rows<'db> {
    fn prepare(batch: &Batch<'db>) -> Result<Rows<'db>> {
        Ok(Rows {
            known: batch.prepare(
                "SELECT n, file FROM envelopes WHERE to_agent = ?1 AND state = ?2 AND file IS NOT NULL ORDER BY file",
            )?,
            lost: batch.prepare("SELECT 1 FROM envelopes WHERE n = ?1 AND state = ?2 AND file = ?3")?,
            told: batch.prepare(
                "UPDATE envelopes SET file = NULL, state = told_state, attempt = told_attempt, reason = told_reason
                 WHERE n = ?1 AND told_src IS NOT NULL",
            )?,
            forget: batch.prepare("DELETE FROM envelopes WHERE n = ?1")?,
            silence: batch.prepare("DELETE FROM bodies WHERE envelope = ?1")?,
            found: batch
                .prepare("SELECT n, bytes IS NULL FROM envelopes WHERE to_agent = ?1 AND hlc = ?2 AND id = ?3")?,
            place: batch.prepare(
                "UPDATE envelopes SET state = ?2, attempt = ?3, generation = ?4, file = ?5, reason = ?6 WHERE n = ?1",
            )?,
            fill: batch.prepare(
                "UPDATE envelopes SET bytes = ?2, from_agent = coalesce(?3, from_agent), source = coalesce(?4, source),
                 ts_utc = ?5, kind = ?6, thread = ?7 WHERE n = ?1",
            )?,
            make: batch.prepare(
                "INSERT INTO envelopes (to_agent, hlc, id, state, attempt, generation, file, reason,
                 bytes, from_agent, source, ts_utc, kind, thread)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?,
            say: batch.prepare("INSERT OR REPLACE INTO bodies VALUES (?1, ?2)")?,
        })
    }

    /// Names that are new in a folder; what is there no more is added to `lost`.
    fn compare(
        &mut self,
        agent: &AgentId,
        state: State,
        names: Vec<String>,
        lost: &mut Vec<(i64, State, String)>,
    ) -> Result<Vec<String>> {
        let mut new = Vec::new();
        let mut names = names.into_iter().peekable();
        let mut known = self.known.query((agent.as_str(), state.word())).map_err(sql("read"))?;
        while let Some(row) = known.next().map_err(sql("read"))? {
            let file: String = row.get(1).map_err(sql("read"))?;
            while let Some(before) = names.next_if(|name| *name < file) {
                new.push(before);
            }
            if names.next_if(|name| *name == file).is_none() {
                lost.push((row.get(0).map_err(sql("read"))?, state, file));
            }
        }
        new.extend(names);
        Ok(new)
    }

    /// Keeps of what was lost only what was met nowhere else; whether there is such.
    fn keep_lost(&mut self, seen: &mut Seen) -> Result<bool> {
        let mut lost = Vec::new();
        for (row, state, file) in std::mem::take(&mut seen.lost) {
            if self.lost.exists((row, state.word(), &file)).map_err(sql("read"))? {
                lost.push((row, state, file));
            }
        }
        seen.lost = lost;
        Ok(!seen.lost.is_empty())
    }

    /// What became of envelopes whose files are in no folder.
    fn settle(&mut self, seen: &mut Seen) -> Result<()> {
        self.keep_lost(seen)?;
        for (row, ..) in &seen.lost {
            if self.told.execute([row]).map_err(sql("write to"))? == 0 {
                self.forget.execute([row]).map_err(sql("write to"))?;
                self.silence.execute([row]).map_err(sql("write to"))?;
            }
        }
        Ok(())
    }

    /// Takes a file that is new in its folder.
    fn meet(&mut self, batch: &mut Batch<'_>, folder: &Folder<'_>, file: &str) -> Result<()> {
        let Some(name) = Name::parse(file) else {
            return batch.list(&folder.path(file), 0, "is not a name of the bus");
        };
        let mut trouble = None;
        let taken = batch.row(
            || Row::Envelope { path: folder.path(file) },
            || self.put(folder, file, &name).map(|why| trouble = why),
        )?;
        batch.done.envelopes += u64::from(taken);
        match trouble {
            Some(why) => batch.list(&folder.path(file), 0, &why),
            None => Ok(()),
        }
    }

    /// Says where an envelope is, and what it says if its file was not read yet; returns why that does not read.
    fn put(&mut self, folder: &Folder<'_>, file: &str, name: &Name) -> Result<Option<String>> {
        let state = folder.state.word();
        let (reason, unread) = match folder.state {
            State::Poisoned => reason_beside(folder.dir, file),
            _ => (None, None),
        };
        let generation = name.stage.generation().map(|generation| generation.0);
        let hlc = i64::try_from(name.key.hlc.0).unwrap_or(i64::MAX);
        let (agent, id) = (folder.agent.as_str(), name.key.id.as_str());
        let told = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = self.found.query_row((agent, hlc, id), told).optional().map_err(sql("read"))?;
        if let Some((row, _)) = found {
            let place: (i64, _, _, _, _, _) = (row, state, name.attempt, generation, file, reason.as_deref());
            self.place.execute(place).map_err(sql("write to"))?;
        }
        let (content, trouble) = match found {
            Some((_, false)) => return Ok(unread),
            _ => read(folder, file),
        };
        let sort = content.from.as_deref().map(sort_of);
        let Content { bytes, from, ts, kind, thread, text } = &content;
        let row = match found {
            // One that has moved on is read where it is met next.
            Some((row, _)) if bytes.is_none() => row,
            Some((row, _)) => {
                self.fill.execute((row, bytes, from, sort, ts, kind, thread)).map_err(sql("write to"))?;
                row
            }
            None => {
                let at = name.attempt;
                let row = (
                    agent, hlc, id, state, at, generation, file, reason, bytes, from, sort, ts, kind, thread,
                );
                self.make.insert(row).map_err(sql("write to"))?
            }
        };
        if let Some(text) = text {
            self.say.execute((row, text)).map_err(sql("write to"))?;
        }
        Ok(trouble.or(unread))
    }
}

/// Reads what an envelope says, nothing where it is gone, and why it does not read.
fn read(folder: &Folder<'_>, file: &str) -> (Content, Option<String>) {
    let nothing = |why| (Content::default(), why);
    let bytes = match folder.dir.read(file, MAX_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(netsky_disk::ReadError::Io(error)) if error.is_not_found() => return nothing(None),
        Err(error) => return nothing(Some(error.to_string())),
    };
    let content = match serde_json::from_slice::<Content>(&bytes) {
        Ok(content) => content,
        // A dead letter says itself why it is one.
        Err(_) if folder.state == State::Poisoned => Content::default(),
        // It is read again, and listed, where it is met next.
        Err(error) => return nothing(Some(format!("is no envelope: {error}"))),
    };
    (Content { bytes: Some(bytes.len()), ..content }, None)
}

/// Why a dead letter is one, or why that does not read.
fn reason_beside(dir: &Dir, file: &str) -> (Option<String>, Option<String>) {
    match dir.read(reason_of(file), REASON_BYTES) {
        Ok(bytes) => (Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()), None),
        Err(netsky_disk::ReadError::Io(error)) if error.is_not_found() => (None, None),
        Err(error) => (None, Some(format!("its reason does not read: {error}"))),
    }
}
