//! `netsky session`: what a session itself says about its own start.

use crate::run::verbs;

mod down;
mod up;

verbs! {
    /// Called by the session itself
    Verb {
        Up(up::Args),
        Down(down::Args),
    }
}
