//! `netsky task show`: everything that is known of a task.

use netsky_ledger::Fact;
use netsky_model::id::TaskId;
use netsky_model::task::{How, State, Task, waits_for};
use netsky_work::task::Board;
use netsky_work::workspace::{self, Workspace};
use serde_json::{Value, json};

use super::{task, who};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Facts that are shown, the newest; `netsky query` has all.
const SHOWN: usize = 20;

/// Show a task: how it stands, its brief, its workspace, and what happened
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    id: TaskId,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let board = cx.board()?;
        let task = task(&board, &self.id)?;
        let (brief, facts) = (board.brief(&task), board.history(&self.id)?);
        let workspace = workspace::find(cx.home()?, &self.id);
        let waits = waiting(&board, &task)?;
        if cx.json {
            let mut object = serde_json::to_value(&task).unwrap_or_default();
            object["brief_text"] = json!(brief.as_ref().ok());
            object["waits_for"] = json!(waits);
            object["workspace"] = match &workspace {
                Ok(found) => json!(found.as_ref().map(|found| place(cx, found)).transpose()?),
                Err(error) => json!({ "problem": error.to_string() }),
            };
            object["history"] = facts.iter().map(happened).collect();
            output::json(&object)?;
            return Ok(brief.map(drop)?);
        }
        let mut lines = fields(&task);
        if !waits.is_empty() {
            lines.push(format!("waits for  {}", joined(&waits)));
        }
        match &workspace {
            Ok(Some(found)) => lines.push(format!(
                "workspace  {} on {}, from {} at {}",
                found.folder(cx.home()?).display(),
                found.branch.short(),
                found.repo.as_str(),
                found.base
            )),
            Ok(None) => {}
            Err(error) => lines.push(format!("workspace  does not read: {error}")),
        }
        if let Ok(Some(text)) = &brief {
            lines.extend([String::new(), text.clone()]);
        }
        lines.push(String::new());
        if facts.len() > SHOWN {
            lines.push(format!("{} older facts are left out", facts.len() - SHOWN));
        }
        lines.extend(facts.iter().skip(facts.len().saturating_sub(SHOWN)).map(line));
        output::say(&lines.join("\n"))?;
        Ok(brief.map(drop)?)
    }
}

/// What it still waits for, and how that stands.
fn waiting(board: &Board, task: &Task) -> Result<Vec<TaskId>, Error> {
    let all = board.list()?.into_iter().map(|task| (task.id.clone(), task)).collect();
    Ok(waits_for(task, &all))
}

fn joined(ids: &[TaskId]) -> String {
    ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(" ")
}

fn fields(task: &Task) -> Vec<String> {
    let mut lines = vec![format!("task {}: {}", task.id, task.title), format!("state      {}", state(task))];
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{name:9}  {}", output::one_line(&value))));
    };
    let words = |words: Vec<String>| (!words.is_empty()).then(|| words.join(" "));
    add("priority", Some(task.priority.word().to_owned()));
    add("who", Some(who(task)).filter(|who| who != "-"));
    add("repo", task.repo.clone());
    add("main", task.main.clone());
    add("labels", words(task.labels.iter().map(ToString::to_string).collect()));
    add("after", words(task.after.iter().map(ToString::to_string).collect()));
    add("made", Some(format!("{:.0} by {}", task.created, task.by)));
    add("changed", Some(format!("{:.0}", task.updated)));
    lines
}

fn state(task: &Task) -> String {
    let said =
        |text: &str| if text.is_empty() { String::new() } else { format!(": {}", output::short(text)) };
    match &task.state {
        State::Open => "open".to_owned(),
        State::Claimed { by, generation } => format!("claimed by {by}, generation {generation}"),
        State::Blocked { by, generation, why } => {
            format!("blocked, by {by}, generation {generation}{}", said(why))
        }
        State::Ready { by, generation, note } => {
            format!("ready, by {by}, generation {generation}{}", said(note))
        }
        State::Closed { how, why } => {
            let how = match how {
                How::Landed { sha, main } => format!("landed as {sha} on {main}"),
                How::Done => "done".to_owned(),
                How::Dropped => "dropped".to_owned(),
            };
            format!("closed, {how}{}", said(why.as_deref().unwrap_or_default()))
        }
    }
}

/// What a fact says beside the task after it.
fn said(fact: &Fact) -> Value {
    let mut said = fact.data.clone();
    if let Some(said) = said.as_object_mut() {
        said.remove("task");
    }
    said
}

fn happened(fact: &Fact) -> Value {
    json!({ "seq": fact.seq, "ts": fact.ts, "kind": fact.kind, "key": fact.key, "data": said(fact) })
}

fn line(fact: &Fact) -> String {
    let said = said(fact);
    let words = said.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null() && *value != "");
    let words = words.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    let words = words.collect::<Vec<_>>().join(" ");
    output::short(&format!("{:.0} {} {words}", fact.ts, fact.kind))
}

/// A workspace as an object, with the folder that is worked in.
fn place(cx: &Context, found: &Workspace) -> Result<Value, Error> {
    let mut value = serde_json::to_value(found).unwrap_or_default();
    value["folder"] = json!(found.folder(cx.home()?));
    Ok(value)
}
