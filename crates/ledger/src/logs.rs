//! The dated files of lines in `logs/`: `<stem>-<date>.jsonl`, and `<stem>-<date>.<part>.jsonl` once that is full.
//!
//! Promise: a file is never larger than a line over its size, a day never more than its parts; what is beyond is not
//! written. Files go by their date alone, oldest first, and the newest stays.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lines::Lines;
use netsky_disk::{Error, Result};

/// A part that is larger takes no more lines: it is read as a whole by people and by `check`.
const PART_BYTES: u64 = 64 * 1024 * 1024;

/// Most parts of a day: what makes a gigabyte of lines a day is broken, and must not fill the disk.
const PARTS: u32 = 16;

/// Lines about what happened.
pub(crate) const TELEMETRY: &str = "telemetry";

/// What the database refused.
pub(crate) const REFUSED: &str = "meta-db-errors";

/// One file of a stem; they sort by age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogFile {
    date: Date,
    part: u32,
    pub(crate) name: String,
}

impl LogFile {
    fn new(stem: &str, date: Date, part: u32) -> LogFile {
        let name = match part {
            1 => format!("{stem}-{date}.jsonl"),
            _ => format!("{stem}-{date}.{part}.jsonl"),
        };
        LogFile { date, part, name }
    }

    pub(crate) fn parse(stem: &str, name: &str) -> Option<LogFile> {
        let rest = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".jsonl")?;
        let (date, part) = match rest.split_once('.') {
            None => (rest, 1),
            Some((date, part)) => (date, part.parse().ok()?),
        };
        let file = LogFile::new(stem, date.parse().ok()?, part);
        (file.name == name).then_some(file)
    }

    /// A number for it that rises as they sort.
    pub(crate) fn number(&self) -> i64 {
        let day = i64::from(self.date.year()) * 10_000
            + i64::from(self.date.month()) * 100
            + i64::from(self.date.day());
        day * 1_000 + i64::from(self.part)
    }
}

/// The files of a stem, oldest first; none where there is no folder.
pub(crate) fn files(layout: &Layout, stem: &str) -> Result<Vec<LogFile>> {
    let logs = match Dir::open(layout.logs()) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut files: Vec<LogFile> =
        logs.names()?.iter().filter_map(|name| LogFile::parse(stem, name)).collect();
    files.sort();
    Ok(files)
}

/// Appends a line to the file of that day; unsynced, beside other writers.
pub(crate) fn append(layout: &Layout, stem: &str, now: Timestamp, line: &[u8]) -> Result<()> {
    match with_room(&Dir::open(layout.logs())?, stem, now)? {
        Some(mut lines) => lines.append(line),
        None => Ok(()),
    }
}

/// Appends lines to the file of that day, and syncs them all at once.
///
/// # Errors
/// They may not be there, or not after a power cut.
pub(crate) fn append_durable(layout: &Layout, stem: &str, now: Timestamp, all: &[Vec<u8>]) -> Result<()> {
    let logs = Dir::open(layout.logs())?;
    let Some(mut lines) = with_room(&logs, stem, now)? else {
        return Err(Error::because("append to", logs.path(), "this day has all the lines that it may have"));
    };
    for line in all {
        lines.append(line)?;
    }
    lines.sync()?;
    logs.sync()
}

/// The first file of that day that is not full.
fn with_room(logs: &Dir, stem: &str, now: Timestamp) -> Result<Option<Lines>> {
    let date = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    for part in 1..=PARTS {
        let lines = Lines::open_shared(logs, &LogFile::new(stem, date, part).name)?;
        if lines.len()? < PART_BYTES {
            return Ok(Some(lines));
        }
    }
    Ok(None)
}

