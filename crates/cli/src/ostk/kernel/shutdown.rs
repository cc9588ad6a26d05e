//! `ostk kernel shutdown`: stop the anchor, or everything.

use netsky_kernel::client::{Client, ClientError};
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::reach;
use crate::output;
use crate::run::Run;

/// Stop the anchor; sessions live on unless told otherwise
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End every session first
    #[arg(long)]
    all: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let root = cx.kernel_root()?;
        let (answer, served) = match Client::connect(&root).and_then(|client| client.shutdown(self.all)) {
            // Sessions may live without an anchor, also because another shutdown was sooner: only one can find and end them.
            Err(ClientError::NotServing { .. }) if self.all && root.is_dir() => {
                (reach::anchor(cx)?.shutdown(true)?, false)
            }
            Err(ClientError::NotServing { .. }) if cx.json => {
                return output::json(&json!({ "ended": [], "left": [] }));
            }
            Err(ClientError::NotServing { .. }) => {
                return output::say(&format!("nobody serves {}", root.display()));
            }
            answered => (answered?, true),
        };
        if cx.json {
            output::json(&answer)?;
        } else if !served && answer.ended.is_empty() && answer.left.is_empty() {
            output::say(&format!("nobody serves {}, and no session lives", root.display()))?;
        } else {
            let (ended, left) = (answer.ended.len(), answer.left.len());
            output::say(&format!("the anchor stopped; {ended} sessions ended, {left} live on"))?;
        }
        let noted =
            if answer.unwritten.is_empty() { "; what is to stay down is noted beside it" } else { "" };
        reach::tell_waiting(&root, answer.waiting, &format!(" that this anchor waits for no more{noted}"));
        match self.all && !answer.left.is_empty() {
            true => Err(Error::new(Kind::Busy, format!("{} sessions would not end", answer.left.len()))
                .hint("repeat")),
            false if !answer.unwritten.is_empty() => {
                let count = answer.unwritten.len();
                let what =
                    format!("that {count} sessions are to stay down is written nowhere: the disk is full");
                Err(Error::new(Kind::Degraded, what)
                    .hint("the next anchor may bring them back; make room and repeat"))
            }
            false => Ok(()),
        }
    }
}
