//! `netsky service status`: whether it is installed, enabled and at work.

use netsky_disk::clock;
use netsky_model::duration::human;
use netsky_watchdog::last_failsafe;
use netsky_watchdog::service::{Manager, look};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Say what of it is installed, whether it starts with the machine, what runs, and when the failsafe last did
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let seen = look(&super::plan(None)?, Manager::here(), true)?;
        let last = last_failsafe(&Context::layout()?);
        if cx.json {
            let mut object = serde_json::to_value(&seen).unwrap_or_default();
            object["installed"] = seen.is_installed().into();
            object["failsafe"] = serde_json::to_value(&last).unwrap_or_default();
            return output::json(&object);
        }
        let rows = seen.units.iter().map(|unit| {
            let active = unit.active.clone().unwrap_or_else(|| "not known".to_owned());
            vec![unit.path.display().to_string(), unit.standing.word().to_owned(), active]
        });
        output::table(&["file", "is", "runs"], rows.collect(), "")?;
        output::say(match (seen.enabled, seen.is_installed()) {
            (true, _) => "it starts with the machine",
            (false, true) => "it is not enabled: `netsky service install`",
            (false, false) => "it is not installed: `netsky service install`",
        })?;
        if seen.units.iter().all(|unit| unit.active.is_none()) {
            output::say("whether it runs is not known: its manager does not answer")?;
        }
        if let Some(false) = seen.linger {
            output::say(
                "it begins when you log in and ends when you log out, unless you say: loginctl enable-linger",
            )?;
        }
        match last {
            None => output::say("the failsafe never ran here"),
            Some(last) => {
                let age = human(clock::stamp().since(&last.at));
                let failed = last.failed.map_or_else(String::new, |failed| format!("; {failed}"));
                output::say(&format!("the failsafe ran {age} ago: {}{failed}", last.outcome))
            }
        }
    }
}
