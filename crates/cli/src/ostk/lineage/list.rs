//! `ostk lineage list`: every lineage of the root and where it stands.

use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::ostk::reach;
use crate::output;
use crate::run::Run;

/// List every lineage, also of sessions that were reaped
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let lineages = reach::anchor(cx)?.lineages()?;
        if cx.json {
            return output::json(&json!({ "lineages": lineages }));
        }
        let rows = lineages.iter().map(|lineage| {
            vec![
                lineage.id.to_string(),
                lineage.session.to_string(),
                lineage.generation.to_string(),
                lineage.state.to_string(),
            ]
        });
        output::table(&["id", "session", "generation", "state"], rows.collect(), "no lineages")
    }
}
