//! The steps of a harvest, under the lock of its repository.

use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_disk::{sweep, throwaway};
use netsky_model::id::Sender;
use netsky_model::task::{Actor, How, State};

use super::job::{Job, Landed, Outcome};
use super::mark::Landing;
use super::pick::{Picked, pick};
use super::seen::{self, Seen};
use super::target::{MARK, SWEEP, Target};
use super::{checkout, land, links, note, source};
use crate::gate::{self, Verdict};
use crate::git::Sha;
use crate::task::Board;
use crate::{Error, Result};

/// Longest that a clone may take to hand over its branch: less than others wait for the lock of the repository.
const LIMIT: Duration = Duration::from_secs(600);

/// Bring a task's branch to `main`.
///
/// # Errors
/// The system, git or a lock failed, or a repository is not there. Nothing is lost then: `main` is its old or its new tip, and
/// the next harvest goes on.
pub fn harvest(job: &Job) -> Result<Outcome> {
    let target = Target::of(job)?;
    let _lock = locked(job, &target)?;
    if let Some(behind) = clear(job, &target)? {
        return Ok(behind);
    }
    let outcome = steps(job, &target);
    // What was scratch goes whatever came of it; who dies before that leaves it to the next.
    let cleared = match outcome {
        Ok(_) => tidy(job, &target),
        Err(_) => clear(job, &target).map(drop),
    };
    let outcome = outcome?;
    cleared?;
    Ok(outcome)
}

/// Bring a task's landing to its end where its files are behind; why they still are.
///
/// # Errors
/// As [`harvest`].
pub fn settle(job: &Job) -> Result<Option<String>> {
    let target = Target::of(job)?;
    if note::read(job, &target)?.is_none_or(|note| note.task != job.task.as_str()) {
        return Ok(None);
    }
    let _lock = locked(job, &target)?;
    Ok(match clear(job, &target)? {
        Some(Outcome::Behind { why, .. }) => Some(why),
        _ => None,
    })
}

fn locked(job: &Job, target: &Target) -> Result<[Lock; 2]> {
    let busy = || Error::Busy { repo: job.repo.clone(), secs: job.patience.as_secs() };
    target.locked(job, job.patience)?.ok_or_else(busy)
}

/// Bring what a dead harvest left to its end: its processes, what it was landing, its scratch. What to say where files are behind.
fn clear(job: &Job, target: &Target) -> Result<Option<Outcome>> {
    let mut behind = None;
    if let Some(note) = note::read(job, target)? {
        sweep(target)?;
        let why = land::finish(job, target, &note)?;
        behind = why.map(|why| Outcome::Behind { sha: note.new, why });
    }
    tidy(job, target)?;
    Ok(behind)
}

/// Leave nothing of a landing but what landed.
fn tidy(job: &Job, target: &Target) -> Result<()> {
    discard(job, target)?;
    target.repo.unkeep()
}

/// Remove what is scratch, whoever left it.
pub(super) fn discard(job: &Job, target: &Target) -> Result<()> {
    let scratch = target.scratch(job);
    if !netsky_disk::state::exists(&scratch)? {
        return Ok(());
    }
    sweep(target)?;
    crate::point("work.harvest.clear")?;
    Ok(throwaway::discard(&scratch)?)
}

/// A git of a dead harvest may still be at work on the same refs, and a gate with all that it started.
fn sweep(target: &Target) -> Result<()> {
    sweep::sweep_marked_trees(MARK, &target.key, SWEEP)?;
    Ok(())
}

fn steps(job: &Job, target: &Target) -> Result<Outcome> {
    if let Some(dirty) = checkout::dirty(job, target)? {
        return Ok(dirty);
    }
    let scratch = match source::fetch(job, target, LIMIT)? {
        Ok(scratch) => scratch,
        Err(why) => return Ok(Outcome::Refused(why)),
    };
    for _ in 0..=job.retries {
        if let Some(other) = target.repo.alias(&job.main)? {
            return Ok(Outcome::Refused(format!("{} is another name of {other}", job.main.short())));
        }
        let Some(main) = target.repo.commit(job.main.as_str())? else {
            return Ok(Outcome::Refused(format!("{} is not there", job.main)));
        };
        let Some(outcome) = attempt(job, target, &scratch, &main)? else { continue };
        if let Outcome::AlreadyLanded { sha } = &outcome
            && !job.is_dry
        {
            Landing::keep_as_there(job, sha, &scratch.tip)?;
        }
        return Ok(outcome);
    }
    Ok(Outcome::Moved { tries: job.retries + 1 })
}

/// One try on a `main` that stands still; none if it moved.
fn attempt(job: &Job, target: &Target, scratch: &source::Scratch, main: &Sha) -> Result<Option<Outcome>> {
    let work = match seen::look(job, scratch, main)? {
        Seen::Work(work) => work,
        Seen::Over(outcome) => return Ok(Some(outcome)),
    };
    crate::point("work.harvest.fetched")?;
    let picked = match pick(job, scratch, main, &work)? {
        Picked::Commits(commits) => commits,
        Picked::Conflict { commit, files } => return Ok(Some(Outcome::Conflict { commit, files })),
    };
    let Some(new) = picked.last().cloned() else { return work.nothing(scratch, main).map(Some) };
    crate::point("work.harvest.picked")?;
    if let Some(why) = links::unfit(scratch, main, &new)? {
        return Ok(Some(Outcome::Refused(why)));
    }
    let shut = match gate::pass(job, target, scratch, main, &new)? {
        Verdict::None => None,
        Verdict::Passed(shut) => Some(shut),
        Verdict::Failed { status, log, shut } => {
            return Ok(Some(Outcome::GateFailed { status, log, shut }));
        }
        Verdict::Refused(why) => return Ok(Some(Outcome::Refused(why))),
    };
    crate::point("work.harvest.gated")?;
    if job.is_dry {
        return Ok(Some(Outcome::WouldLand { commits: picked.len(), gate: shut }));
    }
    if let Some(why) = unwanted(job)? {
        return Ok(Some(Outcome::Refused(why)));
    }
    let sources = work.commits.iter().map(|piece| piece.commit.clone());
    Landing::new(job, (main, &new, &scratch.tip), picked.len(), shut).keep(job, sources)?;
    match land::land(job, target, scratch, main, &new)? {
        land::Came::Landed(tree) => Ok(Some(Outcome::Landed(Landed {
            sha: new,
            commits: picked,
            tip: scratch.tip.clone(),
            gate: shut,
            tree,
        }))),
        land::Came::Dirty(files) => Ok(Some(Outcome::DirtyMain { files })),
        land::Came::Moved => Ok(None),
    }
}

/// Why a task is wanted no more: who said so while the gate ran was told that it is so.
fn unwanted(job: &Job) -> Result<Option<String>> {
    let task = Board::new(&job.layout, Actor::Keeper(Sender::owner())).get(&job.task)?;
    let Some(now) = task else { return Ok(None) };
    let is_changed = job.seen.as_ref().is_some_and(|seen| (&seen.repo, &seen.main) != (&now.repo, &now.main));
    let what = match now.state {
        State::Closed { how: How::Dropped, .. } => "dropped",
        _ if is_changed => "said to land elsewhere",
        _ => return Ok(None),
    };
    Ok(Some(format!("the task was {what} meanwhile")))
}
