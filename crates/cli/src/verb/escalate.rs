//! `netsky escalate`: the floor. Reaches the owner without bus, database, anchor or agents.

use std::io::Read as _;

use netsky_disk::{clock, state};
use netsky_model::duration::human;
use netsky_model::id::EnvelopeId;
use netsky_owner::{Escalated, Outcome, escalate};
use netsky_runtime::Config;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Longest name of a condition.
const LONGEST: usize = 100;

/// Tell the owner now, by the transports of [page] in config.toml
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the owner has to know, or - for standard input; of more than 1000 characters the beginning is sent
    text: String,
    /// Which condition it is about, so that a repeat within the cool-down is sent once; the text itself unless given
    #[arg(long, value_parser = key)]
    key: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let text = text(self.text)?;
        if text.trim().is_empty() {
            return Err(Error::new(Kind::Usage, "the text is empty").hint("nothing was sent"));
        }
        let layout = Context::layout()?;
        let home = cx.home().err();
        let pieces = [layout.home_json(), layout.config(), layout.state()];
        let was_one = pieces.iter().any(|piece| state::exists(piece).unwrap_or(true));
        let home = match home {
            // What never was a home has no transports, and gets no files of ours.
            Some(error) if !was_one => return Err(error),
            // One that no other verb may use is one more reason to tell the owner.
            other => other.map(|error| error.to_string()),
        };
        let terms = Config::last_good(&layout).page;
        let condition = self
            .key
            .unwrap_or_else(|| EnvelopeId::derived(&["escalate", &text]).as_str().chars().take(16).collect());
        let mut escalated = escalate(&layout, &terms, &format!("escalate/{condition}"), &text);
        escalated.missing.extend(home);
        told(cx, &escalated)
    }
}

fn told(cx: &Context, escalated: &Escalated) -> Result<(), Error> {
    if cx.json {
        output::json(escalated)?;
    }
    let missing = escalated.missing.join("; ");
    match &escalated.outcome {
        Outcome::Unsent { why, waits } => {
            let way = match waits {
                true => "it waits, and every tick tries again",
                false => "it could not be kept either: repeat, or reach the owner by hand",
            };
            let what = format!("no transport took the page: {}", why.join("; "));
            let error = Error::new(Kind::Busy, what).hint(way);
            return Err(if missing.is_empty() { error } else { error.and(&missing) });
        }
        Outcome::Sent { by } if !cx.json => output::say(&format!("the owner is told by {by}"))?,
        Outcome::Held { since } if !cx.json => {
            let age = human(clock::stamp().since(since));
            output::say(&format!("the owner was told of that {age} ago; told again after the cool-down"))?;
        }
        Outcome::Sent { .. } | Outcome::Held { .. } => {}
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::new(Kind::Degraded, missing).hint("the owner is told"))
}

/// Most bytes of standard input that are read: a thousand characters of it are sent.
const READ: u64 = 64 * 1024;

/// The text as it was given, or what standard input has where it is `-`: the beginning, and whatever it holds. What is no text,
/// or too much, keeps no page back.
fn text(given: String) -> Result<String, Error> {
    if given != "-" {
        return Ok(given);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(READ).read_to_end(&mut bytes);
    read.map_err(|error| {
        let what = format!("failed to read the text from standard input: {error}");
        Error::new(Kind::Usage, what).hint("nothing was sent")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn key(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    if text.is_empty() || text.len() > LONGEST || !text.chars().all(is_plain) {
        return Err(format!("a condition is 1 to {LONGEST} letters, digits and . _ / -"));
    }
    Ok(text.to_owned())
}
