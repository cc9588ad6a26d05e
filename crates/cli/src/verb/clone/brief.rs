//! `netsky clone brief`: a task is a clone's, which has read nothing of it yet and may just have been started.

use netsky_model::dispatch::{Ask, Dispatch, Seen};
use netsky_model::id::{AgentId, Generation, TaskId};
use netsky_model::task::Task;
use netsky_runtime::Config;
use netsky_watchdog::{
    Context as Constellation, Error as Unplanned, MAX_CLONES, Plan, clones, may_hand_out, plan_clone, up,
};
use netsky_work::dispatch::Dispatches;
use netsky_work::workspace::{self, Workspace};
use serde_json::json;

use super::{dispatcher, dispatches, hands};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;
use crate::verb::workspace::looking;

/// Hand a task to a clone: one that is idle, or one that is started for it
///
/// The clone has the task's workspace, which is made where it has none, and gets a brief that says where it is and how to report.
/// A repeat goes on with what a killed one began.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which task
    task: TaskId,
    /// Which clone: 3 or agent3 [default: who the task is assigned to, an idle one, or one that is started]
    #[arg(long, value_parser = AgentId::from_shorthand)]
    agent: Option<AgentId>,
    /// What kind of program: command, claude or codex [default: as config.toml says, or any]
    #[arg(long)]
    runtime: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let caller = cx.caller();
        may_hand_out(&caller, "clone brief")?;
        let (constellation, board) = (cx.constellation()?, cx.board()?);
        let dispatches = dispatches(&constellation, &board);
        let look = || Ok::<_, Error>(clones(&constellation)?);
        let ask = Ask {
            agent: self.agent.as_ref(),
            runtime: self.runtime.as_deref(),
            most: Config::last_good(constellation.layout).clones.most as usize,
            highest: MAX_CLONES,
        };
        // Whose clone ended for good is in nobody's hands, though no tick has come by.
        dispatches.refresh(&self.task, look)?;
        let task = dispatches.free(&self.task, &ask)?;
        let (seen, _) = look()?;
        let decided = dispatches.decide(&self.task, &dispatcher(&caller), &ask, &seen)?;
        let runs = seen.iter().find(|seen| seen.agent == decided.agent && seen.lives);
        let hand_over = HandOver { cx: &constellation, dispatches: &dispatches, decided: &decided };
        if runs.is_none() {
            // For one that cannot be started nothing is made.
            hand_over.plan(self.runtime.clone(), None)?;
        }
        let place = hand_over.or_withdraw(place(cx, &task, &decided.agent))?;
        let generation = match runs {
            Some(Seen { generation, .. }) => *generation,
            None => hand_over.start(self.runtime.clone(), place.as_ref())?,
        };
        let briefed = dispatches.brief(&decided, generation)?;
        tell(cx, &briefed, place.as_ref(), runs.is_none())
    }
}

/// What was decided, on its way.
struct HandOver<'a> {
    cx: &'a Constellation<'a>,
    dispatches: &'a Dispatches<'a>,
    decided: &'a Dispatch,
}

impl HandOver<'_> {
    /// What cannot be begun is not decided either.
    fn or_withdraw<T, E: Into<Error>>(&self, begun: Result<T, E>) -> Result<T, Error> {
        begun.map_err(|error| {
            // The error that came first is the one to tell; what stays a tick forgets.
            let _ = self.dispatches.withdraw(self.decided);
            error.into()
        })
    }

    /// How the clone will be started, in the task's folder.
    fn plan(&self, runtime: Option<String>, place: Option<&Workspace>) -> Result<Plan, Error> {
        let (layout, agent) = (self.cx.layout, &self.decided.agent);
        let folder = place.map(|place| place.folder(layout));
        let cwd = folder.clone().map_or_else(std::env::current_dir, Ok);
        let cwd = self.or_withdraw(
            cwd.map_err(|e| Error::new(Kind::Failed, format!("failed to find the working folder: {e}"))),
        )?;
        let planned = plan_clone(layout, agent, runtime, (cwd, folder)).map_err(|error| match error {
            Unplanned::NoProgram { .. } => {
                Error::from(error).hint("name one by --runtime, or set argv under [defaults] in config.toml")
            }
            _ => error.into(),
        });
        self.or_withdraw(planned)
    }

    /// The clone runs, and has said that it is up.
    fn start(&self, runtime: Option<String>, place: Option<&Workspace>) -> Result<Generation, Error> {
        let (plan, agent) = (self.plan(runtime, place)?, &self.decided.agent);
        // Whoever stopped it meanwhile was told that it stays down.
        self.dispatches.is_still(self.decided)?;
        let upped = up(self.cx, &plan, |_| {}).map_err(|error| {
            let number = agent.number().unwrap_or_default();
            Error::from(error).and(&format!(
                "{agent} gets task {} once it is up; `netsky clone stop {number}` takes that back",
                self.decided.task
            ))
        })?;
        Ok(upped.proof.generation)
    }
}

/// The task's workspace, made where it has none; none of a task without a repository.
fn place(cx: &Context, task: &Task, agent: &AgentId) -> Result<Option<Workspace>, Error> {
    if task.repo.is_none() {
        return Ok(workspace::find(cx.home()?, &task.id)?);
    }
    looking(cx, |desk| Ok(desk.create_workspace(&task.id, Some(agent))?.workspace)).map(Some)
}

fn tell(cx: &Context, briefed: &Dispatch, place: Option<&Workspace>, is_new: bool) -> Result<(), Error> {
    let layout = cx.home()?;
    let folder = place.map(|place| place.folder(layout));
    let branch = place.map(|place| place.branch.short());
    if cx.json {
        return output::json(&json!({
            "id": briefed.id, "task": briefed.task, "agent": briefed.agent, "generation": briefed.holder(),
            "started": is_new, "folder": folder, "branch": branch, "envelope": briefed.brief(),
        }));
    }
    let started = if is_new { ", which was started for it" } else { "" };
    let at = folder
        .zip(branch)
        .map_or_else(String::new, |(folder, branch)| format!(", in {} on {branch}", folder.display()));
    output::say(&format!("task {} is with {}{started}{at}", briefed.task, hands(briefed)))
}
