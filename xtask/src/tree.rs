//! The files of this project as git sees them: tracked, or new and not ignored.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// One text file of the tree.
pub(crate) struct Source {
    /// Path from the root of the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The crate folder this file belongs to: `disk` for `crates/disk/src/lib.rs`, `xtask` for xtask's own.
    pub(crate) fn package(&self) -> Option<&str> {
        match self.path.split('/').collect::<Vec<_>>().as_slice() {
            ["crates", name, ..] => Some(name),
            ["xtask", ..] => Some("xtask"),
            _ => None,
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whole files that only tests compile: `tests/`, `benches/`, and modules named `tests`.
    pub(crate) fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.iter().any(|part| matches!(*part, "tests" | "benches" | "tests.rs"))
    }
}

/// The root of the workspace, where `Cargo.lock` is.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

/// The commit of the tree; with a remark where files beside the reports differ from it.
pub(crate) fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(root()).output().context("run git")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {}: {}", arguments.join(" "), told.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", ".", ":!reports"])?;
    Ok(if changes.is_empty() { commit } else { format!("{commit} with changes") })
}

/// Paths of all files of the tree, sorted; files that are deleted but still in the index are left out.
pub(crate) fn files() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("run git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let mut paths: Vec<String> = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .filter(|path| root().join(path).is_file())
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// All text files of the tree; a file that is not UTF-8 is not text.
pub(crate) fn sources() -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in files()? {
        let bytes = std::fs::read(root().join(&path)).with_context(|| format!("read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}
