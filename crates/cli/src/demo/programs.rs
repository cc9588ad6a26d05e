//! The two programs that the demo and its agents run: git, and our own verbs.
//!
//! Promise: git sees no settings but the demo's, asks nobody, and reaches no network; our verbs see the demo's home
//! and no other constellation.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netsky_disk::clock;

use crate::demo::place::Place;
use crate::error::{Error, Kind};

/// Most characters of a program's complaint that an error repeats.
const COMPLAINT: usize = 400;
/// How often an agent tries a verb that may be repeated.
const TRIES: u32 = 3;
/// The pause before it tries again.
const AGAIN: Duration = Duration::from_millis(500);

/// Runs git in `folder`; answers its standard output.
pub(crate) fn git<S: AsRef<OsStr>>(
    place: &Place,
    folder: &Path,
    args: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, Error> {
    let mut command = command("git".as_ref());
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(|key| key.starts_with("GIT_")) {
            command.env_remove(key);
        }
    }
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", place.gitconfig())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_ALLOW_PROTOCOL", "file")
        .env("LC_ALL", "C")
        .current_dir(folder)
        .args(args);
    finish("git", &mut command)
}

/// Runs one of our verbs as an agent does: the `netsky` of its PATH, with the environment of its session.
pub(crate) fn own_verb<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Vec<u8>, Error> {
    finish("netsky", command("netsky".as_ref()).args(args))
}

/// As [`own_verb`], for a verb that answers by these exit codes, and may be repeated: what fails otherwise is tried again, for
/// whoever it asked may just have been killed.
pub(crate) fn own_answer(args: &[&str], codes: &[i32]) -> Result<Output, Error> {
    let ask = || answer("netsky", command("netsky".as_ref()).args(args), codes);
    for _ in 1..TRIES {
        if let Ok(output) = ask() {
            return Ok(output);
        }
        clock::pause(AGAIN);
    }
    ask()
}

/// Runs one of our verbs as the owner of the demo's home, whatever constellation this process may belong to.
pub(crate) fn owners_verb<S: AsRef<OsStr>>(
    place: &Place,
    args: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, Error> {
    finish("netsky", owners_command(place)?.args(args))
}

/// As [`owners_verb`], for a verb whose exit code is an answer.
pub(crate) fn owners_answer<S: AsRef<OsStr>>(
    place: &Place,
    args: impl IntoIterator<Item = S>,
) -> Result<Output, Error> {
    run("netsky", owners_command(place)?.args(args))
}

fn owners_command(place: &Place) -> Result<Command, Error> {
    let mut command = command(netsky_disk::spawn::sibling("netsky")?.as_ref());
    for key in foreign_variables() {
        command.env_remove(key);
    }
    // Whom it brings up works where it is said.
    let work = place.work();
    let cwd = if work.is_dir() { work } else { place.folder().to_owned() };
    command.env(netsky_disk::env::HOME, place.layout().home()).current_dir(cwd);
    Ok(command)
}

/// Variables that tie this process to some other constellation.
pub(crate) fn foreign_variables() -> Vec<OsString> {
    let ours = |key: &OsString| {
        key.to_str().is_some_and(|key| key.starts_with("NETSKY_") || key.starts_with("OSTK_"))
    };
    std::env::vars_os().map(|(key, _)| key).filter(ours).collect()
}

fn command(program: &OsStr) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "its output is read here; std opens everything close-on-exec"
    )]
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

fn run(name: &str, command: &mut Command) -> Result<Output, Error> {
    command.output().map_err(|e| {
        let missing = e.kind() == std::io::ErrorKind::NotFound;
        let error = Error::new(Kind::Failed, format!("failed to run {name}: {e}"));
        if missing { error.hint(format!("install {name}")) } else { error }
    })
}

fn finish(name: &str, command: &mut Command) -> Result<Vec<u8>, Error> {
    answer(name, command, &[0]).map(|output| output.stdout)
}

fn answer(name: &str, command: &mut Command, codes: &[i32]) -> Result<Output, Error> {
    let output = run(name, command)?;
    if output.status.code().is_some_and(|code| codes.contains(&code)) {
        return Ok(output);
    }
    let words: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let verb = words.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint: String = complaint.trim().chars().take(COMPLAINT).collect();
    Err(Error::new(Kind::Failed, format!("failed to run {name} {verb}: {}: {complaint}", output.status)))
}
