//! Which removals turned red in this very tree, so that a run that was cut off goes on where it was.
//!
//! Kept beside the scratch copy, rewritten after each row. Any change of the tree begins anew; so does a file that
//! does not read. Rows that were not red are not kept: they are looked at again.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub(super) struct Progress {
    path: PathBuf,
    /// The tree's digest.
    tree: String,
    /// Seconds that each row took, by name.
    red: BTreeMap<String, u64>,
}

impl Progress {
    /// What is known of a tree.
    pub(super) fn of(tree: &str, path: PathBuf) -> Progress {
        let before: Option<Value> =
            std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let rows = before.filter(|before| before["tree"] == tree).map(|mut before| before["red"].take());
        let red = rows.and_then(|rows| serde_json::from_value(rows).ok()).unwrap_or_default();
        Progress { path, tree: tree.to_owned(), red }
    }

    /// How long a row took that has turned red in this tree.
    pub(super) fn seconds(&self, name: &str) -> Option<u64> {
        self.red.get(name).copied()
    }

    /// A row has turned red.
    pub(super) fn add(&mut self, name: &str, seconds: u64) -> Result<()> {
        self.red.insert(name.to_owned(), seconds);
        let whole = json!({ "tree": self.tree, "red": self.red });
        std::fs::write(&self.path, whole.to_string())
            .with_context(|| format!("write {}", self.path.display()))
    }

    /// A whole run is reported: nothing is left to go on with.
    pub(super) fn forget(self) -> Result<()> {
        std::fs::remove_file(&self.path).or_else(|e| match e.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(e).with_context(|| format!("remove {}", self.path.display())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_known_to_the_same_tree_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.json");
        let mut first = Progress::of("a", path.clone());
        assert_eq!(first.seconds("row"), None);
        first.add("row", 7).expect("kept");
        assert_eq!(Progress::of("a", path.clone()).seconds("row"), Some(7));
        assert_eq!(Progress::of("b", path.clone()).seconds("row"), None);
        Progress::of("a", path.clone()).forget().expect("forgotten");
        assert_eq!(Progress::of("a", path.clone()).seconds("row"), None);
        std::fs::write(&path, "{\"tree\":\"a\",\"red\"").expect("written");
        assert_eq!(Progress::of("a", path).seconds("row"), None);
    }
}
