//! `main` moves: compare and swap, and the files of who has it checked out with it.
//!
//! Order, and why: the objects are durable before the note, the note before the lock on the index, that lock before `main` moves, and
//! it is held until the files are there. So a commit of the owner's cannot come between the two and take back what
//! landed, and a death leaves the checkout locked, not wrong, until the next harvest brings it to its end. Files that could not
//! follow are no longer locked, for their owner has to see to them: the note stays, and no harvest lands before they have followed.

use std::path::{Path, PathBuf};

use netsky_disk::fs::Dir;
use netsky_disk::{ReadError, state};

use super::checkout::{self, Held, Not};
use super::job::{Job, Tree};
use super::note::{self, Note};
use super::source::Scratch;
use super::target::Target;
use crate::git::{Failed, RefName, Sha};
use crate::{Error, Result};

/// What came of it.
pub(super) enum Came {
    /// It is there.
    Landed(Tree),
    /// `main` is another one by now, or other files are of it.
    Moved,
    /// The checkout has changes that are in the way: these.
    Dirty(Vec<String>),
}

/// Bring `main` from `old` to `new`, which the scratch repository has.
pub(super) fn land(job: &Job, target: &Target, scratch: &Scratch, old: &Sha, new: &Sha) -> Result<Came> {
    // Without a name there, so that the owner sees none.
    target.repo.take(&scratch.repo, new, old)?;
    sync(target.repo.dir(), &["objects/pack".into()])?;
    crate::point("work.land.fetched")?;
    // The gate took its time: whoever has `main` out now, and then whether that one was about to leave it.
    let checkout = target.checkout(job, &job.main)?;
    if let Some(dirty) = target.rebase_of(&job.main)? {
        return Ok(Came::Dirty(dirty));
    }
    let landing = Note::new(job, checkout, old, new);
    note::write(job, target, &landing)?;
    crate::point("work.land.noted")?;
    let held = match &landing.checkout {
        None => None,
        Some(checkout) => match checkout::hold(target, checkout, &landing)? {
            Ok(held) => Some(held),
            Err(not) => {
                note::remove(job, target)?;
                return Ok(match not {
                    Not::Dirty(dirty) => Came::Dirty(dirty),
                    Not::Elsewhere => Came::Moved,
                });
            }
        },
    };
    crate::point("work.land.held")?;
    // A name that has become another branch's moves that one, and nobody's files were looked at for it.
    if target.repo.alias(&job.main)?.is_some() {
        held.map_or(Ok(()), Held::let_go)?;
        note::remove(job, target)?;
        return Ok(Came::Moved);
    }
    let why = format!("netsky: harvest of {}", job.task);
    match target.repo.swap(&job.main, new, Some(old), &why) {
        Ok(true) => {}
        // Git has ended by itself and `main` is none of ours: what is locked is so by another's git, and nothing is to be finished.
        refused @ (Ok(false) | Err(Error::Git(Failed::Said { code: Some(_), .. }))) => {
            held.map_or(Ok(()), Held::let_go)?;
            note::remove(job, target)?;
            return refused.map(|_| Came::Moved);
        }
        Err(error) => return Err(error),
    }
    sync_ref(target.repo.dir(), &job.main)?;
    crate::point("work.land.moved")?;
    let tree = match held {
        Some(held) => follow(held, &landing)?,
        None => late(job, target, &landing)?,
    };
    // By the note they follow at the next harvest.
    if !matches!(tree, Tree::Behind(_)) {
        note::remove(job, target)?;
    }
    Ok(Came::Landed(tree))
}

