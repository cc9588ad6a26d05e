//! A throwaway home for tests of the bus: runs the real program in it, copies it, and audits its folders.
//!
//! The audit trusts no verb: it reads the files themselves and holds them against what the harness knows.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use netsky_model::envelope::Envelope;
use netsky_model::name::{Name, Stage};
use netsky_sim::{Ended, Run, Stepper};
use tempfile::TempDir;

/// Every folder that an envelope can be in.
pub(crate) const FOLDERS: [&str; 6] = ["inbox", "claimed", "delivered", "acked", "forwarded", "poison"];

/// What drains the agent of these tests.
pub(crate) const DRAIN: [&str; 3] = ["channel", "drain", "agent7"];

/// A home of its own; gone when dropped.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    /// A place for a home, with nothing in it.
    pub(crate) fn nowhere() -> Home {
        let home = Home { folder: throwaway() };
        DirBuilder::new().mode(0o700).create(home.path()).expect("an empty folder");
        home
    }

    /// A fresh home, made by the program itself.
    pub(crate) fn init() -> Home {
        Home::init_in(throwaway())
    }

    /// The same in a folder of the caller's.
    pub(crate) fn init_in(folder: TempDir) -> Home {
        let home = Home { folder };
        home.netsky(["init"]).expect("a fresh folder becomes a home");
        home
    }

    /// The same files in another place, made to belong there: `home.json` names its place.
    pub(crate) fn copy(&self) -> Home {
        Home::copied(&self.path())
    }

    /// The files of any home, as [`Home::copy`].
    pub(crate) fn copied(home: &Path) -> Home {
        let copy = Home { folder: throwaway() };
        copy_folder(home, &copy.path());
        let Ok(text) = fs::read_to_string(home.join("home.json")) else { return copy };
        let there = copy.path();
        let adopted = text.replace(home.to_str().expect("text"), there.to_str().expect("text"));
        fs::write(there.join("home.json"), adopted).expect("the copy's home.json");
        copy
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn channel(&self, agent: &str, folder: &str) -> PathBuf {
        self.path().join("channels/agent").join(agent).join(folder)
    }

    /// The program with `args`, ready to be stepped; it counts from its first touch of the home.
    pub(crate) fn stepper<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Stepper {
        Stepper::new(env!("CARGO_BIN_EXE_netsky"))
            .args(args)
            .env("NETSKY_HOME", self.path())
            .env("HOME", self.folder.path())
            .env("PATH", "/usr/bin:/bin")
            .cwd(self.folder.path())
            .from_first_touch_of(self.path())
    }

    /// Runs the program to its end, which must be exit 0.
    pub(crate) fn netsky<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Result<Run> {
        let args: Vec<_> = args.into_iter().collect();
        let run = self.stepper(args.iter().copied()).run()?;
        ensure!(run.ended == Ended::Exited(0), "netsky {args:?}: {:?}: {}", run.ended, run.stderr);
        Ok(run)
    }

    /// Drains agent7 and answers what was surfaced; exit 7 says that something was put aside, which is no failure here.
    pub(crate) fn drain(&self) -> Result<Vec<Surfacing>> {
        let run = self.stepper(DRAIN).run()?;
        ensure!(matches!(run.ended, Ended::Exited(0 | 7)), "drain: {:?}: {}", run.ended, run.stderr);
        Ok(surfacings(&run.stdout))
    }

    /// Reads every envelope of `agent`; an error when one is partial, changed, or in two places.
    ///
    /// Bytes in `poison/` may be anything and are left out.
    pub(crate) fn audit(&self, agent: &str) -> Result<Audit> {
        let mut found = BTreeMap::new();
        for folder in FOLDERS {
            for file in names(&self.channel(agent, folder))? {
                if folder == "poison" {
                    continue;
                }
                let path = self.channel(agent, folder).join(&file);
                let placed = placed(folder, &path, &file).with_context(|| path.display().to_string())?;
                let (id, placed) = placed;
                if let Some(other) = found.insert(id.clone(), placed) {
                    anyhow::bail!("I1: {id} is in {folder} and in {}", other.folder);
                }
            }
        }
        Ok(Audit { found })
    }

    /// I2: whatever waits, is held, was taken or is a dead letter has lost no more attempts in all than deaths explain,
    /// also where nobody saw the text.
    pub(crate) fn attempts_are_explained(&self, agent: &str, deaths: Deaths) -> Result<()> {
        let Deaths { readers, held } = deaths;
        let mut spent = BTreeMap::new();
        for folder in FOLDERS {
            for name in self.files(agent, folder)?.iter().filter_map(|file| Name::parse(file)) {
                spent.insert(name.key.id.as_str().to_owned(), name.attempt as usize - 1);
            }
        }
        spent.retain(|_, attempts| *attempts > 0);
        let all: usize = spent.values().sum();
        ensure!(all <= held, "I2: {all} attempts spent by {readers} crashes of readers of {held}: {spent:?}");
        Ok(())
    }

    /// The names in one folder of `agent`.
    pub(crate) fn files(&self, agent: &str, folder: &str) -> Result<Vec<String>> {
        names(&self.channel(agent, folder))
    }
}

