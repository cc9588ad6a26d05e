//! The real agent programs: where they are, and a place for what they do in which nothing but loopback is to be reached.
//!
//! Promise: nothing is fetched here. `./check --real` fetches them, and its programs are found; `NETSKY_REAL_CLAUDE` and
//! `NETSKY_REAL_CODEX` name others.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::tree;

/// One of the programs.
pub(crate) struct Real {
    /// As a runtime is called.
    pub(crate) runtime: &'static str,
    /// The variable that names it to the tests.
    pub(crate) key: &'static str,
    /// Where `./check --real` puts it.
    fetched: &'static str,
}

pub(crate) const CLAUDE: Real = Real {
    runtime: "claude",
    key: "NETSKY_REAL_CLAUDE",
    fetched: "target/real/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
};

pub(crate) const CODEX: Real = Real {
    runtime: "codex",
    key: "NETSKY_REAL_CODEX",
    fetched: "target/real/node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
};

impl Real {
    /// Where it is; none where it is not.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let named = std::env::var_os(self.key).map(PathBuf::from);
        let path = named.unwrap_or_else(|| tree::root().join(self.fetched));
        path.is_file().then_some(path)
    }
}

/// The variables that name both programs; what is missing, in one line, where one is not there.
pub(crate) fn both() -> Result<Vec<(&'static str, OsString)>, String> {
    let programs = [CLAUDE, CODEX].map(|real| (real.key, real.runtime, real.path()));
    let missing: Vec<&str> =
        programs.iter().filter(|(_, _, path)| path.is_none()).map(|(_, runtime, _)| *runtime).collect();
    if !missing.is_empty() {
        let (missing, keys) = (missing.join(" and "), [CLAUDE.key, CODEX.key].join(" and "));
        return Err(format!(
            "not there: {missing}; `./check --real` fetches both into target/real, {keys} name others"
        ));
    }
    Ok(programs.into_iter().filter_map(|(key, _, path)| Some((key, path?.into_os_string()))).collect())
}

/// A command that will run `program` where only loopback is to be reached; none where the system lets nobody make such a
/// place.
pub(crate) fn apart(program: impl Into<OsString>) -> Option<Command> {
    let lo = "ip link set lo up && exec \"$@\"";
    let ways: [&[&str]; 2] = [&["--net"], &["--map-root-user", "--net"]];
    let works = |flags: &&&[&str]| {
        let mut command = Command::new("unshare");
        command.args(**flags).args(["sh", "-c", lo, "sh", "true"]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let flags = ways.iter().find(works)?;
    let mut command = Command::new("unshare");
    command.args(*flags).args(["sh", "-c", lo, "sh"]).arg(program.into());
    Some(command)
}

/// Whether this process can reach nothing but loopback.
pub(crate) fn is_apart() -> bool {
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let mut names = devices.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.all(|(name, _)| name.trim() == "lo") && !devices.is_empty()
}
