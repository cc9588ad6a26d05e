//! `ostk kernel`: sessions.

use crate::run::verbs;

mod input;
mod kill;
mod ps;
mod reap;
mod rename;
mod resize;
mod show;
mod shutdown;
mod spawn;

verbs! {
    /// Start, look at and end sessions
    Verb {
        Spawn(spawn::Args),
        Ps(ps::Args),
        Show(show::Args),
        Input(input::Args),
        Resize(resize::Args),
        Kill(kill::Args),
        Rename(rename::Args),
        Reap(reap::Args),
        Shutdown(shutdown::Args),
    }
}
