//! Tests of the door to the outside, against the real file system and real processes.

mod bystander;
mod files;
mod groups;
mod headless;
mod hlc;
mod home;
mod locks;
mod reuse;
#[path = "../../../bus/tests/it/skipped.rs"]
mod skipped;
mod spawn;
mod sweeps;
mod watches;
