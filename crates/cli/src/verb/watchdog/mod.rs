//! `netsky watchdog`: the one actor, by hand and as agentinfinity.

use crate::run::verbs;

mod serve;
mod tick;

verbs! {
    /// Repair the constellation
    Verb {
        Tick(tick::Args),
        Serve(serve::Args),
    }
}
