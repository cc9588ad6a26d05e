//! The account of a demo: what is said at its end, as tables for people and as one object for programs.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use netsky_model::feed::Event;
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;
use serde_json::{Value, json};

use crate::demo::driven::Runtime;
use crate::demo::landing::Work;
use crate::demo::narrate::{Line, millis, short};
use crate::demo::owner::milestones;
use crate::demo::repository::Repository;
use crate::demo::story::{Life, Outcome, Restart, Story};
use crate::error::{Error, Kind};
use crate::output;
use crate::palette::{Palette, Tone};

/// The processes that hold and are one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) session: AgentId,
    pub(crate) worker: Option<ProcessId>,
    pub(crate) program: Option<ProcessId>,
}

/// One invariant as `netsky check` judged it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Invariant {
    pub(crate) id: String,
    pub(crate) says: String,
    pub(crate) holds: bool,
    pub(crate) looked_at: u64,
    #[serde(default)]
    pub(crate) findings: Vec<Value>,
}

/// One envelope at the end.
pub(crate) struct Envelope {
    pub(crate) id: String,
    pub(crate) from: String,
    pub(crate) to: AgentId,
    pub(crate) kind: String,
    pub(crate) state: &'static str,
    pub(crate) attempt: u32,
    pub(crate) life: Life,
}

/// Everything there is to say.
pub(crate) struct Account {
    pub(crate) began: Timestamp,
    pub(crate) took: Duration,
    /// What the demo's own programs worked on.
    pub(crate) repository: Option<Repository>,
    /// The real program in the slots.
    pub(crate) runtime: Option<Runtime>,
    /// agent0's conversation, before and after its death.
    pub(crate) conversations: Option<(String, String)>,
    pub(crate) folder: PathBuf,
    pub(crate) lines: Vec<Line>,
    pub(crate) story: Story,
    pub(crate) envelopes: Vec<Envelope>,
    /// What the owner sees; nothing with a real program, which lands nothing.
    pub(crate) feed: Vec<Event>,
    pub(crate) invariants: Vec<Invariant>,
    /// Sessions that nobody killed, with their workers' pids before and after.
    pub(crate) untouched: Vec<(AgentId, Option<u32>, Option<u32>)>,
    /// Surfacings of a repeat, and how many of them bore their flag on the agent's own terminal.
    pub(crate) repeats: (usize, usize),
    /// Whether two agent0 were ever seen at once.
    pub(crate) second_root: bool,
    /// What is not as it must be.
    pub(crate) problems: Vec<String>,
    /// What did not happen before the deadline.
    pub(crate) missing: Option<String>,
}

/// Milliseconds of the demo as its tables say them.
fn seconds(ms: i64) -> String {
    format!("{}.{:02}", ms / 1000, ms % 1000 / 10)
}

impl Account {
    /// The error that the verb ends with, if the demo did not show what it promises.
    pub(crate) fn error(&self) -> Option<Error> {
        let hint = "run it again with --keep to look at what it left";
        match (&self.missing, self.problems.first()) {
            (Some(missing), _) => Some(Error::new(Kind::Busy, missing.clone()).hint(hint)),
            (None, Some(first)) => {
                let broken = self.invariants.iter().any(|invariant| !invariant.holds);
                let kind = if broken { Kind::Damaged } else { Kind::Failed };
                let more = match self.problems.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                Some(Error::new(kind, format!("{first}{more}")).hint(hint))
            }
            (None, None) => None,
        }
    }

    /// One object.
    pub(crate) fn json(&self) -> Value {
        let at = |instant: Timestamp| millis(self.began, instant);
        let events: Vec<Value> = self
            .lines
            .iter()
            .map(|line| json!({ "at_ms": at(line.at), "event": line.what, "text": line.text }))
            .collect();
        let kills: Vec<Value> = self
            .story
            .kills
            .iter()
            .map(|(when, kill)| {
                json!({
                    "at_ms": at(*when), "target": kill.target, "pid": kill.process.pid,
                    "generation": kill.generation, "moment": kill.moment,
                })
            })
            .collect();
        let untouched: Vec<Value> = self
            .untouched
            .iter()
            .map(|(name, before, after)| {
                json!({ "name": name, "worker_pid": before, "worker_pid_after": after })
            })
            .collect();
        json!({
            "repository": self.repository,
            "runtime": self.runtime.map_or("command", Runtime::word),
            "conversation": self.conversations.as_ref().map(|(before, after)| json!({ "before": before, "after": after })),
            "home": self.folder.join("home"),
            "events": events,
            "kills": kills,
            "restarts": self.story.restarts.iter().map(|restart| self.restart(restart)).collect::<Vec<_>>(),
            "envelopes": self.envelopes.iter().map(|envelope| self.envelope(envelope)).collect::<Vec<_>>(),
            "tasks": self.story.works.iter().map(|(id, work)| self.work(id, work)).collect::<Vec<_>>(),
            "feed": self.feed,
            "sessions": untouched,
            "repeats": { "surfaced": self.repeats.0, "flagged": self.repeats.1 },
            "two_agent0": self.second_root,
            "check": { "invariants": self.invariants },
            "problems": self.problems,
            "missing": self.missing,
            "holds": self.problems.is_empty() && self.missing.is_none(),
            "took_ms": self.took.as_millis() as u64,
        })
    }

