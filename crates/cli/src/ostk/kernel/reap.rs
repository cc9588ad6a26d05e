//! `ostk kernel reap`: put ended sessions aside.

use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::ostk::reach;
use crate::output;
use crate::run::Run;

/// Put ended sessions aside and remove what they left
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let reaped = reach::anchor(cx)?.reap()?;
        if cx.json {
            return output::json(&json!({ "reaped": reaped }));
        }
        let names: Vec<String> = reaped.iter().map(ToString::to_string).collect();
        match names.as_slice() {
            [] => output::say("nothing to reap"),
            names => output::say(&format!("reaped {}", names.join(", "))),
        }
    }
}
