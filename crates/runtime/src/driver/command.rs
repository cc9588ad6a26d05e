//! The runtime `command`: any program is an agent. It takes its mail by the bus verbs, and acknowledges what it finished.

use std::collections::BTreeMap;

use netsky_kernel::session::Io;

use super::{Start, StartFrom};

/// Terminal size of a session that nobody looks at yet: wide enough that programs do not wrap.
const TERMINAL: Io = Io::Pty { rows: 40, cols: 120 };

/// The words of the wish, at a terminal.
pub(super) fn start(from: &StartFrom<'_>) -> Start {
    Start { argv: from.desired.argv.clone(), env: BTreeMap::new(), io: TERMINAL }
}
