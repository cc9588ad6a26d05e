//! The few environment variables that netsky reads, in one place.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use netsky_model::id::{AgentId, Generation, Nonce};

/// Which agent this process belongs to.
pub const AGENT: &str = "NETSKY_AGENT";
/// Which incarnation of it.
pub const GENERATION: &str = "NETSKY_GENERATION";
/// The home.
pub const HOME: &str = "NETSKY_HOME";
/// Where the session's token is.
pub const TOKEN_FILE: &str = "NETSKY_TOKEN_FILE";
/// What `netsky session up` must hand back.
pub const UP_NONCE: &str = "NETSKY_UP_NONCE";
/// The file that says what this agent is told of itself.
pub const PROMPT: &str = "NETSKY_PROMPT";
/// The claim that a consumer's command was started for: what bears it ends with the claim, unless it was taken.
pub const CLAIM: &str = "NETSKY_CLAIM";
/// The kernel's mark on everything of one incarnation.
pub const MARK: &str = "OSTK_MARK";

/// Set on processes that are no part of the tree they were started from: anchors, workers, restart
/// children. A sweep of a tree passes them and what is below them by.
pub const APART: &str = "OSTK_APART";

/// What a process that stands apart must not inherit: whose tree it came from.
pub const TREE: [&str; 15] = [
    AGENT,
    CLAIM,
    GENERATION,
    TOKEN_FILE,
    UP_NONCE,
    PROMPT,
    MARK,
    "OSTK_SESSION",
    "OSTK_NAME",
    "OSTK_GENERATION",
    "OSTK_MODEL",
    "OSTK_ROOT",
    "OSTK_SESSION_ROOT",
    "OSTK_CONVERSATION",
    "OSTK_HANDOFF",
];

/// A variable as text; none if unset, empty or not UTF-8.
pub fn text(key: &str) -> Option<String> {
    std::env::var(key).ok().filter(|value| !value.is_empty())
}

/// Every variable that has a name and a value in UTF-8.
pub fn texts() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
}

/// A variable as a path; none if unset or empty.
pub fn path(key: &str) -> Option<PathBuf> {
    std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Who this process is to netsky.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A person, or a program outside every session.
    Outside,
    /// Something below a session.
    Inside {
        /// The agent; none if it runs under the kernel but is no agent of a constellation.
        agent: Option<AgentId>,
        /// Its incarnation.
        generation: Generation,
    },
}

/// Who this process says it is. Evidence, not proof: a program can change its own environment.
pub fn caller() -> Caller {
    let name = text(AGENT);
    if name.is_none() && text(MARK).is_none() {
        return Caller::Outside;
    }
    let agent = name.and_then(|name| name.parse().ok());
    let generation = text(GENERATION).and_then(|g| g.parse().ok()).unwrap_or(0);
    Caller::Inside { agent, generation: Generation(generation) }
}

/// The number of this user.
pub fn user() -> u32 {
    // No program of ours becomes another.
    static USER: OnceLock<u32> = OnceLock::new();
    *USER.get_or_init(|| rustix::process::geteuid().as_raw())
}

/// The name of this machine; none where it is no plain word.
pub fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
    (!name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)).then(|| name.to_owned())
}

/// The nonce this session was started with.
pub fn up_nonce() -> Option<Nonce> {
    text(UP_NONCE)?.parse().ok()
}

/// Whether a standard stream leads nowhere: it was closed when this program began, or is `/dev/null` for both ways.
///
/// The language's start-up opens `/dev/null` for reading and writing in the place of a closed one, and some programs
/// give it so to what they start; a shell that redirects to it opens it one way.
pub fn leads_nowhere(stream: &impl std::os::fd::AsFd) -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fstat, major, minor};
    let both = fcntl_getfl(stream).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
    // Character device 1:3 is /dev/null on every Linux.
    both && fstat(stream).is_ok_and(|stat| (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3))
}

/// Whether nobody reads a standard stream any more; waits so long for that.
pub fn nobody_reads(stream: &impl std::os::fd::AsFd, wait: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec::try_from(wait).expect("no wait is longer than a clock");
    // Nothing is asked for: that the other end is gone is told in any case.
    let told = poll(&mut [PollFd::new(stream, PollFlags::empty())], Some(&limit));
    told.unwrap_or_else(|_| {
        crate::clock::pause(wait);
        0
    }) > 0
}
