//! `settings` of a root, as its anchor goes by them.
//!
//! Promise: while the file does not read, the last ones that did go on, over anchors too: what reads is kept as
//! `settings.good`. A file that was removed says nothing, which is a wish as well. Why one does not read is told, with what
//! goes on in its place.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::{clock, state};

use super::state::Anchor;
use crate::log::say;
use crate::settings::{MAX_BYTES, Settings};

/// The file of the root that says what its user wants.
const SETTINGS: &str = "settings";
/// The last one that read.
const GOOD: &str = "settings.good";
/// How soon a copy that could not be written is tried again where the file says the same.
const AGAIN: Duration = Duration::from_secs(60);

const LAST: &str = "the last good ones go on";
const USUAL: &str = "the usual ones go on";

/// What an anchor goes by.
pub(super) struct InForce {
    settings: Cell<Settings>,
    /// The bytes that they stand in; none where nobody said any.
    said: RefCell<Option<Vec<u8>>>,
    /// The bytes of the copy; none where there is none that reads.
    kept: RefCell<Option<Vec<u8>>>,
    /// Why the copy does not read, until there is another.
    unread: RefCell<Option<String>>,
    /// Why the file does not read, and what goes on.
    trouble: RefCell<Option<String>>,
    /// When a copy was tried in vain, and what was to be in it.
    tried: RefCell<Option<(Duration, Vec<u8>)>>,
}

impl InForce {
    /// What the anchor before this one went by.
    pub(super) fn open(root: &Path, period: Duration) -> InForce {
        let (kept, unread) = match read(root, GOOD, period) {
            Ok(kept) => (kept, None),
            Err(why) => (None, Some(why)),
        };
        let (kept, settings) = kept.unzip();
        InForce {
            settings: Cell::new(settings.unwrap_or(Settings::usual(period))),
            said: RefCell::new(kept.clone().filter(|kept| !kept.is_empty())),
            kept: RefCell::new(kept),
            unread: RefCell::new(unread),
            trouble: RefCell::default(),
            tried: RefCell::default(),
        }
    }

    /// As they were read last.
    pub(super) fn last(&self) -> Settings {
        self.settings.get()
    }

    /// Whether this is to be kept for the anchors to come; what a root without a file says is kept only where it takes back
    /// another. On a full disk nothing is, which is tried at once for what is new and then now and then.
    fn is_due(&self, bytes: &[u8]) -> bool {
        let is_kept =
            self.unread.borrow().is_none() && self.kept.borrow().as_deref().unwrap_or_default() == bytes;
        let was_tried = |(at, what): &(Duration, Vec<u8>)| what == bytes && clock::boot() - *at < AGAIN;
        !is_kept && !self.tried.borrow().as_ref().is_some_and(was_tried)
    }

    fn keep(&self, root: &Path, bytes: Vec<u8>) {
        match state::write(root.join(GOOD), &bytes) {
            Ok(()) => {
                self.kept.replace(Some(bytes));
                self.unread.take();
                self.tried.take();
            }
            Err(error) => {
                let before = self.tried.replace(Some((clock::boot(), bytes)));
                // On a full disk it is one of many.
                if before.is_none() {
                    say!("the settings are not kept as {GOOD}: {error}");
                }
            }
        }
    }

    /// What goes on while the file does not read.
    fn goes_on(&self) -> &'static str {
        let said = self.said.borrow();
        match said.as_deref() {
            None => USUAL,
            Some(said) if self.kept.borrow().as_deref() == Some(said) => LAST,
            Some(_) => "the last good ones go on while this anchor runs",
        }
    }
}

impl Anchor {
    /// What the root's user wants, as the file says now; while that does not read, as it said last.
    pub(super) fn settings(&self) -> Settings {
        let (root, in_force) = (self.layout.root(), &self.in_force);
        let unread = in_force.unread.borrow().clone();
        if let Some(why) = unread {
            self.damaged(GOOD.to_owned(), &why);
        }
        match read(root, SETTINGS, self.period) {
            Ok(read) => {
                let (bytes, settings) = read.unzip();
                in_force.settings.set(settings.unwrap_or(Settings::usual(self.period)));
                let wanted = bytes.clone().unwrap_or_default();
                in_force.said.replace(bytes);
                if self.has_root() && in_force.is_due(&wanted) {
                    in_force.keep(root, wanted);
                }
                // The next one that does not read is another.
                self.is_whole(SETTINGS);
                in_force.trouble.take();
            }
            Err(why) => {
                let trouble = format!("{why}; {}", in_force.goes_on());
                self.damaged(SETTINGS.to_owned(), &trouble);
                in_force.trouble.replace(Some(trouble));
            }
        }
        in_force.last()
    }

