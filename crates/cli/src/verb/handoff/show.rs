//! `netsky handoff show`: handoffs as they were delivered.

use netsky_disk::fs::Dir;
use netsky_disk::state;
use netsky_model::envelope::Envelope;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Print the newest handoff that was delivered, or one by the id of its restart
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The restart's id, or its beginning
    id: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let names = match Dir::open(layout.handoff_archive()) {
            Err(error) if error.is_not_found() => Vec::new(),
            opened => opened?.names()?,
        };
        // Ids begin with the second they were made in, so the last is the newest.
        let is_meant = |name: &&String| {
            name.ends_with(".json")
                && self.id.as_ref().is_none_or(|id| !id.is_empty() && name.starts_with(id.as_str()))
        };
        let Some(name) = names.iter().rfind(is_meant) else {
            let what = self.id.map_or_else(
                || "no handoff was delivered yet".to_owned(),
                |id| format!("no handoff of {id:?}"),
            );
            return Err(Error::new(Kind::NotFound, what)
                .hint(format!("they are in {}", layout.handoff_archive().display())));
        };
        let path = layout.handoff_archive().join(name);
        let bytes = state::read(&path)?.unwrap_or_default();
        let packet = Envelope::parse(&bytes).map_err(|error| {
            Error::new(Kind::Damaged, format!("{} does not read: {error}", path.display()))
        })?;
        match cx.json {
            true => output::json(&packet),
            false => output::say(&format!(
                "{name}, from {} at {}\n{}",
                packet.from,
                packet.ts,
                packet.text.trim_end()
            )),
        }
    }
}
