//! `ostk kernel show`: one session.

use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::{reach, table};
use crate::output;
use crate::run::Run;

/// Show one session
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let session = reach::anchor(cx)?.show(&self.name)?;
        if cx.json {
            return table::session(cx, &session, "");
        }
        let fields = serde_json::to_value(&session)
            .map_err(|e| Error::new(Kind::Failed, format!("failed to show a session: {e}")))?;
        output::fields(&fields)
    }
}
