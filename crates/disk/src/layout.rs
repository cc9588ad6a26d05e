//! Every path of a home and of a kernel root. Other code joins only what stands beside or below one of these: the `tmp/`
//! and `lock` of the folder a file is in, names that were listed, and the files of a workspace.

mod cron;
mod owner;
mod work;

use std::path::{Path, PathBuf};

use netsky_model::id::{AgentId, Generation, Nonce, RestartId};
use netsky_model::life::State;

use crate::env;

/// A constellation's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    home: PathBuf,
}

impl Layout {
    /// The home at a path; made absolute so that a later change of folder cannot move it.
    pub fn new(home: impl AsRef<Path>) -> Layout {
        Layout { home: std::path::absolute(home.as_ref()).unwrap_or_else(|_| home.as_ref().to_owned()) }
    }

    /// `$NETSKY_HOME`, else `~/.netsky`; none if neither is set. A link to a home is that home.
    pub fn from_env() -> Option<Layout> {
        let home = env::path(env::HOME).or_else(|| env::path("HOME").map(|user| user.join(".netsky")))?;
        Some(Layout::new(home.canonicalize().unwrap_or(home)))
    }

    /// The home itself.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Folders that `init` makes.
    pub fn folders(&self) -> Vec<PathBuf> {
        vec![
            self.home.clone(),
            self.state(),
            self.state().join("tmp"),
            self.desired_folder(),
            self.up_folder(),
            self.tick_folder(),
            self.drivers_folder(),
            self.answers_folder(),
            self.loops(),
            self.tokens(),
            self.usage(),
            self.restart_status_folder(),
            self.crash_handoffs(),
            self.restart_archive(),
            self.home.join("channels"),
            self.channels(),
            self.logs(),
            self.handoff_archive(),
            self.record(),
            self.workspaces(),
            self.kernel_root(),
        ]
    }

    /// `home.json`.
    pub fn home_json(&self) -> PathBuf {
        self.home.join("home.json")
    }

    /// Held while a copied home is adopted.
    pub fn adoption_lock(&self) -> PathBuf {
        self.home.join("adoption.lock")
    }

    /// The user's settings.
    pub fn config(&self) -> PathBuf {
        self.home.join("config.toml")
    }

    /// The last settings that were understood.
    pub fn good_config(&self) -> PathBuf {
        self.home.join("config.good.toml")
    }

    /// The constellation's kernel root.
    pub fn kernel_root(&self) -> PathBuf {
        self.home.join(".ostk")
    }

    /// Facts: what exists in no other file.
    pub fn record(&self) -> PathBuf {
        self.home.join("record")
    }

    /// Held by whoever appends a fact.
    pub fn record_lock(&self) -> PathBuf {
        self.record().join("lock")
    }

    /// The queryable record; derived.
    pub fn meta_db(&self) -> PathBuf {
        self.home.join("meta.db")
    }

    /// Held by the one ingester.
    pub fn ingest_lock(&self) -> PathBuf {
        self.record().join("ingest.lock")
    }

    /// Program logs, telemetry.
    pub fn logs(&self) -> PathBuf {
        self.home.join("logs")
    }

    /// Copies of delivered handoffs.
    pub fn handoff_archive(&self) -> PathBuf {
        self.logs().join("handoffs")
    }

    /// The archived handoff of one restart.
    pub fn archived_handoff(&self, id: &RestartId) -> PathBuf {
        self.handoff_archive().join(format!("{id}.json"))
    }

    /// The whole text of a handoff that is too long for an envelope.
    pub fn spilled_handoff(&self, id: &RestartId) -> PathBuf {
        self.handoff_archive().join(format!("{id}.txt"))
    }

    /// The log of one restart's children.
    pub fn restart_log(&self, id: &RestartId) -> PathBuf {
        self.restart_archive().join(format!("{id}.log"))
    }

    /// A request that was used or put aside: `what` says which.
    pub fn archived_request(&self, id: &RestartId, what: &str) -> PathBuf {
        self.restart_archive().join(format!("{id}.{what}"))
    }

    /// What triggered ticks said.
    pub fn watchdog_log(&self) -> PathBuf {
        self.logs().join("watchdog.log")
    }

    /// Scratch of durable writes into `state/` itself.
    pub fn state_tmp(&self) -> PathBuf {
        self.state().join("tmp")
    }

    /// Clones of repositories, one a task.
    pub fn workspaces(&self) -> PathBuf {
        self.home.join("workspaces")
    }

