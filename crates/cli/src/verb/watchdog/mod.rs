//! `netsky watchdog`: the one actor, by hand and as agentinfinity.

use crate::run::verbs;

mod pages;
mod serve;
mod tick;

verbs! {
    /// Repair the constellation
    Verb {
        Tick(tick::Args),
        Pages(pages::Args),
        Serve(serve::Args),
    }
}
