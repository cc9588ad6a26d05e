//! A machine in memory whose power can be cut: files and folders that know what of them is durable.
//!
//! Promise: what a [`Disk`] yields after a power cut is exactly what its [`Model`] allows, no more and no less (up to the
//! number of states asked for, then a sample that a seed decides); the same calls and seeds give the same states.
//! A [`Memory`] is such a disk with clocks, chance and one process, behind the door of `netsky_disk::sim`.
//! Leaves to others: what runs on it, and what must hold afterwards. What the models assume is told in docs/proof.md.

mod cut;
mod data;
mod disk;
mod event;
mod image;
mod rng;
mod world;

pub use cut::{Model, POWER_CUTS};
pub use disk::Disk;
pub use event::Event;
pub use image::Image;
pub use rng::Rng;
pub use world::{Call, Era, Memory, Refusal};
