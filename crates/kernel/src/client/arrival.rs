//! Says to whoever serves a root that somebody came to the terminal of a session.
//!
//! Promise: an attach is as good where nobody serves, or one that answers nobody: nothing is waited for but [`BRIEFLY`] for room.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use netsky_model::id::AgentId;

use super::{Client, Connection};
use crate::rpc::attach::{Attach, Mode, Params};
use crate::rpc::{Method, Request};

/// How long one that takes nobody is waited for.
const BRIEFLY: Duration = Duration::from_millis(50);

impl Client {
    /// Tells it, as a call that is not answered; what cannot be told is not.
    pub(crate) fn came_to_terminal(root: &Path, session: &AgentId) {
        let params = Params { session: session.clone(), mode: Mode::Terminal, since: None };
        let Ok(params) = serde_json::to_value(params) else { return };
        let request =
            Request { jsonrpc: "2.0".to_owned(), id: None, method: Attach::NAME.to_owned(), params };
        let (Ok(mut line), Ok(mut connection)) =
            (serde_json::to_vec(&request), Connection::to(root, BRIEFLY))
        else {
            return;
        };
        line.push(b'\n');
        let _ = connection.stream.set_write_timeout(Some(BRIEFLY));
        let _ = connection.stream.write_all(&line);
    }
}
