//! Every Rust file opens with `//!`: what it is for, what it promises, what it leaves to others.

use super::Offence;
use crate::tree::Source;

/// A header shorter than this names the file and says nothing about it.
const LEAST_LETTERS: usize = 20;

pub(crate) fn check(source: &Source) -> Option<Offence> {
    let first = source.text.lines().next().unwrap_or_default();
    let words = first.strip_prefix("//!").map(str::trim).unwrap_or_default();
    if words.len() >= LEAST_LETTERS {
        return None;
    }
    let todo = "open it with a sentence: purpose, promise, what it leaves to others";
    Some(Offence::new(&source.path, 1, "the file does not open with a //! header", todo))
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_missing_or_empty_header_is_caught() {
        assert!(check(&source("a.rs", "use std::fs;\n")).is_some());
        assert!(check(&source("a.rs", "//! placeholder\n")).is_some());
        assert!(check(&source("a.rs", "")).is_some());
        assert!(check(&source("a.rs", "//! Locks: close-on-exec, never unlinked.\n")).is_none());
    }
}
