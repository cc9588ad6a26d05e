//! `ostk report`: what a session's program tells the kernel about itself.

use std::time::Duration;

use netsky_disk::clock;
use netsky_kernel::client::Client;
use netsky_kernel::drain::{JsonText, LoopConfig, Model, Report, Turn, Usage};
use netsky_kernel::rpc::{Guard, MAX_LINE, report::Answer};
use netsky_kernel::session::{ENV_GENERATION, ENV_NAME};
use netsky_model::id::{AgentId, Generation};
use netsky_model::lifecycle::ContextPct;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::reach;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// How often a report is told while no anchor answers it.
const TRIES: u32 = 3;
/// How long the next one is given in between.
const PAUSE: Duration = Duration::from_millis(500);

/// Tell the kernel what a session does; called by the session's own program, or by whoever drives it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which session [default: the one that this runs in]
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<AgentId>,
    /// Only if this is the newest generation [default: the one that this runs in]
    #[arg(long, global = true, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it tells nothing again
    #[arg(long, global = true, value_name = "ID")]
    request_id: Option<String>,
    #[command(subcommand)]
    what: What,
}

/// What is told.
#[derive(clap::Subcommand)]
enum What {
    /// A turn begins; prompts that came through the kernel are known without
    Begun,
    /// A turn is over: the boundary that the lineage is brought back from
    Turn {
        /// {"messages": […], "usage": {…}, "model": {…}, "loop_config": {…}, "turn": N}, each if it applies; - for standard
        /// input
        #[arg(default_value = "{}", value_name = "JSON")]
        told: String,
    },
    /// A tool call is about to be made
    Intent {
        /// The program's own id of the call
        id: String,
        /// Which tool
        #[arg(long)]
        tool: String,
        /// What it is given, in JSON
        #[arg(long, value_name = "JSON", default_value = "null")]
        input: String,
    },
    /// A tool call came back
    Result {
        /// Of which intent
        id: String,
        /// It failed
        #[arg(long)]
        failed: bool,
        /// What came back, in JSON
        #[arg(long, value_name = "JSON", default_value = "null")]
        output: String,
    },
    /// How much of its context the program uses
    Context {
        /// Per cent
        used: ContextPct,
    },
    /// The program made its context smaller by itself: there is room in it again
    Compacted,
    /// The one turn begins in which the program writes its handoff
    Finalization,
    /// What the program is doing
    Phase {
        /// In a word of its own
        phase: String,
        /// How long it takes at most: for so long its silence is no hang
        #[arg(long = "for", value_name = "D", value_parser = netsky_model::duration::parse)]
        time: Option<Duration>,
    },
    /// The program's own name for its conversation; a later generation finds it in $OSTK_CONVERSATION
    SessionId {
        /// That name
        session_id: String,
        /// Where the program keeps the conversation
        #[arg(long, value_name = "PATH")]
        transcript: Option<String>,
    },
    /// What the program leaves to the next generation, from `aging` on; that one finds it by $OSTK_HANDOFF
    Handoff {
        /// In its own words; - for standard input
        text: String,
    },
    /// This generation has what an earlier one left to it
    Acknowledge,
}

/// A turn as programs write it: messages are JSON, and stay as they were written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    turn: Option<u64>,
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
    #[serde(default)]
    usage: Usage,
    model: Option<Model>,
    loop_config: Option<LoopConfig>,
}

fn parsed<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|e| Error::new(Kind::Usage, format!("{what} does not read: {e}")).hint("nothing was told"))
}

fn turn(text: &str) -> Result<Turn, Error> {
    let Told { turn, messages, usage, model, loop_config } = parsed("the turn", text)?;
    let texts =
        messages.into_iter().map(|message| JsonText::try_from(String::from(Box::<str>::from(message))));
    let messages = texts.collect::<Result<_, _>>();
    let messages = messages.map_err(|e| Error::new(Kind::Usage, format!("a message does not read: {e}")))?;
    Ok(Turn { turn, messages, usage, model, loop_config })
}

impl What {
    fn report(self) -> Result<Report, Error> {
        Ok(match self {
            What::Turn { told } => Report::Turn(Box::new(turn(&reach::text(told, MAX_LINE)?)?)),
            What::Intent { id, tool, input } => {
                Report::Intent { id, tool, input: parsed::<Value>("--input", &input)? }
            }
            What::Result { id, failed, output } => {
                Report::Result { id, failed, output: parsed::<Value>("--output", &output)? }
            }
            What::Begun => Report::Begun,
            What::Context { used } => Report::Context { used },
            What::Compacted => Report::Compacted,
            What::Finalization => Report::Finalization,
            What::Phase { phase, time } => {
                Report::Phase { phase, until: time.map(|time| clock::stamp().later(time)) }
            }
            What::Handoff { text } => Report::Handoff { text: reach::text(text, MAX_LINE)? },
            What::Acknowledge => Report::Acknowledge,
            What::SessionId { session_id, transcript } => Report::SessionId { session_id, transcript },
        })
    }
}

impl Args {
    /// Whose report it is: of the session around us, its generation goes with it, so that what comes late is refused.
    fn session(&self) -> Result<(AgentId, Option<Generation>), Error> {
        let generation = self.if_generation.map(Generation);
        let around = netsky_disk::env::text(ENV_NAME).and_then(|name| name.parse().ok());
        match (&self.session, around) {
            (Some(named), around) if around.as_ref() != Some(named) => Ok((named.clone(), generation)),
            (_, Some(around)) => {
                let ours =
                    netsky_disk::env::text(ENV_GENERATION).and_then(|g| g.parse().ok()).map(Generation);
                Ok((around, generation.or(ours)))
            }
            (_, None) => {
                Err(Error::new(Kind::Usage, "this runs in no session".to_owned())
                    .hint("name one with --session"))
            }
        }
    }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (session, if_generation) = self.session()?;
        let request_id = self.request_id.clone().unwrap_or_else(netsky_disk::random::short);
        let guard = Guard { if_generation, request_id: Some(request_id) };
        let report = self.what.report()?;
        let answer = tell(cx, &session, &report, &guard)?;
        if cx.json {
            return output::json(&answer);
        }
        let Answer { progress, unsnapped } = answer;
        let mut said = format!("{session} turn {}, {}", progress.turn, progress.lifecycle);
        if let Some(used) = progress.context_pct {
            said.push_str(&format!(", {used} of its context used"));
        }
        if let Some(why) = unsnapped {
            said.push_str(&format!("; the turn is kept, its snapshot could not be written: {why}"));
        }
        output::say(&said)
    }
}

/// Tells it until an anchor has answered: one that is lost over it may have taken it, and says so to a repeat.
fn tell(cx: &Context, session: &AgentId, report: &Report, guard: &Guard) -> Result<Answer, Error> {
    let (root, ostk) = (cx.session_root()?, netsky_disk::spawn::ostk()?);
    if !root.is_dir() {
        return Err(Error::new(Kind::NotFound, format!("no kernel root at {}", root.display())));
    }
    for _ in 1..TRIES {
        match Client::ensure(&root, &ostk).and_then(|mut anchor| anchor.report(session, report, guard)) {
            Err(error) if error.passes() => clock::pause(PAUSE),
            answered => return Ok(answered?),
        }
    }
    Ok(Client::ensure(&root, &ostk)?.report(session, report, guard)?)
}
