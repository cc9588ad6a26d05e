//! `netsky home adopt`: a copied or moved home becomes one of its own.
//!
//! What sessions and readers of the original had taken and not finished waits again, flagged as a repeat: they are none here.

use netsky_bus::Bus;
use netsky_disk::adopt::{Adopted, adopt};
use netsky_disk::layout::Layout;
use netsky_ledger::Telemetry;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Make a copied or moved home one of its own: a new id, its mail kept, its sessions begun anew
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("the adoption of a home")?;
        let layout = Context::layout()?;
        let (mut returned, mut left) = (0, Vec::new());
        let adopted = adopt(&layout, || {
            (returned, left) = give_back(&layout, cx.telemetry_of(&layout))?;
            Ok::<(), Error>(())
        })?;
        // Checked as every verb does, and so that this run is recorded in it.
        cx.home()?;
        let path = layout.home().display().to_string();
        let Some(Adopted { home, was, aside }) = adopted else {
            return match cx.json {
                true => output::json(&serde_json::json!({ "home": path, "adopted": false })),
                false => output::say(&format!("the home {path} was made here; there is nothing to adopt")),
            };
        };
        if cx.json {
            output::json(&serde_json::json!({
                "id": home.home_id, "home": path, "adopted": true, "was": { "id": was.0, "host": was.1 },
                "aside": aside, "returned": returned, "left": left,
            }))?;
            return all_returned(&left);
        }
        output::say(&format!(
            "adopted the home {path}, made as {}; files of its sessions are in {aside}, {returned} messages wait again",
            was.1
        ))?;
        all_returned(&left)
    }
}

/// Says of mail that could not go back that it stays with readers who are none here.
fn all_returned(left: &[String]) -> Result<(), Error> {
    let Some(first) = left.first() else { return Ok(()) };
    let what = format!("adopted, but {} messages could not go back: {first}", left.len());
    Err(Error::new(Kind::Degraded, what).hint("put that right, then `netsky channel release` each of them"))
}

/// Every session and reader that took mail was one of the original.
fn give_back(layout: &Layout, telemetry: &Telemetry) -> Result<(usize, Vec<String>), Error> {
    let bus = Bus::open(layout, telemetry);
    let (mut returned, mut left) = (0, Vec::new());
    for agent in bus.agents()? {
        let back = bus.return_adopted(&agent)?;
        returned += back.inbox;
        left.extend(back.skipped.iter().map(|error| format!("failed to {error}")));
    }
    Ok((returned, left))
}
