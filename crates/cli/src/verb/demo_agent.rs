//! `netsky demo-agent`: an agent of the demo, run in its sessions.

use std::path::PathBuf;

use netsky_disk::env::Caller;

use crate::context::Context;
use crate::demo::agent::{Agent, live};
use crate::demo::place::Place;
use crate::error::{Error, Kind};
use crate::run::Run;

/// Be an agent of the demo
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The demo's folder
    folder: PathBuf,
    /// How many clones there are
    #[arg(long)]
    clones: u32,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Caller::Inside { agent: Some(me), .. } = cx.caller() else {
            return Err(Error::new(Kind::Refused, "demo-agent runs only in the sessions of a demo"));
        };
        live(&Agent { me, place: Place::at(&self.folder), clones: self.clones })
    }
}
