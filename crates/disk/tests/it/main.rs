//! Tests of the door to the outside, against the real file system and real processes.

mod files;
mod hlc;
mod locks;
mod sweeps;
