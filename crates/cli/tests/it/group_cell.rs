//! L2, L5: the cell of `channel send --batch` whose lines have no ids: the group commit, broken at each of its calls.
//!
//! Whoever says such lines again sends them again, so a repeat tells nothing of the runs before it. What is judged are
//! the answers: a line that is said to be sent is in its inbox, under the id of its own answer; one that is said to have
//! failed is not, unless the sync of the folder failed; and what could not be synced is not said to be sent.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use netsky_model::name::Name;
use netsky_sim::{Call, Ended, Errno, Moment, Outcome, Point, Run};
use serde_json::Value;

use crate::bus_home::{Audit, Deaths, Home, repeats_are_flagged};
use crate::cells::{Cell, Judge, two};
use crate::racers::is_output;

/// Each line's target and text. Fewer than would be synced by more threads than one: a stepper drives only one.
const LINES: [(&str, &str); 4] =
    [("agent7", "line 1"), ("agent8", "line 2"), ("agent7", "line 3"), ("agent7", "line 4")];

const ARGS: &[&str] = &["channel", "send", "--batch", "--file", "home/lines", "--from", "agent0"];

pub(crate) const GROUP: Cell = Cell {
    name: "send --batch",
    home: home_with_lines,
    args: ARGS,
    stacked: 2,
    judge: Judge::Answers(what_was_answered_is_so),
};

fn home_with_lines() -> Home {
    let home = two();
    let line = |(to, text): (&str, &str)| format!("{}\n", serde_json::json!({"to": to, "text": text}));
    std::fs::write(home.path().join("lines"), LINES.map(line).concat()).expect("written");
    home
}

/// What a run said of a line.
#[derive(Debug)]
enum Said {
    /// Sent, under this id.
    Sent(String),
    Failed,
    Nothing,
}

/// What a run said of each line; an error if it said so out of their order.
fn said(run: &Run) -> Result<Vec<Said>> {
    let mut said = Vec::new();
    for line in run.stdout.lines() {
        let answer: Value = serde_json::from_str(line).with_context(|| format!("no answer: {line:?}"))?;
        said.push(match (&answer["sent"], &answer["id"], &answer["error"]) {
            (Value::Bool(true), Value::String(id), Value::Null) => Said::Sent(id.clone()),
            (Value::Null, Value::Null, Value::String(_)) => Said::Failed,
            _ => anyhow::bail!("answered {line}"),
        });
        ensure!(answer["line"] == said.len(), "answer {} is of another line: {line}", said.len());
    }
    ensure!(said.len() <= LINES.len(), "more answers than lines: {said:?}");
    let all_sent = said.len() == LINES.len() && said.iter().all(|one| matches!(one, Said::Sent(_)));
    ensure!(all_sent || run.ended != Ended::Exited(0), "exit 0, and {said:?}");
    said.resize_with(LINES.len(), || Said::Nothing);
    Ok(said)
}

/// The mailboxes of both targets.
struct Mail {
    seven: Audit,
    eight: Audit,
}

impl Mail {
    fn read(home: &Home) -> Result<Mail> {
        Ok(Mail { seven: home.audit("agent7")?, eight: home.audit("agent8")? })
    }

    fn of(&self, to: &str) -> &Audit {
        if to == "agent7" { &self.seven } else { &self.eight }
    }

    /// How many envelopes there are of each line.
    fn counts(&self) -> [usize; LINES.len()] {
        LINES.map(|(to, text)| self.of(to).saying(text))
    }

    fn knows(&self, id: &str) -> bool {
        [&self.seven, &self.eight].into_iter().any(|audit| audit.found.contains_key(id))
    }
}

/// The call that was made to fail; none where the run was killed.
fn failed(outcome: &Outcome) -> Option<&Point> {
    outcome.hit.as_ref().filter(|_| outcome.run.ended != Ended::Killed)
}

/// Whether it is the sync of the folder into which the messages for `to` were named.
fn is_sync_of_inbox(home: &Home, point: &Point, to: &str) -> bool {
    point.call == Call::Sync && point.files.last() == Some(&home.channel(to, "inbox"))
}

/// The envelope whose own file was to be synced or named by this call.
fn envelope_of(point: &Point) -> Option<String> {
    let file = point.files.last().filter(|_| matches!(point.call, Call::Sync | Call::Rename))?;
    let name = file.file_name()?.to_str()?;
    let end = name.find(".json")? + ".json".len();
    Name::parse(&name[..end]).map(|name| name.key.id.as_str().to_owned())
}

/// After runs that were broken, one after the other, and then a repeat that is not.
fn what_was_answered_is_so(home: &Home, broken: &[&Outcome]) -> Result<()> {
    let mail = Mail::read(home)?;
    let mut most = [0; LINES.len()];
    for outcome in broken {
        let said = said(&outcome.run)?;
        for (at, more) in may_be_there(home, outcome, &said).into_iter().enumerate() {
            most[at] += more;
        }
        the_sent_are_there(&mail, &said)?;
        what_failed_is_said(home, &mail, outcome, &said)?;
    }
    let counts = mail.counts();
    for ((_, text), (count, most)) in LINES.iter().zip(counts.iter().zip(most)) {
        ensure!(*count <= most, "{text}: {count} are there, of at most {most}");
    }
    if broken.iter().all(|outcome| outcome.run.ended == Ended::Killed) {
        ensure!(counts.is_sorted_by(|a, b| a >= b), "named out of the order of the lines: {counts:?}");
    }
    the_repeat_sends_all(home, counts)
}

