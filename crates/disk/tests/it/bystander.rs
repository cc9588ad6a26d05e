//! A process that a test starts beside what it tests. Shared by the test programs of all crates.
//!
//! Promise: it ends with its test, also with one that fails, and with it what it started in its process group.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use netsky_disk::process::{Signal, identify, signal_group_of_child};
use netsky_model::process::ProcessId;

/// Killed and waited for when dropped.
pub(crate) struct Bystander {
    /// Who it is.
    pub(crate) id: ProcessId,
    child: Child,
}

impl Bystander {
    /// Starts one.
    pub(crate) fn start(command: &mut Command) -> Bystander {
        let child = command.process_group(0).stdin(Stdio::null()).spawn().expect("it starts");
        let id = identify(child.id()).expect("not waited for, so it is there");
        Bystander { id, child }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = signal_group_of_child(&self.id, Signal::KILL);
        let _ = self.child.wait();
    }
}
