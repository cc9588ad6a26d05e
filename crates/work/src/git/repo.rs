//! One repository, and what is asked of it. It is always named in full: nothing is looked for in the folders above.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::{Dir, read_users_file};
use netsky_disk::{ReadError, copy, state, throwaway};

use super::{Failed, Git, LONG, RawCommit, Reach, RefName, Run, SHORT, Sha, Told};
use crate::{Error, Result};

/// A repository's folder, and where its files are laid out if they are.
#[derive(Debug, Clone)]
pub struct Repo {
    git: Git,
    dir: PathBuf,
    tree: Option<PathBuf>,
    index: Option<PathBuf>,
    settings: &'static [&'static str],
}

/// What says of a pack that it is kept by us.
const KEPT: &[u8] = b"netsky: until what lands is on its branch\n";
/// Most bytes of the file that says where a history is cut.
const CUT: u64 = 64 * 1024 * 1024;
/// What nobody misses, or somebody else makes durable.
const UNSYNCED: &[&str] = &["core.fsync=none", "transfer.unpackLimit=1"];

impl Repo {
    /// The repository whose folder (`.git`, or the whole of a bare one) that is.
    pub fn new(git: &Git, dir: &Path) -> Repo {
        Repo { git: git.clone(), dir: dir.to_owned(), tree: None, index: None, settings: &[] }
    }

    /// The same, with files.
    #[must_use]
    pub fn with_tree(mut self, tree: &Path) -> Repo {
        self.tree = Some(tree.to_owned());
        self
    }

    /// The same, with another index.
    #[must_use]
    pub fn with_index(mut self, index: &Path) -> Repo {
        self.index = Some(index.to_owned());
        self
    }

