//! netsky-drivers as a session of the constellation: one a home.

use netsky_disk::env::Caller;
use netsky_disk::wake::Stop;
use netsky_model::id::AgentId;
use netsky_runtime::drivers::{Ended, serve};

use crate::context::Context;
use crate::error::Result;
use crate::keeper::only_one;

/// Drive until asked to end.
///
/// # Errors
/// Another one runs.
pub fn drivers(
    cx: &Context<'_>,
    caller: &Caller,
    stop: &Stop,
    said: &(dyn Fn(&str) + Sync),
) -> Result<Ended> {
    let _one = only_one(cx, &AgentId::drivers(), caller)?;
    said("netsky-drivers is ready");
    Ok(serve(cx.layout, stop, netsky_schedule::missed, said))
}
