//! `netsky prompts list`: the layers, where each comes from, and how much of a context it takes.

use netsky_runtime::prompts::Origin;

use super::layers_here;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// List the layers of a prompt with their origin and size; a token is counted as four bytes
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (layers, troubles) = layers_here(cx)?;
        if cx.json {
            let rows = layers.iter().map(|layer| {
                serde_json::json!({
                    "id": layer.id, "origin": layer.origin, "path": layer.path,
                    "bytes": layer.text.len(), "tokens": layer.tokens(),
                })
            });
            return output::json(
                &serde_json::json!({ "layers": rows.collect::<Vec<_>>(), "troubles": troubles }),
            );
        }
        let rows = layers.iter().map(|layer| {
            let origin = match layer.origin {
                Origin::Shipped => "shipped",
                Origin::Override => "yours, for a shipped one",
                Origin::Added => "added",
            };
            let path = layer.path.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
            vec![
                layer.id.clone(),
                origin.to_owned(),
                layer.text.len().to_string(),
                layer.tokens().to_string(),
                path,
            ]
        });
        output::table(&["layer", "origin", "bytes", "tokens", "file"], rows.collect(), "")?;
        troubles.iter().try_for_each(|trouble| output::say(&format!("problem: {trouble}")))
    }
}
