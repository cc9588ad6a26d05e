//! The runtime `command`: any program is an agent. It gets its name, the home, a token file, a PATH
//! that starts with our own programs, and does the rest with the bus verbs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netsky_disk::layout::Layout;
use netsky_disk::{env, random, state};
use netsky_kernel::session::{Io, Keeper, Spec};
use netsky_model::desired::Desired;
use netsky_model::id::{AgentId, Generation, Nonce};

/// Tag of a session: the `since` of the desired state it was started for.
pub const TAG_SINCE: &str = "desired_since";
/// Tag of a session: the nonce that its up proof must bear.
pub const TAG_NONCE: &str = "nonce";

/// Terminal size of a session that nobody looks at yet: wide enough that programs do not wrap.
const TERMINAL: Io = Io::Pty { rows: 40, cols: 120 };

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
}

impl Launch<'_> {
    /// The session to start; its token is on disk before this returns.
    ///
    /// # Errors
    /// The token cannot be written.
    pub fn spec(&self) -> netsky_disk::Result<Spec> {
        let Launch { layout, desired, generation, nonce, programs } = self;
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
        environment.extend(ours.map(|(key, value)| (key.to_owned(), value)));
        let since = (TAG_SINCE.to_owned(), desired.since.to_string());
        Ok(Spec {
            name: desired.agent.clone(),
            argv: desired.argv.clone(),
            cwd: desired.cwd.clone(),
            env: environment,
            umask: desired.umask,
            io: TERMINAL,
            runtime: desired.runtime.clone(),
            model: None,
            keeper: keeper(&desired.agent),
            tags: [since, (TAG_NONCE.to_owned(), nonce.to_string())].into(),
        })
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

/// The anchor itself keeps the two that keep everybody else: when both die at once, somebody is left.
fn keeper(agent: &AgentId) -> Keeper {
    let ours = *agent == AgentId::infinity() || *agent == AgentId::ticker();
    if ours { Keeper::Anchor } else { Keeper::Watchdog }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
