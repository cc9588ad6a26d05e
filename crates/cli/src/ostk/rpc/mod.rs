//! `ostk rpc`: the anchor's protocol, described and spoken.

use crate::run::verbs;

mod call;
mod markdown;
mod schema;

verbs! {
    /// Describe the anchor's protocol, or speak it
    Verb {
        Schema(schema::Args),
        Call(call::Args),
    }
}
