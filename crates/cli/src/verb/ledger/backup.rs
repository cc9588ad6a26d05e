//! `netsky ledger backup FOLDER`: a copy of the record.

use std::path::{Path, PathBuf};

use netsky_ledger::{backup, broken_facts};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Copy facts, telemetry and the database into a new folder
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where; it must not be there yet, or be empty
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let folder = absolute(&self.folder)?;
        let made = backup(layout, &folder)?;
        if cx.json {
            output::json(&made)?;
        } else {
            let database = if made.database { " and the database" } else { "" };
            output::say(&format!("copied {} files{database} to {}", made.files, folder.display()))?;
        }
        // It is as whole as the record: what is damaged here is damaged there.
        broken_facts(layout)?.first().map_or(Ok(()), |first| Err(super::broken(first)))
    }
}

fn absolute(folder: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(folder)
        .map_err(|e| Error::new(Kind::Usage, format!("failed to use {}: {e}", folder.display())))
}
