//! What a verb answers when it could not do its work: a kind (the exit code), one fragment, and what to do about it.
//!
//! Errors of the crates below become this type here and nowhere else, so that the exit codes of `formats.md` are decided
//! in one file.

mod dispatch;
mod work;

use std::fmt;
use std::io::ErrorKind;

use netsky_disk::home::Refused;
use netsky_model::envelope::Invalid;
use netsky_model::life::{Illegal, State};

/// What to do about a full disk.
pub(crate) const ROOM: &str = "nothing was lost, make room and repeat";

/// What to do about too many open files.
pub(crate) const DESCRIPTORS: &str = "nothing was lost, raise `ulimit -n` or repeat";

/// What to do about a lock that another process keeps.
const KEPT: &str =
    "nothing was lost; `fuser` tells who has that file: have it go on (`kill -CONT`) or end it, and repeat";

/// What to do about a database that this user may not write.
pub(crate) const WRITABLE: &str = "meta.db and the home must be yours and writable (`chmod u+w`), or remove meta.db: \
    `netsky ledger rebuild` makes it anew";

/// What to do with a text that no envelope holds.
pub(crate) const TOO_LONG: &str = "nothing was sent, shorten it or send the path of a file that holds it";

/// How a verb ended badly; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Failed, nothing lost.
    Failed = 1,
    /// Words this program does not understand: a bad id, an oversized text.
    Usage = 2,
    /// No such envelope, session or file.
    NotFound = 3,
    /// Permission, an unknown target, a reserved sender.
    Refused = 4,
    /// Busy, full or timed out; safe to repeat.
    Busy = 5,
    /// Done, but the record of it is incomplete.
    Degraded = 6,
    /// Damaged state was found and quarantined.
    Damaged = 7,
}

/// One line for standard error and an exit code.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    what: String,
    hint: Option<String>,
}

impl Error {
    /// An error that says what failed, in a lower-case fragment that names operation, object and place.
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what is true besides, after what to do about it.
    #[must_use]
    pub(crate) fn and(self, more: &str) -> Self {
        let hint = self.hint.as_ref().map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}"));
        self.hint(hint)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl From<netsky_disk::Error> for Error {
    fn from(error: netsky_disk::Error) -> Self {
        let what = format!("failed to {error}");
        let hint = match Kind::of(&error) {
            Kind::Busy if error.is_full() => ROOM,
            Kind::Busy if error.is_kept() => KEPT,
            Kind::Busy => DESCRIPTORS,
            Kind::Refused if is_distrust(&error) => return Self::new(Kind::Refused, what),
            Kind::Refused => "the folder and its files must be yours",
            _ if error.source.kind() == ErrorKind::ReadOnlyFilesystem => "nothing was lost, make it writable",
            _ => "nothing was lost",
        };
        Self::new(Kind::of(&error), what).hint(hint)
    }
}

impl Kind {
    /// What a refusal of the file system comes to.
    pub(crate) fn of(error: &netsky_disk::Error) -> Kind {
        if is_distrust(error) || error.is_denied() {
            Kind::Refused
        } else if error.is_busy() {
            Kind::Busy
        } else {
            Kind::Failed
        }
    }
}

/// The marker of a folder that is not ours alone; everything else is told by its error number.
fn is_distrust(error: &netsky_disk::Error) -> bool {
    error.op == "trust folder"
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let what = refused.to_string();
        match refused {
            Refused::Missing(_) => Self::new(Kind::NotFound, what).hint("make one with `netsky init`"),
            Refused::Newer { .. } => {
                Self::new(Kind::Refused, what).hint("use the newer program; nothing was touched")
            }
            Refused::Copied { .. } => Self::new(Kind::Refused, what).hint(
                "two copies of one home must not both run; `netsky home adopt` makes it one of its own",
            ),
            Refused::Running { .. } => {
                Self::new(Kind::Refused, what).hint("end them first; nothing was changed")
            }
            Refused::Disk(error) if error.op == "understand" => {
                Self::new(Kind::Failed, format!("failed to {error}")).hint(
                    "move that file away and run `netsky init`, which makes a new one over what is there",
                )
            }
            Refused::Disk(error) => error.into(),
        }
    }
}

