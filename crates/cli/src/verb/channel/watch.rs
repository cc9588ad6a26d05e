//! `netsky channel watch`: a running consumer. Each message becomes the standard input of a command, or one element on
//! standard output.
//!
//! A message counts as delivered when the command ended with 0, or when its text was written and flushed. A command that
//! ended so has dealt with it: what asks for an ack has it then, but where the command is said only to pass on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use netsky_bus::{Bus, Claim, News, Put, Terms};
use netsky_disk::feed::{Fed, feed};
use netsky_disk::wake::Stop;
use netsky_kernel::rpc::kill::DEFAULT_GRACE_MS;
use netsky_model::id::AgentId;
use netsky_model::life::MAX_ATTEMPTS;
use netsky_model::render;
use serde_json::json;

use crate::context::{Context, PAGED_LATER};
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// How long a command may go on when this verb is asked to end: what is left until the kernel kills is for the record of it.
const GRACE: Duration = Duration::from_secs(3);
const _: () = assert!(GRACE.as_millis() < DEFAULT_GRACE_MS as u128);

/// Take what comes for an agent, one message at a time, until told to end
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose inbox
    #[arg(value_parser = super::agent)]
    agent: AgentId,
    /// End after so many messages [default: never]
    #[arg(long, value_name = "N")]
    max: Option<usize>,
    /// Take the place of the agent's running consumer
    #[arg(long)]
    replace: bool,
    /// Leave the ack to another: for a COMMAND that only passes on
    #[arg(long, requires = "command")]
    no_ack: bool,
    /// Run this for each message, which it gets on its standard input; exit 0 takes and acks it, anything else gives it back
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.may_take_for(&self.agent)?;
        if self.command.first().is_some_and(String::is_empty) {
            return Err(Error::new(Kind::Usage, "the command is empty").hint("nothing was taken"));
        }
        if self.command.is_empty() && netsky_disk::env::leads_nowhere(&std::io::stdout()) {
            let what = "standard output is closed or leads nowhere, so nobody would see what comes";
            return Err(Error::new(Kind::Usage, what).hint("nothing was taken"));
        }
        let layout = cx.home()?;
        let telemetry = cx.telemetry()?;
        telemetry.tell_unpaged(|what| output::complain("netsky", &format!("{what}; {PAGED_LATER}")));
        let stop = Stop::hear()
            .map_err(|e| Error::new(Kind::Failed, format!("failed to listen for signals: {e}")))?;
        let generation = cx.generation_of(&self.agent);
        // Text that was only printed nobody has dealt with.
        let acks = !self.no_ack && !self.command.is_empty();
        let terms = Terms { generation, max: self.max, replace: self.replace, acks };
        // What keeps a command from being run at all: no message can be given to it, and saying so ends this verb.
        let broken: Cell<Option<netsky_disk::Error>> = Cell::new(None);
        let put = |claim: &Claim| match self.command.is_empty() {
            true => print(cx, claim),
            false => self.give(cx, claim, &stop, &broken),
        };
        let done = Bus::open(layout, telemetry).with_missed(netsky_schedule::missed).consume(
            &self.agent,
            &terms,
            &stop,
            tell,
            put,
        );
        if let Some(error) = broken.take() {
            return Err(error.into());
        }
        super::damage(&self.agent, &done?.aside)
    }
}

impl Args {
    /// Runs the command on one message.
    fn give(
        &self,
        cx: &Context,
        claim: &Claim,
        stop: &Stop,
        broken: &Cell<Option<netsky_disk::Error>>,
    ) -> Put {
        let mut element = claim.rendered();
        element.push('\n');
        let keep = |error: netsky_disk::Error| {
            let why = std::io::Error::other(error.to_string());
            broken.set(Some(error));
            why
        };
        let put = match feed(&self.command, &variables(claim), &claim.mark(), element.as_bytes(), stop, GRACE)
        {
            Ok(Fed::Exited(Some(0))) => Put::Finished,
            Ok(Fed::Exited(Some(code))) => Put::Refused(format!("exited {code}")),
            Ok(Fed::Exited(None)) => Put::Refused("was ended by a signal".to_owned()),
            Ok(Fed::Stopped) => Put::Stopped,
            Ok(Fed::Lost(error)) => Put::Broken(keep(error)),
            Err(error) => Put::Unread(keep(error)),
        };
        let said = match &put {
            Put::Refused(why) => Some(format!("the command {why}; {}", self.comes_back(claim))),
            // Where it goes the bus decides: an end on purpose counts differently.
            Put::Stopped => Some("was not taken before this was asked to end, and is given back".to_owned()),
            _ => None,
        };
        if let Some(said) = said {
            output::complain("netsky", &format!("{}: {said}", claim.id()));
        }
        if cx.json {
            let (id, attempt) = (claim.id(), claim.attempt());
            let taken = matches!(put, Put::Finished);
            // The command is the reader; who hears of it is not.
            let _ = output::json_or_fail(&json!({"id": id, "attempt": attempt, "taken": taken}));
        }
        put
    }

    /// Where a message goes that its command did not take.
    fn comes_back(&self, claim: &Claim) -> String {
        match claim.attempt() {
            last if last >= MAX_ATTEMPTS => {
                let agent = &self.agent;
                // Later than the last one where a consumer's end came between.
                let of = if last == MAX_ATTEMPTS { format!(" of {MAX_ATTEMPTS}") } else { String::new() };
                format!(
                    "that was attempt {last}{of}, and it is a dead letter now: see `netsky channel poison list {agent}`"
                )
            }
            failed => format!("back in the inbox, attempt {} of {MAX_ATTEMPTS}", failed + 1),
        }
    }
}

/// Says at the time what was met and passed by: a consumer may run for months.
fn tell(news: News<'_>) {
    match news {
        News::Skipped(stuck) => {
            output::complain("netsky", &format!("failed to {stuck}; it stays where it is, the others go on"));
        }
        News::Newer(file) => {
            let what = format!("{} is of a newer format and stays in the inbox", render::line(file));
            output::complain("netsky", &format!("{what}; drain it with the newer program"));
        }
        News::Lost(error) => output::complain("netsky", &format!("{error}; the others go on")),
        News::Kept(id) => {
            let what = format!("envelope {id} is in the hands of another process and is looked at again");
            output::complain("netsky", &format!("{what}; the others go on"));
        }
    }
}

fn print(cx: &Context, claim: &Claim) -> Put {
    match cx.json {
        true => output::json_message(&super::drain::as_value(claim)),
        false => output::element(&claim.rendered()),
    }
}

/// What a command learns without reading the element: nothing in it can hold more than visible ASCII.
fn variables(claim: &Claim) -> BTreeMap<String, String> {
    let envelope = claim.envelope();
    let mut set = BTreeMap::new();
    let mut put = |key: &str, value: String| drop(set.insert(format!("NETSKY_ENVELOPE_{key}"), value));
    put("ID", claim.id().to_string());
    put("FROM", envelope.from.to_string());
    put("ATTEMPT", claim.attempt().to_string());
    put("TS", envelope.ts.to_string());
    // Empty where it has none, so that one of the surroundings does not stand for it.
    put("KIND", envelope.kind.clone().unwrap_or_default());
    put("THREAD", envelope.thread.clone().unwrap_or_default());
    put("REPLY_TO", envelope.reply_to.as_ref().map(ToString::to_string).unwrap_or_default());
    set
}
