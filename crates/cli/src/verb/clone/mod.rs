//! `netsky clone`: tasks in the hands of clones. Who gets one is decided in `work`, and who runs is `watchdog`'s: here the one is done
//! after the other.

use netsky_disk::env::Caller;
use netsky_model::dispatch::Dispatch;
use netsky_model::id::{AgentId, Sender};
use netsky_watchdog::Context as Constellation;
use netsky_work::dispatch::Dispatches;
use netsky_work::task::Board;

use crate::run::verbs;

mod brief;
mod list;
mod stop;
mod wait;

verbs! {
    /// Hand tasks to clones, and see what becomes of them
    Verb {
        Brief(brief::Args),
        List(list::Args),
        Wait(wait::Args),
        Stop(stop::Args),
    }
}

/// Who hands out work here: the owner, or agent0.
pub(super) fn dispatcher(caller: &Caller) -> Sender {
    match caller {
        Caller::Outside => Sender::owner(),
        Caller::Inside { .. } => AgentId::root().into(),
    }
}

/// The dispatches of a constellation.
pub(super) fn dispatches<'a>(cx: &'a Constellation<'a>, board: &'a Board) -> Dispatches<'a> {
    Dispatches::new(cx.layout, &cx.bus, board)
}

/// In whose hands a task is, in a few words.
fn hands(dispatch: &Dispatch) -> String {
    match dispatch.holder() {
        Some(generation) => format!("{}, generation {generation}", dispatch.agent),
        None => dispatch.agent.to_string(),
    }
}
