//! A kernel root that is a home's: a constellation wants its sessions, and brings back whom nobody says to be unwanted.

use std::path::Path;
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_kernel::client::Client;
use netsky_kernel::rpc::Guard;
use netsky_ledger::Telemetry;
use netsky_model::id::AgentId;
use netsky_watchdog::Context as Constellation;

use crate::context::{Context, for_the_owner};
use crate::error::Error;

/// The home whose kernel this is, if it is one's.
pub(super) fn home_of(root: &Path) -> Result<Option<Layout>, Error> {
    let Some(home) = root.parent() else { return Ok(None) };
    let layout = Layout::new(home);
    let is_one = layout.kernel_root() == root && state::exists(layout.home_json())?;
    Ok(is_one.then_some(layout))
}

/// Refuses to whatever runs below a session of it: nobody ends whom the owner wants, or who watches over him.
pub(super) fn owner_only(cx: &Context, root: &Path, what: &str) -> Result<(), Error> {
    if Client::whoami(root).ok().flatten().is_some() {
        return Err(for_the_owner(what));
    }
    cx.owner_only(what)
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
