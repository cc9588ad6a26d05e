//! The files of one lineage in `drain/`: the turns log and the last two snapshots.
//!
//! Order at a turn: its row is appended and synced; the snapshot before becomes `.prev`; the new one takes its place. Who
//! dies in between leaves N or N-1 whole, and the row that leads from one to the other. A snapshot that cannot be written
//! leaves the one before, and rows that are read once more.
//!
//! A file that does not read is never overwritten: a snapshot is set aside in favour of the one before; behind a broken
//! log nothing is appended.

use std::path::{Path, PathBuf};

use netsky_disk::fs::{self, Dir, Place as Onto};
use netsky_disk::layout::KernelLayout;
use netsky_disk::lines::{Lines, Reader};
use netsky_disk::{ReadError, fault};
use netsky_model::chain;
use netsky_model::id::{Generation, LineageId};

use super::snapshot::{self, Place, Read, Runtime, Snapshot, SnapshotError};
use super::{JsonText, Misfit, ROW_VERSION, Report, Row, State, Told, Turn};
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
    /// A file says something that cannot have been written, or was written by a later program.
    #[error("{} cannot be used: {why}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How.
        why: String,
    },
}

/// What a lineage has behind it, and where that is written down.
#[derive(Debug)]
pub struct Drain {
    lineage: LineageId,
    folder: PathBuf,
    state: State,
    place: Place,
    log: Option<Lines>,
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
        Drain { lineage: lineage.clone(), folder: layout.drain(), state, place, log: None }
    }

    /// Reads what is there; the notes name snapshots that do not read, which are
    /// passed over and set aside by the next one.
    pub(crate) fn open(
        layout: &KernelLayout,
        lineage: &LineageId,
    ) -> Result<(Drain, Vec<String>), DrainError> {
        let mut drain = Drain::new(layout, lineage);
        let Some(dir) = drain.dir()? else { return Ok((drain, Vec::new())) };
        let (base, notes) = drain.base(&dir)?;
        match base {
            Some(Read::Whole(snapshot)) => {
                (drain.state, drain.place) = (snapshot.state(), snapshot.log.clone());
                drain.follow(&dir, |_| {})?;
            }
            // A log says all that the old format said, if its messages were moved there before.
            Some(Read::Upgraded { turn, session_id }) => {
                drain.follow(&dir, |_| {})?;
                drain.move_in(turn, session_id)?;
            }
            None => drain.follow(&dir, |_| {})?,
        }
        Ok((drain, notes))
    }

    /// Moves a lineage's files out of the way, where they stay as evidence.
    pub(crate) fn set_aside(layout: &KernelLayout, lineage: &LineageId) -> netsky_disk::Result<()> {
        for name in [current(lineage), previous(lineage), log(lineage)] {
            let path = layout.drain().join(name);
            if netsky_disk::state::exists(&path)? {
                netsky_disk::state::set_aside(path)?;
            }
        }
        Ok(())
    }

    /// What was reported so far.
    pub fn state(&self) -> &State {
        &self.state
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

    /// The newest snapshot that reads.
    fn base(&self, dir: &Dir) -> Result<(Option<Read>, Vec<String>), DrainError> {
        let mut notes = Vec::new();
        for name in [current(&self.lineage), previous(&self.lineage)] {
            let bytes = match dir.read(&name, snapshot::MAX_BYTES) {
                Ok(bytes) => bytes,
                Err(ReadError::Io(error)) if error.is_not_found() => continue,
                Err(ReadError::Io(error)) => return Err(error.into()),
                Err(error) => {
                    notes.push(format!("{name}: {error}"));
                    continue;
                }
            };
            match snapshot::parse(&bytes) {
                Ok(read) => return Ok((Some(read), notes)),
                Err(error @ SnapshotError::Newer { .. }) => return Err(self.damaged(&name, error)),
                Err(error) => notes.push(format!("{name}: {error}")),
            }
        }
        Ok((None, notes))
    }

    /// Takes in the rows behind the place, each shown to `visit` once it fits.
    fn follow(&mut self, dir: &Dir, mut visit: impl FnMut(&Row)) -> Result<(), DrainError> {
        let name = log(&self.lineage);
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
            visit(&row);
        }
        Ok(())
    }

    /// Moves what a snapshot of version 1 held into the log, once.
    fn move_in(&mut self, turn: Box<Turn>, session_id: Option<String>) -> Result<(), DrainError> {
        let done = turn.turn.is_some_and(|turn| turn <= self.state.turn) || self.state.messages.count > 0;
        if done {
            return Ok(());
        }
        let generation = self.state.generation;
        self.append(generation, &Report::Turn(turn), None)?;
        match session_id {
            Some(session_id) => {
                self.append(generation, &Report::SessionId { session_id, transcript: None }, None)
            }
            None => Ok(()),
        }
    }

    /// Takes a report: durable, where that is promised of it, before this returns.
    pub(crate) fn take(
        &mut self,
        anchor_id: &str,
        meta: &Meta,
        report: &Report,
        request_id: Option<&str>,
    ) -> Result<Taken, DrainError> {
        if let Some(id) = request_id
            && self.state.has_told(id, meta.generation, report)?
        {
            return Ok(Taken::Before);
        }
        self.append(meta.generation, report, request_id)?;
        // Only a kill can be asked for here, and below.
        let _ = fault::point("anchor.drain.logged");
        match report {
            Report::Turn(_) => match self.snap(anchor_id, meta) {
                Ok(()) => Ok(Taken::Whole),
                Err(error) => Ok(Taken::Unsnapped(error.to_string())),
            },
            _ => Ok(Taken::Whole),
        }
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
        let row = Row {
            request_id: request_id.map(str::to_owned),
            v: ROW_VERSION,
            n: self.place.rows + 1,
            ts: netsky_disk::clock::wall(),
            generation,
            report: report.clone(),
        };
        let object = serde_json::to_string(&row).expect("plain data with string keys becomes JSON");
        let (line, hash) = chain::link(&object, &self.place.hash);
        let log = match &mut self.log {
            Some(log) => log,
            none => none.insert(open_log(&self.folder, &log(&self.lineage))?),
        };
        let written = log.append(&line).and_then(|()| if report.durable() { log.sync() } else { Ok(()) });
        if let Err(error) = written {
            // What could not be synced may be there and may not: it is taken back, and the next append opens anew.
            let cut = log.cut_to(self.place.bytes);
            self.log = None;
            return Err(cut.err().unwrap_or(error).into());
        }
        self.state = state;
        let Place { rows, bytes, .. } = self.place;
        self.place = Place { rows: rows + 1, bytes: bytes + line.len() as u64 + 1, hash };
        Ok(())
    }

    fn snap(&self, anchor_id: &str, meta: &Meta) -> netsky_disk::Result<()> {
        let dir = Dir::make(&self.folder)?;
        let tmp = Dir::make(self.folder.join("tmp"))?;
        let bytes = self.snapshot(anchor_id, meta).to_bytes();
        let (current, previous) = (current(&self.lineage), previous(&self.lineage));
        match dir.read(&current, snapshot::MAX_BYTES).map(|bytes| snapshot::parse(&bytes).is_ok()) {
            Ok(true) => dir.rename_over(&current, &dir, previous)?,
            // What does not read is no N-1 for anybody, but evidence.
            Ok(false) => {
                dir.rename(&current, &dir, format!("{current}.damaged-{}", netsky_disk::random::short()))?
            }
            Err(_) => {}
        }
        let _ = fault::point("anchor.drain.kept");
        fs::write_durable(&tmp, &dir, &current, &bytes, Onto::Over)
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
            model: state.model,
            usage: state.usage,
            messages: state.messages,
            loop_config: state.loop_config,
            runtime: Runtime {
                kind: meta.spec.runtime.clone(),
                session_id: state.session_id,
                transcript: state.transcript,
                argv: meta.spec.argv.clone(),
                cwd: meta.spec.cwd.clone(),
            },
            lifecycle: state.lifecycle,
            context_pct: state.context_pct,
            phase: state.phase,
            intents: state.intents,
            recent: state.recent,
            log: self.place.clone(),
            digest: String::new(),
        }
    }
}

