//! `ostk kernel spawn`: start a program as a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netsky_disk::env;
use netsky_disk::process::users_umask;
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{Guard, RefusalKind, SessionState};
use netsky_kernel::session::{Io, Keeper, Spec};
use netsky_model::id::{AgentId, Generation};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::{reach, table};
use crate::output;
use crate::run::Run;

/// Which kinds of program there are.
const RUNTIMES: [&str; 1] = ["command"];
/// The size of a terminal that nobody looks at yet.
const TERMINAL: Io = Io::Pty { rows: 24, cols: 80 };

/// What a program hardly does without, and that names who and where it is at most.
const CLEAN: [&str; 7] = ["PATH", "HOME", "USER", "SHELL", "TERM", "LANG", "TZ"];
/// The same by how it begins.
const CLEAN_BEGINS: [&str; 3] = ["LC_", "OSTK_", "NETSKY_"];

/// Start a program as a session that outlives this terminal and the anchor
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to call it
    name: AgentId,
    /// The model; reaches the program as $OSTK_MODEL
    #[arg(long)]
    model: Option<String>,
    /// Which kind of program it is
    #[arg(long, default_value = "command", value_parser = runtime)]
    runtime: String,
    /// Three pipes instead of a terminal
    #[arg(long)]
    pipes: bool,
    /// Its working directory [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable on top of this environment
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Of this environment only PATH, HOME, USER, SHELL, TERM, LANG, LC_*, TZ, OSTK_* and NETSKY_*: what a session is
    /// given stands in its description on the disk
    #[arg(long)]
    clean_env: bool,
    /// Let the anchor bring it back however it ends, until it is killed [default: as `revival_policy` in the root's
    /// settings says, where it was taken away by a crash, a reboot or a hang]
    #[arg(long)]
    keep: bool,
    /// Only report its end
    #[arg(long, conflicts_with = "keep")]
    no_revive: bool,
    /// Only if this is the newest generation (0: only if there was none)
    #[arg(long, value_name = "N")]
    if_generation: Option<u64>,
    /// A name for this call: a repeat under it does nothing again
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Program and arguments
    #[arg(last = true, value_name = "ARGV")]
    argv: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a variable is KEY=VALUE".to_owned()),
    }
}

/// Our environment without what tells of the session that surrounds us, and what no description can hold, which is said.
/// `clean`: only what names who and where.
fn surroundings(clean: bool) -> BTreeMap<String, String> {
    let ours = |key: &str| !env::TREE.contains(&key) && key != env::APART && (!clean || is_clean(key));
    let mut text = BTreeMap::new();
    for (key, value) in std::env::vars_os() {
        match (key.to_str(), value.into_string()) {
            (Some(key), Ok(value)) if ours(key) => drop(text.insert(key.to_owned(), value)),
            (Some(_), Ok(_)) => {}
            (_, _) => {
                let name = key.to_string_lossy();
                if !ours(&name) {
                    continue;
                }
                output::complain("ostk", &format!("{name} is not UTF-8, and is left out of its environment"));
            }
        }
    }
    text
}

fn is_clean(key: &str) -> bool {
    CLEAN.contains(&key) || CLEAN_BEGINS.iter().any(|begin| key.starts_with(begin))
}

fn runtime(text: &str) -> Result<String, String> {
    let known = RUNTIMES.contains(&text);
    known
        .then(|| text.to_owned())
        .ok_or_else(|| format!("no such runtime; this version has: {}", RUNTIMES.join(", ")))
}

/// Why nothing was started where a session of that name runs: no repeat will do it. None where one is starting or ending.
fn taken(client: &mut Client, name: &AgentId) -> Option<Error> {
    let state = client.show(name).ok()?.state;
    let runs = matches!(state, SessionState::Active | SessionState::Idle | SessionState::Hung);
    let way = format!(
        "nothing was done; take another name, see it with `ostk attach {name}`, or end it with `ostk kernel kill {name}`"
    );
    runs.then(|| Error::new(Kind::Busy, format!("{name} is the name of a session that lives")).hint(way))
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if self.argv.is_empty() {
            let what = format!("{} has no program: there is no native runtime yet", self.name);
            return Err(Error::new(Kind::Refused, what).hint("give one after --"));
        }
        let cwd = std::path::absolute(self.cwd.unwrap_or_else(|| PathBuf::from(".")))
            .map_err(|e| Error::new(Kind::Usage, format!("failed to find the working directory: {e}")))?;
        let mut environment = surroundings(self.clean_env);
        environment.extend(self.env);
        let spec = Spec {
            name: self.name,
            argv: self.argv,
            cwd,
            env: environment,
            umask: users_umask(),
            io: if self.pipes { Io::Pipes } else { TERMINAL },
            runtime: self.runtime,
            model: self.model,
            keeper: match (self.keep, self.no_revive) {
                (true, _) => Keeper::Anchor,
                (_, true) => Keeper::Watchdog,
                _ => Keeper::Policy,
            },
            tags: BTreeMap::new(),
        };
        let guard = Guard { if_generation: self.if_generation.map(Generation), request_id: self.request_id };
        let mut client = reach::anchor_or_new(cx)?;
        let session = match client.spawn(&spec, &guard) {
            Err(error) if error.kind() == Some(RefusalKind::Busy) => {
                return Err(taken(&mut client, &spec.name).unwrap_or_else(|| error.into()));
            }
            spawned => spawned?,
        };
        let pid = session.pid.map_or_else(|| "already ended".to_owned(), |pid| format!("pid {pid}"));
        table::session(
            cx,
            &session,
            &format!("{} generation {} runs: {pid}", session.name, session.generation),
        )
    }
}
