//! `netsky handoff`: what an agent0 leaves to the next one.

use crate::run::verbs;

mod draft;
mod show;

verbs! {
    /// What an agent0 leaves to the next one
    Verb {
        Draft(draft::Args),
        Show(show::Args),
    }
}
