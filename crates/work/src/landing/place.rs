//! Where a task's work comes from and where it lands: what the task says, then what `config.toml` says of that repository.

use std::path::{Path, PathBuf};

use netsky_model::id::AgentId;
use netsky_model::task::Task;
use netsky_runtime::{Gate as Terms, Repository};

use super::Desk;
use super::workspaces::WORKSPACE;
use crate::gate::{Command, Gate};
use crate::git::{RefName, Remote, Repo};
use crate::harvest::Job;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// The branch that work lands on where nobody says and a repository has it.
const MAIN: &str = "main";

impl Desk<'_> {
    /// Whose work a task is: who holds it, or will, or was said to work in its workspace.
    pub(super) fn worker(&self, task: &Task) -> Result<Option<AgentId>> {
        if let Some(agent) = task.state.holder().map(|(by, _)| by).or(task.assignee.as_ref()) {
            return Ok(Some(agent.clone()));
        }
        let last = self.last(WORKSPACE, task.id.as_str())?;
        Ok(last.and_then(|fact| fact.data["agent"].as_str()?.parse().ok()))
    }

    /// What a task's workspace is cloned from, and the branch there that it begins at.
    pub(super) fn source(&self, task: &Task) -> Result<(Remote, RefName)> {
        let named = task.repo.as_deref().ok_or_else(|| Error::NoRepository(task.id.clone()))?;
        let remote: Remote = named.parse()?;
        let main = self.repository(&remote)?.and_then(|repository| repository.main.clone());
        let main = match task.main.clone().or(main) {
            Some(main) => RefName::branch(&main)?,
            None => self.usual_branch(&remote)?,
        };
        Ok((remote, main))
    }

    /// `main`, or where a repository of this machine has none the branch that its HEAD names. What is wrong with the repository is
    /// for whoever clones it to say.
    fn usual_branch(&self, remote: &Remote) -> Result<RefName> {
        let usual = RefName::branch(MAIN)?;
        let Some(path) = remote.path().filter(|path| path.is_dir()) else { return Ok(usual) };
        crate::outside(self.layout, path)?;
        let repo = Repo::new(&self.git, &crate::git::dir_in(path));
        if !matches!(repo.commit(usual.as_str()), Ok(None)) {
            return Ok(usual);
        }
        let head = repo.bytes(&["symbolic-ref", "--quiet", "HEAD"], &[]).unwrap_or_default();
        let head = String::from_utf8_lossy(&head);
        Ok(head.trim().strip_prefix("refs/heads/").map(RefName::branch).transpose()?.unwrap_or(usual))
    }

    /// What `config.toml` says of a repository.
    pub(super) fn repository(&self, remote: &Remote) -> Result<Option<&Repository>> {
        for repository in self.config.repositories.values() {
            let same = |path: &Path| is_same(path, &repository.path);
            if remote.path().is_some_and(same) || remote_of(repository)? == *remote {
                return Ok(Some(repository));
            }
        }
        Ok(None)
    }

    /// The owner's repository that work from one lands in.
    pub(super) fn target(&self, remote: &Remote) -> Result<PathBuf> {
        let repository = self.repository(remote)?.map(|repository| repository.path.clone());
        let path = repository.or_else(|| remote.path().map(Path::to_owned));
        path.ok_or_else(|| {
            let why = "work that was cloned from an address lands in a repository of this machine: name it, with this url, \
                under [repositories.<name>] of config.toml";
            Error::Unfit { path: remote.as_str().into(), why: why.into() }
        })
    }

    /// The branch that moves where a commit lands on one: what it stands for, where it is another's name. What is wrong with the
    /// repository is for the harvest to say.
    pub(super) fn branch(&self, target: &Path, main: &RefName) -> RefName {
        let alias = || {
            crate::outside(self.layout, target)?;
            Repo::new(&self.git, &crate::git::dir_in(target)).alias(main)
        };
        let other = alias().ok().flatten();
        other
            .and_then(|other| RefName::branch(other.strip_prefix("refs/heads/")?).ok())
            .unwrap_or_else(|| main.clone())
    }

    /// Why a task's workspace is not of what the task says by now.
    pub(super) fn moved(&self, task: &Task, workspace: &Workspace) -> Result<Option<String>> {
        let target = |remote: &Remote| self.target(remote).ok();
        let (own, id) = (target(&workspace.repo), &task.id);
        let repo: Option<Remote> = task.repo.as_deref().map(str::parse).transpose()?;
        let is_same = |repo: &Remote| is_of(repo, &workspace.repo) || own.is_some() && target(repo) == own;
        let main = task.main.as_deref().map(RefName::branch).transpose()?;
        let branch = |main: &RefName| own.as_ref().map_or_else(|| main.clone(), |own| self.branch(own, main));
        let (what, is, says) = match (repo, main) {
            (Some(repo), _) if !is_same(&repo) => ("repo", workspace.repo.to_string(), repo.to_string()),
            (_, Some(main)) if main != workspace.main && branch(&main) != branch(&workspace.main) => {
                ("main", workspace.main.short().to_owned(), main.short().to_owned())
            }
            _ => return Ok(None),
        };
        let (back, way) = (
            format!("netsky task update {id} --{what} {is}"),
            format!("netsky workspace remove {id} --force"),
        );
        Ok(Some(format!(
            "its workspace is of {is}, and the task of {says} by now: `{back}` takes that back, `{way}` drops what is in the workspace"
        )))
    }

    /// What must pass before it lands.
    pub(super) fn gate(&self, workspace: &Workspace, is_allowed: bool) -> Result<Gate> {
        let own = self.repository(&workspace.repo)?.map(|repository| repository.gate.clone());
        let Terms { command, guards, limit, env, read, strict } =
            own.unwrap_or_default().above(&self.config.gate);
        let command = match command {
            None => Command::Usual,
            Some(command) if command.is_empty() => Command::None,
            Some(command) => Command::Given(command),
        };
        Ok(Gate {
            command,
            guards: guards.unwrap_or_default(),
            is_allowed,
            limit: limit.unwrap_or_default(),
            set: env,
            read: read.unwrap_or_default(),
            is_strict: strict.unwrap_or_default(),
            helper: self.helper.clone(),
        })
    }

    /// Where `main` is pushed to once work has landed.
    pub(super) fn push_to(&self, job: &Job) -> Option<String> {
        let mut all = self.config.repositories.values();
        all.find(|repository| is_same(&repository.path, &job.repo))?.push.clone()
    }
}

fn remote_of(repository: &Repository) -> Result<Remote> {
    match &repository.url {
        Some(url) => Ok(url.parse()?),
        None => Ok(crate::git::text(&repository.path)?.parse()?),
    }
}

/// Whether two paths are one folder; of what is not there the words decide.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

/// Whether two workspaces are of one repository.
pub(super) fn is_of_one(one: &Workspace, other: &Workspace) -> bool {
    is_of(&one.repo, &other.repo)
}

/// Whether two names are of one repository.
fn is_of(one: &Remote, other: &Remote) -> bool {
    one == other || one.path().zip(other.path()).is_some_and(|(one, other)| is_same(one, other))
}
