//! `netsky channel send`: exit 0 only when the message is durable in its target's inbox.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_bus::{Bus, Draft, Sent, check_sender};
use netsky_disk::env::Caller;
use netsky_disk::fs::read_users_file;
use netsky_disk::{ReadError, clock};
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::provenance::Trust;

use super::batch::Batch;
use crate::context::Context;
use crate::error::{Error, Kind, TOO_LONG};
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
    #[arg(value_parser = super::agent, required_unless_present = "batch")]
    agent: Option<AgentId>,
    /// The message, or - to read it from standard input
    #[arg(required_unless_present_any = ["file", "batch"], conflicts_with_all = ["file", "batch"])]
    text: Option<String>,
    /// Read the message from a file; with --batch, the lines
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Send one message for each line of JSON on standard input: to, text, and what else the options name
    #[arg(long, conflicts_with_all = ["id", "kind", "thread", "reply_to", "requires_ack", "ack_within", "for_generation", "trust"])]
    batch: bool,
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
    /// How long to wait for that ack before a tick gives the message back (such as 15m) [default: as config.toml says]
    #[arg(long, value_name = "DURATION", value_parser = netsky_model::duration::parse)]
    ack_within: Option<Duration>,
    /// Only for this generation of the target: a later one never sees it
    #[arg(long, value_name = "N", value_parser = generation)]
    for_generation: Option<Generation>,
    /// Where the words come from, if they deserve less trust than you: agent, peer or external
    #[arg(long)]
    trust: Option<Trust>,
}

impl Run for Args {
    fn run(mut self, cx: &Context) -> Result<(), Error> {
        let caller = cx.caller();
        if self.batch {
            let batch = Batch {
                caller: &caller,
                vouched: cx.is_proved(),
                to: self.agent,
                from: self.from.clone(),
                create: self.create,
            };
            let layout = cx.home()?;
            let telemetry = cx.telemetry()?;
            return batch.run(&super::bus(layout, telemetry), self.file.as_deref());
        }
        let from = named_or_own(self.from.take(), &caller)?;
        check_sender(&caller, &from)?;
        let mut draft = self.draft(from)?;
        // A session sends under its own name alone, so who is proved is also who sends.
        draft.vouched = cx.is_proved();
        let layout = cx.home()?;
        let telemetry = cx.telemetry()?;
        let sent = patiently(&super::bus(layout, telemetry), &draft)?;
        say_sent(cx, &draft.to, &sent)
    }
}

/// Says what became of a message.
pub(crate) fn say_sent(cx: &Context, to: &AgentId, sent: &Sent) -> Result<(), Error> {
    let Sent { id, duplicate, path, .. } = sent;
    match (cx.json, duplicate) {
        (true, _) => output::json(&serde_json::json!({
            "id": id, "to": to, "duplicate": duplicate, "path": path,
        })),
        (false, false) => output::say(&format!("sent {id} to {to}")),
        (false, true) => output::say(&format!("{id} is a duplicate: {to} had it before, nothing was sent")),
    }
}

impl Args {
    fn draft(self, from: Sender) -> Result<Draft, Error> {
        let text = match (self.text, self.file) {
            (_, Some(path)) => from_file(&path)?,
            (Some(text), None) if text != "-" => text,
            (_, None) => from_stdin()?,
        };
        if text.is_empty() {
            return Err(Error::new(Kind::Usage, "the message is empty").hint("nothing was sent"));
        }
        let mut draft = Draft::new(from, self.agent.expect("clap requires it without --batch"), text);
        draft.kind = self.kind;
        draft.thread = self.thread;
        draft.reply_to = self.reply_to;
        draft.requires_ack = self.requires_ack;
        draft.ack_within = self.ack_within;
        draft.for_generation = self.for_generation;
        draft.trust = self.trust;
        draft.id = self.id;
        draft.create = self.create;
        Ok(draft)
    }
}

fn generation(text: &str) -> Result<Generation, String> {
    some_generation(Generation(text.parse().map_err(|e: std::num::ParseIntError| e.to_string())?))
}

