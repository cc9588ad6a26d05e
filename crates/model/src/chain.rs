//! Rows chained by hashes: each line holds the hash of the one before, so that a change in the middle shows.
//!
//! A line is `{…,"prev":"<hash>","hash":"<hash>"}`; `hash` is blake3 over the bytes of the line before `,"hash":`, so it
//! depends on no order of keys. What a row says, and what a broken chain means, is left to whoever keeps it.

use serde::Deserialize;

/// The `prev` of the first row.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What ties a row to its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// The hash of the row before.
    pub prev: String,
    /// This row's hash, as the line says.
    pub hash: String,
    /// Whether it is the hash of the line.
    pub holds: bool,
}

/// The line of a row without its line end, and its hash. `object` is the row's own JSON object, with at least one key.
pub fn link(object: &str, prev: &str) -> (Vec<u8>, String) {
    let open = object.strip_suffix('}').expect("a row is a JSON object");
    let head = format!(r#"{open},"prev":"{prev}""#);
    let hash = blake3::hash(head.as_bytes()).to_hex().to_string();
    (format!(r#"{head},"hash":"{hash}"}}"#).into_bytes(), hash)
}

/// Reads the links of a line; none if it has none.
pub fn links(line: &[u8]) -> Option<Links> {
    #[derive(Deserialize)]
    struct Said {
        prev: String,
        hash: String,
    }
    let Said { prev, hash } = serde_json::from_slice(line).ok()?;
    let tail = format!(r#","hash":"{hash}"}}"#);
    let holds =
        line.strip_suffix(tail.as_bytes()).is_some_and(|head| blake3::hash(head).to_hex().as_str() == hash);
    Some(Links { prev, hash, holds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back_and_a_changed_one_does_not_hold() {
        let (line, hash) = link(r#"{"v":1,"n":1}"#, GENESIS);
        let read = links(&line).expect("it has links");
        assert_eq!(read, Links { prev: GENESIS.to_owned(), hash, holds: true });
        let changed = String::from_utf8(line).expect("text").replace(r#""n":1"#, r#""n":2"#);
        assert!(!links(changed.as_bytes()).expect("it has links").holds);
        assert_eq!(links(b"{}"), None);
    }
}
