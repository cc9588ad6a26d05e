//! The command tree of `ostk`, one line a verb.

use std::path::PathBuf;

use clap::Parser;

use crate::context::Context;
use crate::error::Error;
use crate::run::{Program, Run, verbs};

mod attach;
mod journal;
mod kernel;
mod lineage;
mod logs;
mod prompt;
pub(crate) mod reach;
mod recall;
mod report;
mod rpc;
mod serve;
mod status;
mod table;
mod wishes;

/// The session kernel: agents as processes that outlive their daemon and its clients
#[derive(Parser)]
#[command(name = "ostk", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print one JSON object instead of a sentence or a table; not for attach and logs
    #[arg(long, global = true)]
    json: bool,
    /// The kernel's root folder [default: $OSTK_ROOT, the nearest .ostk upward, else ./.ostk]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

verbs! {
    /// The groups and verbs.
    Verb {
        Serve(serve::Args),
        #[command(subcommand)]
        Kernel(kernel::Verb),
        Attach(attach::Args),
        Logs(logs::Args),
        #[command(subcommand)]
        Lineage(lineage::Verb),
        #[command(subcommand)]
        Journal(journal::Verb),
        Prompt(prompt::Args),
        Recall(recall::Args),
        Report(report::Args),
        #[command(subcommand)]
        Rpc(rpc::Verb),
        Status(status::Args),
    }
}

impl Program for Cli {
    fn context(&self) -> Context {
        Context::ostk(self.json, self.root.clone())
    }
}

impl Run for Cli {
    fn run(self, cx: &Context) -> Result<(), Error> {
        self.verb.run(cx)
    }
}
