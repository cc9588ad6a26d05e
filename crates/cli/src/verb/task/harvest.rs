//! `netsky task harvest`: what was done becomes part of `main`.

use netsky_model::id::TaskId;
use netsky_work::harvest::{Mode, Outcome};
use netsky_work::landing::{Desk, Harvested, Wish};
use serde_json::{Value, json};

use super::super::workspace::at_desk;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Land the work of tasks on the main branch of their repositories, one after the other, each once its gate has passed
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose work, in this order
    #[arg(required_unless_present = "ready", conflicts_with = "ready")]
    tasks: Vec<TaskId>,
    /// All that are reported ready, by priority and age
    #[arg(long)]
    ready: bool,
    /// One commit of all [default: each commit by itself]
    #[arg(long, conflicts_with = "merge")]
    squash: bool,
    /// A merge commit above the branch as it is
    #[arg(long)]
    merge: bool,
    /// Say what would land, gate and all, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Let the branch change what judges it: main's own gate is run, a guard is as the branch has it (the owner's)
    #[arg(long)]
    allow_gate_change: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if self.allow_gate_change {
            cx.owner_only("a change of what judges work")?;
        }
        at_desk(cx, "a harvest", |desk| self.all(cx, desk))
    }
}

impl Args {
    fn all(&self, cx: &Context, desk: &Desk<'_>) -> Result<(), Error> {
        let tasks = if self.ready { desk.ready()? } else { self.tasks.clone() };
        let mode = match (self.squash, self.merge) {
            (true, _) => Mode::Squash,
            (_, true) => Mode::Merge,
            _ => Mode::Pick,
        };
        let (mut objects, mut failed) = (Vec::new(), Vec::new());
        for task in &tasks {
            let (is_dry, may_change_gate) = (self.dry_run, self.allow_gate_change);
            let wish = Wish { task: task.clone(), mode, is_dry, may_change_gate };
            let ended = desk.harvest(&wish).map_err(Error::from);
            objects.push(object(task, &ended));
            let ended = ended.and_then(|harvested| self.said(cx, &harvested));
            if let Err(error) = ended {
                if tasks.len() > 1 && !cx.json {
                    output::say(&format!("task {task} did not land as asked: {error}"))?;
                }
                failed.push((task, error));
            }
        }
        if cx.json {
            output::json(&json!({ "tasks": objects }))?;
        } else if tasks.is_empty() {
            output::say("no task is reported ready")?;
        }
        match (failed.len(), tasks.len()) {
            (0, _) => Ok(()),
            (1, 1) => Err(failed.remove(0).1),
            (some, all) => {
                let names: Vec<&str> = failed.iter().map(|(task, _)| task.as_str()).collect();
                let what = format!("{some} of {all} tasks did not land as asked: {}", names.join(", "));
                Err(Error::new(failed[0].1.kind, what).hint("nothing was lost; the lines above say why"))
            }
        }
    }

    /// Says how one ended.
    fn said(&self, cx: &Context, harvested: &Harvested) -> Result<(), Error> {
        let told = |error: Error| {
            let told: Vec<&str> = harvested.told.iter().map(|agent| agent.as_str()).collect();
            let error =
                if told.is_empty() { error } else { error.and(&format!("{} is told", told.join(", "))) };
            harvested.troubles.iter().fold(error, |error, trouble| error.and(trouble))
        };
        let short = |kind, hint: &str| Err(told(Error::new(kind, harvested.line()).hint(hint)));
        match &harvested.outcome {
            Outcome::Landed(_) | Outcome::AlreadyLanded { .. } | Outcome::WouldLand { .. } => {}
            Outcome::Empty => return short(Kind::Failed, "nothing was changed"),
            Outcome::Conflict { .. } | Outcome::GateFailed { .. } => {
                return short(Kind::Failed, "nothing was changed, and all is kept");
            }
            Outcome::DirtyMain { .. } => {
                return short(
                    Kind::Failed,
                    "nothing was changed; commit or stash that (what git does not know: move it away; what is under way: end it), and repeat",
                );
            }
            Outcome::Behind { .. } => {
                let way =
                    "nothing was changed; `git stash` there and repeat: a commit would take back what landed";
                return short(Kind::Failed, way);
            }
            Outcome::Refused(_) => return short(Kind::Refused, "nothing was changed"),
            Outcome::Moved { .. } => return short(Kind::Busy, "nothing was changed; repeat"),
        }
        if !cx.json {
            output::say(&harvested.line())?;
        }
        if harvested.troubles.is_empty() {
            return Ok(());
        }
        let way = format!("it has landed; `netsky task harvest {}` does what is missing", harvested.task);
        Err(Error::new(Kind::Degraded, harvested.troubles.join("; ")).hint(way))
    }
}

/// How one ended, as an object.
fn object(task: &TaskId, ended: &Result<Harvested, Error>) -> Value {
    let harvested = match ended {
        Ok(harvested) => harvested,
        Err(error) => return json!({ "id": task, "outcome": "error", "why": error.to_string() }),
    };
    let mut value = json!({
        "id": task, "main": harvested.main.short(), "line": harvested.line(), "told": harvested.told,
        "troubles": harvested.troubles,
    });
    let (word, more) = match &harvested.outcome {
        Outcome::Landed(landed) => (
            "landed",
            json!({ "sha": landed.sha, "commits": landed.commits, "tip": landed.tip, "gate": landed.gate }),
        ),
        Outcome::AlreadyLanded { sha } => ("already-landed", json!({ "sha": sha })),
        Outcome::WouldLand { commits, gate } => ("would-land", json!({ "commits": commits, "gate": gate })),
        Outcome::Empty => ("empty", json!({})),
        Outcome::Conflict { commit, files } => ("conflict", json!({ "commit": commit, "files": files })),
        Outcome::GateFailed { status, log, shut } => {
            ("gate-failed", json!({ "status": status, "log": log, "gate": shut }))
        }
        Outcome::DirtyMain { files } => ("dirty-main", json!({ "files": files })),
        Outcome::Behind { sha, why } => ("behind", json!({ "sha": sha, "why": why })),
        Outcome::Refused(why) => ("refused", json!({ "why": why })),
        Outcome::Moved { tries } => ("moved", json!({ "tries": tries })),
    };
    value["outcome"] = word.into();
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}
