//! `netsky prompts check`: whether every layer can be used.

use netsky_model::id::AgentId;
use netsky_runtime::prompts::render;

use super::layers_here;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Check that every layer can be used, and that the whole is not too long
///
/// Exit code 7 where one cannot: agents are started with the last prompt that was whole until it is mended.
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let (layers, troubles) = layers_here(cx)?;
        let whole = render(&AgentId::root(), &layers);
        let tokens = whole.as_ref().map_or(0, |whole| whole.len().div_ceil(4));
        if cx.json {
            let why = whole.as_ref().err();
            output::json(&serde_json::json!({ "troubles": troubles, "tokens": tokens, "too_long": why }))?;
        } else {
            troubles.iter().try_for_each(|trouble| output::say(&format!("problem: {trouble}")))?;
            if whole.is_ok() {
                output::say(&format!("{} layers, about {tokens} tokens", layers.len()))?;
            }
        }
        let unusable =
            troubles.iter().filter(|trouble| !trouble.is_used).count() + usize::from(whole.is_err());
        match (unusable, whole) {
            (0, _) => Ok(()),
            (_, Err(why)) => {
                Err(Error::new(Kind::Damaged, why).hint("shorten it; the last prompt that was whole is used"))
            }
            (count, _) => Err(Error::new(Kind::Damaged, format!("{count} prompt layers cannot be used"))
                .hint("mend or remove the files; the last prompt that was whole is used")),
        }
    }
}
