//! Says to whoever serves a root that somebody came to the terminal of a session, and hears whether they may.
//!
//! Promise: an attach is as good where nobody serves, or one that answers nobody: neither is waited for but briefly.

use std::path::Path;
use std::time::Duration;

use netsky_model::id::AgentId;

use super::{Client, ClientError, Connection};
use crate::rpc::attach::{Attach, Mode, Params};
use crate::rpc::{Refusal, RefusalKind};

/// How long one that takes nobody is waited for.
const BRIEFLY: Duration = Duration::from_millis(50);

/// How long its word is: whom it sees above us takes it a look into `/proc`.
const A_WORD: Duration = Duration::from_millis(250);

impl Client {
    /// Tells it; what cannot be told is not.
    ///
    /// # Errors
    /// Its refusal: that terminal is not for us.
    pub(crate) fn came_to_terminal(root: &Path, session: &AgentId) -> Result<(), Refusal> {
        let Ok(mut connection) = Connection::to(root, BRIEFLY) else { return Ok(()) };
        let params = Params { session: session.clone(), mode: Mode::Terminal, since: None };
        match connection.call_within::<Attach>(&params, A_WORD) {
            Err(ClientError::Refused(refusal)) if refusal.kind() == RefusalKind::Refused => Err(refusal),
            _ => Ok(()),
        }
    }
}
