//! The files of one lineage in `drain/`: the turns log and the last two snapshots.
//!
//! Order at a turn: its row is appended and synced; the snapshot before becomes `.prev`; the new one takes its place. Who
//! dies in between, or cannot write the snapshot, leaves N or N-1 whole, and the rows that lead from one to the other.
//!
//! A file that does not read is never overwritten: a snapshot is set aside in favour of the one before; behind a broken
//! log nothing is appended. A snapshot spares reading the rows before it, not seeing that they hold: that is done before
//! the first report that an anchor takes and before a revival, and again only where somebody else has touched the file since.

mod anew; // logs that begin behind something
mod untold; // what the journal has not of it

pub(crate) use untold::untold;

use std::path::{Path, PathBuf};

use netsky_disk::fs::{self, Dir, Place as Onto};
use netsky_disk::layout::KernelLayout;
use netsky_disk::lines::{LONGEST, Lines, Reader};
use netsky_disk::{ReadError, fault};
use netsky_model::chain;
use netsky_model::id::{Generation, LineageId};

use super::snapshot::{self, Place, Read, Runtime, Snapshot, SnapshotError};
use super::{JsonText, Misfit, ROW_VERSION, Report, Row, State, Told, handoff};
use crate::session::Meta;

/// Why a lineage's files cannot be used, or a report was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The disk said no; nothing was taken.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// The report does not fit.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The log has no room for it; nothing was taken.
    #[error("{} holds {bytes} bytes, the limit is {MAX_LOG}: a session of another name begins a new one", path.display())]
    Full {
        /// The log.
        path: PathBuf,
        /// What is in it.
        bytes: u64,
    },
    /// A file says something that cannot have been written, or was written by a later program.
    #[error("{} cannot be used: {why}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How.
        why: String,
    },
}

/// Most bytes of a turns log: ten thousand turns of 100 KiB. At the limit nothing more is taken, and nothing is dropped.
pub(super) const MAX_LOG: u64 = 1 << 30;

/// What a lineage has behind it, and where that is written down.
#[derive(Debug)]
pub struct Drain {
    lineage: LineageId,
    folder: PathBuf,
    state: State,
    place: Place,
    log: Option<Lines>,
    /// The log's file as it was when every row of it held, or was appended here to such; none where nobody has looked.
    held: Option<String>,
    /// The last two snapshots' files, the newest first, as they were written here or read at the turn before.
    whole: [Option<String>; 2],
}

/// What became of a report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is in the log, and where it ended a turn, in a snapshot.
    Whole,
    /// It was told before, under the same name.
    Before,
    /// It is in the log; the snapshot is still the one before.
    Unsnapped(String),
}

impl Drain {
    fn new(layout: &KernelLayout, lineage: &LineageId) -> Drain {
        let (state, place) = (State::default(), Place::default());
        let (lineage, folder) = (lineage.clone(), layout.drain());
        Drain { lineage, folder, state, place, log: None, held: None, whole: [None, None] }
    }

    /// Reads what is there; the notes name snapshots that do not read, which are
    /// passed over and set aside by the next one.
    pub(crate) fn open(
        layout: &KernelLayout,
        lineage: &LineageId,
    ) -> Result<(Drain, Vec<String>), DrainError> {
        let mut drain = Drain::new(layout, lineage);
        let Some(dir) = drain.dir()? else { return Ok((drain, Vec::new())) };
        let (read, notes) = drain.base(&dir)?.in_any_case()?;
        match read {
            Some(Read::Whole(snapshot)) => {
                (drain.state, drain.place) = (snapshot.state(), snapshot.log.clone());
                drain.follow(&dir, |_, _| {})?;
            }
            // A log says all that the old format said, if its messages were moved there before.
            Some(Read::Upgraded { turn, session_id }) => {
                drain.follow(&dir, |_, _| {})?;
                drain.move_in(turn, session_id)?;
            }
            None => drain.follow(&dir, |_, _| {})?,
        }
        // One is written where a turn ends: where no row tells of any, it was all there was.
        let told = drain.state.turn > 0 || drain.state.messages.count > 0;
        if !notes.is_empty() && !told {
            return Err(drain.damaged(&current(lineage), notes.join("; ")));
        }
        Ok((drain, notes))
    }

    /// What was reported so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Rows of the log that were taken in.
    pub(crate) fn rows(&self) -> u64 {
        self.place.rows
    }