    /// The same, of which git makes nothing durable.
    #[must_use]
    pub fn unsynced(mut self) -> Repo {
        self.settings = UNSYNCED;
        self
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The git that it is used by.
    pub fn git(&self) -> &Git {
        &self.git
    }

    fn run_with(&self, args: &[&str], input: &[u8], limit: Duration) -> Result<Told> {
        let mut front = vec![format!("--git-dir={}", text(&self.dir)?)];
        if let Some(tree) = &self.tree {
            front.push(format!("--work-tree={}", text(tree)?));
        }
        let index = self.index.as_deref().map(text).transpose()?;
        let set: Vec<(&str, &str)> = index.iter().map(|index| ("GIT_INDEX_FILE", *index)).collect();
        self.git.tell(&Run {
            settings: self.settings,
            front,
            args,
            input,
            reach: Reach::Files,
            limit,
            set: &set,
        })
    }

    /// Ask; an exit code is an answer.
    pub(crate) fn tell(&self, args: &[&str], input: &[u8]) -> Result<Told> {
        self.run_with(args, input, SHORT)
    }

    /// Ask for text, without the line's end.
    pub(crate) fn ask(&self, args: &[&str], input: &[u8]) -> Result<String> {
        let out = self.bytes(args, input)?;
        Ok(String::from_utf8_lossy(&out).trim_end_matches('\n').to_owned())
    }

    /// Ask for bytes.
    pub(crate) fn bytes(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>> {
        self.tell(args, input)?.well(args[0])
    }

    /// Which of these objects it keeps by no name: no name is of them, nor of a commit that is behind them.
    ///
    /// # Errors
    /// It has not all that is before what it has, so that this says nothing; or git fails.
    pub(crate) fn lacks(&self, mut all: BTreeSet<Sha>) -> Result<BTreeSet<Sha>> {
        let lines = |all: &BTreeSet<Sha>| all.iter().map(|sha| format!("{sha}\n")).collect::<String>();
        if all.is_empty() {
            return Ok(all);
        }
        if self.is_partial()? || state::exists(self.common()?.join("shallow"))? {
            let why = "it has a part of what is before its commits (a shallow or partial clone, or such a fetch), so nobody can tell what it keeps";
            return Err(Error::unfit(&self.dir, why));
        }
        let kinds = self.ask(&["cat-file", "--batch-check=%(objecttype)"], lines(&all).as_bytes())?;
        // Of what is not there git says that, and not its kind.
        let kinds: BTreeMap<&Sha, &str> = all.iter().zip(kinds.lines()).collect();
        let of = |is_it: &dyn Fn(&str) -> bool| -> BTreeSet<Sha> {
            kinds.iter().filter(|(_, kind)| is_it(kind)).map(|(sha, _)| (*sha).clone()).collect()
        };
        let (commits, gone) = (of(&|kind| kind == "commit"), of(&|kind| kind.ends_with(" missing")));
        if !commits.is_empty() {
            // What was fetched and refused may be there without what is before it.
            let args = ["rev-list", "--missing=allow-any", "--stdin", "--not", "--all"];
            let own = self.ask(&args, lines(&commits).as_bytes())?;
            let own: HashSet<&str> = own.lines().collect();
            all.retain(|sha| !commits.contains(sha) || own.contains(sha.as_str()));
        }
        // Tags, and what else names may be of. Last, for of many names it takes long.
        if !all.is_empty() {
            let named = self.ask(&["for-each-ref", "--format=%(objectname)"], &[])?;
            let named: HashSet<&str> = named.lines().collect();
            all.retain(|sha| gone.contains(sha) || !named.contains(sha.as_str()));
        }
        Ok(all)
    }

    /// Do what takes long: fill a folder.
    pub(crate) fn fill(&self, args: &[&str]) -> Result<()> {
        self.run_with(args, &[], LONG)?.well(args[0]).map(drop)
    }

    /// The object that a name stands for, as a commit; none if there is none.
    pub fn commit(&self, name: &str) -> Result<Option<Sha>> {
        let asked = format!("{name}^{{commit}}");
        let told = self.tell(&["rev-parse", "--verify", "--quiet", "--end-of-options", &asked], &[])?;
        match told.code {
            0 => self.sha("rev-parse", &told.out).map(Some),
            1 => Ok(None),
            _ => told.well("rev-parse").map(|_| None),
        }
    }

    /// Commits as they are written, in the order in which they are asked for. All in one answer, which has its limit.
    pub(crate) fn commits(&self, all: &[&Sha]) -> Result<Vec<RawCommit>> {
        let asked: String = all.iter().map(|sha| format!("{sha}\n")).collect();
        let told = self.bytes(&["cat-file", "--batch"], asked.as_bytes())?;
        let mut rest = &told[..];
        all.iter().map(|sha| RawCommit::first_of(sha, &mut rest)).collect()
    }

    pub(crate) fn sha(&self, what: &str, out: &[u8]) -> Result<Sha> {
        let text = String::from_utf8_lossy(out);
        let sha = text.trim_end_matches('\n').parse();
        sha.map_err(|e| Failed::Unread { what: what.to_owned(), why: format!("{e}") }.into())
    }

    /// Write an object.
    pub(crate) fn write(&self, kind: &str, bytes: &[u8]) -> Result<Sha> {
        let out = self.bytes(&["hash-object", "-w", "-t", kind, "--stdin"], bytes)?;
        self.sha("hash-object", &out)
    }

    /// Whether a commit is another or among those before it.
    pub(crate) fn is_before(&self, old: &Sha, new: &Sha) -> Result<bool> {
        if old == new {
            return Ok(true);
        }
        let told = self.tell(&["merge-base", "--is-ancestor", old.as_str(), new.as_str()], &[])?;
        match told.code {
            1 => Ok(false),
            _ => told.well("merge-base").map(|_| true),
        }
    }

    /// Fetch one ref from a repository of this machine into one of ours; its commits and all they need, each looked at (A8, A9).
    pub(crate) fn fetch(&self, from: &Path, theirs: &RefName, ours: &RefName, limit: Duration) -> Result<()> {
        let rule = format!("+{theirs}:{ours}");
        self.fetch_refs_with(text(from)?, &rule, &[], Reach::Files, self.settings, limit)
    }

    /// Have what a commit of another repository of ours needs beside what is here, as one synced pack and without a name; kept from
    /// `git repack -ad` and `git gc --prune=now` until [`Repo::unkeep`]. Whatever of it is somebody else's was looked at when it
    /// came there.
    pub(crate) fn take(&self, from: &Repo, new: &Sha, old: &Sha) -> Result<()> {
        let place = self.place();
        throwaway::create_at(&place)?;
        let (to, input) = (place.join("pack"), format!("{new}\n^{old}\n"));
        let theirs = borrowed(&from.objects())?;
        let run = Run {
            settings: self.settings,
            front: vec![format!("--git-dir={}", text(&self.dir)?)],
            args: &["pack-objects", "--quiet", "--revs", text(&to)?],
            input: input.as_bytes(),
            reach: Reach::Files,
            limit: LONG,
            set: &[("GIT_ALTERNATE_OBJECT_DIRECTORIES", &theirs)],
        };
        let told = self.git.run(&run)?;
        let (made, packs) = (Dir::look_into(&place)?, Dir::look_into(self.objects().join("pack"))?);
        for hash in String::from_utf8_lossy(&told).lines() {
            // Before the pack is there for a git that repacks, and by its index at the last: what it has not seen it does not remove.
            copy::write_new(&made, &format!("pack-{hash}.keep"), KEPT)?;
            for end in ["keep", "pack", "rev", "idx"] {
                let name = format!("pack-{hash}.{end}");
                match made.rename(&name, &packs, &name) {
                    // The same pack is there already, or this git makes no such file.
                    Err(e) if e.is_exists() || (end == "rev" && e.is_not_found()) => {}
                    moved => moved?,
                }
                if end == "keep" {
                    crate::point("work.take.kept")?;
                }
            }
        }
        Ok(throwaway::remove(&place)?)
    }

    /// Where its objects are.
    pub(crate) fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// Where a pack is made, on the file system that it is for.
    fn place(&self) -> PathBuf {
        self.objects().join("netsky")
    }

    /// Leave to git again what was taken.
    pub(crate) fn unkeep(&self) -> Result<()> {
        if state::exists(self.place())? {
            throwaway::discard(&self.place())?;
        }
        let packs = match Dir::look_into(self.objects().join("pack")) {
            // A copy without empty folders is a repository all the same.
            Err(e) if e.is_not_found() => return Ok(()),
            packs => packs?,
        };
        for name in packs.raw_names()?.iter().filter(|name| name.as_encoded_bytes().ends_with(b".keep")) {
            let text = read_users_file(&packs.path().join(name), KEPT.len() as u64);
            if text.is_ok_and(|text| text == KEPT) {
                packs.remove(name)?;
            }
        }
        Ok(())
    }

    /// Fetch by a rule from anywhere.
    pub(crate) fn fetch_refs_with(
        &self,
        from: &str,
        rule: &str,
        more: &[&str],
        reach: Reach,
        settings: &[&str],
        limit: Duration,
    ) -> Result<()> {
        let mut args =
            vec!["fetch", "--quiet", "--no-write-fetch-head", "--no-tags", "--no-recurse-submodules"];
        args.extend(["--no-auto-maintenance", "--refmap="]);
        args.extend(more);
        args.extend(["--end-of-options", from, rule]);
        let front = vec![format!("--git-dir={}", text(&self.dir)?)];
        let run = Run { settings, front, args: &args, input: &[], reach, limit, set: &[] };
        self.git.run(&run).map(drop)
    }

    /// Push a branch as it is to where it is called the same; nothing of what is there is overwritten.
    pub(crate) fn push(&self, to: &str, name: &RefName, reach: Reach) -> Result<()> {
        let rule = format!("{name}:{name}");
        let mut args = vec!["push", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags"];
        args.extend(["--recurse-submodules=no", "--end-of-options", to, &rule]);
        let front = vec![format!("--git-dir={}", text(&self.dir)?)];
        self.git.run(&Run { front, reach, ..Run::of_files(&args) }).map(drop)
    }

    /// Set a ref to an object if it is what is expected; `None` for "must not be there". True if it is that object now, false if it is
    /// something else.
    pub(crate) fn swap(&self, name: &RefName, new: &Sha, old: Option<&Sha>, why: &str) -> Result<bool> {
        let none = "0".repeat(new.as_str().len());
        let old_text = old.map_or(none.as_str(), Sha::as_str);
        let told = self.tell(
            &["update-ref", "-m", why, "--end-of-options", name.as_str(), new.as_str(), old_text],
            &[],
        )?;
        if told.code == 0 {
            return Ok(true);
        }
        // Whether it moved is seen by a look, not by what is said: git moves it before it writes the log of `HEAD`, and may fail there.
        match self.commit(name.as_str())? {
            Some(now) if now == *new => Ok(true),
            now if now.as_ref() != old => Ok(false),
            _ => told.well("update-ref").map(|_| false),
        }
    }

    /// The ref that a name stands for which is none itself: git has that one checked out, and moves it.
    pub(crate) fn alias(&self, name: &RefName) -> Result<Option<String>> {
        let told = self.tell(&["symbolic-ref", "--quiet", name.as_str()], &[])?;
        match told.code {
            1 => Ok(None),
            _ => Ok(Some(String::from_utf8_lossy(&told.well("symbolic-ref")?).trim().to_owned())),
        }
    }

    /// Where a setting says that its files are; none where they are beside its folder.
    pub(crate) fn files(&self) -> Result<Option<PathBuf>> {
        let told = self.tell(&["config", "--type=path", "--get", "core.worktree"], &[])?;
        if told.code == 1 {
            return Ok(None);
        }
        let set = String::from_utf8_lossy(&told.well("config")?).trim_end_matches('\n').to_owned();
        let at = self.dir.join(set);
        Ok(Some(at.canonicalize().unwrap_or(at)))
    }

    /// Whether it has left some of its objects where it was cloned from.
    pub(crate) fn is_partial(&self) -> Result<bool> {
        let packs = match Dir::look_into(self.objects().join("pack")) {
            Err(e) if e.is_not_found() => return Ok(false),
            packs => packs?.names()?,
        };
        Ok(packs.iter().any(|name| name.ends_with(".promisor")))
    }

    /// Its folder by itself: where git says it is, if what is there is a file that names another.
    pub(crate) fn own(&self) -> Result<PathBuf> {
        if self.dir.is_dir() { real(&self.dir) } else { self.folder("--git-dir") }
    }

    /// What all its checkouts have together.
    pub(crate) fn common(&self) -> Result<PathBuf> {
        // Only the folder of a linked checkout has the file that says where the rest is.
        let is_linked = !self.dir.is_dir() || state::exists(self.dir.join("commondir"))?;
        if is_linked { self.folder("--git-common-dir") } else { real(&self.dir) }
    }

    fn folder(&self, which: &str) -> Result<PathBuf> {
        real(Path::new(&self.ask(&["rev-parse", "--path-format=absolute", which], &[])?))
    }
}

/// A folder of objects as git is told of it: quoted, for a path may have what separates it from the next.
fn borrowed(objects: &Path) -> Result<String> {
    Ok(format!("\"{}\"", text(objects)?.replace('\\', r"\\").replace('"', "\\\"")))
}

/// A path without links.
pub(crate) fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| netsky_disk::Error::new("find", path, e).into())
}

/// A path as git is given it.
pub(crate) fn text(path: &Path) -> Result<&str> {
    let is_fit = |text: &&str| path.is_absolute() && !text.chars().any(char::is_control);
    path.to_str().filter(is_fit).ok_or_else(|| {
        Error::unfit(path, "its path is not absolute, or has control characters or is no UTF-8")
    })
}

/// Clone with fixed settings; `args` are its options, the last two are where from and where to.
pub(crate) fn clone(git: &Git, options: &[&str], from: &str, to: &Path, settings: &[&str]) -> Result<()> {
    let mut args = vec!["clone", "--quiet", "--template=", "--no-tags", "--no-recurse-submodules"];
    args.extend(options);
    args.extend(["--end-of-options", from, text(to)?]);
    git.run(&Run { settings, ..Run::of_files(&args) }).map(drop)
}

/// Make a repository that has what a commit of another needs by reference, and this commit under some names; `options` are of `git init`.
pub(crate) fn borrow(
    lender: &Repo,
    commit: &Sha,
    names: &[RefName],
    options: &[&str],
    at: &Path,
) -> Result<Repo> {
    let mut args = vec!["init", "--quiet", "--template="];
    args.extend(options);
    args.push(text(at)?);
    let hash = if commit.is_long() { "sha256" } else { "sha1" };
    // A git that does not know one of them has what is asked for, and one that does may have another by itself.
    let set = &[("GIT_DEFAULT_HASH", hash), ("GIT_DEFAULT_REF_FORMAT", "files")];
    lender.git.run(&Run { settings: UNSYNCED, set, ..Run::of_files(&args) })?;
    let repo = Repo::new(&lender.git, &dir_in(at)).unsynced();
    let refs: String = names.iter().map(|name| format!("{commit} {name}\n")).collect();
    let (folder, objects) = (Dir::look_into(&repo.dir)?, Dir::look_into(repo.objects().join("info"))?);
    let lent = format!("{}\n", text(&lender.objects())?);
    copy::write_scratch(&objects, "alternates", lent.as_bytes())?;
    copy::write_scratch(&folder, "packed-refs", refs.as_bytes())?;
    let cut = lender.dir.join("shallow");
    match read_users_file(&cut, CUT) {
        Ok(commits) => copy::write_scratch(&folder, "shallow", &commits)?,
        Err(ReadError::Io(e)) if e.is_not_found() => {}
        Err(e) => return Err(e.on("read", &cut).into()),
    }
    Ok(repo)
}

/// Where the repository of a folder is: its `.git`, or the folder itself where that is a bare one.
pub(crate) fn dir_in(folder: &Path) -> PathBuf {
    let inner = folder.join(".git");
    if inner.symlink_metadata().is_ok() { inner } else { folder.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a7_a8_no_helper_is_run_whatever_is_fetched() {
        let temp = tempfile::tempdir().expect("a folder");
        let canary = temp.path().join("canary");
        let git = Git::find().expect("git");
        let repo = Repo::new(&git, &temp.path().join("repo.git"));
        repo.bytes(&["init", "-q", "--bare", "--template="], &[]).expect("made");
        for reach in [Reach::Files, Reach::Network] {
            let from = format!("ext::touch {}", text(&canary).expect("text"));
            assert!(repo.fetch_refs_with(&from, "refs/heads/a", &[], reach, &[], SHORT).is_err());
            assert!(!canary.exists(), "{reach:?}");
        }
    }

    #[test]
    fn what_is_taken_is_one_pack_whatever_the_folder_of_the_other_is_called() {
        let temp = tempfile::tempdir().expect("a folder");
        let git = Git::find().expect("git");
        let ours = Repo::new(&git, &temp.path().join("ours.git"));
        ours.bytes(&["init", "-q", "--bare", "--template="], &[]).expect("made");
        let tree = ours.write("tree", b"").expect("written");
        let commit = |repo: &Repo, parent: &str| {
            let text = format!("tree {tree}\n{parent}author a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nx\n");
            repo.write("commit", text.as_bytes()).expect("written")
        };
        let old = commit(&ours, "");
        let names = ["refs/heads/main".parse().expect("a name")];
        let at = temp.path().join(r#"a:"b\c""#);
        let other = borrow(&ours, &old, &names, &["--bare"], &at).expect("borrowed");
        assert_eq!(other.commit("refs/heads/main").expect("asked"), Some(old.clone()));
        let new = commit(&other, &format!("parent {old}\n"));
        assert_eq!(ours.commit(new.as_str()).expect("asked"), None);
        ours.take(&other, &new, &old).expect("taken");
        assert_eq!(ours.commit(new.as_str()).expect("asked"), Some(new));
        let packs = std::fs::read_dir(ours.dir().join("objects/pack")).expect("packs");
        assert_eq!(
            packs
                .filter(|file| file
                    .as_ref()
                    .expect("one")
                    .path()
                    .extension()
                    .is_some_and(|end| end == "pack"))
                .count(),
            1
        );
        ours.bytes(&["fsck", "--strict"], &[]).expect("whole");
    }
}
