//! What every verb may ask of its surroundings: the global options, the home, and who calls.

use std::cell::OnceCell;
use std::path::PathBuf;

use netsky_disk::env::{self, Caller};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_kernel::client::Client;
use netsky_kernel::rpc::whoami::Who;
use netsky_ledger::Telemetry;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::task::Actor;
use netsky_watchdog::Context as Constellation;
use netsky_work::task::Board;

use crate::error::{Error, Kind};

/// What becomes of a dead letter whose page the record would not take.
pub(crate) const PAGED_LATER: &str = "a tick pages for it";

/// The surroundings of one invocation.
pub(crate) struct Context {
    /// Print one JSON object instead of a sentence or a table.
    pub(crate) json: bool,
    /// The kernel root named with `--root` (only `ostk` has that option).
    root: Option<PathBuf>,
    home: OnceCell<Layout>,
    telemetry: OnceCell<Telemetry>,
    identity: OnceCell<Identity>,
}

/// Who this process is.
struct Identity {
    caller: Caller,
    /// The kernel sees it below its session, and it has that session's token.
    proved: bool,
}

impl Context {
    /// The surroundings of a `netsky` verb.
    pub(crate) fn netsky(json: bool) -> Self {
        Self::new(json, None)
    }

    /// The surroundings of an `ostk` verb.
    pub(crate) fn ostk(json: bool, root: Option<PathBuf>) -> Self {
        Self::new(json, root)
    }

    fn new(json: bool, root: Option<PathBuf>) -> Self {
        Self { json, root, home: OnceCell::new(), telemetry: OnceCell::new(), identity: OnceCell::new() }
    }

    /// Where the home is, whether or not there is one.
    pub(crate) fn layout() -> Result<Layout, Error> {
        Layout::from_env().ok_or_else(|| {
            Error::new(Kind::Usage, "neither $NETSKY_HOME nor $HOME is set").hint("set one of them")
        })
    }

    /// The home, checked once: it is there, ours, closed to others, and of a format this program knows.
    pub(crate) fn home(&self) -> Result<&Layout, Error> {
        if let Some(layout) = self.home.get() {
            return Ok(layout);
        }
        let layout = Self::layout()?;
        Home::open(&layout)?;
        Ok(self.home.get_or_init(|| layout))
    }

