//! Tests of the door to the outside, against the real file system and real processes.

mod bystander;
mod files;
mod groups;
mod hlc;
mod home;
mod locks;
mod spawn;
mod sweeps;
mod watches;
