//! `netsky service`: what starts the ticker and the failsafe with the machine.

use std::time::Duration;

use netsky_watchdog::service::{Placed, Plan};
use netsky_watchdog::ticker_interval;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::verbs;

mod install;
mod print;
mod status;
mod uninstall;

verbs! {
    /// Have the ticker and the failsafe started with the machine, by systemd's user manager or launchd
    Verb {
        Install(install::Args),
        Uninstall(uninstall::Args),
        Status(status::Args),
        Print(print::Args),
    }
}

/// The service of this home, which ticks as often as the constellation does unless told.
fn plan(tick: Option<Duration>) -> Result<Plan, Error> {
    let layout = Context::layout()?;
    let program = netsky_disk::spawn::sibling("netsky")?;
    let interval = tick.unwrap_or_else(|| ticker_interval(&layout));
    Ok(Plan::new(&layout, program, interval)?)
}

/// Says what became of each file, and what `came` of the rest.
fn told(
    cx: &Context,
    placed: &[Placed],
    warning: Option<String>,
    came: Result<(), Error>,
) -> Result<(), Error> {
    if cx.json && (came.is_ok() || !placed.is_empty()) {
        output::json(&serde_json::json!({ "files": placed, "warning": warning }))?;
    }
    for one in placed.iter().filter(|_| !cx.json) {
        output::say(&format!("{} {}", one.word(), one.path.display()))?;
    }
    if let Some(warning) = warning.filter(|_| !cx.json) {
        output::say(&format!("warning: {warning}"))?;
    }
    came
}
