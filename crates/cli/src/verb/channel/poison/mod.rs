//! `netsky channel poison`: dead letters, why they are dead, and one more try.

use crate::run::verbs;

mod list;
mod retry;
mod show;

verbs! {
    /// Look at dead letters and try them again
    Verb {
        List(list::Args),
        Show(show::Args),
        Retry(retry::Args),
    }
}
