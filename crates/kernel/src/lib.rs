//! Sessions: anchor, worker, lineage, RPC and its client.

pub mod frame;
pub mod output_log;
pub mod session;
