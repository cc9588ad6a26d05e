//! `netsky service print`: the files, for who installs them by other means.

use std::time::Duration;

use netsky_watchdog::service::Manager;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Print what would be installed, and write nothing
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often its ticker ticks [default: as the last `up` said, else 60s]
    #[arg(long, value_name = "DURATION", value_parser = super::super::interval)]
    tick: Option<Duration>,
    /// The units of systemd [default on Linux]
    #[arg(long, conflicts_with = "launchd")]
    systemd: bool,
    /// The agents of launchd [default on macOS]
    #[arg(long)]
    launchd: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let manager = match (self.systemd, self.launchd) {
            (true, _) => Manager::Systemd,
            (_, true) => Manager::Launchd,
            _ => Manager::here(),
        };
        let files = super::plan(self.tick)?.files(manager);
        if cx.json {
            return output::json(&serde_json::json!({ "files": files }));
        }
        output::lines(files.iter().flat_map(|file| {
            let head = format!("==> {} <==", file.name);
            std::iter::once(head).chain(file.text.lines().map(str::to_owned))
        }))
    }
}
