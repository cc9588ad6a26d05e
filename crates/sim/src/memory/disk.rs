//! A disk: what its processes see, what of it is durable for certain, and what is on its way.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::event::{Data, Event, Names};
use super::image::{Image, Ino};

/// Files in a folder of this name are advice for one boot (`disk::words`): no cut decides anything by them, so they are
/// neither varied nor counted, only kept.
const ADVICE: &str = "usage";

/// A disk at one moment.
#[derive(Debug, Clone)]
pub struct Disk {
    /// What processes see.
    pub(super) live: Image,
    /// What every model keeps.
    pub(super) durable: Image,
    /// Changes of names that some model may still lose, in order.
    pub(super) names: Vec<OnTheWay>,
    /// Changes of bytes since the file's last sync, in order.
    pub(super) data: BTreeMap<Ino, Vec<Rc<Data>>>,
    /// How many of them a rename that replaced another file has flushed on ext4.
    pub(super) flushed: BTreeMap<Ino, usize>,
}

/// A change of names that is not durable for certain.
#[derive(Debug, Clone)]
pub(super) struct OnTheWay {
    pub(super) event: Rc<Names>,
    /// An ordered log has it, since something later was synced.
    pub(super) logged: bool,
    /// How many changes of its file's bytes came before it.
    pub(super) data_before: usize,
}

impl Disk {
    /// A disk on which everything of an image is durable.
    pub fn of(image: Image) -> Disk {
        Disk {
            durable: image.clone(),
            live: image,
            names: Vec::new(),
            data: BTreeMap::new(),
            flushed: BTreeMap::new(),
        }
    }

    /// What processes see.
    pub fn live(&self) -> &Image {
        &self.live
    }

    /// Does what a call did.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Names(names) => {
                if let Some((ino, node)) = names.made() {
                    self.live.add(ino, node.clone());
                    self.durable.add(ino, node);
                }
                names.apply(&mut self.live);
                self.durable.note_advice(names, ADVICE);
                if self.live.note_advice(names, ADVICE) {
                    return names.apply(&mut self.durable);
                }
                let data_before = self.data.get(&names.ino()).map_or(0, Vec::len);
                self.names.push(OnTheWay { event: names.clone(), logged: false, data_before });
            }
            Event::Data(ino, data) => {
                data.apply(self.live.bytes_mut(*ino));
                if self.live.is_advice(*ino) {
                    return data.apply(self.durable.bytes_mut(*ino));
                }
                self.data.entry(*ino).or_default().push(data.clone());
            }
            Event::Store(ino, at, word) => self.live.store(*ino, *at, *word),
            Event::Sync(ino) => self.sync(*ino),
        }
    }

    /// What a sync promises in every model: the bytes of a file; the names of a folder with all that they need. An
    /// ordered log also keeps whatever came before the last change of what was synced.
    fn sync(&mut self, ino: Ino) {
        for data in self.data.remove(&ino).unwrap_or_default() {
            data.apply(self.durable.bytes_mut(ino));
        }
        self.flushed.remove(&ino);
        for (at, word) in self.live.words(ino) {
            self.durable.store(ino, at, word);
        }
        for way in &mut self.names {
            if way.event.ino() == ino {
                way.data_before = 0;
            }
        }
        let Some(last) = self.names.iter().rposition(|way| way.event.touches(ino)) else { return };
        for at in 0..=last {
            self.names[at].logged = true;
            self.flush(at);
        }
        if self.live.names(ino).is_some() {
            self.keep(ino);
        }
    }

    /// On ext4 a rename that replaces a file is durable only with the bytes of the new one.
    fn flush(&mut self, at: usize) {
        let way = &self.names[at];
        if matches!(*way.event, Names::Rename { replaced: Some(_), .. }) && way.data_before > 0 {
            let flushed = self.flushed.entry(way.event.ino()).or_default();
            *flushed = (*flushed).max(way.data_before);
        }
    }

    /// Moves the names of a synced folder, and what they need, to what every model keeps. Its own name is not among them:
    /// POSIX leaves open whether that survives, and an ordered log has it anyway.
    fn keep(&mut self, folder: Ino) {
        let mut kept = vec![false; self.names.len()];
        for at in (0..self.names.len()).rev() {
            let event = &self.names[at].event;
            let needed =
                || (at + 1..kept.len()).any(|later| kept[later] && self.names[later].event.follows(event));
            kept[at] = event.slots().any(|(of, _)| *of == folder) || needed();
        }
        let mut kept = kept.into_iter();
        let durable = &mut self.durable;
        self.names.retain(|way| {
            let keep = kept.next().expect("one for each");
            if keep {
                way.event.apply(durable);
            }
            !keep
        });
    }
}
