//! One start of an agent: the wish, what its driver adds to it, and what every program of a constellation gets: its name,
//! the home, a token file, and a PATH that starts with our own programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::{env, random, state};
use netsky_kernel::rpc::SessionView;
use netsky_kernel::session::{Keeper, Meta, Spec};
use netsky_model::desired::Desired;
use netsky_model::id::{AgentId, Generation, Nonce};

use crate::config::Config;
use crate::driver::{self, Conversation, Start, StartFrom};
use crate::drivers::Book;
use crate::prompts;

/// Tag of a session: the `since` of the desired state it was started for.
pub const TAG_SINCE: &str = "desired_since";
/// Tag of a session: the nonce that its up proof must bear.
pub const TAG_NONCE: &str = "nonce";

/// Tag of a session that is driven: the conversation that it was started for, as JSON.
const TAG_CONVERSATION: &str = "conversation";
/// Tag of a session that is driven: the words of its wish, as JSON; its driver adds to them.
const TAG_ARGV: &str = "desired_argv";

/// Variables that an agent inherits from the shell of `up`: who, where, in which language. Nothing that
/// could be a secret; those are named in the configuration.
const INHERITED: [&str; 12] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
];

/// What an agent inherits from this process's environment.
pub fn inherited() -> BTreeMap<String, String> {
    INHERITED.iter().filter_map(|key| Some(((*key).to_owned(), env::text(key)?))).collect()
}

/// One start of an agent.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The home it belongs to.
    pub layout: &'a Layout,
    /// What should run.
    pub desired: &'a Desired,
    /// The incarnation that this start will be.
    pub generation: Generation,
    /// What it must hand back to prove that it is up.
    pub nonce: Nonce,
    /// Folder of our own programs.
    pub programs: &'a Path,
    /// Whether it begins a conversation of its own, whatever the generation before was told.
    pub anew: bool,
}

