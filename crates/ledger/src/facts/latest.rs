//! The newest fact of each key of one family of kinds, for decisions that rest on how things stand.
//!
//! Promise: what is parsed is one row a key, however long the record is: the files are gone through from the end, and of a row no
//! more is looked at than which kind and key it has. A row whose place in the file cannot be told is damage, and named: a decision
//! on what was before it would be one on a state that is over.

use std::collections::BTreeMap;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;

use super::read::{self, file_name};
use super::row::{self, BadRow, Fact};
use crate::error::{Error, Result};

/// The newest fact of each key.
pub type Latest = BTreeMap<String, Fact>;

/// The newest fact of each key among those whose kind is `family` and one more word: `task` for `task.created`.
///
/// # Errors
/// The record does not read, or is damaged: what stands then is not known.
pub fn latest(layout: &Layout, family: &str) -> Result<Latest> {
    match Dir::open(layout.record()) {
        Err(e) if e.is_not_found() => Ok(Latest::new()),
        record => latest_of(&record?, family),
    }
}

/// The same of an open folder.
pub(super) fn latest_of(record: &Dir, family: &str) -> Result<Latest> {
    let kind = format!(r#","kind":"{family}."#);
    let (mut found, mut until) = (Latest::new(), None);
    for number in read::numbers(record)?.into_iter().rev() {
        let path = record.path().join(file_name(number));
        let bytes = read::content(record, number).map_err(|error| error.on("read", &path))?;
        let broken = |line: usize, why: &str| Error::Broken { path: path.clone(), line, why: why.to_owned() };
        let lines: Vec<&[u8]> = read::whole_lines(&bytes).collect();
        if lines.is_empty() {
            return Err(broken(1, "is missing: there is no whole row in it"));
        }
        let parsed = |at: usize| {
            row::parse(lines[at]).map_err(|bad| match bad {
                BadRow::Newer(found) => Error::Newer { path: path.clone(), found },
                BadRow::Malformed => broken(at + 1, "is no row"),
            })
        };
        let before = parsed(0)?.links.prev;
        let count = match &until {
            Some(until) if *until == before => 0,
            Some(until) => {
                let end = format!(r#","hash":"{until}"}}"#);
                let at = lines.iter().position(|line| line.ends_with(end.as_bytes()));
                at.ok_or_else(|| broken(lines.len(), "is not the one that the next file follows"))? + 1
            }
            None => lines.len(),
        };
        for at in (0..count).rev() {
            let Some(said) = head(lines[at]) else { return Err(broken(at + 1, "is no row")) };
            let Some(key) = key_of(said, &kind).filter(|key| !found.contains_key(*key)) else { continue };
            let row = parsed(at)?;
            if !row.links.holds {
                return Err(broken(at + 1, "does not have its own hash"));
            }
            found.insert(key.to_owned(), row.fact);
        }
        until = Some(before);
    }
    Ok(found)
}

/// What a row begins with, as far as its kind and key can reach.
fn head(line: &[u8]) -> Option<&str> {
    const REACH: usize = 1024;
    let line = &line[..line.len().min(REACH)];
    // What follows may be cut within a letter.
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default(),
    };
    text.starts_with(r#"{"v":"#).then_some(text)
}

/// The key of a row of that kind: plain words have one spelling in JSON.
fn key_of<'a>(said: &'a str, kind: &str) -> Option<&'a str> {
    // Before it are a number and a time alone: what a row quotes from others stands behind it.
    let at = said.find(r#","kind":""#)?;
    let (_, key) = said[at..].strip_prefix(kind)?.split_once(r#"","key":""#)?;
    key.split_once('"').map(|(key, _)| key)
}
