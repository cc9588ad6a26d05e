//! Where a clone works: `workspaces/<task>/repo`, a copy of its own of the repository, on its own branch.
//!
//! Promise: a workspace that is there is finished. The work is done beside it and put in place by one rename, so a
//! clone that was killed and gets its brief again either finds the commit or starts over.

use netsky_disk::fs::Dir;
use netsky_disk::random;

use super::task::Task;
use crate::demo::place::Place;
use crate::demo::programs::git;
use crate::demo::repository::{copy, text};
use crate::error::Error;

/// What a clone has to show.
pub(super) struct Done {
    /// The commit on the task's branch, by as much of its id as is told apart.
    pub(super) commit: String,
    /// What was found, in a few words.
    pub(super) headline: String,
}

/// Does the task, or finds it done.
pub(super) fn done(place: &Place, task: Task) -> Result<Done, Error> {
    let folder = Dir::create(place.layout().workspaces().join(task.word()))?;
    let repo = folder.path().join("repo");
    if !folder.exists("repo")? {
        let name = format!("unfinished-{}", random::short());
        let draft = folder.path().join(&name);
        copy(place, &place.origin(), &draft)?;
        git(place, &draft, ["checkout", "--quiet", "-b", &task.branch()])?;
        let found = task.work(place, &draft)?;
        place.put(&draft, task.file(), found.text.as_bytes())?;
        git(place, &draft, ["add", "--force", "--", task.file()])?;
        // The work is the commit, also where the repository had such a file with the same content.
        git(place, &draft, ["commit", "--quiet", "--allow-empty", "-m", &found.headline])?;
        folder.rename(&name, &folder, "repo")?;
        folder.sync()?;
    }
    let branch = format!("refs/heads/{}", task.branch());
    let commit = text(&git(place, &repo, ["rev-parse", "--verify", "--short=12", &branch])?);
    let headline = text(&git(place, &repo, ["log", "-1", "--format=%s", &branch])?);
    Ok(Done { commit, headline })
}
