//! `attach` of both programs: a person at a session's terminal.
//!
//! The words before and after are for a person; where output is piped there is only what the session prints.

use std::io::IsTerminal;
use std::path::PathBuf;

use netsky_disk::layout::KernelLayout;
use netsky_kernel::attach::{AttachError, DetachKey, Left, Options, Untyped};
use netsky_kernel::worker_client::WorkerError;
use netsky_model::id::AgentId;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;

/// How to attach.
#[derive(clap::Args)]
pub(crate) struct How {
    /// Look without typing: neither keys nor the size of the window reach the program
    #[arg(long)]
    read_only: bool,
    /// The key that leaves
    #[arg(long, value_name = "KEY", default_value_t)]
    detach_key: DetachKey,
}

impl How {
    /// The same for the kernel.
    pub(crate) fn options(&self, root: PathBuf, name: AgentId) -> Options {
        let layout = KernelLayout::new(root);
        Options { layout, name, read_only: self.read_only, detach: self.detach_key }
    }

    /// The same, without typing.
    pub(crate) fn to_look(&self) -> How {
        How { read_only: true, ..*self }
    }
}

/// Attaches to a session until its end or the key.
pub(crate) fn attach(cx: &Context, root: PathBuf, name: AgentId, how: &How) -> Result<(), Error> {
    cx.no_json("attach shows a terminal")?;
    let options = how.options(root, name.clone());
    let person = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let client = netsky_kernel::attach::connect(&options)?;
    if person {
        output::say(&format!("attached to {name}; {} leaves it running", how.detach_key))?;
    }
    left(&name, person, netsky_kernel::attach::attach(&options, client))
}

/// Tells a person how an attachment ended; its exit code is the same for everybody.
pub(crate) fn left(name: &AgentId, person: bool, left: Result<Left, AttachError>) -> Result<(), Error> {
    match left? {
        Left::Detached if person => output::say(&format!("left {name}, which runs on")),
        Left::Ended(end) if person => output::say(&format!("{name} {end}")),
        Left::Detached | Left::Ended(_) => Ok(()),
        Left::Untyped(what) => {
            output::say(&format!("left {name}, which runs on"))?;
            Err(untyped(name, what))
        }
        Left::Signalled(signal) => {
            let what = format!("the attachment was ended by signal {signal}");
            Err(Error::new(Kind::Failed, what).hint(format!("{name} runs on")))
        }
        Left::WorkerDied => {
            let what = format!("the worker of {name} died");
            Err(Error::new(Kind::Failed, what).hint("its keeper may start it again, see `ostk kernel ps`"))
        }
    }
}

/// What to tell who has left and typed more than their program has.
fn untyped(name: &AgentId, what: Untyped) -> Error {
    let (kind, what, hint) = match what {
        Untyped::NoRoom => (
            Kind::Busy,
            "the program does not read, and was not given all that was typed",
            "each key or paste at which the bell rang was left out whole; repeat once it reads",
        ),
        Untyped::TooLong => (
            Kind::Usage,
            "a paste of more than 1 MiB was not typed, nothing of it",
            "put it into a file and give the program its name",
        ),
        Untyped::Unended => {
            (Kind::Busy, "a paste that had not ended was not typed, nothing of it", "attach and repeat it")
        }
    };
    Error::new(kind, format!("{name}: {what}")).hint(hint)
}

impl From<AttachError> for Error {
    fn from(error: AttachError) -> Self {
        let what = error.to_string();
        match error {
            AttachError::NoSession { .. } => Self::new(Kind::NotFound, what).hint("see `ostk kernel ps`"),
            AttachError::NotRunning { name, .. } => {
                Self::new(Kind::NotFound, what).hint(format!("see `ostk logs {name}`"))
            }
            AttachError::Itself { name } | AttachError::Circle { name } => Self::new(Kind::Refused, what)
                .hint(format!("see `ostk logs {name}` and `ostk kernel show {name}`")),
            AttachError::Refused(_) => {
                Self::new(Kind::Refused, what).hint("`--read-only` looks without typing")
            }
            AttachError::Worker(WorkerError::Silent(_) | WorkerError::Refused(_)) => {
                Self::new(Kind::Busy, what).hint("nothing was done, repeat")
            }
            AttachError::Log(error) => error.into(),
            AttachError::Worker(_) | AttachError::Meta(_) => Self::new(Kind::Failed, what),
            AttachError::Output(_) => Self::new(Kind::Degraded, format!("failed to {what}")),
            AttachError::Terminal(_) => Self::new(Kind::Failed, format!("failed to {what}")),
        }
    }
}
