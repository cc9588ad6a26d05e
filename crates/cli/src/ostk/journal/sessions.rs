//! `ostk journal sessions`: the process table, folded from the rows alone.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::anchor;
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// List every session as the journal alone has it; needs no anchor and no description
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let sessions = anchor::folded(&KernelLayout::new(cx.kernel_root()?).journal())?;
        if cx.json {
            return output::json(&json!({ "sessions": sessions }));
        }
        let rows = sessions.iter().map(|session| {
            let (lineage, generation) = (session.lineage.to_string(), session.generation.to_string());
            vec![session.name.to_string(), lineage, generation, session.state.to_string()]
        });
        output::table(&["name", "lineage", "generation", "state"], rows.collect(), "no sessions")
    }
}
