//! `netsky prompts`: what agents are told of themselves.

use netsky_runtime::Config;
use netsky_runtime::prompts::{Layer, Trouble, layers};

use crate::context::Context;
use crate::error::Error;
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

/// The layers that an agent would get who works here, and what is wrong with others.
fn layers_here(cx: &Context) -> Result<(Vec<Layer>, Vec<Trouble>), Error> {
    let layout = cx.home()?;
    let here = std::env::current_dir().ok();
    Ok(layers(layout, here.as_deref(), &Config::last_good(layout).prompts.trust))
}