impl From<netsky_watchdog::Error> for Error {
    fn from(error: netsky_watchdog::Error) -> Self {
        use netsky_watchdog::Error as Watchdog;
        let what = error.to_string();
        match error {
            Watchdog::Disk(error) => error.into(),
            Watchdog::Bus(error) => error.into(),
            Watchdog::Loops(error) => error.into(),
            Watchdog::Record(error) => error.into(),
            Watchdog::Owner(error) => error.into(),
            Watchdog::Kernel(error) => error.into(),
            Watchdog::Config(netsky_runtime::ConfigError::Disk(error)) => error.into(),
            Watchdog::Config(_) => Self::new(Kind::Usage, what).hint("nothing was changed"),
            Watchdog::OwnerOnly { .. } | Watchdog::NoDispatcher { .. } => Self::new(Kind::Refused, what).hint("nothing was changed"),
            Watchdog::NoSession { .. } => Self::new(Kind::Refused, what),
            Watchdog::NoProgram { .. } => Self::new(Kind::Usage, what)
                .hint("give one behind --, or set argv under [defaults] in config.toml"),
            Watchdog::BadWish { ref why, .. } => Self::new(Kind::of(why), what),
            Watchdog::Unstartable { .. } => Self::new(Kind::Usage, what).hint("nothing was changed"),
            Watchdog::SecondWriter { ref other, .. } => Self::new(Kind::Refused, what).hint(format!(
                "two would write over one another: {} first, or name another with --resume; nothing was changed",
                stops(other)
            )),
            Watchdog::NoRuntime(_) | Watchdog::NoSlot(_) | Watchdog::RootStays | Watchdog::LongGrace(_) => {
                Self::new(Kind::Usage, what).hint("nothing was changed")
            }
            Watchdog::NeverWanted(_) => Self::new(Kind::NotFound, what).hint("`netsky status` has who is there"),
            Watchdog::NotUp => Self::new(Kind::NotFound, what).hint("start with `netsky up`"),
            Watchdog::RestartPending(_) => Self::new(Kind::Busy, what).hint("see `netsky status`"),
            Watchdog::BadHandoff(_) => Self::new(Kind::Usage, what).hint("nothing was queued"),
            Watchdog::Wishing(_) => Self::new(Kind::Busy, what).hint("a restart is starting agents; repeat"),
            Watchdog::Locked { .. } => Self::new(Kind::Busy, what).hint("another tick is at work; repeat"),
            Watchdog::NotProved(ref agent, _) => Self::new(Kind::Busy, what).hint(format!(
                "the constellation stays up and goes on with it; look with `netsky status` and `netsky logs {agent}`: a program of the kind `command` must run `netsky session up`, one that is driven must answer"
            )),
            Watchdog::Refuses(ref agent, _) => {
                let number = agent.number().unwrap_or_default();
                let anew = match number {
                    0 => "`netsky restart`".to_owned(),
                    n => format!("`netsky agent stop {n}` and `netsky agent {n}`"),
                };
                Self::new(Kind::Busy, what).hint(format!("it goes on so: put that right, then {anew}"))
            }
            Watchdog::NotStarted(..) => Self::new(Kind::Busy, what)
                .hint("it is tried again, later and later; put it right, or stop with `netsky down`"),
            Watchdog::NoReserve => Self::new(Kind::Busy, what).hint("nothing was changed, make room and repeat"),
            Watchdog::PartlyWanted { .. } => Self::new(Kind::Busy, what)
                .hint("whoever is not ends with the next tick; make room and repeat `netsky down`"),
            Watchdog::StillWanted { .. } => Self::new(Kind::Busy, what)
                .hint("they start again when there is room; make room and repeat `netsky down`"),
            Watchdog::Overtaken(_) => Self::new(Kind::Busy, what).hint("see `netsky status`"),
            Watchdog::EndedBeforeUp(ref agent, _) | Watchdog::EndedAfterUp(ref agent, _) => {
                Self::new(Kind::Busy, what).hint(format!(
                    "it is tried again, later and later; look with `netsky logs {agent}`, stop with `netsky down`"
                ))
            }
            Watchdog::Superseded => Self::new(Kind::Busy, what),
            Watchdog::OtherProgram(ref others) => {
                let way = match others.as_slice() {
                    [one] => stops(one),
                    _ => "`netsky down`".to_owned(),
                };
                Self::new(Kind::Refused, what)
                    .hint(format!("{way} first to change it; nothing was changed"))
            }
            Watchdog::KeeperRuns { .. } => Self::new(Kind::Busy, what).hint("nothing was started"),
            Watchdog::Restart(_) => Self::new(Kind::Failed, what),
        }
    }
}

