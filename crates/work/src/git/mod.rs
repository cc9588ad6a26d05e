//! Git, and the only place that runs it.
//!
//! Promise: a run has fixed arguments and no shell, sees no variable of ours and no settings but those of the repository that it
//! is for, runs no hook, monitor, pager or editor, asks nobody, reaches nothing but files (a mirror's fetch: https and ssh),
//! ends at its limit, and says at most so much. What it says of an error becomes one plain line.
//! Left to others: which repository, and what for.

mod commit;
mod name;
mod remote;
mod repo;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::env;
use netsky_disk::spawn::{Ended, Keep, Leaves, Program};
use netsky_model::id::AgentId;
use netsky_model::render;

pub(crate) use commit::RawCommit;
pub use name::{BadName, RefName, Sha};
pub use remote::Remote;
pub use repo::Repo;
pub(crate) use repo::{borrow, clone, dir_in, real, text};

use crate::Result;

/// Longest that a run may take which copies nothing.
pub const SHORT: Duration = Duration::from_secs(120);
/// Longest that a run may take which copies objects or fills a folder.
pub const LONG: Duration = Duration::from_secs(1800);
/// Most bytes of an answer; names of a million files.
const MOST: usize = 64 * 1024 * 1024;
/// Most letters of what is told of an error.
const SAID: usize = 300;

/// Settings that hold for every run, above those of the repository.
const ALWAYS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=true",
    "core.fsync=all",
    "core.fsyncMethod=fsync",
    "credential.helper=",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    // One durable pack and not a durable file for each object.
    "fetch.unpackLimit=1",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "submodule.recurse=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "log.showSignature=false",
    "merge.renormalize=false",
    // A repository's owner may be at it in this moment.
    "core.filesRefLockTimeout=3000",
    "core.packedRefsTimeout=3000",
];

/// Whom our commits are by; the author of a commit that is picked stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    name: String,
    email: String,
}

impl Identity {
    /// A name and an address.
    ///
    /// # Errors
    /// Either is empty, or has what git has no place for.
    pub fn new(name: &str, email: &str) -> std::result::Result<Identity, BadName> {
        for text in [name, email] {
            let is_fit = |c: char| !c.is_control() && !"<>".contains(c);
            if text.trim().is_empty() || !text.chars().all(is_fit) {
                return Err(BadName::of("identity", text, "empty, or with < > or control characters"));
            }
        }
        Ok(Identity { name: name.trim().to_owned(), email: email.trim().to_owned() })
    }

    /// An agent's.
    ///
    /// # Errors
    /// None that an agent's id could make.
    pub fn of_agent(agent: &AgentId) -> std::result::Result<Identity, BadName> {
        Identity::new(agent.as_str(), &format!("{agent}@netsky"))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    pub fn email(&self) -> &str {
        &self.email
    }

    /// As it stands in a commit.
    pub(crate) fn line(&self) -> String {
        format!("{} <{}>", self.name, self.email)
    }
}

impl Default for Identity {
    fn default() -> Identity {
        Identity { name: "netsky".into(), email: "netsky@localhost".into() }
    }
}

/// How far a run reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Repositories of this machine.
    Files,
    /// Also https and ssh: a mirror of a repository elsewhere.
    Network,
}

/// A git that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// There is none.
    #[error("there is no git in {path:?}: install it")]
    Missing {
        /// Where it was looked for.
        path: String,
    },
    /// It ended with an error.
    #[error("git {what} {}: {said}", ended(*.code))]
    Said {
        /// What it was asked.
        what: String,
        /// Its exit code; none if a signal ended it.
        code: Option<i32>,
        /// The line that tells most, without what could drive a terminal.
        said: String,
    },
    /// It was ended at its limit.
    #[error("git {what} was ended after {secs} s")]
    TooLate {
        /// What it was asked.
        what: String,
        /// Its limit.
        secs: u64,
    },
    /// What it laid out is not durable.
    #[error("what git {what} laid out is not durable: {why}")]
    Unsynced {
        /// What it was asked.
        what: String,
        /// What the system refuses.
        why: String,
    },
    /// Its answer is longer than anybody reads.
    #[error("git {what} answered with more than {MOST} bytes")]
    TooLong {
        /// What it was asked.
        what: String,
    },
    /// Its answer does not read.
    #[error("git {what} answered with what does not read: {why}")]
    Unread {
        /// What it was asked.
        what: String,
        /// Why it does not read.
        why: String,
    },
}

