//! `netsky watchdog pages`: sends the pages that are due. A tick starts it and does not wait: a transport that hangs holds nothing
//! else up.

use netsky_watchdog::send_pages;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Send the pages that no transport took yet; a tick does that too
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Some(sent) = send_pages(cx.home()?)? else {
            let what = "pages are being sent by another process";
            return Err(Error::new(Kind::Busy, what).hint("nothing is lost"));
        };
        match cx.json {
            true => output::json(&sent)?,
            false if sent.done.is_empty() && sent.problems.is_empty() => output::say("no page is due")?,
            false => {
                for line in &sent.done {
                    output::say(line)?;
                }
            }
        }
        if sent.problems.is_empty() {
            return Ok(());
        }
        Err(Error::new(Kind::Busy, sent.problems.join("; ")).hint("every tick tries again"))
    }
}