    /// All mailboxes.
    pub fn channels(&self) -> PathBuf {
        self.home.join("channels").join("agent")
    }

    /// One agent's mailbox.
    pub fn channel(&self, agent: &AgentId) -> PathBuf {
        self.channels().join(agent.as_str())
    }

    /// The folder of one state in an agent's mailbox.
    pub fn folder(&self, agent: &AgentId, state: State) -> PathBuf {
        self.channel(agent).join(state.folder())
    }

    /// Where envelopes for an agent are written before they are sent.
    pub fn channel_tmp(&self, agent: &AgentId) -> PathBuf {
        self.channel(agent).join("tmp")
    }

    /// Where an agent's program drops its replies.
    pub fn outbox(&self, agent: &AgentId) -> PathBuf {
        self.channel(agent).join("outbox")
    }

    /// Held by who carries an agent's replies.
    pub fn outbox_lock(&self, agent: &AgentId) -> PathBuf {
        self.channel(agent).join("outbox.lock")
    }

    /// Held by the agent's one running consumer.
    pub fn consumer_lock(&self, agent: &AgentId) -> PathBuf {
        self.channel(agent).join("consumer.lock")
    }

    /// Held by one of those that wait for the agent's mail and are of it.
    pub fn waiter_lock(&self, agent: &AgentId) -> PathBuf {
        self.channel(agent).join("waiter.lock")
    }

    /// Exclusive ids of an agent's envelopes.
    pub fn channel_ids(&self, agent: &AgentId) -> PathBuf {
        self.channel(agent).join("ids")
    }

    /// Everything of the protocol that is no message.
    pub fn state(&self) -> PathBuf {
        self.home.join("state")
    }

    /// Where it is written what should be running.
    pub fn desired_folder(&self) -> PathBuf {
        self.state().join("desired")
    }

    /// What should be running.
    pub fn desired(&self, agent: &AgentId) -> PathBuf {
        self.desired_folder().join(format!("{agent}.json"))
    }