/// The command that stops an agent for good.
fn stops(agent: &netsky_model::id::AgentId) -> String {
    match agent.number() {
        Some(number) if number > 0 => format!("`netsky agent stop {number}`"),
        _ => "`netsky down`".to_owned(),
    }
}

impl From<netsky_watchdog::service::Error> for Error {
    fn from(error: netsky_watchdog::service::Error) -> Self {
        use netsky_watchdog::service::Error as Service;
        let what = error.to_string();
        match error {
            Service::Disk(error) => error.into(),
            Service::Path { .. } => Self::new(Kind::Usage, what).hint("nothing was changed"),
            Service::NoFolder => Self::new(Kind::Usage, what).hint("set one of them; nothing was changed"),
            Service::NotOurs { forced, .. } => Self::new(Kind::Refused, what).hint(format!(
                "move it away, or repeat with --force, which {forced} it; nothing was changed"
            )),
            Service::Busy(_) => {
                Self::new(Kind::Busy, what).hint("nothing was changed; repeat when it is done")
            }
            Service::NoManager { later, .. } => {
                Self::new(Kind::Busy, what).hint(format!("repeat once it answers, or run: {later}"))
            }
        }
    }
}

impl From<netsky_schedule::loops::Error> for Error {
    fn from(error: netsky_schedule::loops::Error) -> Self {
        use netsky_schedule::loops::Error as Loops;
        let what = error.to_string();
        match error {
            Loops::Disk(error) => error.into(),
            Loops::Busy => Self::new(Kind::Busy, what).hint("repeat"),
            Loops::Unknown(_) => {
                Self::new(Kind::NotFound, what).hint("`netsky loop list` has those that are there")
            }
            Loops::Broken(_) => Self::new(Kind::Damaged, what).hint("mend its file in state/loops"),
        }
    }
}

impl From<netsky_owner::Error> for Error {
    fn from(error: netsky_owner::Error) -> Self {
        match error {
            netsky_owner::Error::Disk(error) => error.into(),
            netsky_owner::Error::Record(error) => error.into(),
        }
    }
}

