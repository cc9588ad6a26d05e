//! The history checker: what many processes saw of one queue, held against what the queue promises.
//!
//! Every process notes what it was about to do and what came of it, with the time of one clock that all of them share.
//! The checker reads all notes together. It needs no search: ids are unique, so each promise is a look at the notes of
//! one envelope or of one sender, and the whole is linear but for a sort.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// One message: who sent it, and the how manyth of that sender it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// Which sender.
    pub sender: u32,
    /// Rises by one with each of its sends.
    pub number: u32,
}

/// What a process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is about to send.
    Invoked(Message),
    /// The send was acknowledged.
    Sent(Message),
    /// The send was refused; nothing may come of it.
    Refused(Message),
    /// A drain begins.
    DrainBegan,
    /// The drain put it before its reader, as that attempt.
    Surfaced(Message, u32),
    /// The drain is over.
    DrainEnded,
}

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of a clock that all processes share.
    pub at: u64,
    /// Whose note.
    pub process: u32,
    /// What it did.
    pub what: What,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { at, process, what } = self;
        let (word, message, attempt) = match *what {
            What::Invoked(message) => ("invoked", Some(message), 0),
            What::Sent(message) => ("sent", Some(message), 0),
            What::Refused(message) => ("refused", Some(message), 0),
            What::DrainBegan => ("began", None, 0),
            What::Surfaced(message, attempt) => ("surfaced", Some(message), attempt),
            What::DrainEnded => ("ended", None, 0),
        };
        let Message { sender, number } = message.unwrap_or(Message { sender: 0, number: 0 });
        write!(f, "{at} {process} {word} {sender} {number} {attempt}")
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Event, String> {
        let bad = || format!("no note: {line:?}");
        let words: Vec<&str> = line.split(' ').collect();
        let [at, process, word, sender, number, attempt] = words[..] else { return Err(bad()) };
        let small = |text: &str| text.parse::<u32>().map_err(|_| bad());
        let message = Message { sender: small(sender)?, number: small(number)? };
        let what = match word {
            "invoked" => What::Invoked(message),
            "sent" => What::Sent(message),
            "refused" => What::Refused(message),
            "began" => What::DrainBegan,
            "surfaced" => What::Surfaced(message, small(attempt)?),
            "ended" => What::DrainEnded,
            _ => return Err(bad()),
        };
        Ok(Event { at: at.parse().map_err(|_| bad())?, process: small(process)?, what })
    }
}

/// What the notes add up to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Acknowledged sends.
    pub sent: usize,
    /// Surfacings.
    pub surfaced: usize,
    /// Surfacings after the first of their message.
    pub repeats: usize,
    /// Attempts that came to nothing: those of each message before its last surfacing, seen or not.
    pub spent: usize,
}

/// Holds all notes against the promises of a queue whose readers died at most `deaths` times.
///
/// A reader takes one message at a time: its death costs that one an attempt, and none behind it. So over all messages
/// together no more attempts are spent than readers died; a repeat is one of these.
///
/// # Errors
/// The first broken promise, in words: lost, forged, surfaced before it was sent, surfaced again unflagged, more attempts
/// spent than deaths explain, out of its sender's order.
pub fn check(mut events: Vec<Event>, deaths: usize) -> Result<Account, String> {
    events.sort_by_key(|event| event.at);
    let mut seen: BTreeMap<Message, Seen> = BTreeMap::new();
    let mut account = Account::default();
    for event in &events {
        match event.what {
            What::Invoked(message) => seen.entry(message).or_default().invoked = true,
            What::Sent(message) => {
                account.sent += 1;
                seen.entry(message).or_default().sent = true;
            }
            What::Refused(message) => seen.entry(message).or_default().refused = true,
            What::Surfaced(message, attempt) => {
                account.surfaced += 1;
                let one = seen.entry(message).or_default();
                if !one.invoked {
                    return Err(format!("{message:?} surfaced before anybody sent it"));
                }
                one.surfaced(message, attempt)?;
            }
            What::DrainBegan | What::DrainEnded => {}
        }
    }
    for (message, one) in &seen {
        if one.sent && one.times == 0 {
            return Err(format!("{message:?} was acknowledged and never surfaced"));
        }
        if one.refused && one.times > 0 {
            return Err(format!("{message:?} was refused and surfaced"));
        }
    }
    account.repeats = seen.values().map(|one| one.times.saturating_sub(1)).sum();
    account.spent = seen.values().map(|one| one.attempt.saturating_sub(1) as usize).sum();
    if account.spent > deaths {
        let Account { repeats, spent, .. } = account;
        return Err(format!("{spent} attempts were spent, {repeats} of them seen, by {deaths} deaths"));
    }
    in_order(&events)?;
    Ok(account)
}

/// What is known of one message.
#[derive(Default)]
struct Seen {
    invoked: bool,
    sent: bool,
    refused: bool,
    times: usize,
    attempt: u32,
}

impl Seen {
    fn surfaced(&mut self, message: Message, attempt: u32) -> Result<(), String> {
        if attempt <= self.attempt {
            return Err(format!("{message:?} surfaced as attempt {attempt} after {}", self.attempt));
        }
        self.times += 1;
        self.attempt = attempt;
        Ok(())
    }
}

