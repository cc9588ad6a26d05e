//! A kernel root that is a home's: a constellation wants its sessions, and brings back whom nobody says to be unwanted.

use std::path::Path;
use std::time::Duration;

use netsky_disk::env::{self, Caller};
use netsky_disk::layout::Layout;
use netsky_disk::spawn::{Program, sibling};
use netsky_disk::state;
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::Guard;
use netsky_kernel::rpc::whoami::Who;
use netsky_ledger::Telemetry;
use netsky_model::id::AgentId;
use netsky_watchdog::Context as Constellation;

use crate::context::{Context, for_the_owner};
use crate::error::Error;

/// How often it is asked who calls: each time has two seconds.
const TRIES: u32 = 3;

/// The home whose kernel this is, if it is one's.
pub(super) fn home_of(root: &Path) -> Result<Option<Layout>, Error> {
    let Some(home) = root.parent() else { return Ok(None) };
    let layout = Layout::new(home);
    let is_one = layout.kernel_root() == root && state::exists(layout.home_json())?;
    Ok(is_one.then_some(layout))
}

/// Refuses to whatever runs below a session of it: nobody ends whom the owner wants, or who watches over him.
pub(super) fn owner_only(cx: &Context, root: &Path, what: &str) -> Result<(), Error> {
    match whoami(root) {
        Ok(Some(_)) => Err(for_the_owner(what)),
        // Nobody serves who could end anybody.
        Ok(None) | Err(ClientError::NotServing { .. }) => cx.owner_only(what),
        // Who calls is not known: an anchor that is too busy to say it says so of a session's as well.
        Err(error) => Err(error.into()),
    }
}

/// Below which session of it this process runs; asked some times where the answer does not come in time.
fn whoami(root: &Path) -> Result<Option<Who>, ClientError> {
    let mut asked = Client::whoami(root);
    for _ in 1..TRIES {
        match asked {
            Err(error) if !matches!(error, ClientError::NotServing { .. }) => asked = Client::whoami(root),
            known => return known,
        }
    }
    asked
}

/// Has a slot be wanted no more, and ends who is in it.
pub(super) fn stop(
    layout: &Layout,
    agent: &AgentId,
    grace: Option<Duration>,
    guard: &Guard,
) -> Result<(), Error> {
    let telemetry = Telemetry::new(layout);
    netsky_watchdog::stop(&Constellation::new(layout, &telemetry)?, &Caller::Outside, agent, grace, guard)?;
    Ok(())
}

/// Has who is wanted started again, also where whoever would do it is what was ended: by a tick of its own, which nobody
/// waits for.
pub(super) fn again(layout: &Layout) -> Result<(), Error> {
    let program = Program {
        path: sibling("netsky")?,
        args: vec!["watchdog".to_owned(), "tick".to_owned()],
        set: [(env::HOME.to_owned(), layout.home().display().to_string())].into(),
        ..Program::default()
    };
    program.detach()?;
    Ok(())
}
