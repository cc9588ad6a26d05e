//! One attempt by one transport, with its deadline.

use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lines::{self, Lines};
use netsky_disk::spawn::{Ended, Program};
use netsky_disk::{clock, env};
use netsky_model::paging::{Secret, Transport};

use crate::http::{Post, get, post, signature};
use crate::page::Page;
use crate::secret;

/// How long one attempt may take, its secret included.
const DEADLINE: Duration = Duration::from_secs(10);
/// A file of pages that is larger takes no more: somebody has to look at it.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Most bytes of what ntfy says that a topic has.
const POLLED: u64 = 1024 * 1024;
/// Seconds by which the clock of a server may be behind.
const SLACK: i64 = 600;
/// What runs scripts on macOS.
const OSASCRIPT: &str = "/usr/bin/osascript";
/// The first line of what it is given is for whom, the rest is the text.
const SCRIPT: &str = include_str!("imessage.applescript");

/// Why a transport did not take a page.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) why: String,
    /// Whether the owner may have it all the same.
    pub(crate) doubtful: bool,
}

impl Refused {
    pub(crate) fn surely(why: impl Into<String>) -> Refused {
        Refused { why: why.into(), doubtful: false }
    }

    pub(crate) fn perhaps(why: impl Into<String>) -> Refused {
        Refused { why: why.into(), doubtful: true }
    }
}

/// Gives a page to a transport.
pub(crate) fn attempt(layout: &Layout, transport: &Transport, page: &Page) -> Result<(), Refused> {
    let until = clock::boot() + DEADLINE;
    let left = || until.saturating_sub(clock::boot());
    let read = |from| secret::read(from, left()).map_err(Refused::surely);
    match transport {
        Transport::Command { argv } => command(layout, argv, page),
        Transport::Webhook { url, secret } => {
            let body = page.json();
            let mut headers = vec![("Content-Type", "application/json".to_owned())];
            if let Some(secret) = secret {
                headers.push(signature(&read(secret)?, &body));
            }
            post(&Post { url, headers, body: &body }, left())
        }
        Transport::Ntfy { url, secret } => {
            let mut headers =
                vec![("Title", page.title()), ("Priority", page.priority().to_owned()), ("Tags", page.tag())];
            headers.extend(authorization(secret.as_ref(), left()).map_err(Refused::surely)?);
            post(&Post { url, headers, body: page.text.as_bytes() }, left())
        }
        Transport::Imessage { to, program } => imessage(program.as_deref(), to, page),
        Transport::File { path } => {
            let path = path.clone().unwrap_or_else(|| layout.pages_log());
            append(&path, page).map_err(|error| Refused::surely(error.to_string()))
        }
    }
}

/// The header that holds an access token.
fn authorization(secret: Option<&Secret>, limit: Duration) -> Result<Option<(&'static str, String)>, String> {
    let Some(secret) = secret else { return Ok(None) };
    let token = String::from_utf8(secret::read(secret, limit)?).map_err(|_| "its token is no text")?;
    Ok(Some(("Authorization", format!("Bearer {token}"))))
}

/// Whether a transport can tell that it has a page; where it cannot, or does not answer, nothing is known.
pub(crate) fn arrived(layout: &Layout, transport: &Transport, page: &Page) -> bool {
    match transport {
        Transport::Ntfy { url, secret } => published(url, secret.as_ref(), page).unwrap_or(false),
        Transport::File { path } => {
            let path = path.clone().unwrap_or_else(|| layout.pages_log());
            kept(&path, page).unwrap_or(false)
        }
        Transport::Command { .. } | Transport::Webhook { .. } | Transport::Imessage { .. } => false,
    }
}

/// Whether the topic has it, of what the server still keeps.
fn published(url: &str, secret: Option<&Secret>, page: &Page) -> Option<bool> {
    let until = clock::boot() + DEADLINE;
    let headers: Vec<_> = authorization(secret, DEADLINE).ok()?.into_iter().collect();
    let (topic, query) = url.split_once('?').map_or((url, String::new()), |(t, q)| (t, format!("&{q}")));
    // Not before it was raised, by a clock that may be behind.
    let since = page.raised.as_second().saturating_sub(SLACK);
    let poll = format!("{}/json?poll=1&since={since}{query}", topic.trim_end_matches('/'));
    let answer = get(&poll, &headers, POLLED, until.saturating_sub(clock::boot()))?;
    let tag = page.tag();
    let is_it = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        message["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| *one == *tag))
    };
    Some(answer.lines().any(is_it))
}

/// Whether it stands in a file.
fn kept(path: &Path, page: &Page) -> Option<bool> {
    let is_it = |line: &Vec<u8>| {
        let kept: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        kept["ref"] == *page.reference
    };
    Some(lines::read(path).ok()?.iter().any(is_it))
}

/// Has Messages send it, by a script that is told on its standard input whom and what: neither stands in its arguments. A message has
/// its text alone, which says from which home it is, and that it may be there already.
fn imessage(program: Option<&Path>, to: &str, page: &Page) -> Result<(), Refused> {
    let path = program.unwrap_or(Path::new(OSASCRIPT));
    let args = ["-e", SCRIPT].map(str::to_owned).into();
    let home = Path::new(&page.home).file_name().unwrap_or_default().to_string_lossy();
    let said = format!("{to}\n{}{home}: {}", if page.repeated { "(again) " } else { "" }, page.text);
    run(Program { path: path.into(), args, ..Program::default() }, said.as_bytes())
}

fn command(layout: &Layout, argv: &[String], page: &Page) -> Result<(), Refused> {
    let [path, args @ ..] = argv else { return Err(Refused::surely("argv is empty")) };
    let home = layout.home().display().to_string();
    let program = Program {
        path: path.into(),
        args: args.to_vec(),
        set: [(env::HOME.to_owned(), home)].into(),
        ..Program::default()
    };
    let mut input = page.json();
    input.push(b'\n');
    run(program, &input)
}

fn run(program: Program, input: &[u8]) -> Result<(), Refused> {
    // What it prints may hold its secrets and goes nowhere.
    match program.errand(input, 0, DEADLINE) {
        Ok((Ended::Exited(Some(0)), _)) => Ok(()),
        Ok((Ended::Exited(Some(code)), _)) => Err(Refused::surely(format!("ended with {code}"))),
        Ok((Ended::Exited(None), _)) => Err(Refused::perhaps("was killed")),
        Ok((Ended::TooLate, _)) => Err(Refused::perhaps("did not end in 10 s and was killed")),
        Err(error) => Err(Refused::surely(format!("cannot be run: {}", error.source.kind()))),
    }
}

fn append(path: &Path, page: &Page) -> netsky_disk::Result<()> {
    let no = |why: &str| netsky_disk::Error::because("append a page to", path, why);
    let (folder, name) = path
        .parent()
        .zip(path.file_name().and_then(|name| name.to_str()))
        .ok_or_else(|| no("it is no file"))?;
    let folder = Dir::make(folder)?;
    let mut lines = Lines::open_shared(&folder, name)?;
    if lines.len()? > LARGEST {
        return Err(no("it is over 16 MiB; move it away"));
    }
    lines.append(&page.json())?;
    lines.sync()?;
    folder.sync()
}
