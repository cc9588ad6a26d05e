//! The samples read twice, from elsewhere, or with a piece gone: whoever reads comes to the same, and no message is lost.

use serde_json::Value;

use super::super::super::{AskKind, Doing, Driver, Learnt, Out, Room, Wedge};
use super::super::Claude;
use super::{SAMPLES, Talk, named, parse, sample};

#[test]
fn pings_are_no_progress_and_an_answer_that_is_only_pings_is_one_way_to_hang() {
    let lines = sample("hang-pings");
    let mut talk = Talk::about(&lines);
    let (before, pings) = lines.split_at(lines.len() - 3);
    talk.read(before);
    assert_eq!((talk.claude.doing(), talk.claude.silence()), (&Doing::Working, Some(Wedge::Stalled)));
    for ping in pings {
        assert!(!talk.line(ping.as_bytes()));
        assert_eq!(talk.claude.silence(), Some(Wedge::PingsOnly));
    }
    assert!(talk.line(before.last().expect("a line").as_bytes()), "a word of the model is progress");
    assert_eq!((talk.claude.silence(), talk.claude.room()), (Some(Wedge::Stalled), Room::Steers));
}

#[test]
fn an_answer_to_a_probe_is_heard_and_is_no_progress() {
    let lines = sample("controls");
    let mut talk = Talk::about(&lines);
    let progress: Vec<bool> = lines
        .iter()
        .map(|line| {
            talk.lead(line);
            talk.line(line.as_bytes())
        })
        .collect();
    assert_eq!(progress, [true, true, true, false, true, true, true, true]);
    assert_eq!(talk.claude.heard(), 1);
}

#[test]
fn who_reads_from_before_an_answer_learns_that_there_was_one() {
    let lines = sample("allowed");
    let asked = lines.iter().position(|line| line.contains("\"control_request\"")).expect("it asks");
    let echoed = lines.iter().position(|line| line.contains("\"behavior\"")).expect("it repeats the answer");
    let mut talk = Talk::about(&lines);
    talk.read(&lines[..=asked]);
    talk.lead(lines[echoed]);
    let runs = Doing::ToolRunning { tool: "Bash".to_owned() };
    assert_eq!((talk.claude.doing(), talk.claude.asks().len()), (&runs, 0));
    talk.line(lines[asked].as_bytes());
    assert_eq!(talk.claude.asks().len(), 1);
    talk.read(&lines[asked + 1..=echoed]);
    assert_eq!((talk.claude.doing(), talk.claude.asks().len()), (&runs, 0));
}

#[test]
fn who_waits_for_an_answer_while_output_is_lost_is_asked_for_once() {
    let lines = sample("asked-twice");
    let asked = lines.iter().position(|line| line.contains("\"control_request\"")).expect("it asks");
    let answered = lines.iter().position(|line| line.contains("netsky-gap-1")).expect("it says who waits");
    let mut talk = Talk::about(&lines);
    talk.read(&lines[..asked]);
    talk.read(&lines[asked + 1..=answered]);
    assert_eq!(talk.claude.asks().len(), 1);
    assert_eq!(talk.claude.asks()[0].kind, AskKind::Permission);
    talk.read(&lines[answered + 1..]);
    assert!(talk.claude.asks().is_empty());
    assert_eq!(talk.fates().0.len(), 2);
}

/// Loses what the program printed from one line to another, and learns where it stands by the greeting that follows.
fn loses(lines: &[&str], values: &[Value], (from, to): (usize, usize), greeting: &Value, at: &str) {
    let mut talk = Talk::about(lines);
    talk.read(&lines[..from]);
    lines[from..to].iter().for_each(|line| talk.lead(line));
    let mut out = Out::default();
    talk.claude.gap(&mut out);
    talk.heed(out);
    let state = values[..to].iter().rev().find(|line| line["subtype"] == "session_state_changed");
    let state = state.map_or("idle", |line| line["state"].as_str().expect("a state"));
    let mut answer = greeting.clone();
    answer["response"]["request_id"] = "netsky-gap-7".into();
    answer["response"]["response"]["session_state"] = state.into();
    talk.line(answer.to_string().as_bytes());
    talk.read(&lines[to..]);
    let (finished, again) = talk.fates();
    assert!(finished.is_disjoint(&again), "{at}");
    assert_eq!(finished.len() + again.len(), talk.delivered.len(), "{at}");
    let ends: Vec<Value> = values[..from].iter().chain(&values[to..]).cloned().collect();
    assert!(finished.is_subset(&named(&ends)), "{at}");
    // A receipt that was read is one, whatever was lost before it.
    let is_receipt = |line: &&Value| line["type"] == "result" && line["is_error"] == false;
    let receipts: Vec<Value> = values[to..].iter().filter(is_receipt).cloned().collect();
    assert!(named(&receipts).iter().all(|key| !again.contains(key)), "{at}");
    assert_eq!(talk.claude.room(), Room::Free, "{at}");
}

