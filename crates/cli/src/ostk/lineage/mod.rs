//! `ostk lineage`: logical identities across processes.

use crate::run::verbs;

mod list;

verbs! {
    /// Look at lineages
    Verb {
        List(list::Args),
    }
}
