//! The lock of who sends, and the note in it: who it is, when it last got on, and which pages went out that the book has no
//! room for. A note is rewritten in place, for which a full disk has room.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process};
use netsky_model::paging::{Doubt, is_over};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::book::Book;

/// Longest that a sender may take for one attempt, its secret and its end included: several times its deadline.
const DEADLINE: Duration = Duration::from_secs(60);
/// Most pages that the note remembers: it is one small block. Those beyond them wait.
const REMEMBERED: usize = 20;

/// What the lock's file says.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    process: ProcessId,
    /// Since when it is at one attempt.
    since: Stamp,
    #[serde(default)]
    beside: Vec<Beside>,
}

/// A page that the book could not be told of.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Beside {
    /// A sum of its condition.
    condition: u64,
    /// When a transport took it; none while nobody knows.
    sent: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
}

/// The lock, held.
#[derive(Debug)]
pub(crate) struct Sending {
    lock: Lock,
    beside: Vec<Beside>,
}

impl Sending {
    /// Take it; none if another process has it for longer than `limit`.
    pub(crate) fn take(layout: &Layout, limit: Duration) -> netsky_disk::Result<Option<Sending>> {
        let path = layout.pages_lock();
        Dir::make(layout.pages_folder())?;
        let taken = match limit.is_zero() {
            true => Lock::try_take(&path)?,
            false => Lock::take_within(&path, limit)?,
        };
        let beside = || Lock::noted::<Note>(&path).map_or_else(Vec::new, |note| note.beside);
        let mut sending = taken.map(|lock| Sending { lock, beside: beside() });
        if let Some(sending) = &mut sending {
            sending.got_on();
        }
        Ok(sending)
    }

    /// The next attempt begins: the deadline counts from here. Who cannot note it only cannot be ended for it.
    pub(crate) fn got_on(&mut self) {
        if let Ok(process) = process::identity() {
            let _ = self.lock.note(&Note { process, since: clock::stamp(), beside: self.beside.clone() });
        }
    }

    /// Whether there is room for one more page that the book cannot be told of. What was sent a cool-down ago gives its
    /// room away, and may be sent again.
    pub(crate) fn has_room(&mut self, key: &str, cool_down: Duration) -> bool {
        let (condition, now) = (sum(key), clock::stamp());
        if self.beside.len() < REMEMBERED || self.beside.iter().any(|one| one.condition == condition) {
            return true;
        }
        let is_old = |one: &Beside| one.sent.as_ref().is_some_and(|sent| is_over(cool_down, sent, &now));
        let oldest = self.beside.iter().position(is_old);
        oldest.map(|oldest| self.beside.remove(oldest)).is_some()
    }

    /// Remembers of a page what the book cannot be told, where there is room: an escalation goes out without.
    pub(crate) fn remember(&mut self, key: &str, sent: Option<Stamp>, doubt: Option<Doubt>) {
        let condition = sum(key);
        self.beside.retain(|one| one.condition != condition);
        if self.beside.len() < REMEMBERED {
            self.beside.push(Beside { condition, sent, doubt });
        }
        self.got_on();
    }

    /// Of a page nothing is to be remembered.
    pub(crate) fn settle(&mut self, key: &str) {
        let condition = sum(key);
        self.beside.retain(|one| one.condition != condition);
        self.got_on();
    }

    /// Tells the book.
    pub(crate) fn recall(&self, book: &mut Book) {
        let now = clock::stamp();
        for (key, condition) in &mut book.conditions {
            let known = self.beside.iter().find(|one| one.condition == sum(key));
            match known {
                None => {}
                Some(Beside { sent: Some(sent), .. }) => condition.took_beside(sent, &now),
                Some(Beside { doubt, .. }) => (condition.begun, condition.doubt) = (true, doubt.clone()),
            }
        }
    }

    /// The book knows it all.
    pub(crate) fn forget(&mut self) {
        if !std::mem::take(&mut self.beside).is_empty() {
            self.got_on();
        }
    }
}

/// Has the note before there is anything to send: a disk that is full has no room for the first one, and each tick would send anew.
///
/// # Errors
/// The system refuses.
pub fn prepare(layout: &Layout) -> Result<()> {
    if Lock::noted::<Note>(layout.pages_lock()).is_none() {
        Sending::take(layout, Duration::ZERO)?;
    }
    Ok(())
}

fn sum(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Whether a process sends now. One that is stuck for longer than any attempt takes is ended, and its page sent again: it must
/// not silence the others.
///
/// # Errors
/// The lock cannot be looked at, or the process cannot be ended.
pub fn is_sending(layout: &Layout) -> Result<bool> {
    let path = layout.pages_lock();
    if !Lock::is_held(&path)? {
        return Ok(false);
    }
    let note = Lock::noted::<Note>(&path);
    match note.filter(|note| clock::stamp().since(&note.since) > DEADLINE) {
        None => Ok(true),
        // Of one that is gone somebody else has the lock, who has noted nothing.
        Some(stuck) => Ok(!process::signal(&stuck.process, process::Signal::KILL)?),
    }
}

#[cfg(test)]
mod tests {
    use netsky_disk::home::Home;

    use super::*;

    #[test]
    fn fm_owner_page_enospc_the_note_has_its_room_before_there_is_anything_to_send() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        Home::init(&layout).expect("a fresh home");
        prepare(&layout).expect("there is room");
        assert!(Lock::noted::<Note>(layout.pages_lock()).is_some());
        prepare(&layout).expect("it is there");
    }

    #[test]
    fn fm_owner_page_enospc_a_full_note_reads() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        Home::init(&layout).expect("a fresh folder becomes a home");
        let since = Stamp { boot_ms: u64::from(u32::MAX) * 1_000, ..clock::stamp() };
        let mut sending = Sending::take(&layout, Duration::ZERO).expect("ours").expect("free");
        for key in 0..=REMEMBERED {
            let doubt = Doubt { times: u32::MAX, since: since.clone() };
            sending.remember(&format!("hang.agent{key}"), None, Some(doubt));
        }
        let note = Lock::noted::<Note>(layout.pages_lock()).expect("it reads");
        assert_eq!(note.beside.len(), REMEMBERED);
        assert!(
            !sending.has_room("another", Duration::ZERO) && sending.has_room("hang.agent0", Duration::ZERO)
        );
    }

    #[test]
    fn fm_owner_page_stop_a_sender_that_is_stuck_past_its_deadline_is_ended_and_no_other() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        Home::init(&layout).expect("a fresh folder becomes a home");
        assert!(!is_sending(&layout).expect("nobody has it"));
        let mut child = std::process::Command::new("sleep").arg("100000").spawn().expect("starts");
        let mut sending = Sending::take(&layout, Duration::ZERO).expect("ours").expect("free");
        let process = process::identify(child.id()).expect("it runs");
        let now = clock::stamp();
        let mut look = |ago: Duration| {
            let since = Stamp { boot_ms: now.boot_ms.saturating_sub(ago.as_millis() as u64), ..now.clone() };
            sending.lock.note(&Note { process: process.clone(), since, beside: Vec::new() }).expect("noted");
            is_sending(&layout).expect("looked")
        };
        let at_work = (look(Duration::ZERO), child.try_wait().expect("ours"));
        let stuck = look(DEADLINE + Duration::from_secs(1));
        // Whoever ended it was before this, or this test fails.
        let _ = child.kill();
        let ended = child.wait().expect("ours");
        assert_eq!(at_work, (true, None), "it is at its attempt");
        assert!(!stuck && !ended.success());
    }
}