/// Where one envelope was found.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) folder: &'static str,
    pub(crate) attempt: u32,
    pub(crate) text: String,
}

/// Every whole envelope of one agent, by id.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) found: BTreeMap<String, Placed>,
}

impl Audit {
    /// How many envelopes say `text`.
    pub(crate) fn saying(&self, text: &str) -> usize {
        self.found.values().filter(|placed| placed.text == text).count()
    }

    pub(crate) fn folder_of(&self, id: &str) -> Option<&'static str> {
        self.found.get(id).map(|placed| placed.folder)
    }
}

fn placed(folder: &'static str, path: &Path, file: &str) -> Result<(String, Placed)> {
    let name = Name::parse(file).context("not a name of the bus")?;
    let fits = match name.stage {
        Stage::Waiting => folder == "inbox",
        Stage::Claimed(_) => folder == "claimed",
        Stage::Taken(_) => ["delivered", "acked", "forwarded"].contains(&folder),
    };
    ensure!(fits, "a name of another folder");
    let envelope = Envelope::parse(&fs::read(path)?).context("I4: partial or changed")?;
    ensure!(envelope.digest.is_some(), "I4: without a digest");
    let id = name.key.id.as_str().to_owned();
    ensure!(envelope.id.as_ref().is_some_and(|inside| inside.as_str() == id), "another id inside");
    Ok((id, Placed { folder, attempt: name.attempt, text: envelope.text }))
}

/// One `<channel …>` element on standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surfacing {
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) redelivered: bool,
}

/// The elements in what `channel drain` printed, in order.
pub(crate) fn surfacings(stdout: &str) -> Vec<Surfacing> {
    let heads = stdout.split("<channel ").skip(1).filter_map(|rest| rest.split_once('>'));
    heads
        .map(|(head, _)| Surfacing {
            id: attribute(head, "id").unwrap_or_default().to_owned(),
            attempt: attribute(head, "attempt").map_or(1, |text| text.parse().expect("a number")),
            redelivered: attribute(head, "redelivered") == Some("true"),
        })
        .collect()
}

/// What readers that died can have cost: each no more than what it held.
#[derive(Clone, Copy)]
pub(crate) struct Deaths {
    readers: usize,
    held: usize,
}

impl Deaths {
    pub(crate) const NONE: Deaths = Deaths::one_at_a_time(0);

    /// Readers that take one message at a time, as every `drain` into text does: those behind it pay nothing.
    pub(crate) const fn one_at_a_time(readers: usize) -> Deaths {
        Deaths { readers, held: readers }
    }

    /// And one more, of a `drain` into JSON, which holds up to so many at once.
    pub(crate) const fn and_one_of_a_batch(self, batch: usize) -> Deaths {
        Deaths { readers: self.readers + 1, held: self.held + batch }
    }
}

/// I2: every repeat is flagged with a higher attempt; none comes more often, and not more come in all, than deaths explain.
pub(crate) fn repeats_are_flagged(surfaced: &[Surfacing], deaths: Deaths) -> Result<()> {
    let Deaths { readers, held } = deaths;
    let mut last: BTreeMap<&str, (usize, u32)> = BTreeMap::new();
    for one in surfaced {
        ensure!(one.redelivered == (one.attempt >= 2), "flag and attempt disagree: {one:?}");
        let (count, attempt) = last.get(&*one.id).copied().unwrap_or_default();
        ensure!(one.attempt > attempt, "I2: {} surfaced again as attempt {}", one.id, one.attempt);
        ensure!(count <= readers, "I2: {} surfaced {} times after {readers} crashes", one.id, count + 1);
        last.insert(&one.id, (count + 1, one.attempt));
    }
    let repeats = surfaced.len() - last.len();
    ensure!(repeats <= held, "I2: {repeats} repeats in all after {readers} crashes of readers of {held}");
    Ok(())
}

fn attribute<'a>(head: &'a str, key: &str) -> Option<&'a str> {
    let start =
        head.find(&format!(" {key}=\"")).or_else(|| head.find(&format!("{key}=\"")).filter(|at| *at == 0))?;
    head[start..].split('"').nth(1)
}

/// On a file system in memory where there is one and no other place is said: a kill loses no page cache, so a disk would only be slow.
fn throwaway() -> TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = memory.is_dir() && std::env::var_os("TMPDIR").is_none();
    let made = if in_memory { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a folder for a throwaway home")
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // The folder may be what the killed program was about to make.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context(folder.display().to_string()),
    };
    let mut names: Vec<String> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

fn copy_folder(from: &Path, to: &Path) {
    DirBuilder::new().mode(0o700).create(to).expect("a folder of the copy");
    for entry in fs::read_dir(from).expect("the template") {
        let entry = entry.expect("an entry of the template");
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("its type");
        if kind.is_dir() {
            copy_folder(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).expect("a file of the copy");
        }
    }
}
