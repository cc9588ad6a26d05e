//! The files of who has `main` checked out, and the lock on their index.
//!
//! Promise: nothing of the owner's is overwritten: a change that is not committed, or a file that git does not know, ignored or not, in
//! the place of one that lands, stops the harvest before `main` moves. The lock is git's own, `index.lock`, so that the
//! owner's git waits or says so; what it holds says that it is ours.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use netsky_disk::fs::{Dir, is_folder, read_users_file};
use netsky_disk::{copy, state};

use super::job::{Job, Outcome};
use super::note::Note;
use super::target::{Checkout, Target};
use super::way::Way;
use crate::git::{Failed, RefName, Repo, Sha, plain_line};
use crate::{Error, Result};

/// Git's lock on an index.
const LOCK: &str = "index.lock";
/// What a lock of a harvest begins with, before its home.
const OURS: &str = "netsky of ";
/// The index that will take its place.
const NEXT: &str = "netsky-index";
/// What says that something is going on in a checkout.
const UNDER_WAY: &[&str] = &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];
/// Most files that are named.
const MOST_FILES: usize = 20;
/// Most bytes of the file that says which branch it is of.
const MOST_HEAD: u64 = 4096;
/// Most bytes of a file that is compared with what lands.
const MOST_FILE: u64 = 32 * 1024 * 1024;
/// Most bytes of an index.
const MOST: u64 = 512 * 1024 * 1024;

/// The refusal, where the checkout is dirty now.
pub(super) fn dirty(job: &Job, target: &Target) -> Result<Option<Outcome>> {
    if let Some(files) = target.rebase_of(&job.main)? {
        return Ok(Some(Outcome::DirtyMain { files }));
    }
    let Some(checkout) = &target.checkout(job, &job.main)? else { return Ok(None) };
    if let Some(home) = locked_by(checkout)? {
        let way = match home == plain_line(&job.layout.home().to_string_lossy()) {
            false => "any harvest into this repository by that home brings it to its end".to_owned(),
            // The repository was moved, or its note is lost.
            true => format!(
                "nothing more is known of it: remove {}, and `git stash` there, for a commit would take back what landed",
                plain_line(&checkout.dir.join(LOCK).to_string_lossy())
            ),
        };
        return Ok(Some(Outcome::Refused(format!("a harvest of the home {home} died as it landed: {way}"))));
    }
    let repo = Repo::new(target.repo.git(), &checkout.dir).with_tree(&checkout.tree);
    Ok(changes(&repo, checkout)?.map(|files| Outcome::DirtyMain { files }))
}

/// The home whose harvest has locked an index. Nobody else lands now, so that one is dead; ours has been finished.
fn locked_by(checkout: &Checkout) -> Result<Option<String>> {
    let held = match Dir::look_into(&checkout.dir)?.read(LOCK, MOST_HEAD) {
        Ok(held) => String::from_utf8(held).unwrap_or_default(),
        Err(_) => return Ok(None),
    };
    let home = held.strip_prefix(OURS).and_then(|rest| rest.lines().next());
    Ok(home.map(plain_line))
}

/// What was changed in a checkout and not committed; none if nothing.
fn changes(repo: &Repo, checkout: &Checkout) -> Result<Option<Vec<String>>> {
    for name in UNDER_WAY {
        if state::exists(checkout.dir.join(name))? {
            return Ok(Some(vec![format!("{name} in {}", plain_line(&checkout.dir.to_string_lossy()))]));
        }
    }
    let args =
        ["status", "--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"];
    let told = repo.bytes(&args, &[])?;
    let entries = told.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
    let files = entries.take(MOST_FILES).map(|entry| plain_line(&String::from_utf8_lossy(&entry[3..])));
    let files: Vec<String> = files.collect();
    Ok((!files.is_empty()).then_some(files))
}

/// A checkout whose index nobody else changes.
pub(super) struct Held {
    dir: Dir,
    tree: PathBuf,
    /// With the index that will take the place of the owner's.
    repo: Repo,
    /// What moves in it.
    way: Way,
}

/// Why a checkout is not held.
pub(super) enum Not {
    /// This is in the way.
    Dirty(Vec<String>),
    /// It is not the one of the branch any more.
    Elsewhere,
}

/// Lock the index, and see that the files can follow.
pub(super) fn hold(
    target: &Target,
    checkout: &Checkout,
    note: &Note,
) -> Result<std::result::Result<Held, Not>> {
    let mut held = match lock(target, checkout, note)? {
        Ok(held) => held,
        Err(why) => return Ok(Err(Not::Dirty(vec![why]))),
    };
    crate::point("work.land.locked")?;
    // A git that lays other files out waits for the lock.
    let begun = match held.has_out(&note.main) {
        Ok(true) => held.begin(checkout, note).map(|dirty| dirty.map(Not::Dirty)),
        Ok(false) => Ok(Some(Not::Elsewhere)),
        Err(error) => Err(error),
    };
    match begun {
        Ok(None) => Ok(Ok(held)),
        Ok(Some(not)) => {
            held.let_go()?;
            Ok(Err(not))
        }
        Err(error) => {
            // The error that came first is the one to tell.
            let _ = held.let_go();
            Err(error)
        }
    }
}

