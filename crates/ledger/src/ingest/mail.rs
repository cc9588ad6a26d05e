//! Envelopes on their way in: the folder is the state, the name says the rest, the file is read once.
//!
//! A folder whose times are as they were is not listed. Folders are listed in the order of a life, so that what moves
//! meanwhile is met again; what is met nowhere is looked for a second time before it counts as gone. What is gone was
//! removed by retention: the last line about it says how it ended, and without a line it is forgotten.
//!
//! A folder that does not open is listed, and what is known of its agent's mail stays as it is: what is met nowhere may be
//! in there. Until it opens, none of that agent's folders that had changed counts as seen. A link in the place of an
//! agent's folder does not open, wherever it leads: what is in there is opened by its path. A plain file there that never
//! was an agent's is nobody.
//!
//! What the machine would not give is asked for again: the folder does not count as seen. What lacks its content or its
//! reason is tried whenever its folder is looked at, until too many were tried in vain: a look costs no more for them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use netsky_disk::fs::{Dir, is_plain_or_free, is_real_folder};
use netsky_disk::{ReadError, clock};
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

/// Files that are tried again in vain at one look at their folder; where there are more, the next look goes on.
const IN_VAIN: usize = 100;

/// The version of a folder that is there and does not count as seen; no folder has it.
const UNSEEN: &str = "";

/// Takes what is new or has moved.
pub(super) fn ingest(batch: &mut Batch<'_>) -> Result<()> {
    let mut rows = Rows::prepare(batch)?;
    for agent in agents(batch)? {
        let mut seen = Seen::default();
        let source = format!("{AGENTS}{agent}");
        let is_gone = match need_folder(&batch.layout.channel(&agent)) {
            Err(error) if error.is_not_found() => true,
            Err(_) if is_nobody(batch, &agent)? => {
                batch.unlist(&source, 0)?;
                continue;
            }
            Err(error) => {
                shut(batch, &mut seen, source, error)?;
                continue;
            }
            Ok(()) => false,
        };
        batch.unlist(&source, 0)?;
        for state in STATES {
            look(batch, &mut rows, &agent, state, &mut seen, false)?;
        }
        if rows.keep_lost(&mut seen)? {
            for state in STATES {
                look(batch, &mut rows, &agent, state, &mut seen, true)?;
            }
            if !seen.shut {
                rows.settle(&mut seen)?;
            }
        }
        for (source, version) in &seen.versions {
            batch.saw(source, if seen.shut { Some(UNSEEN) } else { version.as_deref() })?;
        }
        if is_gone && seen.is_nothing() {
            // Nothing is known of it any more, and it is looked at no more.
            batch.run("DELETE FROM sources WHERE name > ?1 || '/' AND name < ?1 || '0'", [&source])?;
        }
    }
    Ok(())
}

/// What the names of agents' folders begin with among the sources.
const AGENTS: &str = "channels/agent/";