/// One that a session can be: nobody would ever be shown what is for another.
pub(super) fn some_generation(generation: Generation) -> Result<Generation, String> {
    match generation {
        Generation::NONE => Err("generations begin with 1".to_owned()),
        some => Ok(some),
    }
}

/// What a person types at an agent: words of the owner's, which do not wait for the end of a turn; `answers` names the message
/// that they answer.
pub(crate) fn send_as_owner(
    cx: &Context,
    agent: &AgentId,
    text: &str,
    answers: Option<EnvelopeId>,
) -> Result<Sent, Error> {
    let from = Sender::owner();
    check_sender(&cx.caller(), &from)?;
    let draft = Draft {
        kind: Some(netsky_runtime::drivers::URGENT.to_owned()),
        reply_to: answers,
        ..Draft::new(from, agent.clone(), text)
    };
    patiently(&super::bus(cx.home()?, cx.telemetry()?), &draft)
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

pub(super) fn named_or_own(named: Option<Sender>, caller: &Caller) -> Result<Sender, Error> {
    match (named, caller) {
        (Some(named), _) => Ok(named),
        (None, Caller::Inside { agent: Some(me), .. }) => Ok(me.clone().into()),
        (None, _) => Err(Error::new(Kind::Usage, "no sender").hint("name one with --from")),
    }
}

/// Refuses to take a closed standard input for an empty one.
pub(super) fn stdin_is_there() -> Result<(), Error> {
    if netsky_disk::env::leads_nowhere(&std::io::stdin()) {
        return Err(
            Error::new(Kind::Usage, "standard input is closed or leads nowhere").hint("nothing was sent")
        );
    }
    Ok(())
}

/// Reads no more than can be sent.
pub(crate) fn from_stdin() -> Result<String, Error> {
    as_text(stdin("the message", MAX_BYTES)?.ok_or_else(over_the_limit)?)
}

/// What stands on standard input; none if it is longer than that.
fn stdin(what: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
    stdin_is_there()?;
    let mut bytes = Vec::new();
    let limit = most as u64 + 1;
    std::io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::new(Kind::Failed, format!("failed to read {what} from standard input: {e}")))?;
    Ok((bytes.len() as u64 != limit).then_some(bytes))
}

/// A text of at most so many bytes on standard input, for verbs that take another thing than a message.
pub(in super::super) fn stdin_text(what: &str, most: usize) -> Result<String, Error> {
    let refused = |why: String| Error::new(Kind::Usage, format!("{what} is refused: {why}"));
    let bytes = stdin(what, most)?.ok_or_else(|| refused(format!("it is over the limit of {most} bytes")))?;
    let text = String::from_utf8(bytes).map_err(|_| refused("not UTF-8".to_owned()))?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// Reads a file that the user named; it stays as it is.
fn from_file(path: &Path) -> Result<String, Error> {
    match read_users_file(path, MAX_BYTES as u64) {
        Ok(bytes) => as_text(bytes),
        Err(ReadError::TooLarge { .. }) => Err(over_the_limit()),
        Err(error) => refused(path, error),
    }
}

/// Why a file that the user named is not sent.
pub(in super::super) fn refused<T>(path: &Path, error: ReadError) -> Result<T, Error> {
    let (kind, what) = match error {
        ReadError::Io(error) if error.is_not_found() => {
            (Kind::NotFound, format!("there is no file {}", path.display()))
        }
        ReadError::Io(error) => return Err(error.into()),
        other => (Kind::Usage, format!("the file {} is refused: {other}", path.display())),
    };
    Err(Error::new(kind, what).hint("nothing was sent"))
}

fn over_the_limit() -> Error {
    let kib = MAX_BYTES / 1024;
    let what =
        format!("the message is refused: its text alone is over the limit of {MAX_BYTES} bytes ({kib} KiB)");
    Error::new(Kind::Usage, what).hint(TOO_LONG)
}

/// A message as it was typed: the newline at its end is the shell's or the editor's.
fn as_text(bytes: Vec<u8>) -> Result<String, Error> {
    let mut text = String::from_utf8(bytes)
        .map_err(|_| Error::new(Kind::Usage, "the message is refused: not UTF-8").hint("nothing was sent"))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
