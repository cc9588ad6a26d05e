//! Power cuts: every state that a model allows after one, or a sample where those are too many.

use std::collections::HashSet;

use super::data;
use super::disk::{Disk, OnTheWay};
use super::event::Names;
use super::image::{Image, Ino};
use super::rng::Rng;

/// Pending changes of names up to which every legal subset is enumerated.
const EXHAUSTIVE: usize = 8;
/// Subsets that are tried where there are more.
const SAMPLED: usize = 64;

/// What survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Model {
    /// ext4, `data=ordered`: names in the order of the log; bytes may be missing, but not of a file that replaced another.
    Ext4,
    /// XFS: names in the order of the log; bytes may be missing.
    Xfs,
    /// What POSIX leaves open: any names that do not need each other, any sectors.
    Worst,
}

/// The models of a power cut.
pub const POWER_CUTS: [Model; 3] = [Model::Ext4, Model::Xfs, Model::Worst];

impl Disk {
    /// The states that a power cut may leave now: each once by what it holds, at most `most` of them.
    pub fn cuts(&self, model: Model, most: usize, rng: &mut Rng) -> Vec<Image> {
        let outcomes: Vec<Outcome> =
            self.choices(model, rng).iter().map(|names| self.outcome(names, model)).collect();
        let all = outcomes.iter().map(Outcome::states).sum();
        let wanted: Vec<usize> = if all <= most {
            (0..all).collect()
        } else {
            // The two ends are always among them: nothing of all this, and everything.
            let between = (2..most).map(|_| rng.below(all));
            [0].into_iter().chain(between).chain([all - 1]).collect()
        };
        let mut seen = HashSet::new();
        let mut images = Vec::new();
        for mut nth in wanted {
            let mut outcomes = outcomes.iter();
            let outcome = outcomes.find(|outcome| {
                let here = nth < outcome.states();
                nth -= if here { 0 } else { outcome.states() };
                here
            });
            let mut image = outcome.expect("below the sum of all").state(nth);
            if rng.below(2) == 1 {
                image.words_of(&self.live);
            }
            if seen.insert(image.digest()) {
                images.push(image);
            }
        }
        images
    }

    /// Which changes of names may be there together.
    fn choices(&self, model: Model, rng: &mut Rng) -> Vec<Vec<bool>> {
        let ways = &self.names;
        match model {
            Model::Ext4 | Model::Xfs => {
                let logged = ways.iter().rposition(|way| way.logged).map_or(0, |last| last + 1);
                (logged..=ways.len()).map(|end| (0..ways.len()).map(|at| at < end).collect()).collect()
            }
            Model::Worst if ways.len() <= EXHAUSTIVE => {
                let subsets = (0..1_usize << ways.len())
                    .map(|bits| (0..ways.len()).map(|at| bits >> at & 1 == 1).collect::<Vec<bool>>());
                subsets.filter(|chosen| is_closed(ways, chosen)).collect()
            }
            Model::Worst => {
                let mut some: Vec<Vec<bool>> = vec![vec![false; ways.len()]];
                for _ in 0..SAMPLED {
                    let mut chosen: Vec<bool> = ways.iter().map(|_| rng.below(2) == 1).collect();
                    close(ways, &mut chosen);
                    some.push(chosen);
                }
                some.push(vec![true; ways.len()]);
                some
            }
        }
    }

    /// What may be with these changes of names.
    fn outcome(&self, names: &[bool], model: Model) -> Outcome {
        let mut image = self.durable.clone();
        let chosen = self.names.iter().zip(names).filter(|(_, there)| **there);
        chosen.for_each(|(way, _)| way.event.apply(&mut image));
        let reached = image.reached();
        let files = self.data.iter().filter(|(ino, _)| reached.contains(ino));
        let contents = files.map(|(ino, changes)| {
            let sure = if model == Model::Ext4 { self.flushed_by(*ino, names) } else { 0 };
            let durable = self.durable.bytes(*ino).expect("only files have bytes");
            (*ino, data::left(durable, changes, sure, model))
        });
        Outcome { contents: contents.collect(), image }
    }

    fn flushed_by(&self, ino: Ino, names: &[bool]) -> usize {
        let replaced = |way: &OnTheWay| matches!(*way.event, Names::Rename { replaced: Some(_), .. });
        let chosen = self.names.iter().zip(names).filter(|(way, there)| **there && replaced(way));
        let now = chosen.filter(|(way, _)| way.event.ino() == ino).map(|(way, _)| way.data_before).max();
        now.unwrap_or(0).max(self.flushed.get(&ino).copied().unwrap_or(0))
    }
}

/// A choice of names, with what may be left of each file.
struct Outcome {
    image: Image,
    contents: Vec<(Ino, Vec<Vec<u8>>)>,
}

impl Outcome {
    fn states(&self) -> usize {
        self.contents.iter().map(|(_, left)| left.len()).product()
    }

    /// One of the states; the first has the least in its files, the last the most.
    fn state(&self, mut nth: usize) -> Image {
        let mut image = self.image.clone();
        for (ino, left) in &self.contents {
            image.bytes_mut(*ino).clone_from(&left[nth % left.len()]);
            nth /= left.len();
        }
        image
    }
}

/// Whether everything is there that something there needs.
fn is_closed(ways: &[OnTheWay], chosen: &[bool]) -> bool {
    let mut closed = chosen.to_vec();
    close(ways, &mut closed);
    closed == chosen
}

/// Adds what the chosen need.
fn close(ways: &[OnTheWay], chosen: &mut [bool]) {
    for at in (0..ways.len()).rev() {
        let needed =
            (at + 1..ways.len()).any(|later| chosen[later] && ways[later].event.needs(&ways[at].event));
        chosen[at] |= needed;
    }
}
