//! `netsky task import`: the tasks of an export.

use std::path::PathBuf;

use netsky_disk::fs::read_users_file;
use netsky_work::task::MAX_IMPORT;

use super::{unread, usage};
use crate::context::{Context, for_the_owner};
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Take in tasks, one line of JSON each; those that are there already stay as they are
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file, or - for standard input
    file: PathBuf,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        const WHAT: &str = "an import of tasks";
        if cx.bound(WHAT)?.is_some() {
            return Err(for_the_owner(WHAT));
        }
        let text = match self.file.to_str() {
            Some("-") => super::super::channel::stdin_text("the import", MAX_IMPORT)?,
            _ => match read_users_file(&self.file, MAX_IMPORT as u64) {
                Ok(bytes) => String::from_utf8(bytes).map_err(|_| usage("the import is not UTF-8"))?,
                Err(error) => return unread(&self.file, error),
            },
        };
        let imported = cx.board()?.import(&text)?;
        if cx.json {
            return output::json(&imported);
        }
        let (new, known) = (imported.imported.len(), imported.known.len());
        output::say(&format!("{new} tasks imported, {known} were there already"))
    }
}
