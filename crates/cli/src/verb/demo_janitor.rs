//! `netsky demo-janitor`: waits for the end of a demo and cleans up what it could not.

use std::path::PathBuf;

use netsky_disk::process;
use netsky_model::process::ProcessId;

use crate::context::Context;
use crate::demo::janitor::live;
use crate::demo::place::Place;
use crate::error::Error;
use crate::run::Run;

/// Clean up after a demo
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The demo's folder
    folder: PathBuf,
    /// The demo's process
    #[arg(long)]
    pid: u32,
    /// When that process started
    #[arg(long)]
    start_time: u64,
    /// Leave the folder where it is
    #[arg(long)]
    keep: bool,
}

impl Run for Args {
    fn run(self, _cx: &Context) -> Result<(), Error> {
        let demo = ProcessId { pid: self.pid, start_time: self.start_time, ..process::identity()? };
        live(&Place::at(&self.folder), &demo, self.keep)
    }
}
