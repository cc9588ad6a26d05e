//! What is on a disk at one moment: files and folders by number, the root first. Copies share what does not differ.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::rc::Rc;

use super::event::Names;

/// A file or folder; numbers are never used twice.
pub(super) type Ino = usize;

/// The folder that every path begins at.
pub(super) const ROOT: Ino = 0;

/// A file or folder.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File {
        bytes: Vec<u8>,
        /// Wall-clock second of the last write on this machine; 0 for none.
        written: i64,
    },
    Folder(BTreeMap<OsString, Ino>),
}

/// Files and folders at one moment.
#[derive(Debug, Clone)]
pub struct Image {
    nodes: Vec<Rc<Node>>,
    /// Words that were stored through a mapping, by file and place. They lie over the file's bytes and are no part of
    /// what makes two images different: a clock's word takes another value with every message.
    words: BTreeMap<(Ino, usize), u64>,
    /// Folders of advice and what was made in them; no part of what makes two images different either.
    advice: BTreeSet<Ino>,
}

impl Image {
    /// An empty root.
    pub(super) fn new() -> Image {
        Image {
            nodes: vec![Rc::new(Node::Folder(BTreeMap::new()))],
            words: BTreeMap::new(),
            advice: BTreeSet::new(),
        }
    }

    /// Remembers what a change makes a folder of advice, by its name, or puts into one; whether it is about such a thing
    /// inside.
    pub(super) fn note_advice(&mut self, change: &Names, name: &str) -> bool {
        let inside = change.slots().any(|(folder, _)| self.advice.contains(folder));
        let made = matches!(change, Names::Create { at: (_, made), folder: true, .. } if *made == *name);
        if inside || made {
            self.advice.insert(change.ino());
        }
        inside
    }

    pub(super) fn is_advice(&self, ino: Ino) -> bool {
        self.advice.contains(&ino)
    }

    /// The number that the next node gets.
    pub(super) fn next(&self) -> Ino {
        self.nodes.len()
    }

    /// Makes room for a node that no name leads to yet.
    pub(super) fn add(&mut self, ino: Ino, node: Node) {
        assert_eq!(ino, self.nodes.len(), "numbers are given in order");
        self.nodes.push(Rc::new(node));
    }

    pub(super) fn node(&self, ino: Ino) -> &Node {
        &self.nodes[ino]
    }

    fn node_mut(&mut self, ino: Ino) -> &mut Node {
        Rc::make_mut(&mut self.nodes[ino])
    }

    pub(super) fn bytes(&self, ino: Ino) -> Option<&[u8]> {
        match self.node(ino) {
            Node::File { bytes, .. } => Some(bytes),
            Node::Folder(_) => None,
        }
    }

    pub(super) fn bytes_mut(&mut self, ino: Ino) -> &mut Vec<u8> {
        match self.node_mut(ino) {
            Node::File { bytes, .. } => bytes,
            Node::Folder(_) => panic!("node {ino} is a folder"),
        }
    }

    pub(super) fn store(&mut self, ino: Ino, at: usize, word: u64) {
        self.words.insert((ino, at), word);
    }

    /// The words that were stored in a file.
    pub(super) fn words(&self, ino: Ino) -> impl Iterator<Item = (usize, u64)> {
        self.words.range((ino, 0)..(ino + 1, 0)).map(|((_, at), word)| (*at, *word))
    }

    /// Takes every stored word from another image.
    pub(super) fn words_of(&mut self, other: &Image) {
        self.words.clone_from(&other.words);
    }

    pub(super) fn touch(&mut self, ino: Ino, now: i64) {
        if let Node::File { written, .. } = self.node_mut(ino) {
            *written = now;
        }
    }

    pub(super) fn names(&self, ino: Ino) -> Option<&BTreeMap<OsString, Ino>> {
        match self.node(ino) {
            Node::Folder(names) => Some(names),
            Node::File { .. } => None,
        }
    }

    pub(super) fn names_mut(&mut self, ino: Ino) -> &mut BTreeMap<OsString, Ino> {
        match self.node_mut(ino) {
            Node::Folder(names) => names,
            Node::File { .. } => panic!("node {ino} is a file"),
        }
    }

    /// What a path leads to, below a folder where it is not absolute.
    pub(super) fn find(&self, base: Ino, path: &Path) -> Option<Ino> {
        path.components().try_fold(base, |at, part| match part {
            std::path::Component::RootDir => Some(ROOT),
            std::path::Component::CurDir => Some(at),
            std::path::Component::Normal(name) => self.names(at)?.get(name).copied(),
            _ => None,
        })
    }

    /// Everything that a name leads to.
    pub(super) fn reached(&self) -> BTreeSet<Ino> {
        let mut reached = BTreeSet::from([ROOT]);
        let mut ahead = vec![ROOT];
        while let Some(names) = ahead.pop().map(|ino| self.names(ino)) {
            for ino in names.into_iter().flat_map(BTreeMap::values) {
                if reached.insert(*ino) {
                    ahead.push(*ino);
                }
            }
        }
        reached
    }

    /// Names in a folder with the bytes of files, sorted; nothing where there is no such folder.
    pub fn files(&self, folder: &Path) -> impl Iterator<Item = (&OsStr, &[u8])> + use<'_> {
        let names = self.find(ROOT, folder).and_then(|ino| self.names(ino));
        let files = names.into_iter().flatten();
        files.filter_map(|(name, ino)| Some((name.as_os_str(), self.bytes(*ino)?)))
    }

    /// Names in a folder; nothing where there is no such folder.
    pub fn list(&self, folder: &Path) -> impl Iterator<Item = &OsStr> + use<'_> {
        let names = self.find(ROOT, folder).and_then(|ino| self.names(ino));
        names.into_iter().flatten().map(|(name, _)| name.as_os_str())
    }

    /// The bytes of a file.
    pub fn read(&self, path: &Path) -> Option<&[u8]> {
        self.find(ROOT, path).and_then(|ino| self.bytes(ino))
    }

    /// Whether something has this path.
    pub fn has(&self, path: &Path) -> bool {
        self.find(ROOT, path).is_some()
    }

    /// Puts other bytes in a file that is there, as damage does.
    pub fn damage(&mut self, path: &Path, with: Vec<u8>) {
        let ino = self.find(ROOT, path).expect("what is damaged is there");
        *self.bytes_mut(ino) = with;
        self.words.retain(|(of, _), _| *of != ino);
    }

    /// Takes a name away, as damage does.
    pub fn lose(&mut self, path: &Path) {
        let folder = self.find(ROOT, path.parent().expect("not the root")).expect("its folder is there");
        self.names_mut(folder).remove(path.file_name().expect("not the root"));
    }

    /// Equal for images with the same paths and bytes, whatever came before.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.feed(ROOT, &mut hasher);
        hasher.finish()
    }

    fn feed(&self, ino: Ino, hasher: &mut DefaultHasher) {
        match self.node(ino) {
            _ if self.is_advice(ino) => {}
            Node::File { bytes, .. } => (0_u8, bytes).hash(hasher),
            Node::Folder(names) => {
                (1_u8, names.len()).hash(hasher);
                for (name, ino) in names {
                    name.hash(hasher);
                    self.feed(*ino, hasher);
                }
            }
        }
    }
}
