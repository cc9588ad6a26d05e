//! `netsky home`: the home itself.

use crate::run::verbs;

mod adopt;

verbs! {
    /// What concerns the home as a whole
    Verb {
        Adopt(adopt::Args),
    }
}
