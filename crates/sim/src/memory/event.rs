//! What changes a disk, one event a call.

use std::ffi::OsString;
use std::rc::Rc;

use super::image::{Image, Ino, Node};

/// One change of a disk, or a sync.
#[derive(Debug, Clone)]
pub enum Event {
    /// A change of names.
    Names(Rc<Names>),
    /// A change of a file's bytes.
    Data(Ino, Rc<Data>),
    /// A word that was stored in a mapped file, at this place.
    Store(Ino, usize, u64),
    /// fsync or fdatasync of a file or folder.
    Sync(Ino),
}

/// A name in a folder.
pub(super) type Slot = (Ino, OsString);

/// A change of names; one that is durable is so as a whole.
#[derive(Debug, Clone)]
pub enum Names {
    /// A new file or folder under a name that was free.
    Create {
        at: Slot,
        ino: Ino,
        folder: bool,
    },
    Rename {
        from: Slot,
        to: Slot,
        ino: Ino,
        replaced: Option<Ino>,
    },
    Unlink {
        at: Slot,
        ino: Ino,
    },
}

/// A change of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Names {
    pub(super) fn ino(&self) -> Ino {
        match self {
            Names::Create { ino, .. } | Names::Rename { ino, .. } | Names::Unlink { ino, .. } => *ino,
        }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let (one, two) = match self {
            Names::Create { at, .. } | Names::Unlink { at, .. } => (at, None),
            Names::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(one).chain(two)
    }

    /// Whether a file or folder is changed by this: it is what gets or loses a name, or what holds the name.
    pub(super) fn touches(&self, node: Ino) -> bool {
        let replaced = matches!(self, Names::Rename { replaced: Some(old), .. } if *old == node);
        self.ino() == node || replaced || self.slots().any(|(folder, _)| *folder == node)
    }

    /// Whether this cannot be durable before `earlier` is: it is about the same name or the same file.
    pub(super) fn follows(&self, earlier: &Names) -> bool {
        self.ino() == earlier.ino() || self.slots().any(|slot| earlier.slots().any(|other| slot == other))
    }

    /// Whether this shows only with `earlier`: it follows it, or is in a folder that it made or moved.
    pub(super) fn needs(&self, earlier: &Names) -> bool {
        self.follows(earlier) || self.slots().any(|(folder, _)| *folder == earlier.ino())
    }

    /// Changes the names of an image. A name that is not there any more, since what removed it is durable already, is
    /// no trouble.
    pub(super) fn apply(&self, image: &mut Image) {
        let mut take = |(folder, name): &Slot, ino: Ino| {
            let names = image.names_mut(*folder);
            if names.get(name) == Some(&ino) {
                names.remove(name);
            }
        };
        match self {
            Names::Create { .. } => {}
            Names::Unlink { at, ino } => take(at, *ino),
            Names::Rename { from, ino, .. } => take(from, *ino),
        }
        if let Names::Create { at: (folder, name), ino, .. } | Names::Rename { to: (folder, name), ino, .. } =
            self
        {
            image.names_mut(*folder).insert(name.clone(), *ino);
        }
    }

    /// The node that this makes.
    pub(super) fn made(&self) -> Option<(Ino, Node)> {
        match self {
            Names::Create { ino, folder: true, .. } => Some((*ino, Node::Folder(Default::default()))),
            Names::Create { ino, .. } => Some((*ino, Node::File { bytes: Vec::new(), written: 0 })),
            _ => None,
        }
    }
}

impl Data {
    pub(super) fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Data::SetLen(len) => file.resize(*len, 0),
            Data::Write { at, bytes } => {
                let end = at + bytes.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[*at..end].copy_from_slice(bytes);
            }
        }
    }
}
