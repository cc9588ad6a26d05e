//! `netsky owner ack`: the owner has dealt with a message.

use netsky_model::id::{AgentId, EnvelopeId};

use crate::context::Context;
use crate::error::Error;
use crate::run::Run;
use crate::verb::channel::ack_for;

/// Say that you dealt with a message
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its id, which may be shortened where unambiguous
    id: EnvelopeId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("owner ack")?;
        ack_for(cx, &AgentId::owner(), &self.id)
    }
}