impl From<netsky_bus::Error> for Error {
    fn from(error: netsky_bus::Error) -> Self {
        use netsky_bus::Error as Bus;
        let what = error.to_string();
        match error {
            Bus::Disk(error) => error.into(),
            Bus::UnknownTarget(_) => {
                Self::new(Kind::Refused, what).hint("`netsky channel send --create` makes its channel")
            }
            Bus::NoChannel(_) => Self::new(Kind::Refused, what).hint("a first send with --create makes one"),
            Bus::Full { for_good: true, .. } => Self::new(Kind::Refused, what).hint(
                "nothing was sent, for [bus] in config.toml has no room for it in an empty inbox either",
            ),
            Bus::Full { .. } => {
                Self::new(Kind::Busy, what).hint("nothing was sent, repeat when it has drained")
            }
            Bus::TooFast { .. } => Self::new(Kind::Busy, what).hint("nothing was sent, repeat later"),
            Bus::Sender { .. } => Self::new(Kind::Refused, what),
            Bus::Envelope(Invalid::TooLarge { .. }) => Self::new(Kind::Usage, what).hint(TOO_LONG),
            Bus::Envelope(_) => Self::new(Kind::Usage, what).hint("nothing was sent"),
            Bus::NoEnvelope { .. } => Self::new(Kind::NotFound, what).hint("see `netsky channel list`"),
            Bus::Ambiguous { .. } => Self::new(Kind::Usage, what).hint("give more of it"),
            Bus::Held { may_end: true, .. } => Self::new(Kind::Busy, what)
                .hint("repeat when that process is done, or use `channel release --kill`"),
            Bus::Held { .. } => {
                Self::new(Kind::Busy, what).hint("repeat when that process is done, or end it where it runs")
            }
            Bus::Unowned { .. } => {
                Self::new(Kind::Refused, what).hint("`netsky channel release` has it wait again")
            }
            Bus::Busy { .. } => Self::new(Kind::Busy, what).hint("it is where it was, repeat"),
            Bus::Consumed { elsewhere: true, .. } => Self::new(Kind::Busy, what).hint("end it where it runs"),
            Bus::Consumed { asked: true, .. } => {
                Self::new(Kind::Busy, what).hint("another took the place meanwhile; repeat")
            }
            Bus::Consumed { .. } => Self::new(Kind::Busy, what).hint("take its place with --replace"),
            Bus::Unseated(_) => {
                Self::new(Kind::Failed, what).hint("it took nothing more; start it again where none runs")
            }
            Bus::NoHome(_) => {
                Self::new(Kind::NotFound, what).hint("it was removed or moved away while this ran")
            }
            Bus::Sending(_) => Self::new(Kind::Busy, what).hint("repeat: the same id is sent once"),
            Bus::Fenced(_) => Self::new(Kind::Failed, what).hint("nothing of it was surfaced here"),
            Bus::ClaimLost(_) => {
                Self::new(Kind::Failed, what).hint("it will be surfaced again, flagged as a repeat")
            }
            Bus::Surface { .. } | Bus::Unread { .. } => Self::new(Kind::Failed, what),
            Bus::Damaged { state: State::Delivered, .. } | Bus::Alien { state: State::Delivered, .. } => {
                Self::new(Kind::Refused, what).hint("it stays there; `netsky channel ack` finishes it")
            }
            Bus::Damaged { .. } | Bus::Alien { .. } => {
                Self::new(Kind::Refused, what).hint("it stays there as evidence")
            }
            Bus::Newer { .. } => {
                Self::new(Kind::Refused, what).hint("use the newer program; nothing was touched")
            }
            Bus::Quarantined { agent, .. } => {
                Self::new(Kind::Damaged, what).hint(format!("see `netsky channel poison list {agent}`"))
            }
            Bus::TooFar(_) => Self::new(Kind::Refused, what).hint("it stays where it is"),
            Bus::Illegal(Illegal { state: State::Poisoned, .. }) => Self::new(Kind::Refused, what)
                .hint("it stays where it is; `netsky channel poison retry` has it wait again"),
            Bus::Illegal(_) => Self::new(Kind::Refused, what).hint("it stays where it is"),
        }
    }
}

