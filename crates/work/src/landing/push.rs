//! Where `config.toml` says so, `main` is pushed once work has landed. What landed stands, whatever comes of it.

use serde_json::json;

use super::{Desk, Harvested};
use crate::Result;
use crate::git::{Reach, Remote};
use crate::harvest::{Job, Landing, owners};

impl Desk<'_> {
    /// Pushes `main` as it is now, unless that was done for this landing.
    pub(super) fn push(&self, job: &Job, landing: &Landing, said: &mut Harvested) -> Result<()> {
        let Some(to) = self.push_to(job) else { return Ok(()) };
        let key = format!("{}/{}", landing.task, landing.sha);
        if self.last("harvest", &format!("{key}/push"))?.is_some() {
            return Ok(());
        }
        match pushed(job, &to) {
            Ok(remote) => {
                crate::point("work.landing.pushed")?;
                let data = json!({ "task": landing.task, "sha": landing.sha, "remote": remote });
                self.facts.append_once("harvest.pushed", &format!("{key}/push"), data)?;
            }
            Err(error) => {
                let (main, to) = (job.main.short(), Remote::shown(&to));
                said.troubles.push(format!("{main} is not pushed to {to}: {error}"));
            }
        }
        Ok(())
    }
}

/// Pushes; where to.
fn pushed(job: &Job, to: &str) -> Result<Remote> {
    // No harvest's: others that end what a dead one left must not meet it.
    let repo = owners(job)?;
    let remote: Remote = match to.contains(['/', ':']) {
        true => to.parse()?,
        false => repo.ask(&["remote", "get-url", "--push", "--end-of-options", to], &[])?.parse()?,
    };
    let reach = match remote.path() {
        Some(path) => {
            crate::outside(&job.layout, path)?;
            Reach::Files
        }
        None => Reach::Network,
    };
    repo.push(remote.as_str(), &job.main, reach)?;
    Ok(remote)
}
