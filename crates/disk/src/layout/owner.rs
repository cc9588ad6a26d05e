//! What the owner is told, and how far that got.

use std::path::PathBuf;

use super::Layout;

impl Layout {
    /// Which pages have reached the owner, and what the record would not take.
    pub fn pages_folder(&self) -> PathBuf {
        self.state().join("pages")
    }

    /// How far each page got.
    pub fn page_book(&self) -> PathBuf {
        self.pages_folder().join("book.json")
    }

    /// Held while pages are sent.
    pub fn pages_lock(&self) -> PathBuf {
        self.pages_folder().join("send.lock")
    }

    /// Pages that the record would not take and no transport took.
    pub fn waiting_pages(&self) -> PathBuf {
        self.pages_folder().join("waiting")
    }

    /// Which milestones the owner was told of.
    pub fn feed_book(&self) -> PathBuf {
        self.state().join("owner").join("feed.json")
    }

    /// Where what the owner is told goes while no transport is configured.
    pub fn pages_log(&self) -> PathBuf {
        self.logs().join("pages.jsonl")
    }
}
