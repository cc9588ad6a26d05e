//! `netsky demo`: a constellation that loses its root twice and lands its work, in a folder of its own.
//!
//! Promise: everything happens with the verbs and sessions that a user has; nothing of the user's is touched; what was
//! started is ended, however the demo ends; exit 0 only if every invariant held, all work landed once, every restart was
//! verified, every repeat was flagged and the owner was told of it all.
//!
//! Reading order: [`place`], [`repository`], [`owner`], [`agent`], then how it is watched ([`sight`], [`story`], [`landing`],
//! [`narrate`]), what is done to it ([`chaos`], [`script`], [`driven`] with a real program), what is said at the end
//! ([`verdict`], [`account`]), and who cleans up ([`janitor`]).

pub(crate) mod account;
pub(crate) mod agent;
pub(crate) mod chaos;
pub(crate) mod driven;
pub(crate) mod janitor;
mod landing;
pub(crate) mod narrate;
mod owner;
pub(crate) mod place;
mod programs;
mod repository;
pub(crate) mod script;
mod sight;
mod story;
mod verdict;

pub(crate) use script::{Wish, play};
