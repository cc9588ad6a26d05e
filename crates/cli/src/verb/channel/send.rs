//! `netsky channel send`: exit 0 only when the message is durable in its target's inbox.

use std::io::Read as _;
use std::time::Duration;

use netsky_bus::{Bus, Draft, Sent, check_sender};
use netsky_disk::clock;
use netsky_disk::env::Caller;
use netsky_ledger::Telemetry;
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::{AgentId, EnvelopeId, Sender};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// How often a send without a descriptor is tried.
const TRIES: u32 = 3;
/// Time for others to give one back.
const PAUSE: Duration = Duration::from_millis(50);

/// Send a message to an agent
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For whom: agent0, agentinfinity, or an agent that has a channel
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// The message, or - to read it from standard input
    text: String,
    /// Who sends [default inside a session: its own agent]
    #[arg(long, value_parser = super::sender)]
    from: Option<Sender>,
    /// Make the target's channel if it has none
    #[arg(long)]
    create: bool,
    /// Your own id for the message: sending it again places nothing
    #[arg(long)]
    id: Option<EnvelopeId>,
    /// What sort of message it is: brief, report, note, …
    #[arg(long)]
    kind: Option<String>,
    /// Which conversation it belongs to
    #[arg(long)]
    thread: Option<String>,
    /// The id of the message it answers
    #[arg(long, value_name = "ID")]
    reply_to: Option<EnvelopeId>,
    /// Ask for an explicit `channel ack`
    #[arg(long)]
    requires_ack: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let caller = cx.caller();
        let from = named_or_own(self.from, &caller)?;
        check_sender(&caller, &from)?;
        let text = if self.text == "-" { from_stdin()? } else { self.text };
        let layout = cx.home()?;
        let telemetry = Telemetry::new(layout);
        let mut draft = Draft::new(from, self.agent.clone(), text);
        draft.kind = self.kind;
        draft.thread = self.thread;
        draft.reply_to = self.reply_to;
        draft.requires_ack = self.requires_ack;
        draft.id = self.id;
        draft.create = self.create;
        let sent = patiently(&Bus::open(layout, &telemetry), &draft)?;
        if cx.json {
            return output::json(&serde_json::json!({
                "id": sent.id, "to": self.agent, "duplicate": sent.duplicate, "path": sent.path,
            }));
        }
        match sent.duplicate {
            false => output::say(&format!("sent {} to {}", sent.id, self.agent)),
            true => output::say(&format!(
                "{} is a duplicate: {} had it before, nothing was sent",
                sent.id, self.agent
            )),
        }
    }
}

/// Sends; tries again where the machine was out of descriptors, which others give back. Nothing was placed then.
fn patiently(bus: &Bus<'_>, draft: &Draft) -> Result<Sent, Error> {
    for _ in 1..TRIES {
        match bus.send(draft.clone()) {
            Err(netsky_bus::Error::Disk(error)) if error.is_out_of_descriptors() => clock::pause(PAUSE),
            ended => return Ok(ended?),
        }
    }
    Ok(bus.send(draft.clone())?)
}

fn named_or_own(named: Option<Sender>, caller: &Caller) -> Result<Sender, Error> {
    match (named, caller) {
        (Some(named), _) => Ok(named),
        (None, Caller::Inside { agent: Some(me), .. }) => Ok(me.clone().into()),
        (None, _) => Err(Error::new(Kind::Usage, "no sender").hint("name one with --from")),
    }
}

/// Reads no more than can be sent.
fn from_stdin() -> Result<String, Error> {
    if netsky_disk::env::leads_nowhere(&std::io::stdin()) {
        return Err(
            Error::new(Kind::Usage, "standard input is closed or leads nowhere").hint("nothing was sent")
        );
    }
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|e| {
        Error::new(Kind::Failed, format!("failed to read the message from standard input: {e}"))
    })?;
    if bytes.len() as u64 == limit {
        let what = format!("the message is refused: it is over the limit of {MAX_BYTES} bytes");
        return Err(Error::new(Kind::Usage, what).hint("nothing was sent"));
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|_| Error::new(Kind::Usage, "the message is refused: not UTF-8").hint("nothing was sent"))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
