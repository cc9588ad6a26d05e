//! File names of the bus: the folder is the state, the name says the rest.
//!
//! `inbox/`: `<hlc>-<id>.json`, `<hlc>-<id>.<attempt>.json` once it was given back.
//! `claimed/`: `<hlc>-<id>.<attempt>.<pid>.<start time>.<boot id>.<ns>.json`.
//! `delivered/`, `acked/`: `<hlc>-<id>.<attempt>.g<generation>.json`.
//! `poison/`: any name, and `<name>.reason` beside it, which says in a line why it is there.

use std::ffi::OsStr;
use std::fmt;

use crate::hlc::{self, Hlc};
use crate::id::{EnvelopeId, Generation};
use crate::process::ProcessId;
use crate::render;

/// Most bytes of a reason's file.
pub const REASON_BYTES: u64 = 4096;

/// What ends the name of a reason's file.
const REASON: &str = ".reason";

/// The name of the reason beside a dead letter.
pub fn reason_of(file: &str) -> String {
    format!("{file}{REASON}")
}

/// Whether a file of `poison/` is a reason and not a dead letter.
pub fn is_reason(file: &OsStr) -> bool {
    file.as_encoded_bytes().ends_with(REASON.as_bytes())
}

/// What a reason says: one line, which with its end fits into the file. It may quote what a stranger wrote, of any length.
pub fn reason(why: &str) -> String {
    let mut line = render::line(why);
    line.truncate(line.floor_char_boundary(REASON_BYTES as usize - 1));
    // Reasons are kept by the hundred: what was cut off is not held either.
    line.shrink_to_fit();
    line
}

/// Where and what an envelope is among its siblings; the same in every folder of its life.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Position in the order of the home.
    pub hlc: Hlc,
    /// The envelope's id.
    pub id: EnvelopeId,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.hlc, self.id)
    }
}

/// A file of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Which envelope.
    pub key: Key,
    /// How often it is surfaced when this stage ends well: 1 the first time.
    pub attempt: u32,
    /// What only this stage knows.
    pub stage: Stage,
}

/// What a name says beyond key and attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// In `inbox/` (and `poison/`, when it came from there).
    Waiting,
    /// In `claimed/`, by this process.
    Claimed(ProcessId),
    /// In `delivered/` or `acked/`, taken by this generation.
    Taken(Generation),
}

impl Stage {
    /// Which generation took it, where one did.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Stage::Taken(generation) => Some(*generation),
            Stage::Waiting | Stage::Claimed(_) => None,
        }
    }
}

impl Name {
    /// The name of a new envelope.
    pub fn fresh(key: Key) -> Name {
        Name { key, attempt: 1, stage: Stage::Waiting }
    }

    /// The same envelope one stage on.
    #[must_use]
    pub fn to(&self, stage: Stage) -> Name {
        Name { stage, ..self.clone() }
    }

    /// The name under which it goes back to `inbox/` after a surfacing in vain.
    #[must_use]
    pub fn given_back(&self) -> Name {
        Name { attempt: self.attempt.saturating_add(1), stage: Stage::Waiting, ..self.clone() }
    }

    /// Read a file name; none if it is not one of the bus's.
    pub fn parse(file: &str) -> Option<Name> {
        let stem = file.strip_suffix(".json")?;
        let mut parts = stem.split('.');
        let (hlc, id) = parts.next()?.split_at_checked(hlc::DIGITS)?;
        let key = Key { hlc: Hlc::parse(hlc)?, id: id.strip_prefix('-')?.parse().ok()? };
        let rest: Vec<&str> = parts.collect();
        let (attempt, stage) = match rest[..] {
            [] => (1, Stage::Waiting),
            [attempt] => (number(attempt)?, Stage::Waiting),
            [attempt, generation] => {
                let generation = number(generation.strip_prefix('g')?)?;
                (number(attempt)?, Stage::Taken(Generation(generation)))
            }
            [attempt, pid, start, boot, ns] => {
                let owner = ProcessId {
                    pid: number(pid)?,
                    start_time: number(start)?,
                    boot_id: is_boot(boot).then(|| boot.to_owned())?,
                    ns: number(ns)?,
                };
                (number(attempt)?, Stage::Claimed(owner))
            }
            _ => return None,
        };
        let name = Name { key, attempt, stage };
        // One spelling each: `…-x.1.json` or `…-x.007.json` would be a second name of one envelope.
        (attempt >= 1 && name.to_string() == file).then_some(name)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn is_boot(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name { key, attempt, stage } = self;
        match stage {
            Stage::Waiting if *attempt == 1 => write!(f, "{key}.json"),
            Stage::Waiting => write!(f, "{key}.{attempt}.json"),
            Stage::Claimed(ProcessId { pid, start_time, boot_id, ns }) => {
                write!(f, "{key}.{attempt}.{pid}.{start_time}.{boot_id}.{ns}.json")
            }
            Stage::Taken(generation) => write!(f, "{key}.{attempt}.g{generation}.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key { hlc: Hlc(42), id: "note-1".parse().expect("valid") }
    }

    #[test]
    fn every_stage_reads_back_as_it_was_written() {
        let owner = ProcessId { pid: 77, start_time: 123, boot_id: "0a1b2c3d".to_owned(), ns: 4_026_531_836 };
        let fresh = Name::fresh(key());
        for name in [
            fresh.clone(),
            fresh.given_back(),
            fresh.to(Stage::Claimed(owner)),
            fresh.given_back().to(Stage::Taken(Generation(3))),
        ] {
            assert_eq!(Name::parse(&name.to_string()), Some(name.clone()), "{name}");
            assert!(name.to_string().len() < 255);
        }
        assert_eq!(fresh.to_string(), "00000000000000000042-note-1.json");
        assert_eq!(fresh.given_back().to_string(), "00000000000000000042-note-1.2.json");
    }

    #[test]
    fn a12_a_reason_is_one_line_that_fits_into_its_file_however_long_it_was() {
        assert_eq!(reason("key\n\u{1b}[31m \"x\""), "key [31m \"x\"");
        let cut = reason(&"é".repeat(100_000));
        assert_eq!((cut.len(), cut.capacity()), (4_094, 4_094));
        assert!(is_reason(OsStr::new(&reason_of("x.json"))) && !is_reason(OsStr::new("x.json")));
    }

    #[test]
    fn a6_a_name_of_the_last_attempt_there_is_goes_back_as_one_that_reads() {
        let forged = format!("00000000000000000042-note-1.{}.json", u32::MAX);
        let back = Name::parse(&forged).expect("a name").given_back();
        assert_eq!(Name::parse(&back.to_string()), Some(back));
    }

    #[test]
    fn a6_what_is_not_a_name_is_none() {
        for file in [
            "",
            "x.json",
            "00000000000000000042-note-1",
            "00000000000000000042-note-1.1.json",
            "00000000000000000042-note-1.02.json",
            "00000000000000000042-note-1.0.json",
            "00000000000000000042-../../x.json",
            "00000000000000000042-note-1.2.gx.json",
            "00000000000000000042-note-1.2.1.1.zzzzzzzz.1.json",
            "0000000000000000004é-note-1.json",
        ] {
            assert_eq!(Name::parse(file), None, "{file}");
        }
    }
}