    /// Why they do not read now, and what goes on; none if all is well.
    pub(super) fn settings_trouble(&self) -> Option<String> {
        self.settings();
        self.in_force.trouble.borrow().clone()
    }
}

/// Why the settings of a root do not read, and what goes on; none if all is well. For whoever looks without an anchor.
pub fn settings_trouble(root: &Path) -> Option<String> {
    let period = crate::start::heartbeat_period();
    let why = read(root, SETTINGS, period).err().filter(|_| root.exists())?;
    let has_last =
        read(root, GOOD, period).is_ok_and(|kept| kept.is_some_and(|(bytes, _)| !bytes.is_empty()));
    Some(format!("{why}; {}", if has_last { LAST } else { USUAL }))
}

/// What an anchor of a root would go by. For whoever looks without an anchor.
pub(super) fn settings(root: &Path) -> Settings {
    let period = crate::start::heartbeat_period();
    let said = read(root, SETTINGS, period).or_else(|_| read(root, GOOD, period));
    said.ok().flatten().map_or_else(|| Settings::usual(period), |(_, settings)| settings)
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
    use crate::anchor::ps::ps;
    use crate::anchor::root;
    use crate::anchor::stage::rows;
    use crate::rpc::EventKind;
    use crate::rpc::ps::Params;
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

    #[test]
    fn settings_that_could_not_be_kept_go_on_while_their_anchor_runs_and_are_tried_again_once_they_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        let anchor = Anchor::new(root::claim(&path).expect("nobody serves it"));
        let write = |text: &str| std::fs::write(path.join(SETTINGS), text).expect("written");
        let why = |anchor: &Anchor| {
            let rows = anchor.journal(|journal| journal.after(0)).expect("reads");
            rows.last()
                .map(|row| (row.data["file"].clone(), row.data["why"].as_str().unwrap_or("").to_owned()))
        };
        // What has its name keeps a copy from being made.
        std::fs::create_dir(path.join(GOOD)).expect("made");
        write("LIMIT revival_policy ask\n");
        assert_eq!(anchor.settings().revival_policy, RevivalPolicy::Ask);
        std::fs::remove_dir(path.join(GOOD)).expect("still there");
        anchor.settings();
        assert!(!path.join(GOOD).exists(), "it was tried a moment ago");
        write("LIMIT revival_policy perhaps\n");
        assert_eq!(anchor.settings().revival_policy, RevivalPolicy::Ask);
        let (file, told) = why(&anchor).expect("a row");
        assert!(
            file == SETTINGS && told.ends_with("; the last good ones go on while this anchor runs"),
            "{told}"
        );
        assert_eq!(ps(&anchor, &Params::default()).settings, Some(told), "who asks reads what the row says");
        write("LIMIT revival_policy reap\n");
        assert_eq!(ps(&anchor, &Params::default()).settings, None);
        assert_eq!(std::fs::read(path.join(GOOD)).expect("there"), b"LIMIT revival_policy reap\n");
        write("LIMIT");
        anchor.settings();
        let (_, told) = why(&anchor).expect("a row");
        assert!(told.ends_with("; the last good ones go on"), "{told}");
    }

    #[test]
    fn a_copy_of_the_settings_that_does_not_read_is_told_once_and_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("root");
        let anchor = || Anchor::new(root::claim(&path).expect("nobody serves it"));
        drop(anchor());
        std::fs::write(path.join(GOOD), "half a l").expect("written");
        std::fs::write(path.join(SETTINGS), "and").expect("written");
        let next = anchor();
        assert_eq!((next.settings(), next.settings()).1.revival_policy, RevivalPolicy::Revive);
        assert_eq!(rows(&next), [EventKind::Damaged, EventKind::Damaged], "one of each file");
        std::fs::remove_file(path.join(SETTINGS)).expect("there");
        next.settings();
        drop(next);
        let next = anchor();
        let told = rows(&next).len();
        next.settings();
        assert_eq!(rows(&next).len(), told, "it reads again");
    }
}
