//! `netsky demo`: watch a constellation lose its root and get it back with nothing lost.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use netsky_model::duration;

use crate::context::Context;
use crate::demo::agent::task::TASKS;
use crate::demo::chaos::Target;
use crate::demo::driven::{self, Runtime};
use crate::demo::narrate::millis;
use crate::demo::{self, Wish};
use crate::error::{Error, Kind};
use crate::output;
use crate::palette::{Palette, Tone};
use crate::run::Run;

/// Shortest tick: below it ticks would overlap.
const SHORTEST_TICK: Duration = Duration::from_millis(200);
/// Longest tick: a restart is watched for up to two of them.
const LONGEST_TICK: Duration = Duration::from_secs(60);
/// Longest that a restart's child may be stopped.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Kill the root of a small constellation twice and see that nothing is lost
///
/// Everything happens in a throwaway home with the verbs that you have too. Small programs of netsky's own are the agents:
/// agent0 hands each clone a task on a copy of a git repository, they commit in their workspaces and report, and it lands their
/// work; what conflicts goes back to its clone. agent0 is killed with SIGKILL while it holds a claim and again in the middle of
/// a harvest. At the end you see what the owner was told.
///
/// With --runtime the agents are Claude Code or Codex, with your own login: two clones answer with a word, agent0 is killed
/// in the middle of an answer and goes on in the same conversation. They have no tools. It asks a model for about six short
/// answers, which your account may be charged for.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The real program in the slots, where it is installed (exit 3 where it is not) [default: small ones of netsky's own]
    #[arg(long, value_name = "RUNTIME", conflicts_with_all = ["repo", "agents", "kill", "seed", "pause_child"])]
    runtime: Option<Runtime>,
    /// The repository to work on; it is copied [default: the one you stand in, else one that is made]
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    /// How many clones work
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=TASKS.len() as i64))]
    agents: u32,
    /// How often the ticker ticks; a restart is verified by a look that comes a tick later
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = tick)]
    tick: Duration,
    /// Keep the home for a look at it
    #[arg(long)]
    keep: bool,
    /// Also kill this at some moment; several (a,b, or the option again) are killed at the same moment
    #[arg(long, value_name = "TARGET", action = ArgAction::Append, value_delimiter = ',', help_heading = "Faults")]
    kill: Vec<Target>,
    /// Which moment that is
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Faults")]
    seed: u64,
    /// Stop the first restart's child as soon as it runs, and let it go on after this long
    #[arg(long, value_name = "DURATION", value_parser = pause, help_heading = "Faults")]
    pause_child: Option<Duration>,
}

fn tick(text: &str) -> Result<Duration, String> {
    within(text, SHORTEST_TICK, LONGEST_TICK)
}

fn pause(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1), LONGEST_PAUSE)
}

fn within(text: &str, shortest: Duration, longest: Duration) -> Result<Duration, String> {
    let said = duration::parse(text).map_err(|e| e.to_string())?;
    if (shortest..=longest).contains(&said) {
        return Ok(said);
    }
    Err(format!("it must be from {} ms to {} s", shortest.as_millis(), longest.as_secs()))
}

impl Run for Args {
    fn run(mut self, cx: &Context) -> Result<(), Error> {
        self.kill.sort_unstable();
        self.kill.dedup();
        let keepers = [Target::Anchor, Target::Agentinfinity, Target::Ticker];
        if keepers.iter().all(|keeper| self.kill.contains(keeper)) {
            let what =
                "with the anchor, agentinfinity and the ticker killed at once nobody is left who notices";
            return Err(Error::new(Kind::Usage, what).hint("leave one of the three"));
        }
        let wish = Wish {
            repo: self.repo,
            agents: self.runtime.map_or(self.agents, |_| driven::CLONES),
            tick: self.tick,
            keep: self.keep,
            kill: self.kill,
            seed: self.seed,
            pause_child: self.pause_child,
            runtime: self.runtime,
        };
        let palette = Palette::of_stdout();
        let quiet = cx.json;
        let account = demo::play(&wish, &mut |began, line| {
            if quiet {
                if line.what == driven::PRICE {
                    output::complain("netsky demo", &line.text);
                }
                return;
            }
            let ms = millis(began, line.at);
            let time = palette.paint(Tone::Faint, &format!("{:>3}.{:02}s", ms / 1000, ms % 1000 / 10));
            let word = palette.paint(line.tone, &format!("{:<12}", line.what));
            // Nobody reads the narration any more when this fails; the verdict's own print then says so.
            let _ = output::painted(&format!("{time}  {word}{}", palette.paint(Tone::Plain, &line.text)));
        })?;
        match quiet {
            true => output::json(&account.json())?,
            false => account.print(palette)?,
        }
        if wish.keep && !quiet {
            output::say(&format!("kept: {}", account.folder.display()))?;
        }
        account.error().map_or(Ok(()), Err)
    }
}