/// Lock the index; why not, where somebody else has.
fn lock(target: &Target, checkout: &Checkout, note: &Note) -> Result<std::result::Result<Held, String>> {
    let held = Held::of(target, checkout)?;
    copy::write_new(&held.dir, &note.lock(), format!("{OURS}{}\n{}\n", note.home, note.token).as_bytes())?;
    // Whole from the first moment, and only where nobody has it.
    if let Err(error) = held.dir.rename(note.lock(), &held.dir, LOCK) {
        held.dir.remove(note.lock())?;
        if error.is_exists() {
            return Ok(Err(format!("{LOCK}: a git is at work there, or was killed")));
        }
        return Err(error.into());
    }
    held.dir.sync()?;
    held.clean()?;
    Ok(Ok(held))
}

/// Let files follow that may be behind: `main` has moved, and who was to move them is dead, or could not. Why they still cannot.
pub(super) fn catch_up(target: &Target, checkout: &Checkout, note: &Note) -> Result<Option<String>> {
    if !is_folder(&checkout.dir) {
        return Ok(None);
    }
    let mut held = match held(target, checkout, note)? {
        Some(held) => held,
        None => match lock(target, checkout, note)? {
            Ok(held) => held,
            Err(why) => return Ok(Some(why)),
        },
    };
    crate::point("work.land.caught")?;
    match held.rest(note) {
        Ok(true) => held.take_effect().map(|()| None),
        Ok(false) => held.let_go().map(|()| None),
        Err(Error::Git(failed)) => held.let_go().map(|()| Some(failed.to_string())),
        Err(error) => {
            // Whoever has to make room for it needs his git.
            let _ = held.let_go();
            Err(error)
        }
    }
}

/// What a dead harvest holds; none if it does not, or the lock is another's.
pub(super) fn held(target: &Target, checkout: &Checkout, note: &Note) -> Result<Option<Held>> {
    if !is_folder(&checkout.dir) {
        // A linked checkout may be removed.
        return Ok(None);
    }
    let held = Held::of(target, checkout)?;
    held.dir.remove(note.lock())?;
    let is_ours =
        held.dir.read(LOCK, MOST).is_ok_and(|said| said.trim_ascii_end().ends_with(note.token.as_bytes()));
    Ok(is_ours.then_some(held))
}

impl Held {
    fn of(target: &Target, checkout: &Checkout) -> Result<Held> {
        let dir = Dir::look_into(&checkout.dir)?;
        let repo = Repo::new(target.repo.git(), &checkout.dir).with_tree(&checkout.tree);
        let repo = repo.with_index(&checkout.dir.join(NEXT));
        Ok(Held { repo, dir, tree: checkout.tree.clone(), way: Way::default() })
    }

    /// Whether it is the one of a branch. Git is asked where its file does not say so: not every repository keeps that in one.
    pub(super) fn has_out(&self, main: &RefName) -> Result<bool> {
        let head = read_users_file(&self.dir.path().join("HEAD"), MOST_HEAD);
        if head.is_ok_and(|text| text == format!("ref: {main}\n").as_bytes()) {
            return Ok(true);
        }
        let told = self.repo.tell(&["symbolic-ref", "--quiet", "HEAD"], &[])?;
        Ok(told.code == 0 && told.out.trim_ascii() == main.as_str().as_bytes())
    }

    /// Make the next index of the one that is there; what is in the way if the files could not follow.
    fn begin(&mut self, checkout: &Checkout, note: &Note) -> Result<Option<Vec<String>>> {
        copy::copy_as_old(&self.dir, "index", NEXT, MOST)?;
        if let Some(dirty) = changes(&self.repo, checkout)? {
            return Ok(Some(dirty));
        }
        // A file that was only touched, or copied with its repository, is none that was changed; read-tree would not look.
        self.repo.fill(&["update-index", "-q", "--ignore-submodules", "--refresh"])?;
        self.way = Way::between(&self.repo, &note.old, &note.new)?;
        if let Some(said) = self.way.blocked(&self.tree) {
            return Ok(Some(vec![said]));
        }
        match self.read_tree(&["-n", "-m", "-u"], &note.old, &note.new) {
            Err(Error::Git(Failed::Said { said, .. })) => return Ok(Some(vec![said])),
            tried => tried?,
        }
        // Without it nobody could say after a power cut which files had moved.
        self.dir.sync()?;
        Ok(None)
    }

    fn read_tree(&self, how: &[&str], old: &Sha, new: &Sha) -> Result<()> {
        let mut args = vec!["read-tree", "--no-recurse-submodules"];
        args.extend(how);
        args.extend([old.as_str(), new.as_str()]);
        self.repo.fill(&args)
    }