    /// Every agent that has a desired state.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn desired_agents(&self) -> crate::Result<Vec<AgentId>> {
        agents_in(self.desired_folder(), ".json")
    }

    /// Every agent that has a channel, in order: a plain file among them is nobody, nor is a link.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn channel_agents(&self) -> crate::Result<Vec<AgentId>> {
        let names = match crate::fs::Dir::open(self.channels()) {
            Err(e) if e.is_not_found() => return Ok(Vec::new()),
            opened => opened?.folders()?,
        };
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Every agent in the place of whose channel something stands that is neither a folder nor a plain file: a link.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn blocked_agents(&self) -> crate::Result<Vec<AgentId>> {
        let is_plain = |channel: &Path| crate::fs::is_plain_or_free(channel).unwrap_or(false);
        let is_blocked = |channel: &Path| !crate::fs::is_real_folder(channel) && !is_plain(channel);
        let dir = match crate::fs::Dir::open(self.channels()) {
            Err(e) if e.is_not_found() => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = dir.names_but_folders()?;
        names.sort_unstable();
        let named = names.iter().filter_map(|name| name.parse().ok());
        Ok(named.filter(|agent| is_blocked(&self.channel(agent))).collect())
    }

    /// What netsky-drivers knows of the agents that it drives.
    pub fn drivers_folder(&self) -> PathBuf {
        self.state().join("drivers")
    }

    /// The same of one of them.
    pub fn driver_book(&self, agent: &AgentId) -> PathBuf {
        self.drivers_folder().join(format!("{agent}.json"))
    }

    /// What keeps it from driving one of them.
    pub fn undriven(&self, agent: &AgentId) -> PathBuf {
        self.drivers_folder().join(format!("{agent}.undriven.json"))
    }

    /// What the owner tells netsky-drivers about what an agent asks.
    pub fn answers_folder(&self) -> PathBuf {
        self.state().join("answers")
    }

    /// Loops, one file each.
    pub fn loops(&self) -> PathBuf {
        self.state().join("loops")
    }

    /// Held while loops are looked at together or changed.
    pub fn loops_lock(&self) -> PathBuf {
        self.tick_folder().join("loops.lock")
    }

    /// Where up proofs appear.
    pub fn up_folder(&self) -> PathBuf {
        self.state().join("up")
    }

    /// The up proof of one start.
    pub fn up(&self, nonce: &Nonce) -> PathBuf {
        self.up_folder().join(nonce.as_str())
    }

    /// Last runs of the ticks.
    pub fn tick_folder(&self) -> PathBuf {
        self.state().join("tick")
    }

    /// The last run of one tick.
    pub fn tick(&self, name: &str) -> PathBuf {
        self.tick_folder().join(format!("{name}.json"))
    }

    /// The lock of the one actor.
    pub fn watchdog_lock(&self) -> PathBuf {
        self.tick_folder().join("watchdog.lock")
    }

    /// Held by the one process that does the work of a keeper: the ticker, agentinfinity.
    pub fn keeper_lock(&self, keeper: &AgentId) -> PathBuf {
        self.tick_folder().join(format!("{keeper}.lock"))
    }

    /// Held by who asks for a restart of agent0, or settles for good what was asked for.
    pub fn restart_request_lock(&self) -> PathBuf {
        self.tick_folder().join("restart-request.lock")
    }

    /// Held by the one child of a restart that acts.
    pub fn restart_child_lock(&self) -> PathBuf {
        self.tick_folder().join("restart-child.lock")
    }

    /// Held while an `up` writes wishes by what lives, and while a restart starts what lives by wishes.
    pub fn wishes_lock(&self) -> PathBuf {
        self.tick_folder().join("wishes.lock")
    }

    /// What is known of how full each inbox is; advice, of one boot.
    pub fn usage(&self) -> PathBuf {
        self.state().join("usage")
    }

    /// With which the home vouches for senders.
    pub fn key(&self) -> PathBuf {
        self.state().join("key")
    }

    /// Session tokens.
    pub fn tokens(&self) -> PathBuf {
        self.state().join("tokens")
    }

    /// The token of one incarnation of an agent.
    pub fn token(&self, agent: &AgentId, generation: Generation) -> PathBuf {
        self.tokens().join(format!("{agent}.g{generation}"))
    }

    /// Queued request for a planned restart.
    pub fn restart_request(&self) -> PathBuf {
        self.state().join("restart-request")
    }

    /// The request a tick has claimed.
    pub fn restart_processing(&self) -> PathBuf {
        self.state().join("restart-request.processing")
    }

    /// The restart that is under way.
    pub fn restart_inflight(&self) -> PathBuf {
        self.state().join("restart-inflight")
    }

    /// Statuses of restarts.
    pub fn restart_status_folder(&self) -> PathBuf {
        self.state().join("restart-status")
    }

    /// How far one restart got.
    pub fn restart_status(&self, id: &RestartId) -> PathBuf {
        self.restart_status_folder().join(format!("{id}.json"))
    }

    /// Logs of restart children and used requests.
    pub fn restart_archive(&self) -> PathBuf {
        self.state().join("restart-archive")
    }

    /// Drafts of crash handoffs.
    pub fn crash_handoffs(&self) -> PathBuf {
        self.state().join("crash-handoffs")
    }

    /// The draft handoff of a crash.
    pub fn crash_handoff(&self, id: &RestartId) -> PathBuf {
        self.crash_handoffs().join(format!("{id}.txt"))
    }

    /// A marker about an agent: `agent0-restart-attempts`, `agent0-revive-failed`, …
    pub fn marker(&self, agent: &AgentId, what: &str) -> PathBuf {
        self.state().join(format!("{agent}-{what}"))
    }

    /// Room that is kept for the end of a constellation whose disk is full.
    pub fn reserve(&self) -> PathBuf {
        self.state().join("reserve")
    }

    /// Room that is kept for telling what the retention removes from a full disk.
    pub fn retention_reserve(&self) -> PathBuf {
        self.state().join("reserve-retention")
    }

    /// What the owner adds to the prompts of agents, and puts in the place of what is shipped.
    pub fn prompts(&self) -> PathBuf {
        self.home.join("prompts")
    }

    /// What agents were told at their starts.
    pub fn rendered_prompts(&self) -> PathBuf {
        self.state().join("prompts")
    }

    /// What an agent was told at its start.
    pub fn prompt(&self, agent: &AgentId) -> PathBuf {
        self.rendered_prompts().join(format!("{agent}.md"))
    }

    /// What an agent0 was doing, for the next one.
    pub fn loop_resume(&self) -> PathBuf {
        self.state().join("netsky-loop-resume.txt")
    }

    /// agentinfinity has started.
    pub fn infinity_ready(&self) -> PathBuf {
        self.state().join("agentinfinity-ready")
    }
}

/// The journal of a kernel root, as far as it is written to.
pub const JOURNAL: &str = "journal.jsonl";
/// What takes its name when it is sealed, until then.
pub const NEXT_JOURNAL: &str = "journal.next.jsonl";

