//! `cargo xtask tidy`: the style rules that are worth having are checks.
//!
//! Every check is a function from what it looks at to a list of offences, so that its unit test can show it
//! catching an offender. It prints one line per offence: where, what, and what to do.

mod banned;
mod edges;
mod headers;
mod packages;
mod paths;
mod ratchet;
mod residue;
mod tokens;
mod unsafety;

use std::fmt;

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::tree;

/// One broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offence {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) todo: String,
}

impl Offence {
    fn new(file: &str, line: usize, what: impl Into<String>, todo: impl Into<String>) -> Offence {
        Offence { file: file.into(), line, what: what.into(), todo: todo.into() }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{} {}; {}", self.file, self.line, self.what, self.todo)
    }
}

/// Runs every check over the tree; true when there is no offence.
pub(crate) fn run() -> Result<bool> {
    let sources = tree::sources()?;
    let metadata = metadata()?;
    let exceptions = tree::root().join(ratchet::EXCEPTIONS);
    let exceptions = std::fs::read_to_string(&exceptions).context("read the exception list")?;

    let mut offences = Vec::new();
    offences.extend(edges::check(&edges::from_metadata(&metadata)));
    offences.extend(packages::check(&packages::from_metadata(&metadata)));
    offences.extend(ratchet::check(&sources, &exceptions));
    for source in &sources {
        offences.extend(paths::check(source));
    }
    for source in sources.iter().filter(|source| source.is_rust()) {
        offences.extend(headers::check(source));
        offences.extend(residue::check(source));
        offences.extend(banned::check(source));
        offences.extend(unsafety::check(source));
    }

    offences.sort();
    for offence in &offences {
        println!("{offence}");
    }
    let rust = sources.iter().filter(|source| source.is_rust()).count();
    println!(
        "tidy: {rust} Rust files, {} packages in the lock, {} offences",
        metadata.packages.len(),
        offences.len()
    );
    Ok(offences.is_empty())
}

fn metadata() -> Result<Metadata> {
    let manifest = tree::root().join("Cargo.toml");
    MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(["--locked".to_owned()])
        .exec()
        .context("cargo metadata --locked")
}

#[cfg(test)]
fn source(path: &str, text: &str) -> tree::Source {
    tree::Source { path: path.into(), text: text.into() }
}
