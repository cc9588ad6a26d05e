//! Before a gate runs: which command it is, whether the branch may be judged by it, and the files that it runs on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::spawn::{Answer, Ended, Leaves, Program};
use netsky_disk::{env, state};

use super::shut::{FIRST, NOT_RUN, TOO_LATE};
use super::{Command, Gate, Order, Shut, USUAL};
use crate::git::{Repo, Sha, plain_line};
use crate::harvest::{Job, Scratch, Target};
use crate::{Error, Result};

/// Its limit if none is given.
const LIMIT: Duration = Duration::from_secs(600);
/// How much longer the process is waited for that ends it at its limit.
const GRACE: Duration = Duration::from_secs(20);
/// Bytes kept of the beginning of what it says, and of the end.
const LOG: usize = 256 * 1024;

/// What a gate says.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// There is none.
    None,
    /// It passed.
    Passed(Shut),
    /// It did not.
    Failed { status: Option<i32>, log: PathBuf, shut: Shut },
    /// It was not asked; why.
    Refused(String),
}

/// Ask the gate about what would land.
pub(crate) fn pass(job: &Job, target: &Target, scratch: &Scratch, main: &Sha, new: &Sha) -> Result<Verdict> {
    let gate = &job.gate;
    let own = file_of(gate);
    if let Some(path) = touched(gate, own.as_deref(), scratch, main, new)? {
        return Ok(Verdict::Refused(format!(
            "the branch touches {path}, which judges it: the owner has to allow it"
        )));
    }
    let command = match &gate.command {
        Command::None => return Ok(Verdict::None),
        Command::Given(command) => command.clone(),
        Command::Usual => match entry(&scratch.repo, main, USUAL)? {
            None => return Ok(Verdict::None),
            Some(entry) if !entry.starts_with("100755 ") => {
                return Ok(Verdict::Refused(format!("{USUAL} of {} is no program", job.main)));
            }
            Some(_) => vec![USUAL.to_owned()],
        },
    };
    let tree = lay_out(scratch, main, new, own.as_deref())?;
    crate::point("work.gate.laid")?;
    let answer = run(job, target, scratch, &tree, command)?;
    crate::point("work.gate.ran")?;
    judge(job, &answer)
}

/// The file of the repository that is the command.
fn file_of(gate: &Gate) -> Option<String> {
    let path = match &gate.command {
        Command::None => return None,
        Command::Usual => USUAL,
        Command::Given(command) => command.first()?,
    };
    let path = path.strip_prefix("./").unwrap_or(path);
    (path.contains('/') && !path.starts_with('/')).then(|| path.to_owned())
}

/// What judges and is not as on `main`, unless the owner allows that.
fn touched(
    gate: &Gate,
    own: Option<&str>,
    scratch: &Scratch,
    main: &Sha,
    new: &Sha,
) -> Result<Option<String>> {
    if gate.is_allowed || gate.command == Command::None {
        return Ok(None);
    }
    for path in own.into_iter().chain(gate.guards.iter().map(String::as_str)) {
        if entry(&scratch.repo, main, path)? != entry(&scratch.repo, new, path)? {
            return Ok(Some(plain_line(path)));
        }
    }
    Ok(None)
}

/// Mode, kind and object of a path of a commit; none if it is not there.
fn entry(repo: &Repo, commit: &Sha, path: &str) -> Result<Option<String>> {
    let told = repo.ask(&["ls-tree", "-z", "--full-tree", commit.as_str(), "--", path], &[])?;
    let entry = told.split('\0').next().and_then(|line| line.split('\t').next()).unwrap_or_default();
    Ok((!entry.is_empty()).then(|| entry.to_owned()))
}

