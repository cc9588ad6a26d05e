//! The way to a session's worker, before anything of this terminal is touched.

use std::time::Duration;

use netsky_disk::watch::Watch;
use netsky_disk::{clock, process};
use netsky_model::process::ProcessId;
use rustix::termios::{QueueSelector, tcflush};

use super::{AttachError, Options};
use crate::client::Client;
use crate::meta_file;
use crate::session::{End, Phase, WorkerHello};
use crate::worker_client::WorkerClient;

/// Slow look for a successor that gave no event.
const LOOK: Duration = Duration::from_secs(1);

/// A connection to a session's worker, to attach by. Nothing of this terminal has been touched by then.
///
/// # Errors
/// The session does not run, our terminal is its own, or its worker cannot be used.
pub fn connect(options: &Options) -> Result<WorkerClient, AttachError> {
    let name = || options.name.clone();
    let meta =
        meta_file::read(&options.layout, &options.name).map_err(|e| AttachError::Meta(e.to_string()))?;
    let meta = meta.ok_or_else(|| AttachError::NoSession { name: name() })?;
    match meta.phase {
        Phase::Ended { how, .. } | Phase::Inactive { how, .. } => {
            Err(AttachError::NotRunning { name: name(), how })
        }
        Phase::Starting | Phase::Running { .. } => {
            let client = WorkerClient::connect(&options.layout.worker_sock(&options.name));
            let client = client.map_err(|error| match ended(options) {
                // It ended while we were on the way.
                Some(how) => AttachError::NotRunning { name: name(), how },
                None => error.into(),
            })?;
            if is_led_by(&client.hello().program) {
                return Err(AttachError::Itself { name: name() });
            }
            // Who only looks types into nobody.
            match Client::came_to_terminal(options.layout.root(), &options.name) {
                Err(refusal) if !options.read_only => Err(AttachError::Refused(refusal.message)),
                _ => Ok(client),
            }
        }
    }
}

/// The same of the generation that follows the one which was attached to, once it runs; none if none does within that time.
/// What was typed meanwhile is the successor's or nobody's: no shell gets it.
///
/// # Errors
/// As [`connect`].
pub fn successor(
    options: &Options,
    before: &WorkerHello,
    time: Duration,
) -> Result<Option<WorkerClient>, AttachError> {
    let until = clock::boot() + time;
    let watch = Watch::default();
    loop {
        // Before the look, so that nothing comes between the two.
        let _ = watch.add(options.layout.agents());
        let meta =
            meta_file::read(&options.layout, &options.name).map_err(|e| AttachError::Meta(e.to_string()))?;
        let next = meta.filter(|meta| meta.lineage != before.lineage || meta.generation != before.generation);
        if next.is_some_and(|meta| matches!(meta.phase, Phase::Running { .. })) {
            match connect(options) {
                // It came and went while we were on the way.
                Err(AttachError::NotRunning { .. }) => {}
                client => return client.map(Some),
            }
        }
        let left = until.saturating_sub(clock::boot());
        if left.is_zero() || watch.wait(left.min(LOOK)).is_err() {
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
            return Ok(None);
        }
    }
}

/// Whether our terminal is that program's own, so that what we print is printed by its session. What a session is shown by
/// another way comes back, and is known by that.
fn is_led_by(program: &ProcessId) -> bool {
    let leader = rustix::termios::tcgetsid(std::io::stdout());
    leader.is_ok_and(|leader| leader.as_raw_nonzero().get().cast_unsigned() == program.pid)
        && process::is_alive(program)
}

/// The end that was written down, if there is one.
pub(super) fn ended(options: &Options) -> Option<End> {
    match meta_file::read(&options.layout, &options.name).ok().flatten()?.phase {
        Phase::Ended { how, .. } | Phase::Inactive { how, .. } => Some(how),
        Phase::Starting | Phase::Running { .. } => None,
    }
}
