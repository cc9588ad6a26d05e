//! Whether the demo shows what it promises: judged from what is on disk at its end, not from what was narrated.

use jiff::Timestamp;
use netsky_bus::Bus;
use netsky_disk::{state, sweep};
use netsky_kernel::output_log::{Chunk, LogReader};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::witness::Nobody;
use serde_json::{Value, json};

use crate::demo::account::{Account, Envelope, Invariant, Worker};
use crate::demo::chaos::Target;
use crate::demo::driven::Runtime;
use crate::demo::landing;
use crate::demo::narrate::Line;
use crate::demo::owner;
use crate::demo::place::Place;
use crate::demo::programs::owners_answer;
use crate::demo::repository::Repository;
use crate::demo::script::{CLAIM, HARVEST, TURN};
use crate::demo::sight::{Fact, Moved, Seen};
use crate::demo::story::{Life, Outcome, Story};
use crate::error::Error;

/// Most bytes of an agent's terminal that are read at once.
const PIECE: usize = 1 << 20;

/// What a run left to be judged.
pub(crate) struct Evidence {
    pub(crate) place: Place,
    pub(crate) began: Timestamp,
    /// What the demo's own programs worked on.
    pub(crate) repository: Option<Repository>,
    pub(crate) clones: u32,
    /// The real program in the slots.
    pub(crate) runtime: Option<Runtime>,
    /// agent0's conversation, before and after its death.
    pub(crate) conversations: Option<(String, String)>,
    /// Extra kills that were asked for.
    pub(crate) killed: Vec<Target>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) lines: Vec<Line>,
    pub(crate) violations: Vec<String>,
    pub(crate) orders: Vec<EnvelopeId>,
    pub(crate) before: Vec<Worker>,
    pub(crate) after: Vec<Worker>,
}

/// One element on an agent's terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    agent: AgentId,
    id: EnvelopeId,
    attempt: u32,
    flagged: bool,
}

/// Judges a run whose constellation is still up.
pub(crate) fn judge(evidence: Evidence) -> Result<Account, Error> {
    let story = Story::of(&evidence.facts);
    let mut problems = evidence.violations.clone();
    if state::exists(evidence.place.second_root())? {
        problems.push("a second agent0 found the lock of the first one held".to_owned());
    }
    let second_root = !problems.is_empty();
    let shown = shown(&evidence);
    let repeats = repeats(&evidence, &story, &shown, &mut problems);
    let invariants = check(&evidence, &story, &shown, &mut problems)?;
    restarts(&evidence, &story, &mut problems);
    match &evidence.conversations {
        Some((before, after)) if before != after => problems.push("agent0 lost its conversation".to_owned()),
        _ => {}
    }
    let mut feed = Vec::new();
    if let Some(repository) = &evidence.repository {
        landing::judge(&evidence, repository, &story.works, &mut problems)?;
        feed = owner::judge(&evidence.place, &mut problems)?;
    }
    let untouched = untouched(&evidence, &mut problems);
    let envelopes = envelopes(&evidence, &story, &mut problems)?;
    Ok(Account {
        began: evidence.began,
        took: std::time::Duration::ZERO,
        repository: evidence.repository,
        runtime: evidence.runtime,
        conversations: evidence.conversations,
        folder: evidence.place.folder().to_owned(),
        lines: evidence.lines,
        story,
        envelopes,
        feed,
        invariants,
        untouched,
        repeats,
        second_root,
        problems,
        missing: None,
    })
}

/// What lives on of a constellation that went down.
pub(crate) fn left_behind(place: &Place) -> Result<Vec<String>, Error> {
    let home = place.layout().home().display().to_string();
    let left = sweep::marked(netsky_disk::env::HOME, &home)?;
    Ok(left.iter().map(|process| format!("process {} of the demo lives on", process.pid)).collect())
}

fn agents(evidence: &Evidence) -> impl Iterator<Item = AgentId> {
    (0..=evidence.clones).map(AgentId::numbered)
}

/// Every element that the agents put on their terminals, as the workers kept them.
fn shown(evidence: &Evidence) -> Vec<Shown> {
    let kernel = netsky_disk::layout::KernelLayout::new(evidence.place.layout().kernel_root());
    let mut all = Vec::new();
    for agent in agents(evidence) {
        let output = LogReader::open(&kernel.out(&agent)).map(|log| whole(&log)).unwrap_or_default();
        let mut output = String::from_utf8_lossy(&output).into_owned();
        if evidence.runtime.is_some() {
            // A real program says what it was told in a line of JSON.
            output = output.replace("\\\"", "\"");
        }
        let heads = output.split("<channel ").skip(1).filter_map(|rest| rest.split_once('>'));
        for shown in heads.filter_map(|(head, _)| element(&agent, head)) {
            // It says it more than once, and again when it goes on with a conversation.
            if evidence.runtime.is_none() || !all.contains(&shown) {
                all.push(shown);
            }
        }
    }
    all
}