/// Whose mail there is, or was when it was looked at last, whatever has the place of its folder now; also who is listed.
fn agents(batch: &Batch<'_>) -> Result<BTreeSet<AgentId>> {
    let mut names = match Dir::open(batch.layout.channels()) {
        Err(e) if e.is_not_found() => Vec::new(),
        opened => opened?.names()?,
    };
    let mut asked = batch.prepare(
        "SELECT name FROM sources WHERE name GLOB 'channels/agent/*' UNION
         SELECT file FROM source_errors WHERE file GLOB 'channels/agent/*' AND file NOT GLOB 'channels/agent/*/*'",
    )?;
    let seen = asked.query_map([], |row| row.get::<_, String>(0)).and_then(Iterator::collect);
    let seen: Vec<String> = seen.map_err(sql("read"))?;
    names.extend(
        seen.iter().filter_map(|name| Some(name.strip_prefix(AGENTS)?.split('/').next()?.to_owned())),
    );
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Fails where an agent's folder is none of its own: what is in it is opened by its path, so a link would lead elsewhere.
fn need_folder(place: &Path) -> netsky_disk::Result<()> {
    if is_real_folder(place) { Ok(()) } else { Dir::look_into(place).map(drop) }
}

/// Whether a plain file is in the place of an agent's folder, and nothing is known of such an agent.
fn is_nobody(batch: &Batch<'_>, agent: &AgentId) -> Result<bool> {
    if !is_plain_or_free(batch.layout.channel(agent)).unwrap_or(false) {
        return Ok(false);
    }
    let mut asked = batch.prepare(
        "SELECT 1 FROM sources WHERE name > ?1 || '/' AND name < ?1 || '0' UNION ALL
         SELECT 1 FROM envelopes WHERE to_agent = ?2",
    )?;
    Ok(!asked.exists((format!("{AGENTS}{agent}"), agent.as_str())).map_err(sql("read"))?)
}

/// Lists what does not open. Fails where nothing more can be opened: the next folder would fare no better.
fn shut(batch: &mut Batch<'_>, seen: &mut Seen, source: String, error: netsky_disk::Error) -> Result<()> {
    if error.is_out_of_descriptors() {
        return Err(error.into());
    }
    batch.list(&source, 0, &format!("cannot be read: {}", error.source))?;
    batch.done.shut.get_or_insert_with(|| error.to_string());
    seen.shut = true;
    Ok(())
}

/// What was seen of one agent's folders.
#[derive(Default)]
struct Seen {
    /// Rows whose files are where they were no more: in which folder, under which name.
    lost: Vec<(i64, State, String)>,
    /// What the folders were like before they were listed; said when all of it is in.
    versions: Vec<(String, Option<String>)>,
    /// One of them did not open.
    shut: bool,
}

impl Seen {
    /// There is no folder, for certain.
    fn is_nothing(&self) -> bool {
        !self.shut && self.versions.iter().all(|(_, version)| version.is_none())
    }
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
    let opened = need_folder(&batch.layout.channel(&agent))
        .and_then(|()| Dir::open(batch.layout.folder(&agent, state)))
        .and_then(|dir| Ok(dir.exists(file)?.then_some(dir)));
    let dir = match opened {
        Err(e) if e.is_out_of_descriptors() => return Err(e.into()),
        Err(_) => {
            // When it opens, what is not in is met as new, also where nothing in there has changed.
            batch.saw(&source(&agent, state), Some(UNSEEN))?;
            return Ok(true);
        }
        Ok(None) => return Ok(true),
        Ok(Some(dir)) => dir,
    };
    let mut rows = Rows::prepare(batch)?;
    let before = batch.done.envelopes;
    let folder = Folder { agent: &agent, state, dir: &dir };
    if rows.meet(batch, &folder, file)? == Met::Later {
        batch.saw(&folder.source(), Some(UNSEEN))?;
    }
    Ok(batch.done.envelopes > before)
}

/// A folder that is looked at.
struct Folder<'a> {
    agent: &'a AgentId,
    state: State,
    dir: &'a Dir,
}

impl Folder<'_> {
    /// Its name among the sources.
    fn source(&self) -> String {
        source(self.agent, self.state)
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.source())
    }
}

fn source(agent: &AgentId, state: State) -> String {
    format!("{AGENTS}{agent}/{}", state.folder())
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
    let source = source(agent, state);
    let known = batch.version(&source)?.filter(|_| !must);
    let found = match list(&batch.layout.folder(agent, state), state, known.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            seen.versions.push((source.clone(), None));
            return shut(batch, seen, source, error);
        }
    };
    batch.unlist(&source, 0)?;
    let (dir, version, names) = match found {
        Found::Same => return Ok(()),
        Found::Nothing if !must && known.is_none() => return Ok(()),
        Found::Nothing => (None, None, Names::default()),
        Found::Names(dir, version, names) => (Some(dir), version, names),
    };
    batch.unlist_gone(&source, &names.envelopes)?;
    let lacking = rows.lacking(agent, state, &names)?;
    let new = rows.compare(agent, state, names.envelopes, &mut seen.lost)?;
    let mut whole = true;
    if let Some(dir) = &dir {
        let folder = Folder { agent, state, dir };
        for file in new {
            whole &= rows.meet(batch, &folder, &file)? != Met::Later;
            if batch.is_full() {
                batch.turn_over()?;
            }
        }
        whole &= rows.try_again(batch, &folder, lacking)?;
    }
    // What is there and cannot be told from what it was is looked at again, and when it is gone.
    let seen_as = dir.map(|_| version.filter(|_| whole).unwrap_or_else(|| UNSEEN.to_owned()));
    seen.versions.push((source, seen_as));
    Ok(())
}

