//! What can keep a constellation's verb from its work.

use std::time::Duration;

use netsky_kernel::client::ClientError;
use netsky_model::id::AgentId;
use netsky_runtime::driver::RUNTIMES;

use crate::observe::up_again;

/// Why a verb of the constellation did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, a lock or a process.
    #[error(transparent)]
    Disk(#[from] netsky_disk::Error),
    /// A message.
    #[error(transparent)]
    Bus(#[from] netsky_bus::Error),
    /// The record.
    #[error(transparent)]
    Record(#[from] netsky_ledger::Error),
    /// Pages.
    #[error(transparent)]
    Owner(#[from] netsky_owner::Error),
    /// A session.
    #[error(transparent)]
    Kernel(#[from] ClientError),
    /// The settings.
    #[error(transparent)]
    Config(#[from] netsky_runtime::ConfigError),
    /// Only the owner may do this, from outside every session.
    #[error("{verb} is for the owner, outside every session")]
    OwnerOnly {
        /// What was asked.
        verb: &'static str,
    },
    /// Only who hands out work may do this.
    #[error("{verb} is for agent0, or for the owner outside every session")]
    NoDispatcher {
        /// What was asked.
        verb: &'static str,
    },
    /// Only a session may do this.
    #[error("session up must run inside a session that netsky started: {missing} is not set")]
    NoSession {
        /// What is missing.
        missing: &'static str,
    },
    /// Nothing says what to run.
    #[error("{agent} has no program to run")]
    NoProgram {
        /// In which slot.
        agent: AgentId,
    },
    /// What should run by the last `up` does not read.
    #[error("failed to {why}; the wish for {agent} is left as it is{}", way_out(.agent, .why))]
    BadWish {
        /// In which slot.
        agent: AgentId,
        /// What is wrong with its file.
        why: netsky_disk::Error,
    },
    /// What should run cannot be started.
    #[error("{agent} cannot be started: {why}")]
    Unstartable {
        /// In which slot.
        agent: AgentId,
        /// What is wrong with it.
        why: String,
    },
    /// Of two that go on with one conversation each would write over the other.
    #[error("{agent} cannot be started: {other} goes on with its conversation {id}")]
    SecondWriter {
        /// In which slot.
        agent: AgentId,
        /// Whose it is.
        other: AgentId,
        /// The conversation.
        id: String,
    },
    /// The runtime is not one of this program.
    #[error("runtime {0:?} is not known; this version has: {list}", list = RUNTIMES.join(", "))]
    NoRuntime(String),
    /// No slot has that name.
    #[error("{0} is no slot: slots are agent0, agent1 and so on, up to agent{max}", max = crate::up::MAX_CLONES)]
    NoSlot(AgentId),
    /// Its clones would have nobody to report to.
    #[error("agent0 is no clone: `netsky down` stops it, and all of them")]
    RootStays,
    /// So long a grace would hold up all others.
    #[error("a grace of a slot is at most {} s: nobody else is seen to until it is over", .0.as_secs())]
    LongGrace(Duration),
    /// Loops cannot be looked at or changed.
    #[error(transparent)]
    Loops(#[from] netsky_schedule::loops::Error),
    /// Nothing was ever wanted in that slot.
    #[error("{0} was never started here")]
    NeverWanted(AgentId),
    /// A constellation that is not up.
    #[error("agent0 is not meant to be up")]
    NotUp,
    /// A restart is queued or under way already.
    #[error("a restart is {0} already")]
    RestartPending(&'static str),
    /// The handoff is not one.
    #[error("the handoff cannot be used: {0}")]
    BadHandoff(String),
    /// Another actor holds the lock.
    #[error("the watchdog's lock was held for {} s{}", .waited.as_secs(), last(.failed.as_deref()))]
    Locked {
        /// How long it was waited for.
        waited: Duration,
        /// Why the last tick failed, if it did: most likely what this one meets too.
        failed: Option<String>,
    },
    /// The child of a restart starts agents; or an `up` says what they are, and that child waits for it.
    #[error("agents were being started, or their programs said, for {} s", .0.as_secs())]
    Wishing(Duration),
    /// A new agent did not prove itself in time.
    #[error("{0} did not prove that it is up within {s} s", s = .1.as_secs())]
    NotProved(AgentId, Duration),
    /// It runs, and its program will not take part.
    #[error("{0} runs and takes no messages: {1}")]
    Refuses(AgentId, String),
    /// It is down, and its program or folder is gone.
    #[error("{0} cannot be started: {1}")]
    NotStarted(AgentId, String),
    /// The disk is too full for what `down` would have to note.
    #[error("the disk has no room to set aside for `netsky down`")]
    NoReserve,
    /// The disk is full, and nothing was set aside to note who is not wanted any more; nobody was ended.
    #[error("failed to {why}; still wanted: {}", names(.wanted))]
    PartlyWanted {
        /// What could not be written.
        why: netsky_disk::Error,
        /// Whose wish it would have ended.
        wanted: Vec<AgentId>,
    },
    /// The disk is full again after everything had been done for room, and after all were ended.
    #[error("the agents were ended; failed to {why}; still wanted: {}", names(.wanted))]
    StillWanted {
        /// What could not be written.
        why: netsky_disk::Error,
        /// Whose wish it would have ended.
        wanted: Vec<AgentId>,
    },
    /// What this `up` began to wait for is wanted no more.
    #[error("what was asked for is not waited for any more: {0} meanwhile")]
    Overtaken(&'static str),
    /// Its program does not stay.
    #[error("{0} ended before it proved that it is up: {1}")]
    EndedBeforeUp(AgentId, String),
    /// It said that it is up, and is gone; nobody brings it back right now.
    #[error("{0} ended after it had proved that it is up: {1}")]
    EndedAfterUp(AgentId, String),
    /// Another child has the restart, or it is over: nothing was touched since that was seen.
    #[error("another child has the restart")]
    Superseded,
    /// Agents that live with another program or in another folder than was asked for.
    #[error("{} with another program or folder", live(.0))]
    OtherProgram(Vec<AgentId>),
    /// A keeper that runs already.
    #[error("{keeper} runs already{}", .pid.map_or_else(String::new, |pid| format!(" as pid {pid}")))]
    KeeperRuns {
        /// Which.
        keeper: AgentId,
        /// Where, if it said so.
        pid: Option<u32>,
    },
    /// A step of the restart protocol.
    #[error("{0}")]
    Restart(String),
}

impl Error {
    /// Whether there was no room on the disk.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Error::Disk(error)
            | Error::Bus(netsky_bus::Error::Disk(error))
            | Error::Kernel(ClientError::Disk(error)) => error.is_full(),
            Error::Record(error) => error.is_full(),
            _ => false,
        }
    }
}

/// What every call of this crate returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;

fn names(agents: &[AgentId]) -> String {
    agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ")
}

fn live(agents: &[AgentId]) -> String {
    match agents {
        [] => "nobody lives".to_owned(),
        [one] => format!("{one} lives"),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AgentId::as_str).collect();
            format!("{} and {last} live", first.join(", "))
        }
    }
}

/// What is no damage says itself what to do.
fn way_out(agent: &AgentId, why: &netsky_disk::Error) -> String {
    match why.is_damage() {
        true => format!(", `{}` writes it anew", up_again(agent)),
        false => String::new(),
    }
}

fn last(failed: Option<&str>) -> String {
    failed.map_or_else(String::new, |why| format!("; the last tick failed: {why}"))
}
