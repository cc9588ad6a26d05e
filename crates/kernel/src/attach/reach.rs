//! The way to a session's worker, before anything of this terminal is touched.

use netsky_disk::process;
use netsky_model::process::ProcessId;

use super::{AttachError, Options};
use crate::client::Client;
use crate::meta_file;
use crate::session::{End, Phase};
use crate::worker_client::WorkerClient;

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
            Client::came_to_terminal(options.layout.root(), &options.name);
            Ok(client)
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