/// At which moments of its work agent0 must have been killed.
fn moments(evidence: &Evidence) -> &'static [&'static str] {
    match evidence.runtime {
        None => &[CLAIM, HARVEST],
        Some(_) => &[TURN],
    }
}

fn whole(log: &LogReader) -> Vec<u8> {
    let mut at = log.span().map_or(0, |span| span.base);
    let mut output = Vec::new();
    loop {
        match log.read_from(at, PIECE) {
            Ok(Chunk::Bytes { offset, bytes }) => {
                at = offset + bytes.len() as u64;
                output.extend(bytes);
            }
            Ok(Chunk::Gap { to, .. }) => at = to,
            Ok(Chunk::End) | Err(_) => return output,
        }
    }
}

fn element(agent: &AgentId, head: &str) -> Option<Shown> {
    let value = |key: &str| {
        let (_, rest) = head.split_once(&format!(" {key}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    Some(Shown {
        agent: agent.clone(),
        id: value("id")?.parse().ok()?,
        attempt: value("attempt").map_or(Some(1), |attempt| attempt.parse().ok())?,
        flagged: value("redelivered") == Some("true"),
    })
}

/// How many repeats there were, and how many of them bore their flag on the agent's own terminal.
fn repeats(
    evidence: &Evidence,
    story: &Story,
    shown: &[Shown],
    problems: &mut Vec<String>,
) -> (usize, usize) {
    // With its worker the last words of a terminal are lost; nobody can have read them either.
    let lost: Vec<Generation> = story
        .kills
        .iter()
        .filter(|(_, kill)| kill.target == Target::Worker.word())
        .filter_map(|(_, kill)| kill.generation)
        .collect();
    let (mut all, mut flagged) = (0, 0);
    for (life, step) in story.lives.iter().flat_map(|life| life.surfacings().map(move |step| (life, step))) {
        if step.attempt < 2 {
            continue;
        }
        all += 1;
        let seen = shown.iter().any(|shown| {
            (&shown.agent, &shown.id, shown.attempt) == (&life.to, &life.id, step.attempt) && shown.flagged
        });
        flagged += usize::from(seen);
        let is_lost = life.to == AgentId::root()
            && step.generation.is_some_and(|generation| lost.contains(&generation));
        if !seen && !is_lost {
            problems.push(format!("attempt {} of {} was shown without its flag", step.attempt, life.id));
        }
    }
    for shown in shown.iter().filter(|shown| shown.flagged != (shown.attempt > 1)) {
        problems.push(format!("{} was shown as attempt {} with a wrong flag", shown.id, shown.attempt));
    }
    let kills = moments(evidence).len();
    if evidence.killed.is_empty() && all < kills {
        problems.push(format!("{all} messages came again after {kills} kills"));
    }
    (all, flagged)
}

/// What `netsky check` says, given what only we know.
fn check(
    evidence: &Evidence,
    story: &Story,
    shown: &[Shown],
    problems: &mut Vec<String>,
) -> Result<Vec<Invariant>, Error> {
    #[derive(serde::Deserialize)]
    struct Answer {
        invariants: Vec<Invariant>,
    }
    let path = evidence.place.facts();
    state::write(&path, facts(evidence, story, shown).as_bytes())?;
    let path = path.display().to_string();
    let output = owners_answer(&evidence.place, ["--json", "check", "--facts", &path])?;
    let Ok(Answer { invariants }) = serde_json::from_slice(&output.stdout) else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        problems.push(format!("netsky check did not answer: {}", crate::output::one_line(&complaint)));
        return Ok(Vec::new());
    };
    for broken in invariants.iter().filter(|invariant| !invariant.holds) {
        let first = broken.findings.first();
        let word = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let first = first.map_or_else(String::new, |f| format!(": {} {}", word(f, "where"), word(f, "what")));
        problems.push(format!("{} does not hold{first}", broken.id));
    }
    Ok(invariants)
}