/// Each sender's first surfacings rise within a drain, and from a drain to every one that began after it had ended.
///
/// Two drains at the same time share a queue as they like; nothing is said of their order between them.
fn in_order(events: &[Event]) -> Result<(), String> {
    let mut open: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    // Of each sender: the highest number of any drain that has ended.
    let mut ended: BTreeMap<u32, u32> = BTreeMap::new();
    // What had ended when a drain of that process began.
    let mut before: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for event in events {
        match event.what {
            What::DrainBegan => {
                open.insert(event.process, BTreeMap::new());
                before.insert(event.process, ended.clone());
            }
            What::Surfaced(Message { sender, number }, 1) => {
                let Some(here) = open.get_mut(&event.process) else {
                    return Err(format!("process {} surfaced outside of a drain", event.process));
                };
                let above = here.get(&sender).max(before[&event.process].get(&sender));
                if above.is_some_and(|above| number <= *above) {
                    return Err(format!("sender {sender}: {number} surfaced after {above:?}"));
                }
                here.insert(sender, number);
            }
            What::DrainEnded => {
                for (sender, number) in open.remove(&event.process).unwrap_or_default() {
                    let highest = ended.entry(sender).or_default();
                    *highest = number.max(*highest);
                }
            }
            What::Invoked(_) | What::Sent(_) | What::Refused(_) | What::Surfaced(..) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Message = Message { sender: 1, number: 1 };
    const B: Message = Message { sender: 1, number: 2 };

    fn events(whats: &[(u32, What)]) -> Vec<Event> {
        (1..).zip(whats).map(|(at, (process, what))| Event { at, process: *process, what: *what }).collect()
    }

    fn sent() -> Vec<(u32, What)> {
        [A, B].iter().flat_map(|one| [(1, What::Invoked(*one)), (1, What::Sent(*one))]).collect()
    }

    fn with(more: &[(u32, What)], deaths: usize) -> Result<Account, String> {
        check(events(&[sent(), more.to_vec()].concat()), deaths)
    }

    #[test]
    fn a_note_reads_back() {
        for event in events(&[sent(), vec![(7, What::DrainBegan), (7, What::Surfaced(A, 3))]].concat()) {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        assert!("1 2 frobnicated 3 4 5".parse::<Event>().is_err());
    }

    #[test]
    fn a_queue_that_keeps_its_promises_passes() {
        let told = [
            (2, What::DrainBegan),
            (2, What::Surfaced(A, 1)),
            (2, What::Surfaced(B, 1)),
            (2, What::DrainEnded),
        ];
        assert_eq!(with(&told, 0), Ok(Account { sent: 2, surfaced: 2, repeats: 0, spent: 0 }));
    }

    #[test]
    fn i2_one_death_explains_one_attempt_of_all_messages_together() {
        let told = |a: &[u32], b: &[u32], deaths| {
            let of = |message, attempts: &[u32]| -> Vec<(u32, What)> {
                attempts.iter().map(|attempt| (2, What::Surfaced(message, *attempt))).collect()
            };
            with(&[vec![(2, What::DrainBegan)], of(A, a), of(B, b)].concat(), deaths)
        };
        let both = told(&[1, 2], &[1, 2], 1).expect_err("each once, two in all");
        assert!(both.contains("2 attempts were spent, 2 of them seen, by 1 deaths"), "{both}");
        let unseen = told(&[2], &[2], 1).expect_err("both were held by the one that died");
        assert!(unseen.contains("2 attempts were spent, 0 of them seen, by 1 deaths"), "{unseen}");
        assert_eq!(told(&[1, 3], &[1], 2), Ok(Account { sent: 2, surfaced: 3, repeats: 1, spent: 2 }));
        assert!(told(&[1, 2], &[1, 2], 2).is_ok(), "one each");
    }

    #[test]
    fn each_broken_promise_is_named() {
        let (began, ended) = (What::DrainBegan, What::DrainEnded);
        let of = |told: &[(u32, What)], deaths| with(told, deaths).expect_err("broken");
        assert!(of(&[(2, began), (2, What::Surfaced(A, 1)), (2, ended)], 0).contains("never surfaced"));
        let twice = [(2, began), (2, What::Surfaced(A, 1)), (2, What::Surfaced(B, 1)), (2, ended)];
        let again = |attempt| [&twice[..], &[(3, began), (3, What::Surfaced(A, attempt))]].concat();
        assert!(of(&again(1), 1).contains("as attempt 1 after 1"));
        assert!(of(&again(2), 0).contains("1 attempts were spent, 1 of them seen, by 0 deaths"));
        assert!(with(&again(2), 1).is_ok());
        let swapped = [(2, began), (2, What::Surfaced(B, 1)), (2, What::Surfaced(A, 1))];
        assert!(of(&swapped, 0).contains("sender 1: 1 surfaced after"));
        let late = [(2, began), (2, What::Surfaced(B, 1)), (2, ended), (3, began), (3, What::Surfaced(A, 1))];
        assert!(of(&late, 0).contains("sender 1: 1 surfaced after"));
        let beside =
            [(3, began), (2, began), (2, What::Surfaced(B, 1)), (2, ended), (3, What::Surfaced(A, 1))];
        assert!(with(&beside, 0).is_ok(), "two at the same time share as they like");
        let forged = Message { sender: 9, number: 9 };
        assert!(of(&[(2, began), (2, What::Surfaced(forged, 1))], 0).contains("before anybody sent it"));
        let refused = [(1, What::Invoked(forged)), (1, What::Refused(forged)), (2, began)];
        let refused = [&refused[..], &[(2, What::Surfaced(forged, 1))], &twice[1..]].concat();
        assert!(of(&refused, 0).contains("was refused and surfaced"));
    }
}
