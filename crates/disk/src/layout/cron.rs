//! Where cron entries are, and what is kept of them.

use std::path::PathBuf;

use super::Layout;

impl Layout {
    /// When agents are told what: the user's.
    pub fn cron(&self) -> PathBuf {
        self.home.join("cron.toml")
    }

    /// The last of these that was understood.
    pub fn good_cron(&self) -> PathBuf {
        self.home.join("cron.good.toml")
    }

    /// That of a file that was removed: nothing reads it but people.
    pub fn removed_cron(&self) -> PathBuf {
        self.home.join("cron.removed.toml")
    }

    /// What the tick keeps of its entries.
    pub fn cron_state(&self) -> PathBuf {
        self.state().join("cron-state.toml")
    }

    /// Held by the one tick of these entries that acts.
    pub fn cron_lock(&self) -> PathBuf {
        self.tick_folder().join("cron.lock")
    }

    /// Held while a verb edits them.
    pub fn cron_file_lock(&self) -> PathBuf {
        self.tick_folder().join("cron-file.lock")
    }
}
