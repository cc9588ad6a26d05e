//! A root read by somebody who is not its anchor: nothing is repaired, and an anchor may be appending meanwhile.
//!
//! Promise: every whole row is shown with its line number, rows outside the chain too; what does not follow from the
//! row before is named by its line. A last line without its end is being written or torn, which is not damage.

use std::io::{BufRead, BufReader};
use std::path::Path;

use netsky_disk::Error;
use netsky_model::chain::GENESIS;
use netsky_model::id::{Generation, LineageId};

use crate::journal::{BadRow, parse};
use crate::rpc::Event;

/// What reading a whole journal showed about its chain.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Whole lines.
    pub rows: u64,
    /// Lines, counted from 1, that do not parse or do not follow from the line before.
    pub broken: Vec<u64>,
    /// The last line has no end.
    pub torn: bool,
    /// A line of a later format: it and what follows it were left alone.
    pub newer: Option<u64>,
}

/// Reads the journal at `path`, showing each row with its line; none if there is no journal.
///
/// # Errors
/// The file cannot be read.
pub fn journal(path: &Path, mut visit: impl FnMut(u64, Event)) -> Result<Option<Audit>, Error> {
    let failed = |e| Error::new("read", path, e);
    let file = match netsky_disk::fs::open_to_read(path) {
        Err(e) if e.is_not_found() => return Ok(None),
        opened => opened?,
    };
    let (mut audit, mut prev, mut seq) = (Audit::default(), GENESIS.to_owned(), 0);
    let (mut lines, mut line) = (BufReader::new(file), Vec::new());
    while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        let Some(text) = line.strip_suffix(b"\n") else {
            audit.torn = true;
            break;
        };
        audit.rows += 1;
        match parse(text) {
            Ok(row) => {
                if row.prev != prev || !row.holds || row.event.seq != seq + 1 {
                    audit.broken.push(audit.rows);
                }
                (prev, seq) = (row.hash, row.event.seq);
                visit(audit.rows, row.event);
            }
            Err(BadRow::Newer(_)) => {
                audit.newer = Some(audit.rows);
                break;
            }
            Err(BadRow::Malformed) => audit.broken.push(audit.rows),
        }
        line.clear();
    }
    Ok(Some(audit))
}

/// Reads an environment mark back: whose tree, and which generation of it.
pub fn unmark(mark: &str) -> Option<(LineageId, Generation)> {
    let (lineage, generation) = mark.rsplit_once(".g")?;
    Some((lineage.parse().ok()?, Generation(generation.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Draft, Journal};
    use crate::rpc::EventKind;

    fn written(rows: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root").join("journal.jsonl");
        netsky_disk::fs::Dir::create(path.parent().expect("it has one")).expect("made");
        let (mut journal, _) = Journal::open(&path, |_| {}).expect("opens");
        for n in 0..rows {
            let data = serde_json::json!({ "n": n });
            journal.commit(Draft { kind: EventKind::AnchorStarted, about: None, data }).expect("room");
        }
        (folder, path)
    }

    fn audit(path: &Path) -> (Audit, Vec<u64>) {
        let mut lines = Vec::new();
        let audit = journal(path, |line, _| lines.push(line)).expect("reads").expect("there");
        (audit, lines)
    }

    #[test]
    fn t14_a_torn_end_is_said_and_left_as_it_is() {
        let (_folder, path) = written(2);
        let whole = std::fs::read(&path).expect("reads");
        let torn = [&whole[..], br#"{"v":1,"seq":3"#].concat();
        std::fs::write(&path, &torn).expect("writes");
        let (audit, lines) = audit(&path);
        assert_eq!(audit, Audit { rows: 2, broken: vec![], torn: true, newer: None });
        assert_eq!(lines, [1, 2]);
        assert_eq!(std::fs::read(&path).expect("reads"), torn);
    }

    #[test]
    fn i5_a_changed_a_missing_and_a_foreign_row_show() {
        let (_folder, path) = written(4);
        let text = std::fs::read_to_string(&path).expect("reads");
        let rows: Vec<&str> = text.lines().collect();
        let broken = |rows: &[&str]| {
            std::fs::write(&path, format!("{}\n", rows.join("\n"))).expect("writes");
            audit(&path).0.broken
        };
        assert_eq!(broken(&rows), [] as [u64; 0]);
        assert_eq!(broken(&[rows[0], &rows[1].replace(r#""n":1"#, r#""n":7"#), rows[2]]), [2]);
        assert_eq!(broken(&[rows[0], rows[2], rows[3]]), [2]);
        assert_eq!(broken(&[rows[0], "x", rows[1]]), [2]);
    }

    #[test]
    fn a_mark_reads_back() {
        let lineage: LineageId = "agent0-0badcafe".parse().expect("valid");
        let mark = crate::session::mark(&lineage, Generation(7));
        assert_eq!(unmark(&mark), Some((lineage, Generation(7))));
        assert_eq!(unmark("none"), None);
    }

    #[test]
    fn no_journal_is_none_and_a_newer_one_is_left_alone() {
        let (folder, path) = written(1);
        assert_eq!(journal(&folder.path().join("none"), |_, _| {}).expect("no error"), None);
        let mut text = std::fs::read_to_string(&path).expect("reads");
        text.push_str("{\"v\":2,\"anything\":1}\n");
        std::fs::write(&path, text).expect("writes");
        assert_eq!(audit(&path).0, Audit { rows: 2, broken: vec![], torn: false, newer: Some(2) });
    }
}