#[test]
fn i1_whatever_output_is_lost_no_message_is_and_no_mail_stops() {
    for (name, _) in
        SAMPLES.into_iter().filter(|(name, _)| !["hang-pings", "no-conversation", "controls"].contains(name))
    {
        let lines = sample(name);
        let values: Vec<Value> = lines.iter().map(|line| parse(line)).collect();
        let greeted = 1 + lines.iter().position(|line| line.contains("netsky-greet")).expect("it is greeted");
        for (from, to) in
            (greeted..lines.len()).flat_map(|from| (from + 1..=lines.len()).map(move |to| (from, to)))
        {
            loses(&lines, &values, (from, to), &values[greeted - 1], &format!("{name} without {from}..{to}"));
        }
    }
}

/// Takes over from one that died, reads some lines a second time and goes on: it comes to what one who read all has.
fn takes_over(died: &Talk, whole: &Talk, (known, rest): (&[&str], &[&str]), at: &str) {
    let mut second = Talk { claude: Claude::remember(&died.claude.memory()), ..died.clone() };
    known.iter().for_each(|line| _ = second.line(line.as_bytes()));
    second.read(rest);
    assert_eq!(second.claude.memory(), whole.claude.memory(), "{at}");
    assert_eq!(second.fates(), whole.fates(), "{at}");
    let (finished, again) = second.fates();
    assert!(finished.is_disjoint(&again), "{at}");
}

/// I1, I2: whoever takes over from any line, or from any few lines earlier, comes to the same.
#[test]
fn i1_whoever_reads_on_from_an_earlier_line_comes_to_the_same() {
    for (name, _) in SAMPLES {
        let lines = sample(name);
        let mut whole = Talk::about(&lines);
        whole.read(&lines);
        let mut first = Talk::about(&lines);
        for n in 0..=lines.len() {
            for has_led in [false, true] {
                let mut died = first.clone();
                lines.get(n).filter(|_| has_led).iter().for_each(|line| died.lead(line));
                for back in 0..=3.min(n) {
                    let at = format!("{name}, after line {n}, {back} earlier, led: {has_led}");
                    takes_over(&died, &whole, (&lines[n - back..n], &lines[n..]), &at);
                }
            }
            lines.get(n).iter().for_each(|line| first.read(&[line]));
        }
        let (finished, again) = whole.fates();
        let ended = finished.len() + again.len();
        assert_eq!(ended, if name == "hang-pings" { 0 } else { whole.delivered.len() }, "{name}");
    }
}

#[test]
fn i2_a_turn_that_is_read_twice_is_told_under_the_same_name_and_has_its_messages_once() {
    for name in ["plain", "merged", "529"] {
        let lines = sample(name);
        let mut talk = Talk::about(&lines);
        talk.read(&lines);
        let ends = |talk: &Talk| {
            let ends = talk.learnt.iter().filter_map(|learnt| match learnt {
                Learnt::TurnEnded(end) => Some((end.id.clone(), end.messages.len())),
                _ => None,
            });
            ends.collect::<Vec<_>>()
        };
        let once = ends(&talk);
        talk.learnt.clear();
        lines.iter().for_each(|line| _ = talk.line(line.as_bytes()));
        let again: Vec<_> = once.iter().map(|(id, _)| (id.clone(), 0)).collect();
        assert_eq!(ends(&talk), again, "{name}");
    }
}
