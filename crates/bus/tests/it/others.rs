//! Tests of many processes: this test program again, told by its environment what to be, and what each of them saw.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use netsky_bus::Bus;
use netsky_disk::clock;
use netsky_model::id::AgentId;
use netsky_sim::history::{Event, Message, What};

use crate::home::OUTSIDE;

/// The variable that says what a process is to be.
pub(crate) const ROLE: &str = "NETSKY_TEST_ROLE";
/// The variable that says in which folder of a test it is.
pub(crate) const HOME: &str = "NETSKY_TEST_HOME";

/// What one process saw; written out when it is over.
pub(crate) struct Notes {
    process: u32,
    text: String,
}

impl Notes {
    pub(crate) fn new(process: u32) -> Notes {
        Notes { process, text: String::new() }
    }

    pub(crate) fn note(&mut self, what: What) {
        let at = u64::try_from(clock::boot().as_nanos()).expect("within centuries of the boot");
        writeln!(self.text, "{}", Event { at, process: self.process, what }).expect("a string grows");
    }

    /// Drains agent0 once, whose texts are `<sender> <number>`; how many there were.
    pub(crate) fn drain(&mut self, bus: &Bus<'_>, max: usize) -> usize {
        self.note(What::DrainBegan);
        let mut count = 0;
        bus.drain(&AgentId::root(), max, OUTSIDE, |claim| {
            let (sender, number) = claim.envelope().text.split_once(' ').expect("two numbers");
            let message =
                Message { sender: sender.parse().expect("one"), number: number.parse().expect("one") };
            self.note(What::Surfaced(message, claim.attempt()));
            count += 1;
            Ok(())
        })
        .expect("a drain that works");
        self.note(What::DrainEnded);
        count
    }

    pub(crate) fn write_out(self, place: &Path) {
        std::fs::write(place.join(format!("notes-{}", self.process)), self.text).expect("written");
    }
}

/// What the first so many processes wrote down.
pub(crate) fn all_notes(place: &Path, processes: u32) -> Vec<Event> {
    let read = |process| std::fs::read_to_string(place.join(format!("notes-{process}")));
    let texts: Vec<String> = (0..processes).map(|process| read(process).expect("notes of each")).collect();
    texts.iter().flat_map(|text| text.lines().map(|line| line.parse().expect("a note"))).collect()
}

/// A process of a test; ended when the test is left early.
pub(crate) struct Other(Child);

impl Other {
    /// This program again, as one of its tests in the folder `place`, with more in its environment.
    pub(crate) fn start<'a>(
        test: &str,
        place: &Path,
        role: &str,
        more: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Other {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", test, "--test-threads", "1"]);
        command.env(ROLE, role).env(HOME, place).envs(more);
        Other(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("this program starts"))
    }

    /// Waits for its end, which is that of a process that a signal killed.
    pub(crate) fn dies(mut self) {
        let status = self.0.wait().expect("a child of ours");
        assert!(status.code().is_none(), "{status}");
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("a child of ours").is_none()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn end_well(others: Vec<Other>) {
    for mut other in others {
        let status = other.0.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
    }
}
