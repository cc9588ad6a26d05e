//! The command tree of `netsky`, one line a verb.

use clap::{ArgMatches, Parser};
use netsky_watchdog::Ticked;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::{Ended, Program, Run, verbs};

pub(crate) mod agent;
mod attach;
pub(crate) mod channel;
mod check;
mod clone;
mod cron;
mod demo;
mod demo_agent;
mod demo_janitor;
mod doctor;
mod down;
mod drivers;
mod escalate;
mod events;
mod handoff;
mod home;
mod init;
mod ledger;
mod logs;
mod loops;
mod markers;
mod owner;
mod prompts;
mod query;
mod quiet;
mod record;
mod report;
mod restart;
mod service;
mod session;
mod status;
mod task;
mod tick;
mod ticker;
mod up;
mod watchdog;
mod workspace;

/// A constellation of agents that keeps serving, keeps repairing, and keeps its evidence
#[derive(Parser)]
#[command(name = "netsky", version, propagate_version = false, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print one JSON object instead of a sentence or a table; not for attach and logs
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

verbs! {
    /// The groups and verbs.
    Verb {
        Init(init::Args),
        #[command(subcommand)]
        Home(home::Verb),
        Check(check::Args),
        Doctor(doctor::Args),
        #[command(subcommand)]
        Service(service::Verb),
        Up(up::Args),
        Down(down::Args),
        Status(status::Args),
        Agent(agent::Args),
        Attach(attach::Args),
        Logs(logs::Args),
        Restart(restart::Args),
        Markers(markers::Args),
        Quiet(quiet::Args),
        Escalate(escalate::Args),
        Events(events::Args),
        #[command(subcommand)]
        Owner(owner::Verb),
        #[command(subcommand)]
        Loop(loops::Verb),
        #[command(subcommand)]
        Task(task::Verb),
        #[command(subcommand)]
        Handoff(handoff::Verb),
        #[command(subcommand)]
        Channel(channel::Verb),
        #[command(subcommand)]
        Clone(clone::Verb),
        Report(report::Args),
        #[command(subcommand)]
        Cron(cron::Verb),
        #[command(subcommand)]
        Workspace(workspace::Verb),
        #[command(subcommand)]
        Session(session::Verb),
        #[command(subcommand)]
        Watchdog(watchdog::Verb),
        Ticker(ticker::Args),
        Tick(tick::Args),
        Drivers(drivers::Args),
        #[command(subcommand)]
        Prompts(prompts::Verb),
        Query(query::Args),
        #[command(subcommand)]
        Ledger(ledger::Verb),
        Demo(demo::Args),
        #[command(hide = true)]
        DemoAgent(demo_agent::Args),
        #[command(hide = true)]
        DemoJanitor(demo_janitor::Args),
    }
}

impl Program for Cli {
    fn context(&self) -> Context {
        Context::netsky(self.json)
    }

    fn record(cx: &Context, matches: &ArgMatches, ended: Ended) {
        record::invocation(cx, matches, ended);
    }
}

impl Run for Cli {
    fn run(self, cx: &Context) -> Result<(), Error> {
        self.verb.run(cx)
    }
}

/// Says what a tick did, or that there was `nothing` to do; what did not work is its error.
fn ticked(cx: &Context, ticked: &Ticked, nothing: &str) -> Result<(), Error> {
    if cx.json {
        output::json(ticked)?;
    } else {
        for line in &ticked.done {
            output::say(line)?;
        }
        for line in &ticked.warnings {
            output::say(&format!("warning: {line}"))?;
        }
        for line in &ticked.aside {
            output::say(&format!("put aside: {line}"))?;
        }
        // One alone stands on standard error, whole.
        for line in ticked.problems.iter().filter(|_| ticked.problems.len() > 1) {
            output::say(&format!("problem: {line}"))?;
        }
        if *ticked == Ticked::default() {
            output::say(nothing)?;
        }
    }
    match (ticked.problems.as_slice(), ticked.aside.as_slice()) {
        ([], []) => Ok(()),
        ([], aside) => Err(Error::new(Kind::Damaged, in_short(aside))),
        (problems, _) => Err(Error::new(Kind::Failed, in_short(problems)).hint("the next tick tries again")),
    }
}

/// Most characters of what went wrong that one line holds, with a hint behind them.
const SHORT: usize = 800;

/// What went wrong as one line that nothing cuts: of too much for that the first, and how many there are.
fn in_short(said: &[String]) -> String {
    let all = said.join("; ");
    match said {
        [first, more @ ..] if !more.is_empty() && all.chars().count() > SHORT => {
            let first: String = first.chars().take(SHORT).collect();
            format!("{first}; and {} more, of which standard output has a line each", more.len())
        }
        _ => all,
    }
}

/// Shortest interval of the ticker: a tick takes tens of milliseconds.
const SHORTEST: std::time::Duration = std::time::Duration::from_millis(100);

/// Longest interval: a restart is verified one interval after it, and a look after two is a new watch.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(10 * 60);

/// An interval of the ticker as people type it.
fn interval(text: &str) -> Result<std::time::Duration, String> {
    let interval = netsky_model::duration::parse(text).map_err(|e| e.to_string())?;
    if interval < SHORTEST {
        return Err(format!(
            "an interval under {} ms would leave no time between ticks",
            SHORTEST.as_millis()
        ));
    }
    if interval > LONGEST {
        return Err(format!(
            "an interval over {} min would leave agents dead for too long",
            LONGEST.as_secs() / 60
        ));
    }
    Ok(interval)
}