impl From<netsky_ledger::Error> for Error {
    fn from(error: netsky_ledger::Error) -> Self {
        use netsky_ledger::Error as Ledger;
        let what = error.to_string();
        match error {
            Ledger::Disk(error) => error.into(),
            Ledger::Busy(_) => Self::new(Kind::Busy, what).hint("nothing was recorded, repeat"),
            Ledger::PutOff => Self::new(Kind::Busy, what).hint("the next ingest goes on"),
            Ledger::Broken { .. } => {
                let way = format!("nothing was recorded; {}", netsky_ledger::WAY_OUT);
                Self::new(Kind::Damaged, what).hint(way)
            }
            Ledger::Inside(_) => Self::new(Kind::Usage, what).hint("name a folder outside the home"),
            Ledger::Occupied(_) => Self::new(Kind::Usage, what).hint("name one that is not there yet"),
            Ledger::Newer { .. } | Ledger::Unsuited(_) => {
                Self::new(Kind::Refused, what).hint("use the newer program; nothing was touched")
            }
            Ledger::TooLong { .. } | Ledger::Invalid(_) => {
                Self::new(Kind::Usage, what).hint("nothing was recorded")
            }
            Ledger::Denied(_) => Self::new(Kind::Refused, what).hint("nothing was changed"),
            Ledger::TooSlow(_) => Self::new(Kind::Busy, what).hint("narrow it, or raise --timeout"),
            ref refused if refused.is_busy() => Self::new(Kind::Busy, format!("failed to {what}"))
                .hint("another program holds it; repeat later"),
            ref full if full.is_full() => Self::new(Kind::Busy, format!("failed to {what}")).hint(ROOM),
            ref denied if denied.is_denied() => {
                Self::new(Kind::Refused, format!("failed to {what}")).hint(WRITABLE)
            }
            ref damaged if damaged.is_damage() => Self::new(Kind::Damaged, format!("failed to {what}"))
                .hint("`netsky ledger rebuild` makes it anew"),
            Ledger::Sql { .. } => Self::new(Kind::Failed, format!("failed to {what}"))
                .hint("nothing was lost; `netsky ledger rebuild` makes it anew"),
        }
    }
}

impl From<netsky_work::task::Error> for Error {
    fn from(error: netsky_work::task::Error) -> Self {
        use netsky_model::task::Illegal as Task;
        use netsky_work::task::Error as Board;
        const SAME: &str = "nothing was changed";
        let what = error.to_string();
        match error {
            Board::Disk(error) => error.into(),
            Board::Record(error) => error.into(),
            Board::Kernel(error) => error.into(),
            Board::Config(_) => Self::new(Kind::Usage, what).hint(SAME),
            Board::Illegal(Task::Held { .. }) => Self::new(Kind::Busy, what).hint(
                "nothing was changed; `netsky task release` frees it, and so does the end of that generation",
            ),
            Board::HandedOut { .. } => Self::new(Kind::Busy, what)
                .hint("nothing was changed; `netsky clone list` shows how it stands"),
            Board::Waits { .. } => {
                Self::new(Kind::Busy, what).hint("nothing was changed, repeat when they are closed")
            }
            Board::Illegal(_) | Board::Denied(_) | Board::Exists(_) | Board::NotNamed(_) => {
                Self::new(Kind::Refused, what).hint(SAME)
            }
            Board::Unknown(_) => {
                Self::new(Kind::NotFound, what).hint("`netsky task list` has those that are there")
            }
            Board::Unfit(_) | Board::Name(_) | Board::Cycle(_) => Self::new(Kind::Usage, what).hint(SAME),
            Board::Line { .. } => Self::new(Kind::Usage, what).hint("no task was imported"),
            Board::Unread { .. } => Self::new(Kind::Damaged, what).hint("it was left as it is"),
            Board::Brief { .. } => Self::new(Kind::Damaged, what)
                .hint("`netsky task update --brief` gives it another; nothing else is lost"),
        }
    }
}

