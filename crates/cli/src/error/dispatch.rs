//! What handing out a task comes to where it does not come about.

use netsky_model::dispatch::{Illegal, NoClone};
use netsky_work::dispatch;

use super::{Error, Kind};

impl From<dispatch::Error> for Error {
    fn from(error: dispatch::Error) -> Self {
        use dispatch::Error as Dispatch;
        let what = error.to_string();
        let refused = |hint: &str| Self::new(Kind::Refused, &what).hint(hint);
        match error {
            Dispatch::Disk(error) => error.into(),
            Dispatch::Bus(error) => error.into(),
            Dispatch::Record(error) => error.into(),
            Dispatch::Task(error) => error.into(),
            Dispatch::Work(error) => error.into(),
            Dispatch::Illegal(Illegal::Late { .. }) => refused("nothing was reported; who came after says what becomes of it"),
            Dispatch::Illegal(Illegal::Over(..)) => refused("that stands, nothing was reported"),
            Dispatch::Illegal(Illegal::Again(_)) => refused("see `netsky clone list`"),
            Dispatch::Illegal(Illegal::NotBriefed(_)) | Dispatch::Busy(_) | Dispatch::Gone(_) | Dispatch::Unplaced(_) => {
                Self::new(Kind::Busy, what).hint("repeat; `netsky clone list` shows how it stands")
            }
            Dispatch::NoClone(NoClone::NoSlot(_)) => Self::new(Kind::Usage, what).hint("nothing was changed"),
            Dispatch::NoClone(NoClone::OtherRuntime { ref agent, .. }) => {
                let number = agent.number().unwrap_or_default();
                refused(&format!("`netsky clone stop {number}` first, or leave --runtime out; nothing was changed"))
            }
            Dispatch::NoClone(NoClone::Full { .. }) => Self::new(Kind::Busy, what)
                .hint("wait for one with `netsky clone wait`, or have [clones] most in config.toml say more; nothing was changed"),
            Dispatch::Dispatched { .. } => {
                refused("`netsky clone wait` waits for it, `netsky clone stop` takes it back; nothing was changed")
            }
            Dispatch::NotFree { .. } => refused("see `netsky task show`; nothing was changed"),
            Dispatch::NothingInHand { .. } => Self::new(Kind::NotFound, what).hint("nothing was reported; what it has reported of is named by --task: see `netsky task list`"),
            Dispatch::NeverDispatched(_) => Self::new(Kind::NotFound, what).hint("`netsky clone brief` hands one out"),
            Dispatch::Several { .. } => Self::new(Kind::Usage, what).hint("say which with --task; nothing was reported"),
            Dispatch::BadReport(_) => Self::new(Kind::Usage, what)
                .hint("nothing was reported; what is longer goes into a file of the workspace"),
        }
    }
}
