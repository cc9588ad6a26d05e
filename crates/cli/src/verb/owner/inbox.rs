//! `netsky owner inbox`: what agents sent to the owner. A look: it takes nothing, and what was dealt with he acks.

use netsky_bus::{Bus, Entry};
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::witness::Nobody;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;
use crate::verb::channel::list::{MAX_ROWS, as_value, say_left_out};

/// Show what agents sent to you and you have not acked
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what was acked
    #[arg(long)]
    all: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let bus = Bus::open(cx.home()?, &Nobody);
        let listing = bus.listing(&AgentId::owner(), None, MAX_ROWS.get())?;
        let waits = |entry: &Entry| matches!(entry.state, State::Written | State::Claimed | State::Delivered);
        let entries = listing.entries().filter(|entry| self.all || waits(entry));
        if cx.json {
            let mut answer = output::Envelopes::printed();
            entries.for_each(|entry| answer.row(&as_value(&entry)));
            return answer.end(listing.left_out());
        }
        let mut is_empty = true;
        for entry in entries {
            is_empty = false;
            output::say(&shown(&entry))?;
        }
        if is_empty {
            output::say("no message waits for you")?;
        }
        say_left_out(listing.left_out())
    }
}

/// Who says it, when, and what, by lines that begin with two blanks.
fn shown(entry: &Entry) -> String {
    let id = entry.name.as_ref().map_or_else(|| entry.file.clone(), |name| name.key.id.to_string());
    let Some(envelope) = &entry.envelope else {
        let why = entry.problem.as_deref().unwrap_or("it does not read");
        return format!("{id}  {}", output::one_line(why));
    };
    let answers = envelope.reply_to.as_ref().map_or_else(String::new, |id| format!(", answers {id}"));
    let mut text = format!("{id}  {} at {:.0}{answers}", envelope.from, envelope.ts);
    for line in envelope.text.lines() {
        text += "\n  ";
        text += line;
    }
    text
}