    /// Move the files. What comes to lie in their way between the look at it and git's own is lost where it is ignored: git has no
    /// setting that keeps it.
    pub(super) fn move_files(&self, old: &Sha, new: &Sha) -> Result<()> {
        let undone =
            |e: netsky_disk::Error| Failed::Unsynced { what: "read-tree".into(), why: e.to_string() };
        let disk = Dir::look_into(&self.tree).and_then(|tree| copy::FileSystem::of(&tree)).map_err(undone)?;
        if let Some(said) = self.way.blocked(&self.tree) {
            return Err(Failed::Said { what: "read-tree".into(), code: None, said }.into());
        }
        self.read_tree(&["-m", "-u"], old, new)?;
        crate::point("work.land.laid")?;
        // Before an index says that they are there: after a power cut they would be empty, and changes of the owner's.
        Ok(disk.sync().map_err(undone)?)
    }

    /// Move what has not moved; false where there is nothing to move, for it is another branch's by now, or has followed.
    fn rest(&mut self, note: &Note) -> Result<bool> {
        // One that is there may be cut off; the files tell as much.
        self.clean()?;
        if !self.has_out(&note.main)? || self.is_of(&note.new)? {
            return Ok(false);
        }
        if !self.is_of(&note.old)? {
            let said = "there is in the index what was changed and not committed".to_owned();
            return Err(Failed::Said { what: "read-tree".into(), code: None, said }.into());
        }
        copy::copy_as_old(&self.dir, "index", NEXT, MOST)?;
        self.move_rest(&note.old, &note.new)?;
        Ok(true)
    }

    /// Whether the index, as its owner has it, is that of a commit.
    fn is_of(&self, commit: &Sha) -> Result<bool> {
        let theirs = self.repo.clone().with_index(&self.dir.path().join("index"));
        let told = theirs.tell(&["diff-index", "--cached", "--quiet", commit.as_str()], &[])?;
        match told.code {
            1 => Ok(false),
            _ => told.well("diff-index").map(|_| true),
        }
    }

    /// Move the files where some may have moved already: what changes between the two is looked at as it is, and only
    /// what is of the old or of the new tip is touched.
    fn move_rest(&mut self, old: &Sha, new: &Sha) -> Result<()> {
        let changed = Way::between(&self.repo, old, new)?.files_in(&self.tree);
        self.repo.bytes(&["update-index", "--add", "--remove", "--replace", "-z", "--stdin"], &changed)?;
        let now = self.repo.ask(&["write-tree"], &[])?.parse()?;
        self.way = Way::between(&self.repo, &now, new)?;
        let not_old = Way::between(&self.repo, old, &now)?;
        let of_new: HashSet<&[u8]> = self.way.names().collect();
        for name in not_old.names().filter(|name| of_new.contains(name) && self.holds(name)) {
            if self.is_cut_off(name, new)? {
                continue;
            }
            let said = format!("{} was changed meanwhile", plain_line(&String::from_utf8_lossy(name)));
            return Err(Failed::Said { what: "read-tree".into(), code: None, said }.into());
        }
        self.move_files(&now, new)
    }

    /// Whether a file is the beginning of what lands there: a git that found no room, or died, left it so.
    fn is_cut_off(&self, name: &[u8], new: &Sha) -> Result<bool> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(false) };
        let path = self.tree.join(name);
        // A link may lead to what is its owner's.
        if !std::fs::symlink_metadata(&path).is_ok_and(|of| of.is_file()) {
            return Ok(false);
        }
        let Ok(text) = read_users_file(&path, MOST_FILE) else { return Ok(false) };
        let told = self.repo.tell(&["cat-file", "blob", &format!("{new}:{name}")], &[])?;
        // One that is whole is not as it lands for another reason.
        Ok(told.code == 0 && text.len() < told.out.len() && told.out.starts_with(&text))
    }

    /// Whether something is in a file that could be lost: a git that dies leaves one missing or empty.
    fn holds(&self, name: &[u8]) -> bool {
        let of = std::fs::symlink_metadata(self.tree.join(OsStr::from_bytes(name)));
        of.is_ok_and(|of| !of.is_file() || of.len() > 0)
    }

    /// The next index becomes the index, and the lock goes.
    pub(super) fn take_effect(self) -> Result<()> {
        crate::point("work.land.followed")?;
        self.dir.rename_over(NEXT, &self.dir, "index")?;
        self.dir.sync()?;
        crate::point("work.land.effective")?;
        self.let_go()
    }

    /// The index stays as it is, and the lock goes.
    pub(super) fn let_go(self) -> Result<()> {
        self.clean()?;
        self.dir.remove(LOCK)?;
        self.dir.sync()?;
        Ok(())
    }

    /// Without the next index.
    fn clean(&self) -> Result<()> {
        self.dir.remove(NEXT)?;
        self.dir.remove(format!("{NEXT}.lock"))?;
        Ok(())
    }
}
