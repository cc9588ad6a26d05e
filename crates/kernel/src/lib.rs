//! Sessions: anchor, worker, lineage, RPC and its client.

pub mod anchor;
pub mod client;
pub mod frame;
pub mod output_log;
pub mod rpc;
pub mod session;

mod journal;
mod lines;
mod log;
mod meta_file;
mod phase;
mod socket;
mod start;
