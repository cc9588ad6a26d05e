//! `ostk rpc schema`: the reference of the protocol; needs no anchor and no root.

use netsky_kernel::rpc::schema;

use super::markdown;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Print every method, event and error of the anchor's protocol with its JSON Schema
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the reference for people instead: docs/rpc.md
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let reference = schema::reference();
        if cx.json {
            return output::json(&reference);
        }
        if self.markdown {
            return output::say(markdown::of(&reference).trim_end());
        }
        let unshown = |e| Error::new(Kind::Failed, format!("failed to show the reference: {e}"));
        output::say(&serde_json::to_string_pretty(&reference).map_err(unshown)?)
    }
}
