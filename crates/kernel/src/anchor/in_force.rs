//! `settings` of a root, as its anchor goes by them.
//!
//! Promise: while the file does not read, the last ones that did go on, over anchors too: what reads is kept as
//! `settings.good`. A file that was removed says nothing, which is a wish as well. Why one does not read is told, with what
//! goes on in its place.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::state;

use super::state::Anchor;
use crate::log::say;
use crate::settings::{MAX_BYTES, Settings};

/// The file of the root that says what its user wants.
const SETTINGS: &str = "settings";
/// The last one that read.
const GOOD: &str = "settings.good";

/// What an anchor goes by.
pub(super) struct InForce {
    settings: Cell<Settings>,
    /// The bytes of the copy; none where there is none that reads.
    kept: RefCell<Option<Vec<u8>>>,
    /// That a copy could not be written was said.
    said: Cell<bool>,
}

impl InForce {
    /// What the anchor before this one went by.
    pub(super) fn open(root: &Path, period: Duration) -> InForce {
        let kept = read(root, GOOD, period).ok().flatten();
        let (kept, settings) = kept.unzip();
        let settings = Cell::new(settings.unwrap_or(Settings::usual(period)));
        InForce { settings, kept: RefCell::new(kept), said: Cell::new(false) }
    }

    /// As they were read last.
    pub(super) fn last(&self) -> Settings {
        self.settings.get()
    }

    /// Keeps what reads for the anchors to come; what a root without a file says is kept only where it takes back another.
    fn keep(&self, root: &Path, bytes: Vec<u8>) {
        if self.kept.borrow().as_deref().unwrap_or_default() == bytes {
            return;
        }
        match state::write(root.join(GOOD), &bytes) {
            Ok(()) => {
                self.kept.replace(Some(bytes));
                self.said.set(false);
            }
            // The next look tries again; on a full disk it is one of many.
            Err(error) if !self.said.replace(true) => say!("the settings are not kept as {GOOD}: {error}"),
            Err(_) => {}
        }
    }
}

impl Anchor {
    /// What the root's user wants, as the file says now; while that does not read, as it said last.
    pub(super) fn settings(&self) -> Settings {
        let root = self.layout.root();
        match read(root, SETTINGS, self.period) {
            Ok(read) => {
                let (bytes, settings) = read.unwrap_or((Vec::new(), Settings::usual(self.period)));
                self.in_force.settings.set(settings);
                if self.has_root() {
                    self.in_force.keep(root, bytes);
                }
                // The next one that does not read is another.
                self.is_whole(SETTINGS);
            }
            Err(why) => {
                self.damaged(SETTINGS.to_owned(), &instead(&why, self.in_force.kept.borrow().is_some()))
            }
        }
        self.in_force.last()
    }
}

/// Why the settings of a root do not read, and what goes on; none if all is well. For whoever looks without an anchor.
pub fn settings_trouble(root: &Path) -> Option<String> {
    let period = crate::start::heartbeat_period();
    let why = read(root, SETTINGS, period).err()?;
    Some(instead(&why, read(root, GOOD, period).is_ok_and(|kept| kept.is_some())))
}

fn instead(why: &str, has_last: bool) -> String {
    format!("{why}; {} go on", if has_last { "the last good ones" } else { "the usual ones" })
}

/// A file's bytes and what they say; none if there is no file.
fn read(root: &Path, name: &str, period: Duration) -> Result<Option<(Vec<u8>, Settings)>, String> {
    let root = Dir::open(root).map_err(|error| error.to_string())?;
    if !root.exists(name).map_err(|error| error.to_string())? {
        return Ok(None);
    }
    let bytes = root.read(name, MAX_BYTES).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string())?;
    let settings = Settings::parse(text, period).map_err(|error| error.to_string())?;
    Ok(Some((bytes, settings)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::root;
    use crate::anchor::stage::rows;
    use crate::rpc::EventKind;
    use crate::settings::RevivalPolicy;

    #[test]
    fn settings_that_do_not_read_at_the_start_of_an_anchor_are_told_and_the_last_good_ones_go_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        let anchor = || Anchor::new(root::claim(&path).expect("nobody serves it"));
        let write = |text: &[u8]| std::fs::write(path.join(SETTINGS), text).expect("written");
        let policy = |anchor: &Anchor| anchor.settings().revival_policy;
        assert_eq!(policy(&anchor()), RevivalPolicy::Revive);
        assert!(!path.join(GOOD).exists(), "nothing was said");
        let why = || settings_trouble(&path).expect("it does not read");
        write(b"LIMIT revival_policy\n");
        assert_eq!(policy(&anchor()), RevivalPolicy::Revive);
        assert!(why().ends_with("; the usual ones go on"), "{}", why());
        write(b"LIMIT revival_policy ask\n");
        assert_eq!((policy(&anchor()), settings_trouble(&path)), (RevivalPolicy::Ask, None));
        for garbled in [&b"LIMIT revival_policy perhaps\n"[..], b"\xff\xfe", &[b' '; 70_000]] {
            write(garbled);
            let next = anchor();
            let told = rows(&next).len();
            assert_eq!(policy(&next), RevivalPolicy::Ask);
            assert_eq!(rows(&next)[told..], [EventKind::Damaged]);
            assert!(why().ends_with("; the last good ones go on"), "{}", why());
        }
        // One that is gone says that the usual ones are wanted, also for what comes after it.
        std::fs::remove_file(path.join(SETTINGS)).expect("there");
        assert_eq!(policy(&anchor()), RevivalPolicy::Revive);
        write(b"half a l");
        assert_eq!(policy(&anchor()), RevivalPolicy::Revive);
    }
}