/// The files of what would land, in a repository of their own that we never use again; with the gate as it is on `main`.
fn lay_out(scratch: &Scratch, main: &Sha, new: &Sha, own: Option<&str>) -> Result<PathBuf> {
    let tree = scratch.folder.join("tree");
    if state::exists(&tree)? {
        // `main` has moved since a try before.
        Dir::look_into(&scratch.folder)?.rename("tree", &Dir::look_into(&scratch.folder)?, aside())?;
    }
    let from = crate::git::text(scratch.repo.dir())?;
    crate::git::clone(scratch.repo.git(), &["--shared", "--no-checkout"], from, &tree, &["core.fsync=none"])?;
    let repo = Repo::new(scratch.repo.git(), &tree.join(".git")).with_tree(&tree).unsynced();
    repo.fill(&["checkout", "--quiet", "--no-recurse-submodules", "--detach", new.as_str()])?;
    if let Some(own) = own
        && entry(&scratch.repo, main, own)?.is_some()
    {
        repo.fill(&["checkout", "--quiet", "--no-recurse-submodules", main.as_str(), "--", own])?;
    }
    Ok(tree)
}

fn aside() -> String {
    format!("tree-{}", netsky_disk::random::short())
}

fn run(job: &Job, target: &Target, scratch: &Scratch, tree: &Path, command: Vec<String>) -> Result<Answer> {
    let gate = &job.gate;
    let [home, tmp] = ["home", "tmp"].map(|name| scratch.folder.join(name));
    for folder in [&home, &tmp] {
        Dir::make(folder)?;
    }
    let limit = if gate.limit.is_zero() { LIMIT } else { gate.limit };
    let mut set = BTreeMap::from([
        ("PATH".to_owned(), env::text("PATH").unwrap_or_default()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
    ]);
    set.extend(gate.set.clone());
    set.insert("HOME".to_owned(), crate::git::text(&home)?.to_owned());
    set.insert("TMPDIR".to_owned(), crate::git::text(&tmp)?.to_owned());
    let mut read = gate.read.clone();
    read.extend([target.objects(), scratch.repo.dir().to_owned()]);
    let write = vec![tree.to_owned(), home, tmp];
    let order =
        Order { command, folder: tree.to_owned(), set, write, read, limit, is_strict: gate.is_strict };
    let Some((path, args)) = gate.helper.split_first() else {
        return Err(Error::unfit(tree, "there is no program that runs a gate"));
    };
    let program = Program {
        path: path.into(),
        args: args.to_vec(),
        set: BTreeMap::from([target.mark()]),
        bare: true,
        folder: Some(tree.to_owned()),
        ..Program::default()
    };
    let order = serde_json::to_vec(&order).map_err(std::io::Error::from);
    let order = order.map_err(|e| netsky_disk::Error::new("encode", "the order of a gate", e))?;
    Ok(program.ask(&order, LOG, limit + GRACE, Leaves::Anything)?)
}

fn judge(job: &Job, answer: &Answer) -> Result<Verdict> {
    let said = String::from_utf8_lossy(&answer.out.first);
    let first = said.lines().next().and_then(|line| line.strip_prefix(FIRST)).unwrap_or_default();
    let shut = Shut::ALL.into_iter().find(|shut| shut.as_str() == first).unwrap_or(Shut::None);
    let log = job.layout.harvests().join(format!("{}.gate.log", job.task));
    state::write(&log, &whole(answer))?;
    let status = match answer.ended {
        Ended::Exited(Some(0)) => return Ok(Verdict::Passed(shut)),
        Ended::Exited(Some(NOT_RUN)) if !said.lines().skip(1).any(|line| !line.starts_with("netsky: ")) => {
            let why = said.lines().last().unwrap_or("the gate was not run");
            return Ok(Verdict::Refused(plain_line(why.trim_start_matches("netsky: "))));
        }
        Ended::Exited(Some(TOO_LATE)) | Ended::TooLate => None,
        Ended::Exited(status) => status,
    };
    Ok(Verdict::Failed { status, log, shut })
}

/// All that is kept of what it said.
fn whole(answer: &Answer) -> Vec<u8> {
    let mut text = answer.out.first.clone();
    if answer.out.missed > 0 {
        text.extend(format!("\nnetsky: {} bytes are left out here\n", answer.out.missed).into_bytes());
    }
    text.extend_from_slice(&answer.out.last);
    text.extend_from_slice(&answer.err.first);
    text
}
