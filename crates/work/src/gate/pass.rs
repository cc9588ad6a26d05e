//! Before a gate runs: which command it is, whether the branch may be judged by it, and the files that it runs on.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::spawn::{Answer, Ended, Keep, Leaves, Program};
use netsky_disk::{env, state};

use super::shut::{FIRST, NOT_RUN, TOO_LATE};
use super::{Command, Order, Shut, USUAL};
use crate::git::{RefName, Repo, Sha, plain_line};
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
    let judges = match Judges::of(job, scratch, main, new)? {
        Ok(judges) => judges,
        Err(why) => return Ok(Verdict::Refused(why)),
    };
    if let Some(path) = judges.touched().filter(|_| !gate.is_allowed) {
        let why = format!(
            "the branch touches {}, which judges it: the owner has to allow it (`netsky task harvest {} --allow-gate-change`)",
            plain_line(path),
            job.task
        );
        return Ok(Verdict::Refused(why));
    }
    let command = match &gate.command {
        Command::None => return Ok(Verdict::None),
        Command::Given(command) => command.clone(),
        Command::Usual => match judges.on_main.get(USUAL) {
            None => return Ok(Verdict::None),
            Some(entry) if !entry.starts_with("100755 ") => {
                return Ok(Verdict::Refused(format!("{USUAL} of {} is no program", job.main)));
            }
            Some(_) => vec![USUAL.to_owned()],
        },
    };
    let tree = lay_out(job, scratch, main, new, &judges)?;
    crate::point("work.gate.laid")?;
    let answer = run(job, target, scratch, &tree, command)?;
    crate::point("work.gate.ran")?;
    judge(job, &answer)
}

/// What of the repository judges, and what it is.
struct Judges {
    /// What the command names; a folder, of `main` or a new one, is what it looks at.
    own: Vec<String>,
    /// What the owner named, folders too.
    guards: Vec<String>,
    on_main: Entries,
    on_new: Entries,
}

/// Mode, kind and object of paths, of those that are there.
type Entries = BTreeMap<String, String>;

impl Judges {
    /// What judges a branch; why nothing may, where what the owner named is not there: a guard with a slip of the pen guards nothing.
    fn of(
        job: &Job,
        scratch: &Scratch,
        main: &Sha,
        new: &Sha,
    ) -> Result<std::result::Result<Judges, String>> {
        let (own, named) = match job.gate.command {
            Command::None => (Vec::new(), &[][..]),
            _ => (named(&job.gate.command), &job.gate.guards[..]),
        };
        let guards: Vec<Option<String>> = named.iter().map(|path| plain(path)).collect();
        let paths: Vec<&str> = own.iter().chain(guards.iter().flatten()).map(String::as_str).collect();
        let on_main = entries(&scratch.repo, main, &paths)?;
        let is_there = |guard: &Option<String>| guard.as_ref().is_some_and(|path| on_main.contains_key(path));
        if let Some((slip, _)) = named.iter().zip(&guards).find(|(_, guard)| !is_there(guard)) {
            return Ok(Err(format!(
                "{} has no {:?}, which `guards` in config.toml names ([gate], or the repository's own): mend that there",
                job.main.short(),
                plain_line(slip)
            )));
        }
        let on_new = entries(&scratch.repo, new, &paths)?;
        Ok(Ok(Judges { own, guards: guards.into_iter().flatten().collect(), on_main, on_new }))
    }

    /// What the command is made of.
    fn own(&self) -> impl Iterator<Item = &str> {
        let is_folder = |path: &str| {
            let entry = self.on_main.get(path).or_else(|| self.on_new.get(path));
            entry.is_some_and(|entry| entry.contains(" tree "))
        };
        self.own.iter().map(String::as_str).filter(move |path| !is_folder(path))
    }

    /// One that the branch changes.
    fn touched(&self) -> Option<&str> {
        self.own().chain(self.guards.iter().map(String::as_str)).find(|path| self.differs(path))
    }

    fn differs(&self, path: &str) -> bool {
        self.on_main.get(path) != self.on_new.get(path)
    }
}