/// The files follow; that they cannot undoes nothing.
fn follow(held: Held, landing: &Note) -> Result<Tree> {
    // A new branch where the old one was needs no lock of git's: the files are that branch's now.
    if !held.has_out(&landing.main)? {
        return held.let_go().map(|()| Tree::None);
    }
    match held.move_files(&landing.old, &landing.new) {
        Ok(()) => held.take_effect().map(|()| Tree::Moved),
        Err(Error::Git(failed)) => {
            held.let_go()?;
            Ok(Tree::Behind(failed.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// The files of who has checked it out since nobody had: a git that was at that began at the old tip.
fn late(job: &Job, target: &Target, landing: &Note) -> Result<Tree> {
    // It has landed, whatever is wrong with a checkout.
    let Ok(Some(checkout)) = target.checkout(job, &landing.main) else { return Ok(Tree::None) };
    Ok(checkout::catch_up(target, &checkout, landing)?.map_or(Tree::Moved, Tree::Behind))
}

/// What a dead harvest was landing, or one whose files could not follow: if `main` has it they follow, if not all is as it was.
/// Why they are still behind, and then the note stays.
pub(super) fn finish(job: &Job, target: &Target, note: &Note) -> Result<Option<String>> {
    unstick(job, target, note)?;
    let now = target.repo.commit(note.main.as_str())?;
    let has_it = match &now {
        Some(now) => {
            target.repo.commit(note.new.as_str())?.is_some() && target.repo.is_before(&note.new, now)?
        }
        None => false,
    };
    if has_it {
        // Its swap may not have been durable yet.
        sync_ref(target.repo.dir(), &note.main)?;
    }
    let is_last = has_it && now.as_ref() == Some(&note.new);
    let checkout = match note.checkout.clone() {
        None if is_last => target.checkout(job, &note.main)?,
        noted => noted,
    };
    let mut behind = None;
    if let Some(checkout) = checkout {
        if is_last {
            behind = checkout::catch_up(target, &checkout, note)?;
        } else if let Some(held) = checkout::held(target, &checkout, note)? {
            held.let_go()?;
        }
    }
    crate::point("work.land.finished")?;
    if behind.is_none() {
        note::remove(job, target)?;
    }
    Ok(behind)
}

/// Remove what a dead harvest's git left locked, of which all processes are ended: the branch, and `HEAD`, which git locks with it;
/// where another's git has the branch, it may have `HEAD` too.
fn unstick(job: &Job, target: &Target, note: &Note) -> Result<()> {
    let begun = written(&target.note(job))?;
    let until = netsky_disk::clock::boot() + PATIENCE;
    for lock in [format!("{}.lock", note.main), "HEAD.lock".to_owned()] {
        let lock = target.repo.dir().join(lock);
        while is_there(&lock)? {
            if !may_be_of(note, &lock)? || written(&lock)?.is_some_and(|at| Some(at) < begun) {
                return Ok(());
            }
            if netsky_disk::clock::boot() >= until {
                let Some((folder, name)) = lock.parent().zip(lock.file_name()) else { return Ok(()) };
                Dir::look_into(folder)?.remove(name)?;
                break;
            }
            netsky_disk::clock::pause(LOOK);
        }
    }
    Ok(())
}

/// Whether a lock is there; none is where refs are kept in tables.
fn is_there(lock: &Path) -> Result<bool> {
    match state::exists(lock) {
        Err(e) if e.is_no_folder() => Ok(false),
        there => Ok(there?),
    }
}

/// Whether a git that was at a landing may have left a lock: it writes there what is to be, as far as it comes, and to `HEAD`'s nothing.
fn may_be_of(note: &Note, lock: &Path) -> Result<bool> {
    let Some((folder, name)) = lock.parent().zip(lock.file_name()) else { return Ok(false) };
    match Dir::look_into(folder)?.read(name, MOST_LOCK) {
        Ok(text) => Ok(format!("{}\n", note.new).as_bytes().starts_with(&text)),
        Err(ReadError::Io(e)) => Ok(e.is_not_found()),
        Err(_) => Ok(false),
    }
}

/// When a file was written, in seconds; none if it is not there.
fn written(path: &Path) -> Result<Option<i64>> {
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return Ok(None) };
    Ok(Dir::look_into(folder)?.times(name)?.map(|times| times.written))
}

/// How long a lock on a ref is seen before it is known to be a dead one's: a live git has it for a moment.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
/// Most bytes of one that are looked at.
const MOST_LOCK: u64 = 4096;
/// Pause between two looks.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Git syncs what it writes but not the folders that it renames in.
fn sync(dir: &Path, folders: &[PathBuf]) -> Result<()> {
    for folder in folders {
        match Dir::look_into(dir.join(folder)) {
            Ok(folder) => folder.sync()?,
            // Refs may be packed, or kept in tables; a file is in this one's place then.
            Err(e) if e.is_not_found() || e.is_no_folder() => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn sync_ref(dir: &Path, name: &RefName) -> Result<()> {
    let folder = Path::new(name.as_str()).parent().map(Path::to_owned).unwrap_or_default();
    sync(dir, &[folder, "reftable".into()])
}
