//! `netsky cron add`: one more entry.

use std::time::Duration;

use netsky_disk::clock;
use netsky_model::duration::parse;
use netsky_model::id::AgentId;
use netsky_schedule::cron::{self, CatchUp, Expr, NewEntry};

use super::{Zone, expr, fires, tz};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Have an agent told something whenever a calendar says so
#[derive(clap::Args)]
pub(crate) struct Args {
    /// When: five fields (minute, hour, day of month, month, day of week), six with seconds first, or @daily and the like
    #[arg(value_parser = expr)]
    schedule: Expr,
    /// What is told
    prompt: String,
    /// Who is told; without it the calling agent, else agent0
    #[arg(long, value_parser = super::super::channel::agent)]
    agent: Option<AgentId>,
    /// By which clock: UTC, Europe/Berlin, …
    #[arg(long, default_value = "UTC", value_parser = tz)]
    tz: Zone,
    /// What becomes of times that passed while nobody looked: once (one envelope for all of them) or skip
    #[arg(long, default_value = "once")]
    catch_up: CatchUp,
    /// How long after its time it is still caught up
    #[arg(long, default_value = cron::WINDOW, value_parser = window)]
    window: String,
}

fn window(text: &str) -> Result<String, String> {
    parse(text).map(|_: Duration| text.to_owned()).map_err(|error| error.to_string())
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Args { schedule, prompt, agent, tz, catch_up, window } = self;
        cron::check_prompt(&prompt)
            .map_err(|why| Error::new(Kind::Usage, why).hint("nothing was changed"))?;
        let agent = agent.unwrap_or_else(|| cx.asker());
        cx.may_schedule("a cron entry", &agent)?;
        cx.known(&agent)?;
        let Zone { name, zone } = tz;
        let created_utc = clock::wall_seconds();
        let new = NewEntry {
            agent: agent.clone(),
            schedule: schedule.to_string(),
            prompt,
            tz: name.clone(),
            catch_up,
            window,
            created_utc,
        };
        let id = cron::add(cx.home()?, &new)?;
        let next = fires(schedule.next(created_utc, &zone), &schedule, &zone, 1);
        if cx.json {
            return output::json(&serde_json::json!({
                "id": id, "agent": agent, "schedule": new.schedule, "tz": name, "next": next,
            }));
        }
        let next = next.first().map_or_else(String::new, |next| format!(", next at {}", next.local));
        output::say(&format!("{id} tells {agent} at {} in {name}{next}", new.schedule))
    }
}