impl From<netsky_kernel::client::ClientError> for Error {
    fn from(error: netsky_kernel::client::ClientError) -> Self {
        use netsky_kernel::client::ClientError as Client;
        let what = error.to_string();
        match error {
            Client::Disk(error) => error.into(),
            Client::NotServing { .. } => Self::new(Kind::NotFound, what).hint("start one with `ostk serve`"),
            Client::Silent { holder: Some(holder), .. } => {
                let pid = holder.pid;
                let way = if holder.stopped {
                    format!("`kill -CONT {pid}` has it go on")
                } else {
                    "repeat".to_owned()
                };
                Self::new(Kind::Busy, what).hint(format!(
                    "{way}; else `kill -9 {pid}` ends it alone: the sessions live on, and the next verb starts another"
                ))
            }
            Client::Silent { .. } => {
                Self::new(Kind::Busy, what).hint("repeat; anchor.log in the root says why it is slow")
            }
            Client::Ends { .. } => Self::new(Kind::Busy, what).hint("more stands in anchor.log in the root"),
            Client::Lost { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                Self::new(Kind::Refused, what).hint("the root must be yours")
            }
            Client::Lost { .. } => {
                Self::new(Kind::Busy, what).hint("look with `ostk kernel ps`, then repeat")
            }
            Client::Gibberish { .. } => {
                Self::new(Kind::Failed, what).hint("compare `ostk --version` with the anchor's")
            }
            Client::Full { .. } => Self::new(Kind::Busy, what).hint(
                "nothing was done; repeat, or end some of its clients: `ss -xp` lists who is connected to its ostk.sock",
            ),
            Client::Refused(refusal) => refused_by_anchor(&refusal),
        }
    }
}

fn refused_by_anchor(refusal: &netsky_kernel::rpc::Refusal) -> Error {
    use netsky_kernel::rpc::RefusalKind as Refusal;
    let what = refusal.message.clone();
    match refusal.kind() {
        Refusal::NotFound => Error::new(Kind::NotFound, what).hint("see `ostk kernel ps`"),
        Refusal::Busy => Error::new(Kind::Busy, what).hint("nothing was done, repeat later"),
        Refusal::BadParams | Refusal::TooLarge => Error::new(Kind::Usage, what).hint("nothing was done"),
        Refusal::Refused => Error::new(Kind::Refused, what),
        Refusal::StaleGeneration => Error::new(Kind::Failed, what).hint("nothing was done, look again"),
        Refusal::Damaged => Error::new(Kind::Damaged, what).hint("it was left as it is"),
        Refusal::FailedToStart => Error::new(Kind::Failed, what).hint("nothing of it is left running"),
        Refusal::Malformed
        | Refusal::InvalidRequest
        | Refusal::UnknownMethod
        | Refusal::Internal
        | Refusal::Unknown => Error::new(Kind::Failed, what).hint("anchor.log in the root may say more"),
    }
}

impl From<netsky_kernel::drain::DrainError> for Error {
    fn from(error: netsky_kernel::drain::DrainError) -> Self {
        use netsky_kernel::drain::DrainError as Drain;
        let what = error.to_string();
        match error {
            Drain::Disk(error) => error.into(),
            Drain::Misfit(_) | Drain::Full { .. } => Self::new(Kind::Failed, what),
            Drain::Damaged { .. } => Self::new(Kind::Damaged, what).hint("it was left as it is"),
        }
    }
}

impl From<netsky_kernel::anchor::AnchorError> for Error {
    fn from(error: netsky_kernel::anchor::AnchorError) -> Self {
        use netsky_kernel::anchor::AnchorError as Anchor;
        let what = error.to_string();
        match error {
            Anchor::Disk(error) => error.into(),
            Anchor::Taken { .. } => Self::new(Kind::Busy, what).hint("nothing was touched, use that one"),
            Anchor::Journal(_) => Self::new(Kind::Failed, what).hint("nothing was touched"),
            Anchor::Io { .. } => {
                Self::new(Kind::Failed, format!("failed to {what}")).hint("nothing was lost")
            }
        }
    }
}

impl From<netsky_kernel::output_log::LogError> for Error {
    fn from(error: netsky_kernel::output_log::LogError) -> Self {
        use netsky_kernel::output_log::LogError as Log;
        let what = error.to_string();
        match error {
            Log::Disk(error) => error.into(),
            Log::Damaged { .. } => Self::new(Kind::Damaged, what).hint("it was left as it is"),
            Log::Gone { .. } => Self::new(Kind::Damaged, what),
            Log::Read(_) | Log::Newer { .. } => Self::new(Kind::Failed, what),
        }
    }
}
