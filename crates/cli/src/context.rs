//! What every verb may ask of its surroundings: the global options and the few environment variables.
//!
//! The one place of this crate that reads the environment.

use std::path::PathBuf;

/// The surroundings of one invocation.
pub(crate) struct Context {
    /// Print one JSON object instead of a sentence or a table.
    pub(crate) json: bool,
    #[expect(dead_code, reason = "read by the first verb of ostk")]
    /// The kernel root named with `--root` (only `ostk` has that option).
    pub(crate) root: Option<PathBuf>,
}

impl Context {
    /// The surroundings of a `netsky` verb.
    pub(crate) fn netsky(json: bool) -> Self {
        Self { json, root: None }
    }

    /// The surroundings of an `ostk` verb.
    pub(crate) fn ostk(json: bool, root: Option<PathBuf>) -> Self {
        Self { json, root }
    }
}