    fn dir(&self) -> Result<Option<Dir>, DrainError> {
        match Dir::open(&self.folder) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn damaged(&self, name: &str, why: impl ToString) -> DrainError {
        DrainError::Damaged { path: self.folder.join(name), why: why.to_string() }
    }

    /// What the snapshots say. Where the machine is in trouble, and not one file, nothing.
    fn base(&self, dir: &Dir) -> Result<Base, DrainError> {
        let mut base = Base { read: None, notes: Vec::new(), refused: None };
        for name in [current(&self.lineage), previous(&self.lineage)] {
            let bytes = match dir.read(&name, snapshot::MAX_READ) {
                Ok(bytes) => bytes,
                Err(ReadError::Io(error)) if error.is_not_found() => continue,
                Err(ReadError::Io(error)) if error.is_of_one_file() => {
                    base.notes.push(format!("{name}: {error}"));
                    base.refused.get_or_insert(error);
                    continue;
                }
                Err(ReadError::Io(error)) => return Err(error.into()),
                Err(error) => {
                    base.notes.push(format!("{name}: {error}"));
                    continue;
                }
            };
            match snapshot::parse(&bytes) {
                Ok(read) => return Ok(Base { read: Some(read), ..base }),
                Err(error @ SnapshotError::Newer { .. }) => return Err(self.damaged(&name, error)),
                Err(error) => base.notes.push(format!("{name}: {error}")),
            }
        }
        Ok(base)
    }

    /// Takes in the rows behind the place, each shown to `visit` once it fits, with what it made of the state.
    fn follow(&mut self, dir: &Dir, mut visit: impl FnMut(&Row, &State)) -> Result<(), DrainError> {
        let name = anew::there(dir, &self.lineage)?;
        let Some(size) = dir.size(&name)? else {
            let lost = self.place.rows > 0;
            return if lost { Err(self.damaged(&name, "it is gone")) } else { Ok(()) };
        };
        if size < self.place.bytes {
            return Err(self.damaged(&name, "it is shorter than its snapshot says"));
        }
        let mut rows = Reader::open(dir, &name, self.place.bytes)?;
        while let Some((_, line)) = rows.next_line()? {
            let taken = row(line, &self.place).and_then(|(row, hash)| {
                self.state.take(row.generation, &row.report).map_err(|misfit| misfit.to_string())?;
                Ok((row, hash))
            });
            let n = self.place.rows + 1;
            let (row, hash) = taken.map_err(|why| self.damaged(&name, format!("row {n}: {why}")))?;
            if let Some(id) = &row.request_id {
                self.state.remember(Told::new(id, row.generation, &row.report));
            }
            self.place = Place { rows: n, bytes: rows.at(), hash };
            visit(&row, &self.state);
        }
        Ok(())
    }

    /// Sees whether the log is what was taken in from it and appended to it: all of its rows, also those that a snapshot
    /// speaks for, where anything but this has touched the file since.
    ///
    /// # Errors
    /// [`DrainError::Damaged`] where it is not.
    pub(crate) fn check(&mut self) -> Result<(), DrainError> {
        let mut there = None;
        if let Some(dir) = self.dir()? {
            let name = anew::there(&dir, &self.lineage)?;
            there = dir.exists(&name)?.then_some((dir, name));
        }
        let Some((dir, name)) = there else {
            (self.held, self.log) = (None, None);
            let lost = self.place.rows > 0;
            return if lost { Err(self.damaged(&log(&self.lineage), "it is gone")) } else { Ok(()) };
        };
        // Before the rows: what is written while they are read is another version.
        let version = dir.file_version_now(&name)?;
        if version.is_some() && version == self.held {
            return Ok(());
        }
        // What has the name may be another file by now.
        (self.held, self.log) = (None, None);
        let (mut rows, mut place) = (Reader::open(&dir, &name, 0)?, Place::default());
        while let Some((_, line)) = rows.next_line()? {
            let n = place.rows + 1;
            let links = chain::links(line).filter(|links| links.holds && links.prev == place.hash);
            let Some(links) = links else {
                let why = format!("row {n}: it was changed, or does not follow from the one before");
                return Err(self.damaged(&name, why));
            };
            place = Place { rows: n, bytes: rows.at(), hash: links.hash };
        }
        if place != self.place {
            let why = format!("it has {} rows, of which {} were taken in", place.rows, self.place.rows);
            return Err(self.damaged(&name, why));
        }
        self.held = version;
        Ok(())
    }

    /// Takes a report: durable, where that is promised of it, before this returns.
    pub(crate) fn take(
        &mut self,
        anchor_id: &str,
        meta: &Meta,
        report: &Report,
        request_id: Option<&str>,
    ) -> Result<Taken, DrainError> {
        self.check()?;
        if let Some(id) = request_id
            && self.state.has_told(id, meta.generation, report)?
        {
            return Ok(Taken::Before);
        }
        self.state.check_room(meta.generation, report)?;
        let before = self.state.lifecycle;
        self.append(meta.generation, report, request_id)?;
        // Only a kill can be asked for here, and below.
        let _ = fault::point("anchor.drain.logged");
        let snapped = match report {
            Report::Turn(_) => self.snap(anchor_id, meta),
            _ => Ok(()),
        };
        // A share of a context comes by the second; only the one that moved the lifecycle is worth a file.
        let moved = report.durable() || self.state.lifecycle != before;
        let handoff = self.state.handoff.as_ref();
        let handed = if moved { handoff::keep(&self.folder, &self.lineage, handoff) } else { Ok(()) };
        Ok(snapped.and(handed).map_or_else(|error| Taken::Unsnapped(error.to_string()), |()| Taken::Whole))
    }

    /// Where a program of that generation finds what was left to it, if anything was; it is there by then, as of now.
    pub(crate) fn hand_over(&self, next: Generation) -> netsky_disk::Result<Option<PathBuf>> {
        let Some(waits) = self.state.waiting(next) else { return Ok(None) };
        handoff::keep(&self.folder, &self.lineage, Some(waits))?;
        Ok(Some(self.folder.join(handoff::name(&self.lineage))))
    }

    /// The next row, without its line end, and its hash.
    fn line(&self, generation: Generation, report: &Report, request_id: Option<&str>) -> (Vec<u8>, String) {
        let row = Row {
            request_id: request_id.map(str::to_owned),
            v: ROW_VERSION,
            n: self.place.rows + 1,
            ts: netsky_disk::clock::wall(),
            generation,
            report: report.clone(),
        };
        let object = serde_json::to_string(&row).expect("plain data with string keys becomes JSON");
        chain::link(&object, &self.place.hash)
    }

    fn append(
        &mut self,
        generation: Generation,
        report: &Report,
        request_id: Option<&str>,
    ) -> Result<(), DrainError> {
        let mut state = self.state.clone();
        state.take(generation, report)?;
        request_id.into_iter().for_each(|id| state.remember(Told::new(id, generation, report)));
        let (line, hash) = self.line(generation, report, request_id);
        let log_name = log(&self.lineage);
        if line.len() as u64 > LONGEST {
            let why =
                format!("its next row would take {} bytes, and is read back up to {LONGEST}", line.len());
            return Err(self.damaged(&log_name, why));
        }
        if self.place.bytes + line.len() as u64 >= MAX_LOG {
            let path = self.folder.join(log_name);
            return Err(DrainError::Full { path, bytes: self.place.bytes });
        }
        let log = match &mut self.log {
            Some(log) => log,
            none => none.insert(open_log(&self.folder, &self.lineage)?),
        };
        if let Err(error) = log.append(&line) {
            // What there is of it is taken back, and the next append opens anew.
            let cut = log.cut_to(self.place.bytes);
            self.log = None;
            return Err(cut.err().unwrap_or(error).into());
        }
        if report.durable()
            && let Err(error) = synced(log)
        {
            return Err(self.leave_file().err().unwrap_or(error).into());
        }
        self.state = state;
        let Place { rows, bytes, .. } = self.place;
        self.place = Place { rows: rows + 1, bytes: bytes + line.len() as u64 + 1, hash };
        // Where it is not said, the next report reads the rows again.
        let dir = Dir::open(&self.folder);
        self.held = dir.and_then(|dir| dir.file_version_now(&log_name)).ok().flatten();
        Ok(())
    }

    /// Leaves the log's file, whose newest row could not be synced: what is on the disk of it, and of the rows before it
    /// that were not yet, nobody can tell any more, and a sync that follows would prove nothing. Under the other name
    /// nobody appends to it, whoever dies, until it has been written anew.
    fn leave_file(&mut self) -> netsky_disk::Result<()> {
        self.held = None;
        let cut = self.log.take().map_or(Ok(()), |log| log.cut_to(self.place.bytes));
        let dir = Dir::open(&self.folder)?;
        dir.rename_over(log(&self.lineage), &dir, anew::next(&self.lineage))?;
        anew::take_place(&dir, &self.lineage)?;
        cut
    }

    fn snap(&mut self, anchor_id: &str, meta: &Meta) -> netsky_disk::Result<()> {
        let dir = Dir::make(&self.folder)?;
        let tmp = Dir::make(self.folder.join("tmp"))?;
        let bytes = self.snapshot(anchor_id, meta).to_bytes();
        if bytes.len() as u64 > snapshot::MAX_BYTES {
            let why = format!("it would take {} bytes; the limit is {}", bytes.len(), snapshot::MAX_BYTES);
            return Err(netsky_disk::Error::because("write", self.folder.join(current(&self.lineage)), why));
        }
        let names = [current(&self.lineage), previous(&self.lineage)];
        let [current, previous] = &names;
        let seen = std::mem::take(&mut self.whole);
        let is_followed = reads_or_goes_aside(&dir, current, seen[0].as_deref())?;
        if is_followed {
            reads_or_goes_aside(&dir, previous, seen[1].as_deref())?;
            dir.rename_over(current, &dir, previous)?;
        }
        let _ = fault::point("anchor.drain.kept");
        fs::write_durable(&tmp, &dir, current, &bytes, Onto::Over)?;
        // Where it is not said, the next turn reads them.
        let [newest, before] = names.map(|name| dir.file_version_now(&name).ok().flatten());
        self.whole = [newest, before.filter(|_| is_followed)];
        Ok(())
    }

    fn snapshot(&self, anchor_id: &str, meta: &Meta) -> Snapshot {
        let state = self.state.clone();
        Snapshot {
            version: snapshot::VERSION,
            lineage_id: self.lineage.clone(),
            anchor_id: anchor_id.to_owned(),
            generation: state.generation,
            written_at: netsky_disk::clock::wall(),
            turn: state.turn,
            model: state.model.or_else(|| snapshot::asked(meta.spec.model.as_ref())),
            usage: state.usage,
            messages: state.messages,
            loop_config: state.loop_config,
            runtime: Runtime {
                kind: meta.spec.runtime.clone(),
                session_id: state.session_id,
                transcript: state.transcript,
                model: meta.spec.model.clone(),
                argv: meta.spec.argv.clone(),
                cwd: meta.spec.cwd.clone(),
            },
            lifecycle: state.lifecycle,
            context_pct: state.context_pct,
            phase: state.phase,
            phase_until: state.phase_until,
            intents: state.intents,
            handoff: state.handoff,
            recent: state.recent,
            log: self.place.clone(),
            digest: String::new(),
        }
    }
}

/// What the snapshots of a lineage say.
struct Base {
    /// The newest one that reads.
    read: Option<Read>,
    /// Those before it that do not, and why.
    notes: Vec<String>,
    /// Why the disk did not hand one of them out, which may be whole.
    refused: Option<netsky_disk::Error>,
}

impl Base {
    /// For whoever goes on from any that reads; what none of them says may stand in the one that was refused.
    fn in_any_case(self) -> netsky_disk::Result<(Option<Read>, Vec<String>)> {
        match self.refused {
            Some(error) if self.read.is_none() => Err(error),
            _ => Ok((self.read, self.notes)),
        }
    }
}

/// Whether there is a snapshot of that name; one that does not read is no N-1 for anybody, but evidence. One that is as it
/// was `seen` whole is not read again.
///
/// # Errors
/// The disk does not hand it out, or a later program wrote it: it may be whole, and stays.
fn reads_or_goes_aside(dir: &Dir, name: &str, seen: Option<&str>) -> netsky_disk::Result<bool> {
    if seen.is_some() && dir.file_version_now(name).ok().flatten().as_deref() == seen {
        return Ok(true);
    }
    match dir.read(name, snapshot::MAX_READ).map(|bytes| snapshot::parse(&bytes)) {
        Ok(Ok(_)) => return Ok(true),
        Ok(Err(error @ SnapshotError::Newer { .. })) => {
            return Err(netsky_disk::Error::because("replace", dir.path().join(name), error.to_string()));
        }
        Err(ReadError::Io(error)) if error.is_not_found() => return Ok(false),
        Err(ReadError::Io(error)) => return Err(error),
        Ok(Err(_)) | Err(_) => {}
    }
    dir.rename(name, dir, format!("{name}.damaged-{}", netsky_disk::random::short()))?;
    Ok(false)
}

fn synced(log: &Lines) -> netsky_disk::Result<()> {
    fault::point("anchor.drain.sync").map_err(|e| netsky_disk::Error::new("sync", "the turns log", e))?;
    log.sync()
}

/// Opens the log, whose name is durable before anything is in it. One that was to be written anew is, before that.
fn open_log(folder: &Path, lineage: &LineageId) -> netsky_disk::Result<Lines> {
    let (dir, name) = (Dir::make(folder)?, log(lineage));
    anew::take_place(&dir, lineage)?;
    let new = !dir.exists(&name)?;
    let (lines, _torn) = Lines::open(&dir, &name)?;
    if new {
        dir.sync()?;
    }
    Ok(lines)
}

/// Reads a row that must follow the one at `place`, and its hash.
fn row(line: &[u8], place: &Place) -> Result<(Row, String), String> {
    let links = chain::links(line).ok_or("it is no row")?;
    if !links.holds || links.prev != place.hash {
        return Err("it was changed, or does not follow from the one before".to_owned());
    }
    let row: Row = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match row.v {
        ROW_VERSION if row.n == place.rows + 1 => Ok((row, links.hash)),
        ROW_VERSION => Err(format!("it says it is row {}", row.n)),
        newer => Err(format!("it is in format {newer}, this program knows {ROW_VERSION}")),
    }
}

/// A lineage as its files have it, for people and for whoever brings it back.
#[derive(Debug, Default)]
pub struct Whole {
    /// The last turn boundary; none before the first.
    pub snapshot: Option<Box<Snapshot>>,
    /// The messages up to there, if they were asked for.
    pub messages: Vec<JsonText>,
    /// What was reported up to now.
    pub state: State,
    /// Files that do not read, and why.
    pub notes: Vec<String>,
}

/// Reads a lineage's files; changes nothing, needs no anchor.
///
/// # Errors
/// [`DrainError::Disk`], [`DrainError::Damaged`].
pub fn read(layout: &KernelLayout, lineage: &LineageId, messages: bool) -> Result<Option<Whole>, DrainError> {
    let mut drain = Drain::new(layout, lineage);
    let Some(dir) = drain.dir()? else { return Ok(None) };
    let (base, notes) = drain.base(&dir)?.in_any_case()?;
    let mut whole = Whole { snapshot: None, messages: Vec::new(), state: State::default(), notes };
    let mut upto = u64::MAX;
    match base {
        Some(Read::Whole(snapshot)) => {
            upto = snapshot.log.rows;
            // With all messages the rows are read from the first on.
            if !messages {
                (drain.state, drain.place) = (snapshot.state(), snapshot.log.clone());
            }
            whole.snapshot = Some(snapshot);
        }
        Some(Read::Upgraded { turn, .. }) if dir.size(log(lineage))?.is_none() => {
            whole.messages.clone_from(&turn.messages);
            let taken = drain.state.take(Generation::NONE, &Report::Turn(turn));
            taken.map_err(|misfit| drain.damaged(&current(lineage), misfit))?;
        }
        Some(Read::Upgraded { .. }) | None => {}
    }
    drain.follow(&dir, |row, _| {
        if let Report::Turn(turn) = &row.report
            && messages
            && row.n <= upto
        {
            whole.messages.extend(turn.messages.iter().cloned());
        }
    })?;
    if let Some(snapshot) = &whole.snapshot
        && drain.place.rows < snapshot.log.rows
    {
        let name = anew::there(&dir, lineage)?;
        let (has, taken) = (drain.place.rows, snapshot.log.rows);
        let why = if dir.exists(&name)? {
            format!("it has {has} rows, of which {taken} were taken in")
        } else {
            "it is gone".to_owned()
        };
        return Err(drain.damaged(&name, why));
    }
    let none = drain.place.rows == 0 && whole.snapshot.is_none() && drain.state == State::default();
    whole.state = drain.state;
    Ok((!none).then_some(whole))
}

fn current(lineage: &LineageId) -> String {
    format!("{lineage}.json")
}

fn previous(lineage: &LineageId) -> String {
    format!("{lineage}.prev.json")
}

fn log(lineage: &LineageId) -> String {
    format!("{lineage}.turns.jsonl")
}

#[cfg(test)]
mod tests;