/// What only the demo knows, one JSON object a line.
fn facts(evidence: &Evidence, story: &Story, shown: &[Shown]) -> String {
    let orders = evidence.orders.iter().map(|id| (AgentId::root(), id.clone()));
    let sent = evidence.facts.iter().filter_map(|fact| match &fact.seen {
        Seen::Moved(moved) if is_sent(moved) => Some((moved.agent.clone(), moved.id.clone())),
        _ => None,
    });
    let mut lines: Vec<Value> = orders
        .chain(sent)
        .map(|(agent, id)| json!({ "acknowledged": { "agent": agent, "id": id } }))
        .collect();
    lines.extend(shown.iter().map(
        |shown| json!({ "surfaced": { "agent": shown.agent, "id": shown.id, "attempt": shown.attempt } }),
    ));
    lines.extend(story.kills.iter().map(
        |(_, kill)| json!({ "killed": { "pid": kill.process.pid, "start_time": kill.process.start_time } }),
    ));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn is_sent(moved: &Moved) -> bool {
    moved.is_to(State::Written) && moved.attempt == 1
}

fn restarts(evidence: &Evidence, story: &Story, problems: &mut Vec<String>) {
    let verified = |outcome: &Option<(Timestamp, Outcome)>| matches!(outcome, Some((_, Outcome::Verified)));
    let count = story.restarts.iter().filter(|restart| verified(&restart.end)).count();
    if evidence.killed.is_empty() {
        let (moments, all) = (moments(evidence), story.restarts.len());
        if (all, count) != (moments.len(), moments.len()) {
            let wanted = moments.len();
            problems.push(format!("{count} of {all} restarts were verified, not {wanted} of {wanted}"));
        }
        for moment in moments {
            if !story.kills.iter().any(|(_, kill)| kill.moment == *moment) {
                problems.push(format!("agent0 was not killed {moment}"));
            }
        }
    } else if !story.restarts.last().is_some_and(|last| verified(&last.end)) {
        problems.push("the last restart was not verified".to_owned());
    }
}

/// The sessions that nobody killed must have kept their workers.
fn untouched(evidence: &Evidence, problems: &mut Vec<String>) -> Vec<(AgentId, Option<u32>, Option<u32>)> {
    let killed: Vec<AgentId> = evidence.killed.iter().filter_map(|target| target.session()).collect();
    let mut kept = Vec::new();
    for before in &evidence.before {
        if before.session == AgentId::root() || killed.contains(&before.session) {
            continue;
        }
        let after = evidence.after.iter().find(|after| after.session == before.session);
        if after != Some(before) {
            problems.push(format!("{} did not keep its worker", before.session));
        }
        let pid = |worker: &Worker| worker.worker.as_ref().map(|worker| worker.pid);
        kept.push((before.session.clone(), pid(before), after.and_then(pid)));
    }
    if kept.len() < evidence.clones as usize {
        problems.push(format!("only {} sessions were there to be left alone", kept.len()));
    }
    kept
}

/// Every envelope with its life and its end; one that is not finished is a problem.
fn envelopes(evidence: &Evidence, story: &Story, problems: &mut Vec<String>) -> Result<Vec<Envelope>, Error> {
    let layout = evidence.place.layout();
    let bus = Bus::open(&layout, &Nobody);
    let mut rows = Vec::new();
    for agent in agents(evidence) {
        for entry in bus.list(&agent, None)? {
            let Some(name) = entry.name else { continue };
            if entry.state != State::Acked {
                problems.push(format!("{} of {agent} is {}, not finished", name.key.id, entry.state));
            }
            let life = story.lives.iter().find(|life| life.to == agent && life.id == name.key.id);
            let kind = entry.envelope.as_ref().and_then(|envelope| envelope.kind.clone());
            let from = entry.envelope.as_ref().map(|envelope| envelope.from.to_string());
            rows.push((
                name.key.clone(),
                Envelope {
                    id: name.key.id.to_string(),
                    from: from.unwrap_or_default(),
                    to: agent.clone(),
                    kind: kind.unwrap_or_else(|| "message".to_owned()),
                    state: entry.state.word(),
                    attempt: name.attempt,
                    life: life.cloned().unwrap_or_else(|| Life::unknown(&agent, &name.key.id)),
                },
            ));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_an_element_on_a_terminal_is_read_with_its_flag() {
        let agent = AgentId::root();
        let first =
            element(&agent, "source=\"agent\" from=\"owner\" id=\"x1\" ts=\"…\"").expect("an element");
        assert_eq!((first.attempt, first.flagged), (1, false));
        let head = "source=\"agent\" id=\"x1\" ts=\"…\" redelivered=\"true\" attempt=\"2\"";
        let again = element(&agent, head).expect("an element");
        assert_eq!((again.attempt, again.flagged), (2, true));
    }
}
