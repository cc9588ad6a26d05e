//! `netsky status`: what should be and what is. Looking starts nothing.

use std::time::Duration;

use netsky_disk::clock;
use netsky_model::desired::Want;
use netsky_model::duration::human;
use netsky_model::id::AgentId;
use netsky_model::lifecycle::LifecycleState;
use netsky_model::render::line;
use netsky_runtime::driver::Doing;
use netsky_watchdog::{AgentStatus, Asked, Mailbox, StatusReport, status};

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Most characters of what an agent does: a table stays one.
const LONGEST: usize = 160;
/// How much of a question's id is shown.
const ID: usize = 13;

/// Show agents, the restart under way, and the last tick
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let report = status(&cx.constellation()?)?;
        if cx.json {
            return output::json(&report);
        }
        let mut headers =
            vec!["agent", "want", "state", "up", "gen", "pid", "since", "inbox", "unfinished", "poison"];
        let mut rows: Vec<Vec<String>> =
            report.agents.iter().map(|agent| row(agent, report.anchor_epoch.is_some())).collect();
        // A constellation of programs that speak for themselves has nothing to say there.
        if report.agents.iter().any(|agent| agent.driven.is_some()) {
            headers.extend(["context", "does"]);
            let drivers = report.agents.iter().find(|agent| agent.id == AgentId::drivers());
            let is_known = drivers.is_some_and(|drivers| drivers.pid.is_some());
            rows.iter_mut().zip(&report.agents).for_each(|(row, agent)| row.extend(does(agent, is_known)));
        }
        output::table(&headers, rows, "no agent is wanted here; start with `netsky up`")?;
        for (agent, ask) in report.agents.iter().flat_map(asks) {
            // The beginning tells it from the others; which ids a program gives is its own affair.
            let id: String = line(&ask.id).chars().take(ID).collect();
            let words = if ask.is_question { " \"ANSWER\"" } else { "" };
            output::say(&format!(
                "{agent} asks: {}  (`netsky agent allow {agent} --ask {id}{words}`, or deny)",
                ask.text
            ))?;
        }
        for agent in &report.agents {
            if let Some((quiet, left)) =
                agent.quiet.as_ref().and_then(|quiet| Some((quiet, quiet.left(&clock::stamp())?)))
            {
                output::say(&format!("{}: quiet for {} yet: {}", agent.id, human(left), quiet.why))?;
            }
        }
        for agent in &report.agents {
            for line in silence(agent) {
                output::say(&line)?;
            }
        }
        output::say(&footer(&report))
    }
}

/// What explains the silence of an agent, and how long it lasts where nothing does.
fn silence(agent: &AgentStatus) -> Vec<String> {
    let now = clock::stamp();
    let phase = agent.phase.as_ref().map(|phase| {
        let word = line(&phase.word);
        let until = phase.until.as_ref().map(|until| match until.is_over(&now) {
            true => ", whose time is over".to_owned(),
            false => format!(" for {} yet", human(until.since(&now))),
        });
        format!("{}: {word}{}, as it said", agent.id, until.unwrap_or_default())
    });
    let still = agent.still_s.filter(|still| *still >= 60).map(|still| {
        format!(
            "{}: no progress for {} with mail before it, and nothing explains that",
            agent.id,
            human(Duration::from_secs(still))
        )
    });
    phase.into_iter().chain(still).collect()
}

fn row(agent: &AgentStatus, served: bool) -> Vec<String> {
    let dash = || "-".to_owned();
    let (want, unknown) = match agent.want {
        Some(Want::Stopped) => ("stopped", "stopped"),
        Some(Want::Up) if served => ("up", "never ran"),
        Some(Want::Up) => ("up", "not known"),
        None if served => ("unknown", "never ran"),
        None => ("unknown", "not known"),
    };
    let since = agent.started_at.as_ref().map(|at| human(clock::stamp().since(at)));
    vec![
        agent.id.to_string(),
        want.to_owned(),
        agent.state.clone().unwrap_or_else(|| unknown.to_owned()),
        if agent.up { "yes".to_owned() } else { dash() },
        agent.generation.map_or_else(dash, |generation| generation.to_string()),
        agent.pid.map_or_else(dash, |pid| pid.to_string()),
        since.unwrap_or_else(dash),
        agent.inbox.to_string(),
        agent.unfinished.to_string(),
        agent.poison.to_string(),
    ]
}

