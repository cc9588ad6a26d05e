//! `ostk kernel shutdown`: stop the anchor, or everything.

use netsky_disk::layout::Layout;
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::shutdown::Answer;
use netsky_model::id::AgentId;
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::{reach, wishes};
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
        let home = wishes::home_of(&root)?;
        if home.is_some() {
            wishes::owner_only(cx, &root, "kernel shutdown")?;
        }
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
            let stopped = match answer.others {
                0 => "stopped",
                _ => "stops once another shutdown, which is at work, is done",
            };
            let then = if self.all { brought_back(home.as_ref()) } else { "" };
            output::say(&format!("the anchor {stopped}; {ended} sessions ended, {left} live on{then}"))?;
        }
        let noted =
            if answer.unwritten.is_empty() { "; what is to stay down is noted beside it" } else { "" };
        let then = format!(" that this anchor waits for no more, so they are written nowhere{noted}");
        let lost = reach::waiting(&root, answer.waiting, &then);
        let unsettled = self.unsettled(&answer);
        match (unsettled, lost) {
            (None, None) => Ok(()),
            (None, Some(lost)) => Err(Error::new(Kind::Degraded, lost).hint("it is done; make room")),
            (Some(error), lost) => {
                lost.iter().for_each(|lost| output::complain("ostk", lost));
                Err(error)
            }
        }
    }
}

/// How those come again who are wanted: who would see to it has ended with them.
fn brought_back(home: Option<&Layout>) -> &'static str {
    let wanted =
        home.is_some_and(|home| !matches!(netsky_watchdog::wanted(home, &AgentId::root()), Ok(None)));
    if wanted { "; `netsky up` brings back who is wanted" } else { "" }
}

impl Args {
    /// What was wanted and did not come to pass, or may not stay so.
    fn unsettled(&self, answer: &Answer) -> Option<Error> {
        if self.all && !answer.left.is_empty() {
            let what = format!("{} sessions would not end", answer.left.len());
            return Some(Error::new(Kind::Busy, what).hint("repeat"));
        }
        let count = answer.unwritten.len();
        let what = format!("that {count} sessions are to stay down is written nowhere: the disk is full");
        let hint = "the next anchor may bring them back; make room and repeat";
        (count > 0).then(|| Error::new(Kind::Degraded, what).hint(hint))
    }
}
