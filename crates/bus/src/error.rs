//! What can go wrong on the bus; every variant names the object and says that nothing was lost by being one.

use std::io;
use std::path::PathBuf;

use netsky_disk::ReadError;
use netsky_model::envelope::Invalid;
use netsky_model::id::{AgentId, EnvelopeId, Sender};
use netsky_model::life::{Illegal, State};
use netsky_model::provenance::TooFar;
use netsky_model::quota::Over;

/// What the bus's operations answer.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation was not done. The state on disk is as it was, or further along the same envelope's one life.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// A send to a name nobody has.
    #[error("no agent {0} is known")]
    UnknownTarget(AgentId),
    /// A look into the channel of a name nobody has.
    #[error("{0} has no channel")]
    NoChannel(AgentId),
    /// A name that this caller may not send under.
    #[error("sender {from} is refused: {why}")]
    Sender {
        /// The name asked for.
        from: Sender,
        /// Whose it is.
        why: String,
    },
    /// The target's inbox takes no more, from this sender or at all.
    #[error("the inbox of {agent} takes no more from {from}: {over}")]
    Full {
        /// Whose inbox.
        agent: AgentId,
        /// Who sends.
        from: Sender,
        /// Which limit, with the numbers.
        over: Over,
        /// Whether the message would go over it in an empty inbox too.
        for_good: bool,
    },
    /// This sender is too fast for this target.
    #[error("{from} sends to {agent} faster than {rate} messages a second after a burst of {burst}")]
    TooFast {
        /// Whose inbox.
        agent: AgentId,
        /// Who sends.
        from: Sender,
        /// What goes on for ever.
        rate: u64,
        /// What may come at once.
        burst: u64,
    },
    /// A message that is no envelope.
    #[error("the message is refused: {0}")]
    Envelope(#[from] Invalid),
    /// No envelope of that id.
    #[error("{agent} has no envelope {id}")]
    NoEnvelope {
        /// Whose channel.
        agent: AgentId,
        /// The id, or how it began.
        id: String,
    },
    /// A shortened id that several envelopes share.
    #[error("{id} is the beginning of {count} envelopes of {agent}")]
    Ambiguous {
        /// Whose channel.
        agent: AgentId,
        /// How the ids began.
        id: String,
        /// How many.
        count: usize,
    },
    /// Another process has it and may still put it before the agent.
    #[error("envelope {id} of {agent} is held by process {pid}")]
    Held {
        /// Whose channel.
        agent: AgentId,
        /// Which envelope.
        id: EnvelopeId,
        /// Its claimant.
        pid: u32,
        /// A release may end it: that was not tried, and it is no process of another pid namespace.
        may_end: bool,
    },
    /// It is where claims are, under a name that says of no process that it has it. No bus of ours left it so.
    #[error("{id} of {agent} is in claimed/, and its name says of no process that it has it")]
    Unowned {
        /// Whose channel.
        agent: AgentId,
        /// Which envelope.
        id: EnvelopeId,
    },
    /// Another process has it in its hands, as who releases it, and may end before it does anything with it.
    #[error("envelope {id} of {agent} is in the hands of another process")]
    Busy {
        /// Whose channel.
        agent: AgentId,
        /// Which envelope.
        id: EnvelopeId,
    },
    /// The agent has a running consumer.
    #[error("{agent} has a consumer already{}", holder(*pid, *elsewhere))]
    Consumed {
        /// Whose messages.
        agent: AgentId,
        /// Who consumes them, where that is known.
        pid: Option<u32>,
        /// It runs in another pid namespace: the number is none of ours.
        elsewhere: bool,
        /// Its place was asked for, and went to another, or could not be taken.
        asked: bool,
    },
    /// The lock file of this consumer lost its name: whoever takes the name is the consumer.
    #[error("this process is no longer the consumer of {0}: its lock file was removed or replaced")]
    Unseated(AgentId),
    /// The home went away while somebody worked in it.
    #[error("there is no home at {}", .0.display())]
    NoHome(PathBuf),
    /// Another process is placing an envelope of this id.
    #[error("another process is sending envelope {0}")]
    Sending(EnvelopeId),
    /// The claim was no longer ours when its text was to be shown; it was not.
    #[error("envelope {0} was taken from this process before it was shown")]
    Fenced(EnvelopeId),
    /// The claim is no longer ours.
    #[error("envelope {0} was taken from this process before it could be recorded")]
    ClaimLost(EnvelopeId),
    /// The reader could not be given the whole text and may have seen a part: the envelope has one attempt less.
    #[error("envelope {id} could not be surfaced as a whole, which counts as an attempt: {source}")]
    Surface {
        /// Which envelope.
        id: EnvelopeId,
        /// What the output said.
        source: io::Error,
    },
    /// The reader could not be given anything of the text.
    #[error("envelope {id} could not be surfaced and waits as it did: {source}")]
    Unread {
        /// Which envelope.
        id: EnvelopeId,
        /// What the output said.
        source: io::Error,
    },
    /// A file that was named is not the envelope its name promises. It stays where it is.
    #[error("{id} of {agent} in {}/ is a damaged file, not a message: {why}", state.folder())]
    Damaged {
        /// Whose channel.
        agent: AgentId,
        /// Which file.
        id: EnvelopeId,
        /// Where it is.
        state: State,
        /// What is wrong with its bytes.
        why: String,
    },
    /// A file that was named is nothing the bus reads: no plain file of this user, or too large. It stays where it is.
    #[error("{id} of {agent} in {}/ is no message: {why}", state.folder())]
    Alien {
        /// Whose channel.
        agent: AgentId,
        /// Which file.
        id: EnvelopeId,
        /// Where it is.
        state: State,
        /// What it is.
        why: ReadError,
    },
    /// An envelope of a format that this program does not know. It stays where it is.
    #[error("{id} of {agent} in {}/ is of a newer format", state.folder())]
    Newer {
        /// Whose channel.
        agent: AgentId,
        /// Which envelope.
        id: EnvelopeId,
        /// Where it is.
        state: State,
    },
    /// A file that was to go on and is nothing that an agent can be shown: it went to `poison/`.
    #[error("quarantined {id} of {agent}: {why}")]
    Quarantined {
        /// Whose channel.
        agent: AgentId,
        /// Which file.
        id: EnvelopeId,
        /// What is wrong with it.
        why: String,
    },
    /// Words that were passed on too often.
    #[error(transparent)]
    TooFar(#[from] TooFar),
    /// A move the envelope's state does not allow.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

fn holder(pid: Option<u32>, elsewhere: bool) -> String {
    match pid {
        Some(pid) if elsewhere => format!(": process {pid} of another pid namespace"),
        Some(pid) => format!(": process {pid}"),
        None => String::new(),
    }
}
