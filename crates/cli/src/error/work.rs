//! What keeps work from landing, as a verb answers it.

use netsky_runtime::ConfigError;

use super::{Error, Kind};

impl From<netsky_work::Error> for Error {
    fn from(error: netsky_work::Error) -> Self {
        use netsky_work::Error as Work;
        let what = error.to_string();
        match error {
            Work::Disk(error) => error.into(),
            Work::Bus(error) => error.into(),
            Work::Record(error) => error.into(),
            Work::Task(error) => error.into(),
            Work::Config(ConfigError::Disk(error)) => error.into(),
            Work::Config(_) => Self::new(Kind::Usage, what).hint("nothing was changed"),
            Work::Name(_) => Self::new(Kind::Usage, what).hint("nothing was changed"),
            Work::Git(_) => Self::new(Kind::Failed, what).hint("nothing was lost"),
            Work::Busy { .. } | Work::Removing { .. } => Self::new(Kind::Busy, what).hint("repeat"),
            Work::Missing { .. } => Self::new(Kind::NotFound, what).hint("nothing was changed"),
            Work::Within { .. } => Self::new(Kind::Refused, what).hint("nothing was changed"),
            Work::Unfit { .. } => Self::new(Kind::Failed, what).hint("nothing was lost"),
            Work::NoRepository(id) => {
                Self::new(Kind::Usage, what).hint(format!(
                    "`netsky task update {id} --repo PATH` names one; where nothing is to land `netsky task close {id}` ends it"
                ))
            }
            Work::NoWorkspace(id) => {
                Self::new(Kind::NotFound, what).hint(format!("`netsky workspace create {id}` makes one"))
            }
            Work::NotLanded(id, _) => Self::new(Kind::Refused, what).hint(format!(
                "what is on its branch lands by `netsky task harvest {id}` (of a closed task behind `netsky task reopen {id}`); `git fetch FOLDER SHA:refs/kept/NAME` in the owner's repository keeps a commit there (FOLDER: `netsky workspace show {id}`, or the repository that is named); `netsky workspace remove {id} --force` drops all of it"
            )),
            Work::Untold(id, _) => Self::new(Kind::Failed, what).hint(format!(
                "repeat; `netsky workspace remove {id} --force` drops it all the same"
            )),
            Work::InUse(id) => Self::new(Kind::Refused, what).hint(format!(
                "nothing was changed; `netsky workspace remove {id} --force` drops what is in it"
            )),
            Work::Closed(id) => {
                Self::new(Kind::Refused, what).hint(format!("`netsky task reopen {id}` takes it up again"))
            }
        }
    }
}
