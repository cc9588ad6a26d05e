//! `netsky ledger status`: how the record stands. Looking changes nothing, but that a database which is found
//! damaged is made anew by the next ingest.

use netsky_ledger::{Status, doubt, status};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Show what the record holds and whether it is whole
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let status = status(cx.home()?)?;
        if cx.json {
            output::json(&status)?;
        } else {
            print(&status)?;
        }
        if let Some(first) = status.broken.first() {
            return Err(super::broken(first));
        }
        match &status.database {
            Some(database) if !database.sound => {
                // It says so itself only to who meets the page that is damaged.
                let way = match doubt(cx.home()?) {
                    Ok(true) => "the next `netsky query` makes it anew",
                    _ => "`netsky ledger rebuild` makes it anew",
                };
                Err(Error::new(Kind::Damaged, "meta.db is damaged").hint(way))
            }
            _ => Ok(()),
        }
    }
}

fn print(status: &Status) -> Result<(), Error> {
    let Status { fact_files, facts, database, .. } = status;
    output::say(&format!("{facts} facts in {fact_files} files"))?;
    let Some(database) = database else {
        return output::say("no database yet; the next `netsky query` or tick makes it");
    };
    let when = database.ingested_at.as_deref().unwrap_or("never");
    output::say(&format!("last ingest: {when}"))?;
    let rows = database.tables.iter().map(|(name, rows)| vec![name.clone(), rows.to_string()]).collect();
    output::table(&["table", "rows"], rows, "no tables")
}