/// Removes the files of which `is_past` says that they may go, asked with the second (UTC, of the wall clock) at which
/// their day ended, but for the newest; returns how many went.
///
/// Oldest first, and what is newer than one that resists stays with it: at any time only the oldest are gone, and whoever
/// reads the lines meanwhile drops what those told and no more.
///
/// # Errors
/// The folder cannot be read, or a file resists; it is tried again the next time.
pub fn prune(layout: &Layout, is_past: impl Fn(i64) -> bool) -> Result<usize> {
    let logs = match Dir::open(layout.logs()) {
        Err(e) if e.is_not_found() => return Ok(0),
        opened => opened?,
    };
    let ended = |file: &&LogFile| {
        let next = file.date.tomorrow().and_then(|day| day.to_zoned(TimeZone::UTC));
        next.is_ok_and(|next| is_past(next.timestamp().as_second()))
    };
    let (mut removed, mut resisted) = (0, None);
    for stem in [TELEMETRY, REFUSED] {
        let mut files = files(layout, stem)?;
        files.pop();
        for file in files.iter().take_while(ended) {
            match logs.remove(&file.name) {
                Ok(was_there) => removed += usize::from(was_there),
                Err(error) => {
                    resisted.get_or_insert(error);
                    break;
                }
            }
        }
    }
    resisted.map_or(Ok(removed), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(names: &[&str]) -> (tempfile::TempDir, Layout) {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(folder.path().join("home"));
        Dir::create(layout.logs()).expect("made");
        for name in names {
            std::fs::write(layout.logs().join(name), "{}\n").expect("writes");
        }
        (folder, layout)
    }

    fn names(layout: &Layout) -> Vec<String> {
        files(layout, TELEMETRY).expect("lists").into_iter().map(|file| file.name).collect()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn files_sort_by_day_and_part_and_what_is_none_is_left_out() {
        let (_folder, layout) = home(&[
            "telemetry-2026-11-22.jsonl",
            "telemetry-2026-11-22.10.jsonl",
            "telemetry-2026-11-22.2.jsonl",
            "telemetry-2026-11-21.jsonl",
            "telemetry-2026-11-22.1.jsonl",
            "telemetry-x.jsonl",
            "other.log",
        ]);
        let sorted = names(&layout);
        assert_eq!(
            sorted,
            [
                "telemetry-2026-11-21.jsonl",
                "telemetry-2026-11-22.jsonl",
                "telemetry-2026-11-22.2.jsonl",
                "telemetry-2026-11-22.10.jsonl"
            ]
        );
        let numbers: Vec<i64> =
            files(&layout, TELEMETRY).expect("lists").iter().map(LogFile::number).collect();
        assert!(numbers.is_sorted());
    }

    #[test]
    fn a_full_part_takes_no_more_lines() {
        let (_folder, layout) = home(&["telemetry-2026-11-22.jsonl"]);
        let now = at("2026-11-22T10:00:00Z");
        let full = std::fs::File::options()
            .write(true)
            .open(layout.logs().join("telemetry-2026-11-22.jsonl"))
            .expect("opens");
        append(&layout, TELEMETRY, now, b"{}").expect("room");
        assert_eq!(names(&layout).len(), 1);
        full.set_len(PART_BYTES).expect("grows");
        append(&layout, TELEMETRY, now, b"{}").expect("room");
        assert_eq!(names(&layout).last().expect("some"), "telemetry-2026-11-22.2.jsonl");
    }

    #[test]
    fn old_days_go_and_the_newest_stays_however_old() {
        let (_folder, layout) = home(&[
            "telemetry-2026-08-01.jsonl",
            "telemetry-2026-08-24.jsonl",
            "telemetry-2026-11-21.jsonl",
            "meta-db-errors-2026-01-01.jsonl",
        ]);
        let old = |from: &str| {
            let from = at(from).as_second();
            prune(&layout, move |ended| ended <= from).expect("prunes")
        };
        assert_eq!(old("2026-08-24T23:59:59Z"), 1);
        assert_eq!(names(&layout), ["telemetry-2026-08-24.jsonl", "telemetry-2026-11-21.jsonl"]);
        assert_eq!(old("2036-11-22T10:00:00Z"), 1);
        assert_eq!(names(&layout), ["telemetry-2026-11-21.jsonl"], "and one of what was refused");
    }

    #[test]
    fn i3_old_days_go_oldest_first_and_none_before_an_older_one_that_resists() {
        let (_folder, layout) = home(&[
            "telemetry-2026-08-02.jsonl",
            "telemetry-2026-08-03.jsonl",
            "telemetry-2026-11-21.jsonl",
            "meta-db-errors-2026-08-02.jsonl",
            "meta-db-errors-2026-11-21.jsonl",
        ]);
        let resists = layout.logs().join("telemetry-2026-08-01.jsonl");
        std::fs::create_dir(&resists).expect("made");
        let error = prune(&layout, |_| true).expect_err("it is no file").to_string();
        assert!(error.contains("telemetry-2026-08-01.jsonl"), "{error}");
        assert_eq!(names(&layout).len(), 4, "nothing is gone of what is newer");
        assert!(
            !layout.logs().join("meta-db-errors-2026-08-02.jsonl").exists(),
            "that is another row of files"
        );
        std::fs::remove_dir(resists).expect("removed");
        assert_eq!(prune(&layout, |_| true).expect("prunes"), 2);
        assert_eq!(names(&layout), ["telemetry-2026-11-21.jsonl"]);
    }
}