impl Launch<'_> {
    /// The session to start; its token is on disk before this returns.
    ///
    /// # Errors
    /// The token cannot be written.
    pub fn spec(&self) -> netsky_disk::Result<Spec> {
        let Launch { layout, desired, generation, nonce, programs, anew: _ } = self;
        let conversation = self.conversation()?;
        let fresh = driver::MessageKey::derived(&["conversation", nonce.as_str()]);
        let prompt = self.prompt();
        let (conversing, fresh_id) = (conversation.as_ref(), fresh.as_str());
        let from = StartFrom { desired, conversation: conversing, fresh: fresh_id, prompt: &prompt };
        let Start { argv, env: ours_too, io } = driver::start(&from);
        // A file of its own for each start: one that is refused must not replace the secret of who lives.
        let token = layout.token(&desired.agent, *generation);
        state::write(&token, random::token().as_bytes())?;
        let mut environment = desired.env.clone();
        let ours = [
            ("PATH", path_of(desired, programs)),
            (env::AGENT, desired.agent.to_string()),
            (env::GENERATION, generation.to_string()),
            (env::HOME, layout.home().display().to_string()),
            (env::TOKEN_FILE, token.display().to_string()),
            (env::UP_NONCE, nonce.to_string()),
        ];
        if !prompt.is_empty() {
            environment.insert(env::PROMPT.to_owned(), layout.prompt(&desired.agent).display().to_string());
        }
        environment.extend(ours_too);
        environment.extend(ours.map(|(key, value)| (key.to_owned(), value)));
        let mut tags = BTreeMap::from([
            (TAG_SINCE.to_owned(), desired.since.to_string()),
            (TAG_NONCE.to_owned(), nonce.to_string()),
        ]);
        if driver::is_driven(&desired.runtime) {
            let conversation = conversation.unwrap_or(Conversation { id: fresh.to_string(), begun: false });
            let json = |value: serde_json::Result<String>| value.expect("plain data becomes JSON");
            tags.insert(TAG_CONVERSATION.to_owned(), json(serde_json::to_string(&conversation)));
            tags.insert(TAG_ARGV.to_owned(), json(serde_json::to_string(&desired.argv)));
        }
        Ok(Spec {
            name: desired.agent.clone(),
            argv,
            cwd: desired.cwd.clone(),
            env: environment,
            umask: desired.umask,
            io,
            runtime: desired.runtime.clone(),
            model: desired.model.clone(),
            keeper: keeper(&desired.agent),
            tags,
        })
    }

    /// What the agent of a slot is told of itself; those that keep the rest are told nothing.
    fn prompt(&self) -> String {
        let Launch { layout, desired, .. } = self;
        if desired.agent.number().is_none() {
            return String::new();
        }
        let trusted = Config::last_good(layout).prompts.trust;
        // What is wrong with it stands in `status`.
        let (prompt, _) = prompts::prompt_of(layout, &desired.agent, &desired.cwd, &trusted);
        // For people, and for the day on which a layer is broken: nobody is kept from work by a full disk.
        let _ = prompts::remember(layout, &desired.agent, &prompt);
        prompt
    }

    /// The conversation that this start goes on with; none where it begins one.
    fn conversation(&self) -> netsky_disk::Result<Option<Conversation>> {
        if self.anew || !driver::is_driven(&self.desired.runtime) {
            return Ok(None);
        }
        let book = match Book::read(self.layout, &self.desired.agent) {
            // netsky-drivers puts it aside; a start does not wait for that.
            Err(error) if error.is_damage() => return self.conversation_of_before(),
            read => read?,
        };
        self.first_that_is_there(Book::conversations(book, self.desired))
    }

    /// The conversation that the last session was started for: what is known of it where the book is lost.
    fn conversation_of_before(&self) -> netsky_disk::Result<Option<Conversation>> {
        let meta = state::read(KernelLayout::new(self.layout.kernel_root()).meta(&self.desired.agent))?;
        let meta = meta.and_then(|bytes| Meta::parse(&bytes).ok());
        let meta = meta.filter(|meta| meta.spec.runtime == self.desired.runtime);
        let before = meta.and_then(|meta| conversation_of(&meta.spec.tags)).map(|before| before.id);
        self.first_that_is_there(before)
    }

    fn first_that_is_there(
        &self,
        ids: impl IntoIterator<Item = String>,
    ) -> netsky_disk::Result<Option<Conversation>> {
        for id in ids {
            if driver::has_conversation(self.desired, &id)? {
                return Ok(Some(Conversation { id, begun: true }));
            }
        }
        Ok(None)
    }

    /// Where the program of the slot is; none if a start would not find it.
    pub fn program(desired: &Desired, programs: &Path) -> Option<PathBuf> {
        let name = desired.argv.first()?;
        if name.contains('/') {
            let path = desired.cwd.join(name);
            return is_program(&path).then_some(path);
        }
        let path = path_of(desired, programs);
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|path| is_program(path))
    }
}

/// Where a slot's programs are looked up: ours first.
fn path_of(desired: &Desired, programs: &Path) -> String {
    let rest = desired.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    format!("{}:{rest}", programs.display())
}

/// The words that were wanted of a session; what a driver added to them is left out.
pub fn wished_argv(session: &SessionView) -> Vec<String> {
    let wished = session.tags.get(TAG_ARGV).and_then(|json| serde_json::from_str(json).ok());
    wished.unwrap_or_else(|| session.argv.clone())
}

/// Whether a session was started for this conversation.
pub fn converses(session: &SessionView, id: &str) -> bool {
    conversation_of(&session.tags).is_some_and(|conversation| conversation.id == id)
}

/// The conversation that a session was started for.
pub(crate) fn conversation_of(tags: &BTreeMap<String, String>) -> Option<Conversation> {
    serde_json::from_str(tags.get(TAG_CONVERSATION)?).ok()
}

/// The anchor itself keeps those that keep or carry everybody else: when all die at once, somebody is left.
fn keeper(agent: &AgentId) -> Keeper {
    let ours = [AgentId::infinity(), AgentId::ticker(), AgentId::drivers()].contains(agent);
    if ours { Keeper::Anchor } else { Keeper::Watchdog }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
