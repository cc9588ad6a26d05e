//! A task's branch becomes part of `main`, or it is said why not.
//!
//! Promise: what comes of it is one [`Outcome`]; `main` is its old or its new tip throughout; a second harvest of the same, after
//! whatever death, finds what landed by the trailers in it and lands nothing twice. The owner's repository gets only
//! what lands: a branch is fetched, picked and gated in a scratch repository that has the owner's objects and none of
//! anybody's settings.
//!
//! Reading order: [`Job`] and [`Outcome`] → `run` (the steps) → `source` (what may be fetched) → `seen` (what has landed) →
//! `pick` → `links` → [`Landing`] → `land` (with `checkout`, `way`, `note`).

mod checkout;
mod job;
mod land;
mod links;
mod mark;
mod note;
mod pick;
mod run;
mod seen;
mod source;
mod target;
mod touched;
mod way;

pub use job::{Job, Landed, Mode, Outcome, Tree};
pub(crate) use mark::is_taken_back;
pub use mark::{Landing, landing};
pub use run::{harvest, settle};
pub(crate) use source::Scratch;
pub(crate) use target::{Target, owners, owners_at};
pub use touched::touched;