/// The paths of the repository that a command names: what an interpreter is given judges as much as a program of its own.
fn named(command: &Command) -> Vec<String> {
    match command {
        Command::None => Vec::new(),
        Command::Usual => vec![USUAL.to_owned()],
        Command::Given(words) => {
            // A plain word at the front is looked for where programs are, and never here.
            let front = words.iter().take(1).filter(|word| word.contains('/'));
            front.chain(words.iter().skip(1)).filter_map(|word| plain(word)).collect()
        }
    }
}

/// A path of the repository as git has it: without `.`, `..` and a last `/`; none if it leads out of it, or is its root.
fn plain(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// What paths of a commit are.
fn entries(repo: &Repo, commit: &Sha, paths: &[&str]) -> Result<Entries> {
    if paths.is_empty() {
        return Ok(Entries::new());
    }
    // By `-t` a folder is itself told where a path below it is asked for too.
    let mut args = vec!["ls-tree", "-t", "-z", "--full-tree", commit.as_str(), "--"];
    args.extend(paths);
    let told = repo.ask(&args, &[])?;
    let told = told.split('\0').filter_map(|line| line.split_once('\t'));
    let asked = told.filter(|(_, path)| paths.contains(path));
    Ok(asked.map(|(entry, path)| (path.to_owned(), entry.to_owned())).collect())
}

/// The files of what would land, in a repository of their own that we never use again; with the gate as it is on `main`.
fn lay_out(job: &Job, scratch: &Scratch, main: &Sha, new: &Sha, judges: &Judges) -> Result<PathBuf> {
    let tree = scratch.folder.join("tree");
    if state::exists(&tree)? {
        // `main` has moved since a try before.
        Dir::look_into(&scratch.folder)?.rename("tree", &Dir::look_into(&scratch.folder)?, aside())?;
    }
    // With `main` under the names that a clone has, for a gate that asks what changed.
    let names = [job.main.clone(), job.main.at_origin(), RefName::of_origin()];
    let repo = crate::git::borrow(&scratch.repo, main, &names, &[], &tree)?.with_tree(&tree);
    repo.fill(&["checkout", "--quiet", "--no-recurse-submodules", "--detach", new.as_str()])?;
    let of_main: Vec<&str> =
        judges.own().filter(|path| judges.on_main.contains_key(*path) && judges.differs(path)).collect();
    if !of_main.is_empty() {
        let mut args = vec!["checkout", "--quiet", "--no-recurse-submodules", main.as_str(), "--"];
        args.extend(of_main);
        repo.fill(&args)?;
    }
    Ok(tree)
}

fn aside() -> String {
    format!("tree-{}", netsky_disk::random::short())
}

fn run(job: &Job, target: &Target, scratch: &Scratch, tree: &Path, command: Vec<String>) -> Result<Answer> {
    let gate = &job.gate;
    let [home, tmp, root] = ["home", "tmp", "root"].map(|name| scratch.folder.join(name));
    for folder in [&home, &tmp, &root] {
        Dir::make(folder)?;
    }
    let limit = if gate.limit.is_zero() { LIMIT } else { gate.limit };
    let mut set = BTreeMap::from([
        ("PATH".to_owned(), env::text("PATH").unwrap_or_default()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
    ]);
    set.extend(gate.set.clone());
    // Who ends a dead harvest finds it though its keeper is dead.
    set.extend([target.mark()]);
    set.insert("HOME".to_owned(), crate::git::text(&home)?.to_owned());
    set.insert("TMPDIR".to_owned(), crate::git::text(&tmp)?.to_owned());
    let mut read = gate.read.clone();
    read.extend([target.repo.objects(), scratch.repo.dir().to_owned()]);
    let write = vec![tree.to_owned(), home, tmp];
    let (folder, is_strict) = (tree.to_owned(), gate.is_strict);
    let order = Order { command, folder, root, set, write, read, limit, is_strict };
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
    Ok(program.ask(&order, Keep::Ends(LOG), limit + GRACE, Leaves::Anything)?)
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