    /// A restart with its durations, each from the death that it answers.
    fn restart(&self, restart: &Restart) -> Value {
        let death = self.story.death(restart);
        let after = |instant: Option<Timestamp>| instant.map(|instant| millis(death, instant));
        let life = self.story.roots.get(&restart.of);
        let new = restart.generation.and_then(|generation| self.story.roots.get(&generation));
        let (outcome, why) = match &restart.end {
            Some((_, Outcome::Verified)) => ("verified", None),
            Some((_, Outcome::Failed(why))) => ("failed", Some(why)),
            None => ("unfinished", None),
        };
        json!({
            "id": restart.id, "died": restart.of, "generation": restart.generation,
            "moment": life.and_then(|life| life.moment.clone()),
            "detected_ms": after(life.and_then(|life| life.ended)),
            "begun_ms": after(Some(restart.began)),
            // The kernel's row of a start may be written a moment after the program's own proof: it ran by then.
            "respawned_ms": after(new.and_then(|life| life.started.map(|at| restart.up.map_or(at, |up| at.min(up))))),
            "up_ms": after(restart.up),
            "handed_over_ms": after(restart.handed_off),
            "ended_ms": after(restart.end.as_ref().map(|(at, _)| *at)),
            "outcome": outcome, "why": why,
        })
    }

    fn work(&self, id: &str, work: &Work) -> Value {
        let landed = work.landed.as_ref();
        json!({
            "id": id, "agent": work.agent, "conflicts": work.conflicts, "sha": landed.map(|landed| &landed.sha),
            "gate": landed.map(|landed| &landed.gate), "at_ms": landed.map(|landed| millis(self.began, landed.at)),
        })
    }

    fn envelope(&self, envelope: &Envelope) -> Value {
        let steps: Vec<Value> = envelope
            .life
            .steps
            .iter()
            .map(|step| {
                json!({
                    "at_ms": millis(self.began, step.at), "state": step.what, "attempt": step.attempt,
                    "generation": step.generation,
                })
            })
            .collect();
        json!({
            "id": envelope.id, "from": envelope.from, "to": envelope.to, "kind": envelope.kind,
            "state": envelope.state, "attempt": envelope.attempt, "redelivered": envelope.attempt > 1,
            "life": steps,
        })
    }

    /// For people.
    pub(crate) fn print(&self, palette: Palette) -> Result<(), Error> {
        self.print_envelopes(palette)?;
        self.print_restarts(palette)?;
        if !self.feed.is_empty() {
            self.print_work(palette)?;
        }
        self.print_verdict(palette)
    }

    fn print_envelopes(&self, palette: Palette) -> Result<(), Error> {
        output::painted(&format!(
            "\n{}",
            palette.paint(Tone::Strong, "Every message and its life, in seconds")
        ))?;
        let rows = self.envelopes.iter().map(|envelope| {
            vec![
                short(&envelope.id).to_owned(),
                format!("{} → {}", envelope.from, envelope.to),
                envelope.kind.clone(),
                envelope.state.to_owned(),
                if envelope.attempt > 1 { format!("{}, flagged", envelope.attempt) } else { "1".to_owned() },
                self.life(&envelope.life),
            ]
        });
        let headers = ["id", "from → to", "kind", "state", "attempt", "life"];
        output::table(&headers, rows.collect(), "no messages")
    }

    fn life(&self, life: &Life) -> String {
        let step = |step: &crate::demo::story::Step| {
            let word = match (step.what.as_str(), step.attempt) {
                ("written", 2..) => "back",
                ("delivered", _) => return None,
                (word, _) => word,
            };
            Some(format!("{word} {}", seconds(millis(self.began, step.at))))
        };
        life.steps.iter().filter_map(step).collect::<Vec<_>>().join(", ")
    }

