//! `netsky init`: makes the home.

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Make the home of a constellation (in $NETSKY_HOME, else ~/.netsky)
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if cx.json {
            return output::json(&serde_json::json!({}));
        }
        output::table(&["home"], Vec::new(), "made")
    }
}
