//! Tests of the kernel with real processes.

mod bench;
mod worker_ends;
mod worker_output;
mod worker_reach;
mod worker_start;