    /// The home with its bus and its record, as the verbs of a constellation use it.
    pub(crate) fn constellation(&self) -> Result<Constellation<'_>, Error> {
        Ok(Constellation::new(self.home()?, self.telemetry()?)?)
    }

    /// What tells the record of what this invocation does.
    pub(crate) fn telemetry(&self) -> Result<&Telemetry, Error> {
        Ok(self.telemetry_of(self.home()?))
    }

    /// The same of a home that no verb may use yet.
    pub(crate) fn telemetry_of(&self, layout: &Layout) -> &Telemetry {
        self.telemetry.get_or_init(|| Telemetry::new(layout))
    }

    /// How a verb ended, with the page that the record would not take: what is done but for that is degraded.
    pub(crate) fn with_unpaged(&self, ended: Result<(), Error>) -> Result<(), Error> {
        let Some(what) = self.telemetry.get().and_then(Telemetry::first_unpaged) else { return ended };
        Err(match ended {
            Ok(()) => Error::new(Kind::Degraded, what).hint(format!("it is done; {PAGED_LATER}")),
            Err(error) => error.and(&format!("{what}; {PAGED_LATER}")),
        })
    }

    /// The home, if this invocation came to use it.
    pub(crate) fn used_home(&self) -> Option<&Layout> {
        self.home.get()
    }

    /// The kernel root: `--root`, `$OSTK_ROOT`, the nearest `.ostk` upward, else `./.ostk`.
    pub(crate) fn kernel_root(&self) -> Result<PathBuf, Error> {
        if let Some(root) = self.root.clone().or_else(|| env::path("OSTK_ROOT")) {
            return std::path::absolute(&root).map_err(|e| {
                Error::new(Kind::Usage, format!("failed to use the root {}: {e}", root.display()))
            });
        }
        let here = std::env::current_dir()
            .map_err(|e| Error::new(Kind::Failed, format!("failed to find the working directory: {e}")))?;
        let near = here.ancestors().map(|folder| folder.join(".ostk")).find(|root| root.is_dir());
        Ok(near.unwrap_or_else(|| here.join(".ostk")))
    }

    /// The kernel root that holds the session this process runs in, unless another was named; else as
    /// [`Context::kernel_root`].
    pub(crate) fn session_root(&self) -> Result<PathBuf, Error> {
        match (&self.root, env::path(netsky_kernel::session::ENV_ROOT)) {
            (None, Some(root)) => Ok(root),
            _ => self.kernel_root(),
        }
    }

    /// Who this process is: what the home's kernel sees, and without one what the environment says. A program can change
    /// its environment, but not below whom it runs.
    pub(crate) fn caller(&self) -> Caller {
        self.identity().caller.clone()
    }

    /// Whether this process runs below the session that [`Context::caller`] names, and bears its token.
    pub(crate) fn is_proved(&self) -> bool {
        self.identity().proved
    }

    fn identity(&self) -> &Identity {
        self.identity.get_or_init(|| {
            let unproved = |caller| Identity { caller, proved: false };
            let Ok(layout) = Self::layout() else { return unproved(env::caller()) };
            // No anchor, or none that answers in time: a message does not wait for one.
            match Client::whoami(&layout.kernel_root()).ok().flatten() {
                Some(who) => Identity {
                    proved: bears_token(&layout, &who),
                    caller: Caller::Inside { agent: Some(who.name), generation: who.generation },
                },
                None => unproved(env::caller()),
            }
        })
    }

    /// Refuses `--json` where what a verb does has no such form.
    pub(crate) fn no_json(&self, what: &str) -> Result<(), Error> {
        if !self.json {
            return Ok(());
        }
        Err(Error::new(Kind::Usage, format!("{what}, which is no JSON object")).hint("leave --json out"))
    }

    /// Refuses what is the owner's alone to whatever runs below a session.
    pub(crate) fn owner_only(&self, what: &str) -> Result<(), Error> {
        match self.caller() {
            Caller::Outside => Ok(()),
            Caller::Inside { .. } => Err(for_the_owner(what)),
        }
    }

    /// The agent that asks; agent0 for whoever is none.
    pub(crate) fn asker(&self) -> AgentId {
        match self.caller() {
            Caller::Inside { agent: Some(me), .. } => me,
            _ => AgentId::root(),
        }
    }

    /// The agent that asks for a change of `what` is scheduled, where one does that may change its own alone (faults A16): who
    /// keeps the others may change all.
    pub(crate) fn bound(&self, what: &str) -> Result<Option<AgentId>, Error> {
        match self.caller() {
            Caller::Outside => Ok(None),
            Caller::Inside { agent: Some(me), .. } => {
                Ok(Some(me).filter(|me| ![AgentId::root(), AgentId::infinity()].contains(me)))
            }
            Caller::Inside { agent: None, .. } => Err(for_the_owner(what)),
        }
    }

    /// Who has something happen to a task: whoever keeps the others may do to all what an agent may do to its own alone.
    pub(crate) fn actor(&self) -> Result<Actor, Error> {
        let generation = match self.caller() {
            Caller::Outside => return Ok(Actor::Keeper(Sender::owner())),
            Caller::Inside { generation, .. } => generation,
        };
        Ok(match self.bound("a task")? {
            Some(me) => Actor::Agent(me, generation),
            None => Actor::Keeper(self.asker().into()),
        })
    }

    /// Every task of the home, for whoever calls.
    pub(crate) fn board(&self) -> Result<Board, Error> {
        Ok(Board::new(self.home()?, self.actor()?))
    }

    /// Refuses an agent that has no mailbox, and the owner, who hears no schedule: what is scheduled for either would fail at each of
    /// its times.
    pub(crate) fn known(&self, agent: &AgentId) -> Result<(), Error> {
        if *agent == AgentId::owner() {
            let what = "nothing is scheduled for the owner, who hears agent0 alone";
            return Err(Error::new(Kind::Refused, what).hint("schedule it for agent0, which tells him"));
        }
        match self.constellation()?.bus.knows(agent) {
            true => Ok(()),
            false => Err(netsky_bus::Error::UnknownTarget(agent.clone()).into()),
        }
    }

    /// Refuses a change of what is scheduled for an agent to another one that is bound to its own.
    pub(crate) fn may_schedule(&self, what: &str, agent: &AgentId) -> Result<(), Error> {
        match self.bound(what)? {
            Some(me) if me != *agent => {
                let what = format!("{what} for {agent} is refused: this session is {me}");
                Err(Error::new(Kind::Refused, what).hint("nothing was changed"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to take the mail of another agent: what one session takes, the other never sees.
    pub(crate) fn may_take_for(&self, agent: &AgentId) -> Result<(), Error> {
        if *agent == AgentId::owner() {
            return self.owner_only("what was written to owner");
        }
        match self.caller() {
            Caller::Inside { agent: Some(me), .. } if me != *agent => {
                let what = format!("the messages of {agent} are refused: this session is {me}");
                Err(Error::new(Kind::Refused, what).hint("look at them with `netsky channel list`"))
            }
            _ => Ok(()),
        }
    }

    /// The generation that what is done for `agent` counts for: its session's own, none for anybody else.
    pub(crate) fn generation_of(&self, agent: &AgentId) -> Generation {
        match self.caller() {
            Caller::Inside { agent: Some(me), generation } if me == *agent => generation,
            _ => Generation::NONE,
        }
    }
}

/// What whatever runs below a session is answered that asks for what is the owner's alone.
pub(crate) fn for_the_owner(what: &str) -> Error {
    let what = format!("{what} is for the owner, outside every session");
    Error::new(Kind::Refused, what).hint("nothing was changed")
}

/// Whether the token that this process was given is the one of that incarnation.
fn bears_token(layout: &Layout, who: &Who) -> bool {
    let read = |path| state::read(path).ok().flatten().filter(|token| !token.is_empty());
    let given = env::path(env::TOKEN_FILE).and_then(read);
    given.is_some() && given == read(layout.token(&who.name, who.generation))
}
