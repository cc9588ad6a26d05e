//! `netsky loop show`: one loop, whole.

use netsky_schedule::loops::{LoopId, read_one};

use super::{id, object};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Show a loop: its file, and how it stands
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let entry = read_one(cx.home()?, self.id)?;
        if cx.json {
            return output::json(&object(&entry));
        }
        let text = entry.text().map_err(|e| Error::new(Kind::Failed, e.to_string()))?;
        output::say(&format!("# {}\n{}", entry.standing().word(), text.trim_end()))
    }
}