/// Opens the log, whose name is durable before anything is in it.
fn open_log(folder: &Path, name: &str) -> netsky_disk::Result<Lines> {
    let dir = Dir::make(folder)?;
    let new = !dir.exists(name)?;
    let (lines, _torn) = Lines::open(&dir, name)?;
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
#[derive(Debug)]
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
    let (base, notes) = drain.base(&dir)?;
    let mut whole = Whole { snapshot: None, messages: Vec::new(), state: State::default(), notes };
    let mut upto = u64::MAX;
    match base {
        Some(Read::Whole(snapshot)) => {
            upto = snapshot.log.rows;
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
    drain.follow(&dir, |row| {
        if let Report::Turn(turn) = &row.report
            && messages
            && row.n <= upto
        {
            whole.messages.extend(turn.messages.iter().cloned());
        }
    })?;
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
mod tests {
    use super::*;
    use crate::drain::Usage;

    struct Stage {
        _folder: tempfile::TempDir,
        layout: KernelLayout,
        meta: Meta,
    }

    impl Stage {
        fn new() -> Stage {
            let folder = tempfile::tempdir().expect("a folder");
            let layout = KernelLayout::new(folder.path().join("root"));
            Dir::make(layout.root()).expect("made");
            let meta = Meta::parse(include_bytes!("../../samples/meta.v1.json")).expect("the sample loads");
            Stage { _folder: folder, layout, meta }
        }

        fn open(&self) -> Drain {
            self.opened().expect("reads").0
        }

        fn opened(&self) -> Result<(Drain, Vec<String>), DrainError> {
            Drain::open(&self.layout, &self.meta.lineage)
        }

        fn turn(&self, drain: &mut Drain, text: &str) -> Taken {
            let messages = vec![JsonText::try_from(format!("\"{text}\"")).expect("it is JSON")];
            let usage = Usage { input: 10, ..Usage::default() };
            let turn = Turn { messages, usage, ..Turn::default() };
            drain.take("anchor", &self.meta, &Report::Turn(Box::new(turn)), None).expect("taken")
        }

        fn file(&self, name: fn(&LineageId) -> String) -> PathBuf {
            self.layout.drain().join(name(&self.meta.lineage))
        }

        fn messages(&self) -> Vec<String> {
            let whole = read(&self.layout, &self.meta.lineage, true).expect("reads").expect("there");
            whole.messages.into_iter().map(String::from).collect()
        }
    }

    #[test]
    fn i8_what_was_reported_reads_back_the_same_live_and_from_the_files() {
        let stage = Stage::new();
        let mut drain = stage.open();
        for text in ["a", "b", "c"] {
            assert_eq!(stage.turn(&mut drain, text), Taken::Whole);
        }
        let intent = Report::Intent { id: "t1".to_owned(), tool: "sh".to_owned(), input: "ls".into() };
        drain.take("anchor", &stage.meta, &intent, None).expect("taken");
        assert_eq!(stage.open().state(), drain.state());
        assert_eq!((drain.state().turn, drain.state().usage.input), (3, 30));
        assert_eq!(stage.messages(), [r#""a""#, r#""b""#, r#""c""#]);
        let whole = read(&stage.layout, &stage.meta.lineage, false).expect("reads").expect("there");
        assert_eq!(&whole.state, drain.state());
        assert_eq!(whole.snapshot.expect("one").turn, 3);
    }

    #[test]
    fn t15_a_snapshot_that_does_not_read_gives_way_to_the_one_before_and_nothing_is_lost() {
        let stage = Stage::new();
        let mut drain = stage.open();
        ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
        let whole = std::fs::read(stage.file(current)).expect("reads");
        let changed =
            String::from_utf8(whole.clone()).expect("text").replace(r#""input": 20"#, r#""input": 2"#);
        for damage in [&b""[..], &whole[..whole.len() / 2], &[0; 64], changed.as_bytes()] {
            std::fs::write(stage.file(current), damage).expect("writes");
            let (opened, notes) = stage.opened().expect("reads");
            assert_eq!((opened.state(), notes.len()), (drain.state(), 1));
        }
        // Both: the log alone says it.
        std::fs::write(stage.file(previous), "half").expect("writes");
        let (mut opened, notes) = stage.opened().expect("reads");
        assert_eq!((opened.state(), notes.len()), (drain.state(), 2));
        // The next one keeps the damage as evidence, not as the one before.
        assert_eq!(stage.turn(&mut opened, "c"), Taken::Whole);
        assert_eq!(std::fs::read(stage.file(previous)).expect("reads"), b"half");
        let aside = std::fs::read_dir(stage.layout.drain()).expect("a folder");
        let aside = aside.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        assert_eq!(aside.filter(|name| name.contains(".json.damaged-")).count(), 1);
        assert_eq!(stage.open().state().turn, 3);
    }

    #[test]
    fn t14_a_torn_row_is_cut_and_a_changed_one_closes_the_log() {
        use std::io::Write;
        let stage = Stage::new();
        let mut drain = stage.open();
        ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
        let mut file = std::fs::OpenOptions::new().append(true).open(stage.file(log)).expect("opens");
        file.write_all(br#"{"v":1,"n":3,"#).expect("writes");
        let mut opened = stage.open();
        assert_eq!(opened.state(), drain.state());
        stage.turn(&mut opened, "c");
        assert_eq!(stage.messages().len(), 3);

        // Behind the snapshot, where it would be believed.
        let report = Report::Phase { phase: "busy".to_owned() };
        opened.take("anchor", &stage.meta, &report, None).expect("taken");
        let text = std::fs::read_to_string(stage.file(log)).expect("reads");
        for changed in [text.replace("busy", "idle"), text.replace(r#"{"v":1,"n":4"#, r#"{"v":1,"n":5"#)] {
            std::fs::write(stage.file(log), &changed).expect("writes");
            assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })));
            assert_eq!(std::fs::read_to_string(stage.file(log)).expect("reads"), changed);
        }
        std::fs::write(stage.file(log), &text[..100]).expect("writes");
        assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })), "shorter than its snapshot says");
        std::fs::remove_file(stage.file(log)).expect("removed");
        assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })), "gone");
    }

    #[test]
    fn fm_snapshot_kill_n_or_the_one_before_is_whole_and_the_row_leads_from_one_to_the_other() {
        let stage = Stage::new();
        let mut drain = stage.open();
        ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
        let turn = |name| match snapshot::parse(&std::fs::read(stage.file(name)).expect("reads")) {
            Ok(Read::Whole(snapshot)) => snapshot.turn,
            other => panic!("{other:?}"),
        };
        assert_eq!((turn(current), turn(previous)), (2, 1));
        // Killed after the row; killed after the one before was kept.
        std::fs::rename(stage.file(previous), stage.file(current)).expect("moved");
        assert_eq!(stage.open().state(), drain.state());
        std::fs::rename(stage.file(current), stage.file(previous)).expect("moved");
        let mut opened = stage.open();
        assert_eq!(opened.state(), drain.state());
        assert_eq!(stage.turn(&mut opened, "c"), Taken::Whole);
    }

    #[test]
    fn fm_snapshot_enospc_the_turn_counts_and_the_one_before_is_kept() {
        let stage = Stage::new();
        let mut drain = stage.open();
        stage.turn(&mut drain, "a");
        std::fs::remove_dir_all(stage.layout.drain().join("tmp")).expect("removed");
        std::fs::write(stage.layout.drain().join("tmp"), "no folder").expect("writes");
        assert!(matches!(stage.turn(&mut drain, "b"), Taken::Unsnapped(_)));
        assert_eq!(stage.open().state(), drain.state());
        assert_eq!(drain.state().turn, 2);
    }

    #[test]
    fn a_snapshot_of_the_first_version_still_loads_and_moves_into_the_log_once() {
        let stage = Stage::new();
        netsky_disk::fs::Dir::make(stage.layout.drain()).expect("made");
        std::fs::write(stage.file(current), include_bytes!("../../samples/drain.v1.json")).expect("writes");
        assert_eq!(stage.messages().len(), 2);
        let drain = stage.open();
        let state = drain.state().clone();
        assert_eq!((state.turn, state.messages.count, state.usage.input), (4, 2, 1200));
        assert_eq!(state.session_id.as_deref(), Some("0c1f"));
        assert_eq!(stage.messages()[0], r#"{"role":"user","content":"hello  there"}"#);
        let mut again = stage.open();
        assert_eq!(again.state(), &state);
        stage.turn(&mut again, "c");
        assert_eq!((again.state().turn, stage.messages().len()), (5, 3));
    }

    #[test]
    fn fm_snapshot_kill_a_report_told_again_under_its_name_counts_once_also_in_a_restarted_anchor() {
        let stage = Stage::new();
        let mut drain = stage.open();
        let report = Report::Turn(Box::default());
        let tell = |drain: &mut Drain, id: &str| {
            drain.take("anchor", &stage.meta, &report, Some(id)).expect("taken")
        };
        assert_eq!((tell(&mut drain, "r1"), tell(&mut drain, "r1")), (Taken::Whole, Taken::Before));
        let mut drain = stage.open();
        assert_eq!((tell(&mut drain, "r1"), tell(&mut drain, "r2")), (Taken::Before, Taken::Whole));
        // Killed before the snapshot: the row is what is left of it.
        std::fs::rename(stage.file(previous), stage.file(current)).expect("moved");
        assert_eq!(tell(&mut stage.open(), "r2"), Taken::Before);
        assert_eq!(drain.state().turn, 2);
        for n in 0..crate::drain::RECENT {
            tell(&mut drain, &n.to_string());
        }
        assert_eq!(drain.state().recent.len(), crate::drain::RECENT);
    }

    #[test]
    fn a_later_version_is_left_alone() {
        let stage = Stage::new();
        let mut drain = stage.open();
        stage.turn(&mut drain, "a");
        let bytes = r#"{"version":3,"anything":1}"#;
        std::fs::write(stage.file(current), bytes).expect("writes");
        assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })));
        assert_eq!(std::fs::read_to_string(stage.file(current)).expect("reads"), bytes);
    }

    #[test]
    fn the_sample_of_the_second_version_loads() {
        let read = snapshot::parse(include_bytes!("../../samples/drain.v2.json")).expect("the sample loads");
        let Read::Whole(snapshot) = read else { panic!("it is of version 2") };
        assert_eq!((snapshot.turn, snapshot.intents.len()), (12, 1));
        assert_eq!(snapshot.to_bytes(), include_bytes!("../../samples/drain.v2.json"));
    }
}
