//! Who a process is: a pid alone is a number that the system hands out again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Identity of one process for ever: its pid within one pid namespace of one boot, and its start.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProcessId {
    /// Process id in its own pid namespace; always above 1.
    pub pid: u32,
    /// Start in clock ticks since boot: field 22 of `/proc/<pid>/stat`.
    pub start_time: u64,
    /// First 8 hex digits of the kernel's boot id.
    pub boot_id: String,
    /// Inode of the pid namespace.
    pub ns: u64,
}

/// What can be said about a process from its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// That very process runs.
    Alive,
    /// That very process is gone for ever (a zombie counts as gone).
    Dead,
    /// It belongs to another pid namespace: nothing can be said from here.
    Unknown,
}
