//! `netsky up`: returns when agent0 has proved that it is up.

use netsky_disk::home::Home;
use netsky_watchdog::{MAX_CLONES, Which, Wish, plan, up};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Bring up agent0, N clones, agentinfinity and the ticker
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many clones besides agent0; more that run already stay (`down` first for fewer)
    #[arg(default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_CLONES)))]
    n: u32,
    /// What kind of program runs in the slots
    #[command(flatten)]
    kind: Program,
    /// How often the ticker ticks [default: as before, else 60s]
    #[arg(long, value_name = "DURATION", value_parser = super::interval)]
    tick: Option<std::time::Duration>,
    /// The program of every agent, and its arguments [default: from config.toml]
    #[arg(last = true)]
    argv: Vec<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let wish =
            Wish { which: Which::All(self.n), argv: self.argv, interval: self.tick, ..self.kind.wish()? };
        bring_up(cx, &wish)
    }
}

/// What kind of program.
#[derive(clap::Args)]
pub(crate) struct Program {
    /// What kind of program: command, claude or codex
    #[arg(long, visible_alias = "type")]
    runtime: Option<String>,
    /// Which model it is asked to use [default: its own choice]
    #[arg(long)]
    model: Option<String>,
}

impl Program {
    /// A wish for that, here.
    pub(crate) fn wish(self) -> Result<Wish, Error> {
        let cwd = std::env::current_dir()
            .map_err(|e| Error::new(Kind::Failed, format!("failed to find the working folder: {e}")))
            .map_err(|e| e.hint("the agents would work in it: change to a folder that is there"))?;
        Ok(Wish { runtime: self.runtime, model: self.model, cwd, ..Wish::default() })
    }
}

/// Brings up what is wished and tells of it.
pub(crate) fn bring_up(cx: &Context, wish: &Wish) -> Result<(), Error> {
    let layout = Context::layout()?;
    // Before there is a home: what cannot be done makes none.
    let plan = plan(&layout, &cx.caller(), wish)?;
    Home::init(&layout)?;
    let mut told = Ok(());
    let upped = up(&cx.constellation()?, &plan, |line| {
        if !cx.json && told.is_ok() {
            told = output::say(line);
        }
    })?;
    told?;
    match cx.json {
        true => output::json(&upped)?,
        false => {
            for line in &upped.ticked.warnings {
                output::say(&format!("warning: {line}"))?;
            }
            output::say(&upped.proof.line())?;
        }
    }
    let unwell = || upped.unwell.join("; ");
    match upped.ticked.problems.as_slice() {
        [] if upped.unwell.is_empty() => Ok(()),
        // As of one that is brought up alone.
        [] => Err(Error::new(Kind::Busy, unwell())
            .hint("the others are up; `netsky status` says what becomes of it, `netsky logs AGENT` what it printed (`--stderr` where it is driven)")),
        problems if !upped.unwell.is_empty() => {
            Err(Error::new(Kind::Failed, format!("{}; {}", problems.join("; "), unwell()))
                .hint("the others are up, nothing was lost; see `netsky status`"))
        }
        problems => Err(Error::new(Kind::Failed, problems.join("; "))
            .hint("the others are up, nothing was lost, and the next tick tries again")),
    }
}
