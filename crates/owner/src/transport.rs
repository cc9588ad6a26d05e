//! One attempt by one transport, with its deadline.

use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lines::Lines;
use netsky_disk::spawn::{Ended, Program};
use netsky_disk::{clock, env};
use netsky_model::paging::{Paging, Transport};

use crate::http::{Post, post, signature};
use crate::page::Page;
use crate::secret;

/// How long one attempt may take, its secret included.
const DEADLINE: Duration = Duration::from_secs(10);
/// A file of pages that is larger takes no more: somebody has to look at it.
const LARGEST: u64 = 16 * 1024 * 1024;

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

/// The transports in their order, each with its name; without any configured a file of the home.
pub(crate) fn chain(terms: &Paging) -> Vec<(String, Transport)> {
    if terms.transports.is_empty() {
        return vec![("default file".to_owned(), Transport::File { path: None })];
    }
    let named = |(at, transport): (usize, &Transport)| {
        (format!("{} {}", at + 1, transport.word()), transport.clone())
    };
    terms.transports.iter().enumerate().map(named).collect()
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
            let priority = if page.test { "low" } else { "urgent" };
            let mut headers = vec![("Title", page.title()), ("Priority", priority.to_owned())];
            if let Some(secret) = secret {
                let token = String::from_utf8(read(secret)?);
                let token = token.map_err(|_| Refused::surely("its token is no text"))?;
                headers.push(("Authorization", format!("Bearer {token}")));
            }
            post(&Post { url, headers, body: page.text.as_bytes() }, left())
        }
        Transport::File { path } => {
            let path = path.clone().unwrap_or_else(|| layout.pages_log());
            append(&path, page).map_err(|error| Refused::surely(error.to_string()))
        }
    }
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
    // What it prints may hold its secrets and goes nowhere.
    match program.errand(&input, 0, DEADLINE) {
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
