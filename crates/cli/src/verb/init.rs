//! `netsky init`: makes the home.

use netsky_disk::home::Home;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Make the home of a constellation (in $NETSKY_HOME, else ~/.netsky)
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = Context::layout()?;
        let (home, made) = Home::init(&layout)?;
        // Checked again as every verb does, and so that this run is recorded in it.
        cx.home()?;
        let path = layout.home().display().to_string();
        if cx.json {
            return output::json(&serde_json::json!({"id": home.home_id, "home": path, "made": made}));
        }
        match made {
            true => output::say(&format!("made the home {path}")),
            false => output::say(&format!("the home {path} is there already")),
        }
    }
}
