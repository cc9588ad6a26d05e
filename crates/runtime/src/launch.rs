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
        let Launch { layout, desired, generation, nonce, programs, anew } = self;
        let conversation = if *anew { None } else { conversation(layout, desired)? };
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

/// The conversation that a start for this wish goes on with, as it stands now; none where it begins one.
///
/// # Errors
/// The system keeps a file from us.
pub fn conversation(layout: &Layout, wish: &Desired) -> netsky_disk::Result<Option<Conversation>> {
    if !driver::is_driven(&wish.runtime) {
        return Ok(None);
    }
    let known = Known::read(layout, &wish.agent)?.filter(|known| known.runtime == wish.runtime);
    // One that the wish names is for its first start; from then on what became of it is.
    let is_for_this = known.as_ref().is_some_and(|known| known.wish == Some(wish.since.to_string()));
    let named = wish.resume.clone().filter(|_| !is_for_this);
    for id in named.into_iter().chain(known.and_then(|known| known.conversation)) {
        if driver::has_conversation(wish, &id)? {
            return Ok(Some(Conversation { id, begun: true }));
        }
    }
    Ok(None)
}

/// What is known of the conversation of an agent.
struct Known {
    runtime: String,
    /// The wish that its session was started for.
    wish: Option<String>,
    conversation: Option<String>,
}

impl Known {
    /// As its driver keeps it, or as its newest session was started where its driver has not met that, or keeps nothing that
    /// reads: netsky-drivers tells of that, and no start waits for it.
    fn read(layout: &Layout, agent: &AgentId) -> netsky_disk::Result<Option<Known>> {
        let book = match Book::read(layout, agent) {
            Err(error) if error.source.raw_os_error().is_none() => None,
            read => read?,
        };
        let meta = state::read(KernelLayout::new(layout.kernel_root()).meta(agent))?;
        // A program of its own mind knows of no conversation, and ends none.
        let meta = meta.and_then(|bytes| Meta::parse(&bytes).ok());
        let meta = meta.filter(|meta| driver::is_driven(&meta.spec.runtime));
        let is_met =
            |meta: &Meta, book: &Book| meta.lineage == book.lineage && meta.generation <= book.generation;
        Ok(match (book, meta) {
            (Some(book), meta) if meta.as_ref().is_none_or(|meta| is_met(meta, &book)) => Some(Known {
                runtime: book.runtime,
                wish: book.wish,
                conversation: book.conversation.map(|known| known.id),
            }),
            (_, meta) => meta.map(|meta| Known {
                wish: meta.spec.tags.get(TAG_SINCE).cloned(),
                conversation: conversation_of(&meta.spec.tags).map(|started| started.id),
                runtime: meta.spec.runtime,
            }),
        })
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

/// The conversations that a session may write to: the one it was started for, and the one that its driver knows of it.
pub fn writes_to(layout: &Layout, session: &SessionView) -> impl Iterator<Item = String> {
    let book = Book::read(layout, &session.name).ok().flatten();
    let book = book.filter(|book| book.lineage == session.lineage && book.generation == session.generation);
    let known = book.and_then(|book| book.conversation);
    conversation_of(&session.tags).into_iter().chain(known).map(|conversation| conversation.id)
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