fn ended(code: Option<i32>) -> String {
    code.map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"))
}

/// An installed git.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    search: String,
    who: Identity,
    /// Set on all runs, so that what outlives a dead harvest is found.
    mark: Option<(&'static str, String)>,
    /// Whether what it makes is the user's, with his umask, and not the home's.
    is_users: bool,
}

/// What one run is.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// Settings for this one, above all others.
    pub(crate) settings: &'a [&'a str],
    /// Words before the subcommand.
    pub(crate) front: Vec<String>,
    /// The subcommand and what follows.
    pub(crate) args: &'a [&'a str],
    pub(crate) input: &'a [u8],
    pub(crate) reach: Reach,
    pub(crate) limit: Duration,
    pub(crate) set: &'a [(&'a str, &'a str)],
}

impl<'a> Run<'a> {
    /// One that makes a repository of files, and may take long.
    pub(crate) fn of_files(args: &'a [&'a str]) -> Run<'a> {
        Run { settings: &[], front: Vec::new(), args, input: &[], reach: Reach::Files, limit: LONG, set: &[] }
    }
}

/// What came of a run that ended by itself.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    said: String,
}

impl Git {
    /// The git that is found where programs are.
    ///
    /// # Errors
    /// There is none.
    pub fn find() -> Result<Git> {
        let search = env::text("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
        let found = std::env::split_paths(&search).map(|folder| folder.join("git")).find(|git| git.is_file());
        let program = found.ok_or_else(|| Failed::Missing { path: search.clone() })?;
        Ok(Git { program, search, who: Identity::default(), mark: None, is_users: false })
    }

    /// The git at a path.
    pub fn at(program: &Path) -> Git {
        let search = env::text("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
        Git { program: program.to_owned(), search, who: Identity::default(), mark: None, is_users: false }
    }

    /// The same, with commits by somebody.
    #[must_use]
    pub fn by(mut self, who: Identity) -> Git {
        self.who = who;
        self
    }

    /// The same, with a mark on what it starts.
    #[must_use]
    pub(crate) fn marked(mut self, key: &'static str, value: &str) -> Git {
        self.mark = Some((key, value.to_owned()));
        self
    }

    /// The same, in a repository of the user's: others may read there what he lets them.
    #[must_use]
    pub(crate) fn for_the_user(mut self) -> Git {
        self.is_users = true;
        self
    }

    /// Whom its commits are by.
    pub(crate) fn who(&self) -> &Identity {
        &self.who
    }

    /// Everything that a run sees of its surroundings.
    fn surroundings(&self, run: &Run<'_>) -> BTreeMap<String, String> {
        let mut set: BTreeMap<String, String> = [
            ("PATH", self.search.as_str()),
            ("LC_ALL", "C"),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "false"),
            ("GIT_EDITOR", "false"),
            ("GIT_PAGER", "cat"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            // A repository that is fetched from must not fetch what it lacks from wherever it says.
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ADVICE", "0"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_AUTHOR_NAME", &self.who.name),
            ("GIT_AUTHOR_EMAIL", &self.who.email),
            ("GIT_COMMITTER_NAME", &self.who.name),
            ("GIT_COMMITTER_EMAIL", &self.who.email),
            // Unlike a setting, it holds for the other side of a fetch too.
            ("GIT_ALLOW_PROTOCOL", if run.reach == Reach::Network { "https:ssh" } else { "file" }),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        if run.reach == Reach::Network {
            set.insert("GIT_SSH_COMMAND".into(), "ssh -o BatchMode=yes".into());
            let passed = ["HOME", "SSH_AUTH_SOCK", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"];
            set.extend(passed.iter().filter_map(|key| Some(((*key).to_owned(), env::text(key)?))));
        }
        set.extend(self.mark.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        set.extend(run.set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        set
    }

    /// Run it; an exit code is an answer like any other.
    pub(crate) fn tell(&self, run: &Run<'_>) -> Result<Told> {
        let what = run.args.first().copied().unwrap_or_default().to_owned();
        let mut args = Vec::new();
        for setting in ALWAYS.iter().chain(run.settings) {
            args.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        args.extend(run.front.iter().cloned());
        args.extend(run.args.iter().map(|arg| (*arg).to_owned()));
        let set = self.surroundings(run);
        let users_umask = self.is_users;
        let program =
            Program { path: self.program.clone(), args, set, bare: true, users_umask, ..Program::default() };
        crate::point("work.git.before")?;
        let answer = program.ask(run.input, Keep::Whole(MOST), run.limit, Leaves::Nothing)?;
        crate::point("work.git.after")?;
        let said = telling(&answer.err.first);
        match answer.ended {
            Ended::TooLate => Err(Failed::TooLate { what, secs: run.limit.as_secs() }.into()),
            // First: nobody listened on, which ends it.
            Ended::Exited(_) if !answer.out.is_whole() => Err(Failed::TooLong { what }.into()),
            Ended::Exited(None) => Err(Failed::Said { what, code: None, said }.into()),
            Ended::Exited(Some(code)) => Ok(Told { code, out: answer.out.first, said }),
        }
    }

    /// Run it; all but exit code 0 is an error.
    pub(crate) fn run(&self, run: &Run<'_>) -> Result<Vec<u8>> {
        self.tell(run)?.well(run.args.first().copied().unwrap_or_default())
    }
}

impl Told {
    /// The output where the code is 0.
    pub(crate) fn well(self, what: &str) -> Result<Vec<u8>> {
        match self.code {
            0 => Ok(self.out),
            code => Err(Failed::Said { what: what.to_owned(), code: Some(code), said: self.said }.into()),
        }
    }
}

/// The one line of what git said that tells most, plain (A10).
fn telling(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.split(['\n', '\r']).filter(|line| !line.trim().is_empty()).collect();
    let starts = |start: &str| lines.iter().find(|line| line.starts_with(start)).copied();
    // Of a push that is refused git says so in a line of the ref, and who refuses it says why before that.
    if let Some(refused) = starts(" ! [") {
        let mut words =
            lines.iter().filter_map(|line| line.strip_prefix("remote:")).filter(|why| !why.trim().is_empty());
        // Behind a banner, maybe.
        let why = words.clone().find(|why| why.starts_with(" error:")).or_else(|| words.next());
        let line = why.map_or_else(|| refused.to_owned(), |why| format!("{refused}:{why}"));
        return plain_line(&line).chars().take(SAID).collect();
    }
    let line = starts("fatal:")
        .or_else(|| starts("remote: error:"))
        .or_else(|| starts("error:"))
        .or(lines.last().copied())
        .unwrap_or("nothing");
    plain_line(line).chars().take(SAID).collect()
}

/// A text of somebody else as one line without what could drive a terminal.
pub(crate) fn plain_line(text: &str) -> String {
    render::plain(text).replace(['\n', '\t'], " ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a10_what_git_says_is_one_line_that_drives_no_terminal() {
        let said = b"hint: a\nremote: \x1b]0;x\x07\nerror: one\x1b[31m\nfatal: bad \x9b\xc2\x9b31m \xe2\x80\xaename\n";
        let line = telling(said);
        assert_eq!(line, "fatal: bad \u{fffd}31m name");
        assert!(telling(&[b'x'; 5000]).len() <= SAID);
        assert_eq!(telling(b"\n \n"), "nothing");
        let refused = b"To /x\n ! [remote rejected] main -> main (hook declined)\nerror: failed to push\n";
        assert_eq!(telling(refused), "! [remote rejected] main -> main (hook declined)");
        let refused = b"remote: \nremote: not today        \nTo /x\n ! [remote rejected] main -> main (hook declined)\n";
        assert_eq!(telling(refused), "! [remote rejected] main -> main (hook declined): not today");
        let refused = b"remote: welcome\nremote: error: not today\nTo /x\n ! [remote rejected] main -> main (hook declined)\n";
        assert_eq!(telling(refused), "! [remote rejected] main -> main (hook declined): error: not today");
    }

    #[test]
    fn an_identity_that_a_commit_has_no_place_for_is_refused() {
        for (name, email) in [("", "a@b"), ("a", " "), ("a\nb", "a@b"), ("a", "a>b"), ("<", "a@b")] {
            assert!(Identity::new(name, email).is_err(), "{name:?} {email:?}");
        }
        assert_eq!(Identity::new(" A B ", "a@b").expect("fit").line(), "A B <a@b>");
    }
}
