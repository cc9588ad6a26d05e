//! Who cleans up when the demo cannot: a process of its own that holds on to the demo's identity.
//!
//! Promise: however the demo ends (its end, Ctrl-C, a closed terminal, SIGKILL), its constellation goes down and its
//! folder goes away. The demo does both itself when it can, and then dismisses the janitor.

use std::time::Duration;

use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::spawn::{Program, sibling};
use netsky_disk::{state, sweep, throwaway};
use netsky_model::process::ProcessId;

use crate::demo::place::Place;
use crate::demo::programs::{foreign_variables, owners_verb};
use crate::error::{Error, Kind};

/// How long one look at the demo lasts; only a bound, its end is an event.
const LOOK: Duration = Duration::from_secs(3600);
/// How long what `down` left may take to die.
const SWEEP: Duration = Duration::from_secs(5);

/// A janitor that waits.
pub(crate) struct Janitor {
    process: ProcessId,
}

impl Janitor {
    /// Starts one for this process.
    pub(crate) fn hire(place: &Place, keep: bool) -> Result<Janitor, Error> {
        let me = process::identity()?;
        let mut args = vec!["demo-janitor".to_owned(), place.folder().display().to_string()];
        args.extend(["--pid".to_owned(), me.pid.to_string()]);
        args.extend(["--start-time".to_owned(), me.start_time.to_string()]);
        if keep {
            args.push("--keep".to_owned());
        }
        let foreign = foreign_variables();
        let unset = foreign.iter().filter_map(|key| key.to_str().map(str::to_owned)).collect();
        let program = Program { path: sibling("netsky")?, args, unset, ..Program::default() };
        Ok(Janitor { process: program.detach()? })
    }

    /// Ends it: there is nothing left to clean.
    pub(crate) fn dismiss(self) -> Result<(), Error> {
        process::signal(&self.process, Signal::KILL)?;
        Ok(())
    }
}

/// The janitor's own life.
pub(crate) fn live(place: &Place, demo: &ProcessId, keep: bool) -> Result<(), Error> {
    if let Some(held) = PidFd::open(demo)? {
        while !held.wait(LOOK)? {}
    }
    clean(place, keep)
}

/// Takes the constellation down and the folder away; every part is tried whatever the others met.
pub(crate) fn clean(place: &Place, keep: bool) -> Result<(), Error> {
    let home = place.layout();
    let begun = state::exists(home.home_json());
    // Of a demo that was refused before it began there is nothing to keep.
    let keep = keep && !matches!(begun, Ok(false));
    let down = match begun {
        Ok(true) => owners_verb(place, ["down"]).map(drop),
        Ok(false) => Ok(()),
        Err(error) => Err(error.into()),
    };
    let swept = sweep_all(&home.home().display().to_string());
    // While something of it may live, the folder stays for whoever looks.
    let removed = match (&swept, keep) {
        (Ok(()), false) => throwaway::remove(place.folder()).map_err(Error::from),
        _ => Ok(()),
    };
    let met: Vec<Error> = [down, swept, removed].into_iter().filter_map(Result::err).collect();
    match met.len() {
        0 | 1 => met.into_iter().next().map_or(Ok(()), Err),
        _ => {
            let all: Vec<String> = met.iter().map(ToString::to_string).collect();
            Err(Error::new(Kind::Failed, all.join("; and ")))
        }
    }
}

/// What a broken `down` left is found by the home in its environment.
fn sweep_all(home: &str) -> Result<(), Error> {
    let left = sweep::sweep_marked(netsky_disk::env::HOME, home, SWEEP)?.left;
    if left.is_empty() {
        return Ok(());
    }
    let pids: Vec<String> = left.iter().map(|left| left.pid.to_string()).collect();
    Err(Error::new(Kind::Failed, format!("failed to end processes {} of the demo", pids.join(", "))))
}
