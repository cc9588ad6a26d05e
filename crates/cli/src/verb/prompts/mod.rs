//! `netsky prompts`: what agents are told of themselves.

use crate::run::verbs;

mod check;
mod diff;
mod list;
mod show;

verbs! {
    /// What agents are told of themselves, layer by layer
    Verb {
        List(list::Args),
        Show(show::Args),
        Diff(diff::Args),
        Check(check::Args),
    }
}
