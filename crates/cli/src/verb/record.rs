//! One telemetry line an invocation: which verb, which plain arguments, how it ended.
//!
//! Values are recorded only of the arguments named here; message bodies, programs' arguments and environments are not
//! among them. A run that never came to use a home (a usage error, `--version`) leaves nothing.

use clap::ArgMatches;
use netsky_disk::env::{self, Caller};
use netsky_ledger::{Invocation, Telemetry};
use serde_json::{Map, Value};

use crate::context::Context;
use crate::output;
use crate::run::Ended;

/// Arguments whose values are ids, labels and numbers.
const PLAIN: [&str; 18] = [
    "agent",
    "from",
    "id",
    "kind",
    "thread",
    "reply_to",
    "create",
    "requires_ack",
    "max",
    "timeout",
    "state",
    "n",
    "runtime",
    "tick",
    "to",
    "kill",
    "replace",
    "limit",
];

/// Longest value kept.
const MAX_VALUE: usize = 128;

/// Appends the line, if this invocation came to use a home.
pub(crate) fn invocation(cx: &Context, matches: &ArgMatches, ended: Ended) {
    let Some(layout) = cx.used_home() else { return };
    let (verb, args) = described(matches);
    let agent = match env::caller() {
        Caller::Inside { agent, .. } => agent.map(String::from),
        Caller::Outside => None,
    };
    let millis = u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX);
    Telemetry::new(layout).invocation(&Invocation {
        program: "netsky",
        verb,
        args,
        agent,
        exit: ended.exit,
        millis,
    });
}

fn described(matches: &ArgMatches) -> (String, Map<String, Value>) {
    let (mut leaf, mut words) = (matches, Vec::new());
    while let Some((word, inner)) = leaf.subcommand() {
        words.push(word);
        leaf = inner;
    }
    let mut args = Map::new();
    for name in PLAIN {
        let Ok(Some(values)) = leaf.try_get_raw(name) else { continue };
        let text: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        let text: String = output::one_line(&text.join(" ")).chars().take(MAX_VALUE).collect();
        args.insert(name.to_owned(), Value::String(text));
    }
    (words.join(" "), args)
}
