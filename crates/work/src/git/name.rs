//! Names that git is given, parsed before it sees them (A7): full names of refs, and names of objects.
//!
//! Promise: a value of these types is no option, no expression and no path out of its folder, whatever git does with it.

use std::fmt;
use std::str::FromStr;

use netsky_model::id::TaskId;
use netsky_model::render;
use serde::{Deserialize, Serialize};

/// Longest name of a ref: each part is a name of a file too.
const LONGEST: usize = 240;
/// How branches start.
const HEADS: &str = "refs/heads/";

/// A name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is refused: {why}")]
pub struct BadName {
    what: &'static str,
    text: String,
    why: &'static str,
}

impl BadName {
    pub(crate) fn of(what: &'static str, text: &str, why: &'static str) -> BadName {
        BadName { what, text: text.chars().take(80).collect(), why }
    }
}

/// Why a text has letters that no name of ours has.
pub(super) fn bad_letters(text: &str) -> Option<&'static str> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Some("it has a control character or a space");
    }
    (render::plain(text) != text).then_some("it has a character that is not to be seen")
}

/// The full name of a ref: `refs/heads/main`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefName(String);

impl RefName {
    /// A branch by its short name: `main`, `task/42`.
    ///
    /// # Errors
    /// It is no name of a branch.
    pub fn branch(short: &str) -> Result<RefName, BadName> {
        let name: RefName = format!("{HEADS}{short}").parse()?;
        // Git itself has no branches of these names.
        if short == "HEAD" || short.starts_with("refs/") {
            return Err(BadName::of("branch", short, "it is a name of git's own"));
        }
        Ok(name)
    }

    /// The branch that a task's agent works on.
    pub fn of_task(task: &TaskId) -> RefName {
        RefName(format!("{HEADS}task/{task}"))
    }

    /// Where a task's commits are kept while they land.
    pub(crate) fn of_harvest(task: &TaskId) -> RefName {
        RefName(format!("refs/netsky/harvest/{task}"))
    }

    /// Where another repository of ours has a branch, as a clone of it has.
    pub(crate) fn at_origin(&self) -> RefName {
        RefName(format!("refs/remotes/origin/{}", self.short()))
    }

    /// What `origin` alone stands for.
    pub(crate) fn of_origin() -> RefName {
        RefName("refs/remotes/origin/HEAD".to_owned())
    }

    /// The name in full.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The short name of a branch; the full one of anything else.
    pub fn short(&self) -> &str {
        self.0.strip_prefix(HEADS).unwrap_or(&self.0)
    }
}

/// Why a full name is none; `git check-ref-format`, and stricter.
fn bad_ref(text: &str) -> Option<&'static str> {
    if let Some(why) = bad_letters(text) {
        return Some(why);
    }
    if text.len() > LONGEST {
        return Some("it is too long");
    }
    if !text.starts_with("refs/") || text.split('/').count() < 3 {
        return Some("it is not the full name of a ref");
    }
    if text.contains("..") || text.contains("@{") || text.contains(['~', '^', ':', '?', '*', '[', '\\']) {
        return Some("it has a sign that git reads as an expression");
    }
    let is_bad = |part: &str| {
        part.is_empty()
            || part == "@"
            || part.starts_with(['.', '-'])
            || part.ends_with('.')
            || part.ends_with(".lock")
    };
    text.split('/').any(is_bad).then_some("a part of it is empty, or starts or ends as no name may")
}

impl FromStr for RefName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<RefName, BadName> {
        match bad_ref(text) {
            Some(why) => Err(BadName::of("ref", text, why)),
            None => Ok(RefName(text.to_owned())),
        }
    }
}

/// The name of an object: 40 or 64 hex digits, never shortened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha(String);

impl Sha {
    /// All digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is of the longer hash, SHA-256.
    pub(crate) fn is_long(&self) -> bool {
        self.0.len() == 64
    }
}

impl FromStr for Sha {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Sha, BadName> {
        let is_hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if is_hex && [40, 64].contains(&text.len()) {
            Ok(Sha(text.to_owned()))
        } else {
            Err(BadName::of("object", text, "it is not 40 or 64 hex digits"))
        }
    }
}

macro_rules! texts {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<$name, BadName> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}
texts!(RefName);
texts!(Sha);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a7_what_git_would_read_as_anything_but_a_name_is_no_name() {
        for bad in [
            "",
            "-x",
            "--upload-pack=touch x",
            "a..b",
            "a@{1}",
            "@",
            "a b",
            "a\nb",
            "a\x1b[31m",
            "a\u{202e}b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a/",
            "/a",
            "a//b",
            "a~1",
            "a^{}",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a.",
            "a/-b",
            "HEAD",
            "refs/heads/main",
        ] {
            assert!(RefName::branch(bad).is_err(), "{bad:?}");
        }
        for good in ["main", "task/42", "feature/größe", "v1.0", "a-b", "a@b"] {
            assert_eq!(RefName::branch(good).expect(good).short(), good);
        }
        for bad in ["main", "refs/x", "heads/main", "HEAD", "refs/heads/../x"] {
            assert!(bad.parse::<RefName>().is_err(), "{bad:?}");
        }
        for bad in ["", "abc", "HEAD", &"A".repeat(40), &"g".repeat(40), &"a".repeat(41), "-aaaaaaa"] {
            assert!(bad.parse::<Sha>().is_err(), "{bad:?}");
        }
        assert!("a".repeat(40).parse::<Sha>().is_ok() && "0".repeat(64).parse::<Sha>().is_ok());
    }
}