/// What a folder holds, sorted.
#[derive(Default)]
struct Names {
    envelopes: Vec<String>,
    /// Why dead letters are such.
    reasons: Vec<String>,
}

/// What a folder is found to be.
enum Found {
    /// None.
    Nothing,
    /// As it was.
    Same,
    /// A folder, what it was like before it was listed, and what it holds.
    Names(Dir, Option<String>, Names),
}

/// Lists a folder that is not as it is `known`.
fn list(path: &Path, state: State, known: Option<&str>) -> netsky_disk::Result<Found> {
    let dir = match Dir::open(path) {
        Err(e) if e.is_not_found() => return Ok(Found::Nothing),
        opened => opened?,
    };
    let version = dir.version()?;
    if version.is_some() && version.as_deref() == known {
        return Ok(Found::Same);
    }
    let names = names_in(&dir, state)?;
    Ok(Found::Names(dir, version, names))
}

fn names_in(dir: &Dir, state: State) -> netsky_disk::Result<Names> {
    let of_reason = |name: &String| state == State::Poisoned && is_reason(OsStr::new(name));
    let (reasons, envelopes) = dir.names()?.into_iter().partition(of_reason);
    Ok(Names { envelopes, reasons })
}

/// How a file was met.
#[derive(PartialEq, Eq)]
enum Met {
    /// What it says is in.
    Whole,
    /// It is no envelope, or none that is read.
    Unfit,
    /// The machine would not give it now.
    Later,
}

/// Why a file does not read.
struct Unread {
    why: String,
    /// It is the machine that refuses, and may give it later.
    passing: bool,
}

impl Unread {
    /// Fails where nothing more can be opened: the next file would fare no better.
    fn of(error: ReadError, before: &str) -> Result<Unread> {
        match error {
            ReadError::Io(error) if error.is_out_of_descriptors() => Err(error.into()),
            error => {
                let passing = matches!(error, ReadError::Io(_));
                Ok(Unread { why: format!("{before}{error}"), passing })
            }
        }
    }
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
    lacking: Statement<'db>,
    lost: Statement<'db>,
    told: Statement<'db>,
    forget: Statement<'db>,
    silence: Statement<'db>,
    found: Statement<'db>,
    place: Statement<'db>,
    fill: Statement<'db>,
    make: Statement<'db>,
    unlist: Statement<'db>,
    say: Statement<'db>,
}

