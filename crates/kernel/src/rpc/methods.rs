//! Every method of the anchor, once: its name, what it is for, whether it changes anything, what it takes and answers.
//!
//! Promise: the anchor dispatches by this list and the reference is generated from it, so that no method is without its
//! schema and none is described that is not there.
//!
//! A new method is a file with its `Params` and `Answer`, a line here, a line in `anchor/handlers`, and
//! `ostk rpc schema --markdown > docs/rpc.md`.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::Method;
use crate::rpc;

/// Whether a method changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It looks, or follows.
    Looks,
    /// It acts on one session; its parameters take `if_generation` and `request_id`.
    Acts,
    /// It acts on the whole root; said twice is no more than said once.
    ActsOnRoot,
}

/// Gives the list to a macro.
macro_rules! with_methods {
    ($then:ident) => {
        $then! {
            /// Who serves this root.
            rpc::hello::Hello, "kernel/hello", Looks, rpc::hello::Params => rpc::hello::Answer;
            /// Below which session of this root the caller runs: the socket says who calls.
            rpc::whoami::Whoami, "kernel/whoami", Looks, rpc::whoami::Params => rpc::whoami::Answer;
            /// The process table: sessions that live, or ended and were not put aside.
            rpc::ps::Ps, "kernel/ps", Looks, rpc::ps::Params => rpc::ps::Answer;
            /// Puts ended sessions aside, at most 8,192 and for at most 5 s at once, and removes what they left.
            rpc::reap::Reap, "kernel/reap", ActsOnRoot, rpc::reap::Params => rpc::reap::Answer;
            /// Stops the anchor once this is answered; workers live on unless `all`. No agent may while a session lives that
            /// its anchor or a watchdog keeps.
            rpc::shutdown::Shutdown, "kernel/shutdown", ActsOnRoot, rpc::shutdown::Params => rpc::shutdown::Answer;
            /// Starts the next generation of a session; answered once its program runs.
            rpc::spawn::Spawn, "session/spawn", Acts, rpc::spawn::Params => rpc::SessionView;
            /// Every session of the root, also what was put aside.
            rpc::list::List, "session/list", Looks, rpc::list::Params => rpc::list::Answer;
            /// One session, with its arguments and its folder.
            rpc::show::Show, "session/show", Looks, rpc::show::Params => rpc::SessionView;
            /// Types into a session: the text as it is, controls and all. Into whom its anchor or a watchdog keeps no other
            /// agent types.
            rpc::input::Input, "session/input", Acts, rpc::input::Params => rpc::SessionView;
            /// Puts a text before a program, as one paste and Enter; answered once its worker has taken it whole. Before whom
            /// its anchor or a watchdog keeps no other agent does.
            rpc::prompt::Prompt, "session/prompt", Acts, rpc::prompt::Params => rpc::SessionView;
            /// Gives a terminal another size; that of whom its anchor or a watchdog keeps no other agent does.
            rpc::resize::Resize, "session/resize", Acts, rpc::resize::Params => rpc::SessionView;
            /// Sends a signal to the process group of a program. Whom its anchor or a watchdog keeps no other agent signals.
            rpc::signal::SendSignal, "session/signal", Acts, rpc::signal::Params => rpc::SessionView;
            /// Ends a session's whole tree; answered once it is gone. One that its anchor keeps stays down.
            /// Whom its anchor or a watchdog keeps no other agent ends.
            rpc::kill::Kill, "session/kill", Acts, rpc::kill::Params => rpc::SessionView;
            /// Gives a session that has ended another name; its lineage stays, with all that belongs to it.
            rpc::rename::Rename, "session/rename", Acts, rpc::rename::Params => rpc::SessionView;
            /// Takes what a session says about itself. A turn, an intent and a finalization are on the disk once answered.
            rpc::report::SessionReport, "session/report", Acts, rpc::report::Params => rpc::report::Answer;
            /// Follows one session on this connection: its events, or its terminal through the worker's own socket.
            /// A connection follows one thing: what it followed before is let go. No agent has the terminal of another one that
            /// its anchor or a watchdog keeps.
            rpc::attach::Attach, "client/attach", Looks, rpc::attach::Params => rpc::attach::Answer;
            /// Ends what `client/attach` or `client/subscribe` began; the connection stays.
            rpc::detach::Detach, "client/detach", Looks, rpc::detach::Params => rpc::detach::Answer;
            /// Follows the journal on this connection: `event` notifications come after the answer.
            /// A connection follows one thing: what it followed before is let go.
            rpc::subscribe::Subscribe, "client/subscribe", Looks, rpc::subscribe::Params => rpc::subscribe::Answer;
            /// The lineages of the root.
            rpc::lineage::list::List, "lineage/list", Looks, rpc::lineage::list::Params => rpc::lineage::list::Answer;
            /// One lineage, and what it has behind it.
            rpc::lineage::show::Show, "lineage/show", Looks, rpc::lineage::show::Params => rpc::lineage::show::Answer;
            /// Says what becomes of a lineage that waits to be told.
            rpc::lineage::resolve::Resolve, "lineage/resolve", Acts, rpc::lineage::resolve::Params => rpc::SessionView;
        }
    };
}
pub(crate) use with_methods;

/// What is known of a method without calling it.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    /// The name on the wire.
    pub name: &'static str,
    /// What it is for, a sentence or two.
    pub doc: &'static str,
    /// Whether it changes anything.
    pub effect: Effect,
    pub(super) params: fn(&mut SchemaGenerator) -> Schema,
    pub(super) answer: fn(&mut SchemaGenerator) -> Schema,
}

/// The schema of an answer: one that several methods give is described once, under its name.
fn answered<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    if T::schema_name() == "Answer" { T::json_schema(generator) } else { generator.subschema_for::<T>() }
}

macro_rules! describe {
    ($($(#[doc = $doc:literal])+ $method:ty, $name:literal, $effect:ident, $params:ty => $answer:ty;)*) => {
        $(
            impl Method for $method {
                const NAME: &'static str = $name;
                type Params = $params;
                type Answer = $answer;
            }
        )*

        /// Every method, in the order of the reference.
        pub const METHODS: &[Described] = &[$(Described {
            name: $name,
            doc: concat!($($doc),+),
            effect: Effect::$effect,
            params: <$params as JsonSchema>::json_schema,
            answer: answered::<$answer>,
        }),*];
    };
}
with_methods!(describe);
