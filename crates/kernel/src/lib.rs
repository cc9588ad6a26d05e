//! Sessions: anchor, worker, lineage, RPC and its client.

pub mod anchor;
pub mod attach;
pub mod audit;
pub mod client;
pub mod drain;
pub mod escapes;
pub mod frame;
pub mod output_log;
pub mod rpc;
pub mod session;
pub mod settings;
pub mod worker;
pub mod worker_client;

pub mod files;
mod heads;
mod journal;
mod lines;
mod log;
mod meta_file;
mod paste;
mod phase;
mod socket;
mod start;