impl<'db> Rows<'db> {
    fn prepare(batch: &Batch<'db>) -> Result<Rows<'db>> {
        Ok(Rows {
            known: batch.prepare(
                "SELECT n, file FROM envelopes WHERE to_agent = ?1 AND state = ?2 AND file IS NOT NULL ORDER BY file",
            )?,
            lacking: batch.prepare(
                "SELECT file, bytes IS NULL FROM envelopes INDEXED BY envelopes_lacking
                 WHERE to_agent = ?1 AND state = ?2 AND file IS NOT NULL
                   AND (bytes IS NULL OR state = 'poisoned' AND reason IS NULL)",
            )?,
            lost: batch.prepare("SELECT 1 FROM envelopes WHERE n = ?1 AND state = ?2 AND file = ?3")?,
            told: batch.prepare(
                "UPDATE envelopes SET file = NULL, state = told_state, attempt = told_attempt, reason = told_reason
                 WHERE n = ?1 AND told_src IS NOT NULL",
            )?,
            forget: batch.prepare("DELETE FROM envelopes WHERE n = ?1")?,
            silence: batch.prepare("DELETE FROM bodies WHERE envelope = ?1")?,
            // One that was read and is no envelope has no time either.
            found: batch.prepare(
                "SELECT n, bytes IS NULL OR ts_utc IS NULL FROM envelopes WHERE to_agent = ?1 AND hlc = ?2 AND id = ?3",
            )?,
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
            unlist: batch.prepare("DELETE FROM source_errors WHERE file = ?1")?,
            say: batch.prepare("INSERT OR REPLACE INTO bodies VALUES (?1, ?2)")?,
        })
    }

    /// Files that are where they were and lack their content, or a reason that is beside them.
    fn lacking(&mut self, agent: &AgentId, state: State, names: &Names) -> Result<Vec<String>> {
        let mut lacking = Vec::new();
        let mut asked = self.lacking.query((agent.as_str(), state.word())).map_err(sql("read"))?;
        while let Some(row) = asked.next().map_err(sql("read"))? {
            let (file, unread): (String, bool) = row.try_into().map_err(sql("read"))?;
            let is_there = names.envelopes.binary_search(&file).is_ok();
            if is_there && (unread || names.reasons.binary_search(&reason_of(&file)).is_ok()) {
                lacking.push(file);
            }
        }
        Ok(lacking)
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

    /// Tries files again that lack something; false where that is to go on at the next look.
    fn try_again(
        &mut self,
        batch: &mut Batch<'_>,
        folder: &Folder<'_>,
        mut lacking: Vec<String>,
    ) -> Result<bool> {
        let (mut whole, mut in_vain) = (true, 0);
        // From anywhere: what never reads is not always before the others.
        let first = clock::boot().subsec_nanos() as usize % lacking.len().max(1);
        lacking.rotate_left(first);
        for file in lacking {
            if in_vain == IN_VAIN {
                return Ok(false);
            }
            let met = self.meet(batch, folder, &file)?;
            in_vain += usize::from(met != Met::Whole);
            whole &= met != Met::Later;
            if batch.is_full() {
                batch.turn_over()?;
            }
        }
        Ok(whole)
    }

    /// Takes a file that is new in its folder, or lacks something.
    fn meet(&mut self, batch: &mut Batch<'_>, folder: &Folder<'_>, file: &str) -> Result<Met> {
        let Some(name) = Name::parse(file) else {
            return batch.list(&folder.path(file), 0, "is not a name of the bus").map(|()| Met::Unfit);
        };
        let mut unread = None;
        let taken = batch.row(
            || Row::Envelope { path: folder.path(file) },
            || self.put(folder, file, &name).map(|trouble| unread = trouble),
        )?;
        batch.done.envelopes += u64::from(taken);
        match unread {
            Some(Unread { why, passing }) => {
                batch.list(&folder.path(file), 0, &why)?;
                Ok(if passing { Met::Later } else { Met::Unfit })
            }
            None if taken => {
                self.unlist.execute([folder.path(file)]).map_err(sql("write to"))?;
                Ok(Met::Whole)
            }
            None => Ok(Met::Unfit),
        }
    }

    /// Says where an envelope is, and what it says if its file was not read yet; returns why that does not read.
    fn put(&mut self, folder: &Folder<'_>, file: &str, name: &Name) -> Result<Option<Unread>> {
        let state = folder.state.word();
        let (reason, unread) = match folder.state {
            State::Poisoned => reason_beside(folder.dir, file)?,
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
            _ => read(folder, file)?,
        };
        let sort = content.from.as_deref().map(sort_of);
        let Content { bytes, from, ts, kind, thread, text } = &content;
        let row = match found {
            // One that has moved on is read where it is met next.
            Some((row, _)) if bytes.is_none() && trouble.is_none() => row,
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
fn read(folder: &Folder<'_>, file: &str) -> Result<(Content, Option<Unread>)> {
    let bytes = match folder.dir.read(file, MAX_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(ReadError::Io(error)) if error.is_not_found() => return Ok((Content::default(), None)),
        Err(error) => return Ok((Content::default(), Some(Unread::of(error, "")?))),
    };
    let (content, unread) = match serde_json::from_slice::<Content>(&bytes) {
        Ok(content) => (content, None),
        // A dead letter says itself why it is one.
        Err(_) if folder.state == State::Poisoned => (Content::default(), None),
        // It is read again, and listed, where it is met next.
        Err(error) => {
            let why = format!("is no envelope: {error}");
            (Content::default(), Some(Unread { why, passing: false }))
        }
    };
    Ok((Content { bytes: Some(bytes.len()), ..content }, unread))
}

/// Why a dead letter is one, or why that does not read.
fn reason_beside(dir: &Dir, file: &str) -> Result<(Option<String>, Option<Unread>)> {
    match dir.read(reason_of(file), REASON_BYTES) {
        Ok(bytes) => Ok((Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()), None)),
        Err(ReadError::Io(error)) if error.is_not_found() => Ok((None, None)),
        Err(error) => Ok((None, Some(Unread::of(error, "its reason does not read: ")?))),
    }
}
