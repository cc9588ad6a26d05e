//! One fact and its line: `{v, seq, ts, kind, key, data, prev, hash}`.

use jiff::Timestamp;
use netsky_model::chain::{self, Links};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of a row.
pub(super) const VERSION: u64 = 1;

/// Most bytes of a line: what is longer belongs into a file of its own, which the fact names.
pub(super) const MAX_ROW: usize = 64 * 1024;

/// Longest kind.
const MAX_KIND: usize = 64;

/// Longest key: `poison/<agent>/<id>` is under 200.
const MAX_KEY: usize = 512;

/// A row of the record that exists in no other file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its place among all facts, from 1; the order is this, not the time.
    pub seq: u64,
    /// When it was appended.
    pub ts: Timestamp,
    /// What kind: `page`.
    pub kind: String,
    /// What it is about: for a page the condition.
    pub key: String,
    /// The rest, as its kind has it.
    pub data: Value,
    /// Its hash in the chain; empty before it has a place.
    #[serde(default, skip_serializing)]
    pub hash: String,
}

/// Where a chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(super) seq: u64,
    pub(super) hash: String,
}

impl End {
    /// Before the first row.
    pub(crate) fn genesis() -> End {
        End { seq: 0, hash: chain::GENESIS.to_owned() }
    }
}

/// A fact with what ties it to its neighbours.
pub(super) struct Row {
    pub(super) fact: Fact,
    pub(super) links: Links,
}

impl Row {
    /// The chain's end once this row is its last. Of one that does not have its own hash only its place is believed, and
    /// what the next row says comes before it.
    pub(super) fn end_after(&self, before: &End) -> End {
        let seq = if self.links.holds { self.fact.seq } else { before.seq + 1 };
        End { seq, hash: self.links.hash.clone() }
    }

    /// What is wrong with it as the successor of `before`.
    pub(super) fn fault_after(&self, before: &End) -> Option<String> {
        if !self.links.holds {
            return Some("does not have its own hash".to_owned());
        }
        if self.links.prev != before.hash || self.fact.seq != before.seq + 1 {
            return Some(format!("does not follow from row {}", before.seq));
        }
        None
    }
}

/// Why a line is no row.
pub(super) enum BadRow {
    Newer(u64),
    Malformed,
}

/// The line of a fact after `before`, without its line end, and the chain's new end.
pub(super) fn line(fact: &Fact, before: &End) -> (Vec<u8>, End) {
    let text = serde_json::to_string(fact).expect("a fact holds only string keys and plain data");
    let inner = text.strip_prefix('{').expect("a fact is a JSON object");
    let (line, hash) = chain::link(&format!(r#"{{"v":{VERSION},{inner}"#), &before.hash);
    (line, End { seq: fact.seq, hash })
}

/// Reads a line back.
pub(super) fn parse(line: &[u8]) -> Result<Row, BadRow> {
    #[derive(Deserialize)]
    struct Version {
        v: u64,
    }
    let Version { v } = serde_json::from_slice(line).map_err(|_| BadRow::Malformed)?;
    if v > VERSION {
        return Err(BadRow::Newer(v));
    }
    let fact: Fact = serde_json::from_slice(line).map_err(|_| BadRow::Malformed)?;
    let links = chain::links(line).ok_or(BadRow::Malformed)?;
    Ok(Row { fact, links })
}

/// Whether a kind is one: lower-case words, with dots and hyphens between them.
pub(super) fn is_kind(kind: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-';
    !kind.is_empty() && kind.len() <= MAX_KIND && kind.bytes().all(fits)
}

/// Whether a key is one: a short line of plain text.
pub(super) fn is_key(key: &str) -> bool {
    !key.is_empty() && key.len() <= MAX_KEY && !key.chars().any(char::is_control)
}
