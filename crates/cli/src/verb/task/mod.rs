//! `netsky task`: what is to be done, who does it, and what became of it.

use std::path::Path;

use netsky_disk::ReadError;
use netsky_disk::env::Caller;
use netsky_disk::fs::{is_folder, read_users_file};
use netsky_model::id::{AgentId, Generation, TaskId};
use netsky_model::task::{Brief, MAX_BRIEF, Priority, Task, Title, Unfit};
use netsky_work::git::Remote;
use netsky_work::task::{Board, Error as TaskError};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::verbs;

mod assign;
mod claim;
mod close;
mod create;
mod export;
mod harvest;
mod import;
mod list;
mod release;
mod reopen;
mod show;
mod tick;
mod update;

verbs! {
    /// What is to be done, who does it, and what became of it
    Verb {
        Create(create::Args),
        List(list::Args),
        Show(show::Args),
        Update(update::Args),
        Assign(assign::Args),
        Claim(claim::Args),
        Release(release::Args),
        Close(close::Args),
        Reopen(reopen::Args),
        Harvest(harvest::Args),
        Import(import::Args),
        Export(export::Args),
        Tick(tick::Args),
    }
}

/// Longest argument that is looked for as a file.
const LONGEST_PATH: usize = 4096;

fn title(text: &str) -> Result<Title, String> {
    Title::try_from(text.to_owned()).map_err(|unfit: Unfit| unfit.to_string())
}

fn priority(text: &str) -> Result<Priority, String> {
    let found = netsky_model::task::PRIORITIES.into_iter().find(|priority| priority.word() == text);
    found.ok_or_else(|| "priorities are urgent, high, normal and low".to_owned())
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(Kind::Usage, what).hint("nothing was changed")
}

fn missing(what: String) -> Error {
    Error::new(Kind::NotFound, what).hint("nothing was changed")
}

/// The task of that id, which has to be there.
fn task(board: &Board, id: &TaskId) -> Result<Task, Error> {
    Ok(board.get(id)?.ok_or_else(|| TaskError::Unknown(id.clone()))?)
}

/// The agent that calls, in its generation.
fn agent(cx: &Context, what: &str) -> Result<(AgentId, Generation), Error> {
    match cx.caller() {
        Caller::Inside { agent: Some(me), generation } => Ok((me, generation)),
        _ => Err(Error::new(Kind::Refused, format!("{what} is for an agent, below its session"))
            .hint("nothing was changed; `netsky task assign` has one do it")),
    }
}

/// The repository that a user names: an address as it is, a folder by its whole path, but none of netsky's home.
fn repo(cx: &Context, text: &str) -> Result<String, Error> {
    match text.parse() {
        Ok(Remote::Url(url)) => return Ok(url),
        // Said without its secret.
        Err(bad) if text.contains("://") => return Err(usage(output::one_line(&bad.to_string()))),
        _ => {}
    }
    if !is_folder(text) {
        let what =
            format!("there is no folder {}, and it is no address", output::one_line(&Remote::shown(text)));
        return Err(missing(format!("{what} (https://…, ssh://… or user@host:path)")));
    }
    let whole = Path::new(text).canonicalize();
    let whole =
        whole.map_err(|error| usage(format!("failed to find {}: {error}", output::one_line(text))))?;
    netsky_work::outside(cx.home()?, &whole)?;
    whole.into_os_string().into_string().map_err(|_| usage("the path of the repository is not UTF-8"))
}

/// The brief that a user gives: `-` is standard input, the name of a file is its text, and all else is itself. What looks like the
/// name of a file has to be one.
fn brief(board: &Board, text: &str) -> Result<Brief, Error> {
    const OF: &str = "the brief";
    if text == "-" {
        return Ok(board.keep_brief(&super::channel::stdin_text(OF, MAX_BRIEF)?)?);
    }
    let is_named = !text.contains(char::is_whitespace) && text.contains(['/', '.']);
    let path = Path::new(text);
    let read =
        (text.len() < LONGEST_PATH && !text.contains('\n')).then(|| read_users_file(path, MAX_BRIEF as u64));
    match read {
        Some(Ok(bytes)) => {
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| usage(format!("the file {} is not UTF-8", path.display())))?;
            Ok(board.keep_brief(text.strip_suffix('\n').unwrap_or(&text))?)
        }
        Some(Err(error)) if is_named => unread(path, error),
        _ => Ok(board.keep_brief(text)?),
    }
}

/// Why a file that the user named is not taken.
fn unread<T>(path: &Path, error: ReadError) -> Result<T, Error> {
    super::channel::refused(path, error).map_err(|error: Error| error.hint("nothing was changed"))
}

/// Says what became of a task.
fn tell(cx: &Context, task: &Task, what: &str) -> Result<(), Error> {
    match cx.json {
        true => output::json(task),
        false => output::say(&format!("task {} {what}", task.id)),
    }
}

/// Who has a task, or is to do it.
fn who(task: &Task) -> String {
    match (task.state.holder(), &task.assignee) {
        (Some((by, _)), _) => by.to_string(),
        (None, Some(to)) => format!("for {to}"),
        (None, None) => "-".to_owned(),
    }
}
