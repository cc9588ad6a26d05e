//! Crash enumeration: every short sequence of operations, cut at every change of the disk, in every way a model allows.
//!
//! Promise: each state that is counted differs from every other in what is on the disk or in what was promised; on each
//! a newcomer recovered, with everything of the former dead, and was judged by what had been promised before the cut.
//! Some recoveries are cut once more. The same seed gives the same states.
//! Leaves to others: what a cut may leave (`crate::memory`), real disks and real kills (the steppers).

mod actor;
mod explore;
mod history;
mod judge;
mod op;
mod recovery;
mod stage;

pub use explore::{Plan, Report, explore};
pub use op::{OPS, Op};
pub use recovery::{BRANCHES, Damage};
pub use stage::{STAGES, Stage};
