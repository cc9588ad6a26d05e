//! Which files a branch that has not landed has changed: fetched as for a harvest, and thrown away.

use std::time::Duration;

use super::job::Job;
use super::mark::changed;
use super::run::discard;
use super::source;
use super::target::Target;
use crate::Result;

/// How long others who harvest into the repository are waited for: who asks only tells somebody.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest that a clone may take to hand over its branch: whoever lands something else waits for it.
const LIMIT: Duration = Duration::from_secs(30);

/// The files that a branch has changed since it began, as plain text; none where that cannot be seen now.
///
/// # Errors
/// The repository is not there, or git or the system fails.
pub fn touched(job: &Job) -> Result<Option<Vec<String>>> {
    let (target, Some(base)) = (Target::of(job)?, &job.base) else { return Ok(None) };
    let Some(_locks) = target.locked(job, PATIENCE)? else { return Ok(None) };
    discard(job, &target)?;
    let files = match source::fetch(job, &target, LIMIT)? {
        Ok(scratch) => changed(&scratch.repo, base, &scratch.tip).map(Some),
        Err(_) => Ok(None),
    };
    discard(job, &target)?;
    files
}