/// A kernel root: the `.ostk/` folder of one anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLayout {
    root: PathBuf,
}

impl KernelLayout {
    /// The root at a path.
    pub fn new(root: impl AsRef<Path>) -> KernelLayout {
        KernelLayout { root: std::path::absolute(root.as_ref()).unwrap_or_else(|_| root.as_ref().to_owned()) }
    }

    /// The root itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The anchor's lock.
    pub fn lock(&self) -> PathBuf {
        self.root.join("anchor.lock")
    }

    /// The anchor's socket.
    pub fn sock(&self) -> PathBuf {
        self.root.join("ostk.sock")
    }

    /// The anchor's own log.
    pub fn log(&self) -> PathBuf {
        self.root.join("anchor.log")
    }

    /// What the anchor's own log said before it was cut.
    pub fn former_log(&self) -> PathBuf {
        self.root.join("anchor.log.1")
    }

    /// The journal, as far as it is written to; [`Sealed`] files go before it.
    pub fn journal(&self) -> PathBuf {
        self.root.join(JOURNAL)
    }

    /// Scratch of durable writes.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// A line for each session, for whoever looks without an anchor.
    pub fn registry(&self) -> PathBuf {
        self.root.join("agents.jsonl")
    }

    /// Heartbeat of a worker.
    pub fn heartbeat(&self, name: &AgentId) -> PathBuf {
        self.root.join(format!(".heartbeat.{name}"))
    }

    /// All sessions' files.
    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    /// Every agent that has a description, agent0 first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn described_agents(&self) -> crate::Result<Vec<AgentId>> {
        agents_in(self.agents(), ".meta")
    }

    /// What a session is.
    pub fn meta(&self, name: &AgentId) -> PathBuf {
        self.agents().join(format!("{name}.meta"))
    }

    /// A worker's socket.
    pub fn worker_sock(&self, name: &AgentId) -> PathBuf {
        self.agents().join(format!("{name}.sock"))
    }

    /// Held by the worker for its life.
    pub fn worker_lock(&self, name: &AgentId) -> PathBuf {
        self.agents().join(format!("{name}.lock"))
    }

    /// A session's output.
    pub fn out(&self, name: &AgentId) -> PathBuf {
        self.agents().join(format!("{name}.out"))
    }

    /// A session's error output, where it has one of its own.
    pub fn err(&self, name: &AgentId) -> PathBuf {
        self.agents().join(format!("{name}.err"))
    }

    /// What a worker saw.
    pub fn events(&self, name: &AgentId) -> PathBuf {
        self.agents().join(format!("{name}.events.jsonl"))
    }

    /// What lineages are brought back from.
    pub fn drain(&self) -> PathBuf {
        self.root.join("drain")
    }

    /// The rising number of a role.
    pub fn epoch(&self, role: &str) -> PathBuf {
        self.root.join("epochs").join(role)
    }
}

/// A file of a kernel's journal that nothing is added to any more, named by the numbers of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sealed {
    /// Its first row.
    pub first: u64,
    /// Its last row.
    pub last: u64,
}

impl Sealed {
    /// Its name in the root.
    pub fn name(self) -> String {
        format!("journal-{:012}-{:012}.jsonl", self.first, self.last)
    }

    /// Reads a name back; none if it is another file's.
    pub fn of(name: &str) -> Option<Sealed> {
        let (first, last) = name.strip_prefix("journal-")?.strip_suffix(".jsonl")?.split_once('-')?;
        let sealed = Sealed { first: first.parse().ok()?, last: last.parse().ok()? };
        (sealed.name() == name).then_some(sealed)
    }

    /// Those in a root, the oldest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(root: &crate::fs::Dir) -> crate::Result<Vec<Sealed>> {
        let mut sealed = Vec::new();
        root.each_name(|name| sealed.extend(name.to_str().and_then(Sealed::of)))?;
        sealed.sort_unstable();
        Ok(sealed)
    }
}

/// Whose files with this ending are in a folder, agent0 first.
fn agents_in(folder: PathBuf, ending: &str) -> crate::Result<Vec<AgentId>> {
    let dir = match crate::fs::Dir::open(folder) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut agents: Vec<AgentId> =
        dir.names()?.iter().filter_map(|name| name.strip_suffix(ending)?.parse().ok()).collect();
    agents.sort_by(|one, other| one.place().cmp(&other.place()));
    Ok(agents)
}
