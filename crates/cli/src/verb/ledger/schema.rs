//! `netsky ledger schema`: what may be asked.

use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Print the tables that `query` can ask
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one
    #[arg(value_name = "TABLE")]
    table: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let mut tables = netsky_ledger::schema()?;
        if let Some(name) = &self.table {
            tables.retain(|table| table.name == *name);
            if tables.is_empty() {
                let what = format!("there is no table {name}");
                return Err(
                    Error::new(crate::error::Kind::NotFound, what).hint("`netsky ledger schema` lists them")
                );
            }
        }
        if cx.json {
            return output::json(&json!({ "tables": tables }));
        }
        let texts: Vec<&str> = tables.iter().map(|table| table.sql.as_str()).collect();
        output::say(&texts.join(";\n\n"))
    }
}
