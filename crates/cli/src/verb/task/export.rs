//! `netsky task export`: every task as a line of JSON, with its brief.

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Print every task, one line of JSON each, as `netsky task import` takes them
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        for line in cx.board()?.export()? {
            output::json_or_fail(&line).map_err(|error| {
                Error::new(Kind::Failed, format!("failed to write to standard output: {error}"))
                    .hint("the export is not whole")
            })?;
        }
        Ok(())
    }
}