/// Of each line how many this run may have placed.
fn may_be_there(home: &Home, outcome: &Outcome, said: &[Said]) -> [usize; LINES.len()] {
    let cut_short = outcome.run.ended == Ended::Killed || outcome.hit.as_ref().is_some_and(is_output);
    let mut most = [0; LINES.len()];
    for (at, (to, _)) in LINES.iter().enumerate() {
        most[at] = usize::from(match &said[at] {
            Said::Sent(_) => true,
            Said::Failed => failed(outcome).is_some_and(|point| is_sync_of_inbox(home, point, to)),
            Said::Nothing => cut_short,
        });
    }
    most
}

/// What is said to be sent is in its inbox, with its text under its id.
fn the_sent_are_there(mail: &Mail, said: &[Said]) -> Result<()> {
    for ((to, text), said) in LINES.iter().zip(said) {
        let Said::Sent(id) = said else { continue };
        let placed = mail.of(to).found.get(id).with_context(|| format!("said sent, is absent: {text}"))?;
        ensure!(placed.folder == "inbox" && placed.text == *text, "{text} is said to be {placed:?}");
    }
    Ok(())
}

/// What failed is answered with an error, and by no other's: trouble of one file is told of its message alone.
fn what_failed_is_said(home: &Home, mail: &Mail, outcome: &Outcome, said: &[Said]) -> Result<()> {
    let Some(point) = failed(outcome) else { return Ok(()) };
    for ((to, text), said) in LINES.iter().zip(said) {
        let synced = !is_sync_of_inbox(home, point, to);
        ensure!(synced || !matches!(said, Said::Sent(_)), "{text} is said to be sent, not synced");
    }
    if let Some(id) = envelope_of(point) {
        ensure!(!mail.knows(&id), "{id} is there, for all that {point} failed");
        let errors = said.iter().filter(|said| matches!(said, Said::Failed)).count();
        ensure!(errors == 1, "one file failed, and {said:?}");
    }
    for agent in ["agent7", "agent8"] {
        let left = home.files(agent, "tmp")?;
        ensure!(left.is_empty(), "left in tmp: {left:?}");
    }
    Ok(())
}

/// A run that nothing breaks adds one of each line, and all there are surface once, its own last and in their order.
fn the_repeat_sends_all(home: &Home, before: [usize; LINES.len()]) -> Result<()> {
    let repeat = said(&home.netsky(ARGS.iter().copied())?)?;
    let mail = Mail::read(home)?;
    the_sent_are_there(&mail, &repeat)?;
    ensure!(mail.counts() == before.map(|count| count + 1), "{before:?} became {:?}", mail.counts());
    let waiting = mail.seven.found.iter().filter(|(_, placed)| placed.folder == "inbox");
    let waiting: BTreeSet<&str> = waiting.map(|(id, _)| id.as_str()).collect();
    let surfaced = home.drain()?;
    repeats_are_flagged(&surfaced, Deaths::NONE)?;
    home.attempts_are_explained("agent7", Deaths::NONE)?;
    let ids: Vec<&str> = surfaced.iter().map(|one| &*one.id).collect();
    ensure!(ids.iter().copied().collect::<BTreeSet<_>>() == waiting, "surfaced {ids:?} of {waiting:?}");
    let own: Vec<&str> = LINES
        .iter()
        .zip(&repeat)
        .filter_map(|((to, _), said)| match said {
            Said::Sent(id) if *to == "agent7" => Some(&**id),
            _ => None,
        })
        .collect();
    ensure!(ids.ends_with(&own), "the last to be sent are {own:?}, and surfaced were {ids:?}");
    Ok(())
}

fn is_in(point: &Point, folder: &Path) -> bool {
    point.files.last().is_some_and(|file| file.starts_with(folder))
}

#[test]
fn t1_the_cell_of_the_group_commit_comes_to_it() {
    let home = home_with_lines();
    let trace = home.stepper(ARGS.iter().copied()).points().expect("a run");
    let syncs = |agent, folder| {
        let place = home.channel(agent, folder);
        let fits = |p: &&Point| p.call == Call::Sync && p.moment == Moment::Exit && is_in(p, &place);
        trace.points.iter().filter(fits).count()
    };
    // One by one each would have a sync of its folder of its own.
    let seen = [("agent7", "tmp"), ("agent7", "inbox"), ("agent8", "tmp"), ("agent8", "inbox")]
        .map(|(agent, folder)| syncs(agent, folder));
    assert_eq!(seen, [3, 1, 1, 1], "{:#?}", trace.points);
}

#[test]
fn fm_send_emfile_in_a_group_goes_on_with_the_next_wave() {
    let template = home_with_lines();
    // The first has nothing open that it could close.
    for (nth, failures) in [(0, 1), (1, 0), (2, 0), (3, 0)] {
        let home = template.copy();
        let mut opens = 0;
        let of_a_file = |point: &Point| {
            let name = point.files.last().and_then(|file| file.file_name()).unwrap_or_default();
            let fits = point.call == Call::Open && name.to_string_lossy().contains(".json.");
            opens += usize::from(fits);
            fits && opens == nth + 1
        };
        let outcome = home.stepper(ARGS.iter().copied()).fail_when(of_a_file, Errno::EMFILE).expect("a run");
        assert!(outcome.hit.is_some(), "{nth}: nothing was opened");
        let said = said(&outcome.run).expect("answers");
        let failed = said.iter().filter(|said| matches!(said, Said::Failed)).count();
        assert_eq!(failed, failures, "{nth}: {said:?}");
        what_was_answered_is_so(&home, &[&outcome]).unwrap_or_else(|why| panic!("{nth}: {why:#}"));
    }
}