    fn print_restarts(&self, palette: Palette) -> Result<(), Error> {
        output::painted(&format!(
            "\n{}",
            palette.paint(Tone::Strong, "Restarts, in milliseconds after the death")
        ))?;
        let rows = self.story.restarts.iter().map(|restart| {
            let told = self.restart(restart);
            let ms = |key: &str| told[key].as_i64().map_or_else(|| "-".to_owned(), |ms| ms.to_string());
            let moment = told["moment"].as_str().unwrap_or("died by itself");
            let mut row = vec![format!("{} → {}", restart.of, told["generation"]), moment.to_owned()];
            row.extend(
                ["detected_ms", "begun_ms", "respawned_ms", "up_ms", "handed_over_ms", "ended_ms"].map(ms),
            );
            row.push(told["outcome"].as_str().unwrap_or_default().to_owned());
            row
        });
        let headers =
            ["agent0", "killed", "detected", "begun", "respawned", "up", "handed over", "ended", "outcome"];
        output::table(&headers, rows.collect(), "none")
    }

    /// What landed, and what the owner was told of all this.
    fn print_work(&self, palette: Palette) -> Result<(), Error> {
        let seconds = |at| seconds(millis(self.began, at));
        output::painted(&format!(
            "\n{}",
            palette.paint(Tone::Strong, "What landed on main, each once its gate had passed")
        ))?;
        let rows = self.story.works.iter().map(|(id, work)| {
            let landed = work.landed.as_ref();
            vec![
                id.clone(),
                work.agent.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
                landed.map_or_else(|| "-".to_owned(), |landed| format!("{:.12}", landed.sha)),
                landed.map_or_else(|| "-".to_owned(), |landed| landed.gate.clone()),
                work.conflicts.to_string(),
                landed.map_or_else(|| "-".to_owned(), |landed| seconds(landed.at)),
            ]
        });
        let headers = ["task", "agent", "commit", "gate shut in by", "conflicts", "landed"];
        output::table(&headers, rows.collect(), "nothing")?;
        output::painted(&format!(
            "\n{}",
            palette.paint(Tone::Strong, "What you were told, from `netsky events`")
        ))?;
        let told = milestones(&self.feed);
        let rows = told.map(|event| vec![seconds(event.ts), event.kind.clone(), output::short(&event.text)]);
        output::table(&["at", "kind", "says"], rows.collect(), "nothing")
    }

    fn print_verdict(&self, palette: Palette) -> Result<(), Error> {
        output::painted(&format!("\n{}", palette.paint(Tone::Strong, "Verdict")))?;
        let rows = self.invariants.iter().map(|invariant| {
            let said = if invariant.holds { "holds" } else { "BROKEN" };
            vec![
                invariant.id.clone(),
                invariant.says.clone(),
                invariant.looked_at.to_string(),
                said.to_owned(),
            ]
        });
        output::table(&["id", "invariant", "looked at", "verdict"], rows.collect(), "not checked")?;
        let kept: Vec<String> = self
            .untouched
            .iter()
            .filter(|(_, before, after)| before == after)
            .map(|(name, pid, _)| {
                format!("{name} {}", pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()))
            })
            .collect();
        output::say(&format!("\nworkers that kept their pids: {}", kept.join(", ")))?;
        let (repeats, flagged) = self.repeats;
        let roots = if self.second_root { "two agent0 at once" } else { "never two agent0" };
        output::say(&format!("repeats: {repeats}, of which {flagged} were shown with their flag; {roots}"))?;
        for problem in &self.problems {
            output::painted(&palette.paint(Tone::Bad, &format!("problem: {}", output::one_line(problem))))?;
        }
        let took = format!("{}.{} s", self.took.as_secs(), self.took.subsec_millis() / 100);
        match self.error() {
            None => {
                let restarts = self.story.restarts.len();
                let messages = self.envelopes.len();
                let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
                let landed = match self.story.works.len() {
                    0 => String::new(),
                    1 => ", a task landed".to_owned(),
                    tasks => format!(", {tasks} tasks landed"),
                };
                let text = format!(
                    "agent0 died {times} and came back, {messages} messages, none lost{landed}; {took}"
                );
                output::painted(&palette.paint(Tone::Good, &text))
            }
            Some(_) => output::painted(&palette.paint(Tone::Bad, &format!("it does not hold; {took}"))),
        }
    }
}
