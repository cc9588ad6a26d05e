//! `netsky owner send`: words of the owner to an agent, at once and not at the end of its turn.

use netsky_model::id::{AgentId, EnvelopeId};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;
use crate::verb::channel::{agent, from_stdin, say_sent, send_as_owner};

/// Tell an agent something, as its owner
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The message, or - to read it from standard input
    text: String,
    /// To whom
    #[arg(long, default_value = "agent0", value_parser = agent)]
    to: AgentId,
    /// The id of the message that this answers
    #[arg(long, value_name = "ID")]
    reply_to: Option<EnvelopeId>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("owner send")?;
        let text = if self.text == "-" { from_stdin()? } else { self.text };
        if text.trim().is_empty() {
            return Err(Error::new(Kind::Usage, "the message is empty").hint("nothing was sent"));
        }
        let sent = send_as_owner(cx, &self.to, &text, self.reply_to)?;
        say_sent(cx, &self.to, &sent)
    }
}
