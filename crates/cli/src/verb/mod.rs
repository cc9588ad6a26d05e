//! The command tree of `netsky`, one line a verb.

use clap::Parser;

use crate::context::Context;
use crate::error::Error;
use crate::run::{Program, Run, verbs};

mod init;

/// A constellation of agents that keeps serving, keeps repairing, and keeps its evidence
#[derive(Parser)]
#[command(name = "netsky", version, propagate_version = false, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print one JSON object instead of a sentence or a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

verbs! {
    /// The groups and verbs.
    Verb {
        Init(init::Args),
    }
}

impl Program for Cli {
    fn context(&self) -> Context {
        Context::netsky(self.json)
    }
}

impl Run for Cli {
    fn run(self, cx: &Context) -> Result<(), Error> {
        self.verb.run(cx)
    }
}
