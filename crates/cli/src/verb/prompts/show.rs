//! `netsky prompts show`: one layer, or the whole of what an agent was told.

use netsky_disk::state;
use netsky_model::id::AgentId;
use netsky_model::render;
use netsky_runtime::prompts::{marked_base, shipped};

use super::layers_here;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Print a layer, or the whole prompt that an agent was started with
///
/// `netsky prompts show base > ~/.netsky/prompts/base.md` is a base of your own to begin with: its first line says for which
/// shipped one it was made, and is no part of it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A layer of `netsky prompts list`, or an agent
    what: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let text = match AgentId::from_shorthand(&self.what).ok().filter(|agent| agent.number().is_some()) {
            Some(agent) => {
                let bytes = state::read(layout.prompt(&agent))?.ok_or_else(|| {
                    Error::new(Kind::NotFound, format!("{agent} was not started with a prompt yet"))
                        .hint("`netsky prompts list` shows the layers it would get")
                })?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
            None if self.what == "base" => marked_base(layout),
            None => {
                let (layers, _) = layers_here(cx)?;
                let layer = layers.into_iter().find(|layer| layer.id == self.what);
                let missing =
                    || Error::new(Kind::NotFound, format!("there is no prompt layer {:?}", self.what));
                let layer = layer.ok_or_else(|| missing().hint("`netsky prompts list` shows them"))?;
                // A shell empties the file that it is to be written to before we are started.
                let emptied = || layer.text.trim().is_empty();
                shipped(&layer.id).filter(|_| emptied()).map_or(layer.text.clone(), str::to_owned)
            }
        };
        match cx.json {
            true => output::json(&serde_json::json!({ "id": self.what, "text": text })),
            // As it is, but for what drives a terminal: it is the owner's own, and may become a layer.
            false => output::painted(&render::plain(text.trim_end())),
        }
    }
}