/// How full its context is, and what it does, or did when netsky-drivers saw it last.
fn does(agent: &AgentStatus, is_known: bool) -> [String; 2] {
    let dash = || "-".to_owned();
    let Some(driven) = &agent.driven else { return [dash(), dash()] };
    let waits = driven.waits.as_ref().filter(|waits| waits.until > clock::wall());
    let doing = match &driven.doing {
        // The question stands below, and why a turn failed behind until when mail waits for that.
        Doing::Blocked { .. } => driven.doing.word().to_owned(),
        doing if waits.is_some() => doing.word().to_owned(),
        doing => doing.to_string(),
    };
    let age = human(clock::stamp().since(&driven.since));
    let waits = waits
        .map_or_else(String::new, |waits| format!(", mail waits until {:.0}: {}", waits.until, waits.why));
    let answered = if driven.answered || driven.doing.is_busy() { "" } else { ", no turn yet" };
    let context = match (driven.context_pct, driven.lifecycle) {
        (None, LifecycleState::Healthy) => dash(),
        (None, state) => state.to_string(),
        (Some(pct), LifecycleState::Healthy) => format!("{pct} %"),
        (Some(pct), state) => format!("{pct} % {state}"),
    };
    let last = if is_known { "" } else { "as last seen: " };
    let does = format!("{last}{doing} ({age}){answered}{waits}");
    // The rest is in `agent show`.
    let cut = does.char_indices().nth(LONGEST).map(|(at, _)| format!("{}…", &does[..at]));
    [context, cut.unwrap_or(does)]
}

fn asks(agent: &AgentStatus) -> impl Iterator<Item = (&AgentId, &Asked)> {
    agent.driven.iter().flat_map(|driven| &driven.asks).map(|ask| (&agent.id, ask))
}

/// Mail of who never was wanted.
fn other(Mailbox { id, inbox, poison }: &Mailbox) -> String {
    format!("{id}: {inbox} waiting, {poison} dead letter{}\n", if *poison == 1 { "" } else { "s" })
}

fn footer(report: &StatusReport) -> String {
    let others: String = report.others.iter().map(other).collect();
    let nothing = match report.agents.iter().any(|agent| agent.want.is_none()) {
        true => "no wish that reads wants anything",
        false => "nothing is wanted",
    };
    let anchor = match report.anchor_epoch {
        Some(epoch) if report.kept => format!("anchor: serves, epoch {epoch}"),
        Some(epoch) => {
            format!("anchor: serves, epoch {epoch}, and {nothing}; `netsky down` stops it")
        }
        None if report.silent_anchor => "anchor: gave no answer".to_owned(),
        None if report.kept => {
            "anchor: nobody serves; the next tick starts it, and `netsky watchdog tick` is one".to_owned()
        }
        None => format!("anchor: not running, and {nothing}"),
    };
    let restart = match &report.restart {
        Some(restart) => {
            let phase = restart.phase.map_or("not begun", |phase| phase.word());
            let kind = restart.kind.word();
            format!("{} ({kind}), {phase}, watched {} ms", restart.id, restart.watched_ms)
        }
        None if report.restart_queued => "queued".to_owned(),
        None => "none".to_owned(),
    };
    let every = format!("every {}", human(Duration::from_millis(report.interval_ms)));
    let tick = match &report.last_tick {
        Some(last) => {
            let age = human(clock::stamp().since(&last.at));
            let problems = last.problems.iter().map(|problem| format!("\n  problem: {problem}"));
            format!("{age} ago, {every}, took {} ms{}", last.duration_ms, problems.collect::<String>())
        }
        None => format!("none yet, {every}"),
    };
    let failed = report.failed_tick.as_ref().map_or_else(String::new, |failed| {
        let age = human(clock::stamp().since(&failed.at));
        format!("\nlast tick FAILED {age} ago: {}", failed.why)
    });
    let schedules = report.schedules.iter().map(|(kind, last)| {
        let (age, took) = (human(clock::stamp().since(&last.at)), last.duration_ms);
        format!("\nlast {kind} tick: {age} ago, {}, took {took} ms", last.outcome)
    });
    let schedules: String = schedules.collect();
    let problems: String = report.problems.iter().map(|problem| format!("\nproblem: {problem}")).collect();
    // Of one that nobody watches no page is to be expected.
    let alone = report.kept && report.pages.as_ref().is_some_and(|pages| !pages.reaches);
    let pages = match alone {
        true => "\npages: no transport is set in config.toml, so nobody is reached beyond this machine",
        false => "",
    };
    format!("{others}{anchor}\nrestart: {restart}\nlast tick: {tick}{schedules}{pages}{failed}{problems}")
}
