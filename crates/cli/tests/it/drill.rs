//! The drill: restarts one after the other, asked for and not, with somebody killed at a random moment of each.

use std::collections::BTreeSet;
use std::time::Duration;

use netsky_disk::clock::{boot, pause};
use netsky_disk::lock::Lock;
use netsky_disk::process::{Signal, identify, signal};
use netsky_model::process::ProcessId;
use netsky_sim::campaign::Share;
use serde_json::Value;

use crate::power_cuts::mixed;
use crate::stage::{QUIET, Stage};

/// Who dies beside the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Nobody,
    Child,
    Watchdog,
    Ticker,
    Anchor,
    NewRoot,
    /// The process of a tick, somewhere in its work.
    Tick,
}

const VICTIMS: [Victim; 7] = [
    Victim::Nobody,
    Victim::Child,
    Victim::Watchdog,
    Victim::Ticker,
    Victim::Anchor,
    Victim::NewRoot,
    Victim::Tick,
];

/// How long a tick is looked for, and how far into it at most it is killed.
const NEXT_TICK: Duration = Duration::from_secs(5);
const INTO_IT: u64 = 40;

/// One restart of the drill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    pub(crate) planned: bool,
    pub(crate) victim: Victim,
    /// How long after its beginning.
    moment: Duration,
}

impl Restart {
    /// One of a seed and its number.
    pub(crate) fn of(seed: u64, number: u64) -> Restart {
        Restart::drawn(mixed(mixed(seed).wrapping_add(number)))
    }

    fn drawn(number: u64) -> Restart {
        Restart {
            planned: number & 1 == 0,
            victim: VICTIMS[(number >> 1) as usize % VICTIMS.len()],
            moment: Duration::from_millis((number >> 33) % 900),
        }
    }

    /// Has it begin, somebody die beside it, and come to its end.
    pub(crate) fn run(self, stage: &Stage, words: &str) {
        // As if half an hour of health had come before: what a crashloop does is another test's. One that is asked for waits
        // for nothing that was counted.
        let counted = |agent: &str| stage.home().join(format!("state/{agent}-restart-attempts"));
        if !self.planned || self.victim == Victim::NewRoot {
            let _ = std::fs::remove_file(counted("agent0"));
        }
        let _ = std::fs::remove_file(counted("agent1"));
        let generation = stage.agent("agent0")["generation"].as_u64().expect("a number");
        if self.planned {
            let file = stage.outside("handoff");
            std::fs::write(&file, words).expect("written");
            stage.ok(&["restart", "--handoff", file.to_str().expect("text")]);
        } else {
            stage.signal(&stage.program("agent0"), Signal::KILL);
        }
        pause(self.moment);
        self.kill(stage);
        stage.until(&format!("the end of {self:?}"), |stage| {
            let roots = stage.living_roots();
            assert!(roots.len() <= 1, "{self:?}: two agent0: {roots:?}");
            let status = stage.status();
            let root = stage.agent("agent0");
            let is_new = root["generation"].as_u64() > Some(generation) && root["up"] == true;
            let is_over = status["restart"].is_null() && status["restart_queued"] == false;
            (is_new && is_over && stage.agent("agent1")["up"] == true).then_some(())
        });
    }

    /// Whoever it is dies, if there is one at this moment.
    fn kill(self, stage: &Stage) {
        let of = |name: &str| stage.agent(name)["pid"].as_u64().and_then(|pid| identify(pid as u32));
        let process = match self.victim {
            Victim::Nobody => None,
            Victim::Watchdog => of("agentinfinity"),
            Victim::Ticker => of("netsky-ticker"),
            Victim::NewRoot => of("agent0"),
            Victim::Anchor => Some(stage.anchor()),
            Victim::Child => {
                let text = std::fs::read(stage.home().join("state/restart-inflight")).unwrap_or_default();
                let inflight: Value = serde_json::from_slice(&text).unwrap_or_default();
                inflight["child"]["pid"].as_u64().and_then(|pid| identify(pid as u32))
            }
            Victim::Tick => {
                let tick = next_tick(stage);
                pause(Duration::from_millis(self.moment.as_millis() as u64 % INTO_IT));
                tick
            }
        };
        if let Some(process) = process {
            // It may have ended by itself meanwhile.
            let _ = signal(&process, Signal::KILL);
        }
    }
}

/// Whoever ticks next, or now.
fn next_tick(stage: &Stage) -> Option<ProcessId> {
    let lock = stage.home().join("state/tick/watchdog.lock");
    let until = boot() + NEXT_TICK;
    while boot() < until {
        if Lock::is_held(&lock).expect("looked") {
            let note: Value = Lock::noted(&lock).unwrap_or_default();
            return serde_json::from_value(note["process"].clone()).ok();
        }
        pause(Duration::from_millis(1));
    }
    None
}

struct Drill {
    stage: Stage,
    /// Every handoff that was delivered, by its id.
    handoffs: BTreeSet<String>,
}

impl Drill {
    fn begin() -> Drill {
        Drill { stage: Stage::up(1, QUIET, "100ms"), handoffs: BTreeSet::new() }
    }

    /// One restart to its verified end.
    fn restart(&mut self, number: u64, how: Restart) {
        let stage = &self.stage;
        // Whoever was killed beside the restart before is back with the anchor's next try.
        let keepers = ["agentinfinity", "netsky-ticker"].map(|name| {
            stage.until(name, |stage| {
                stage.agent(name)["pid"].as_u64().and_then(|pid| identify(u32::try_from(pid).expect("a pid")))
            })
        });
        let words = format!("handoff number {number} of the drill");
        how.run(stage, &words);
        for (name, before) in ["agentinfinity", "netsky-ticker"].into_iter().zip(keepers) {
            let is_victim = matches!(
                (how.victim, name),
                (Victim::Watchdog, "agentinfinity") | (Victim::Ticker, "netsky-ticker")
            );
            assert!(is_victim || netsky_disk::process::is_alive(&before), "{how:?}: {name} was ended");
        }
        let (new, with_words) = self.take_handoffs(&words);
        // Who dies once more before its handoff was read leaves another one; each comes once.
        assert!(new >= 1, "{how:?}: no handoff");
        assert!(!how.planned || with_words == 1, "{how:?}: its words came {with_words} times");
        assert!(new == 1 || how.victim == Victim::NewRoot, "{how:?}: {new} handoffs");
    }

    /// Takes the mail of agent0: how many handoffs are new, and how many have these words.
    fn take_handoffs(&mut self, words: &str) -> (usize, usize) {
        let drained = self.stage.ok(&["channel", "drain", "agent0", "--json"]);
        let drained: Value = serde_json::from_str(&drained).expect("one JSON object");
        let (mut new, mut with_words) = (0, 0);
        for envelope in drained["envelopes"].as_array().expect("a list") {
            let id = envelope["id"].as_str().expect("an id").to_owned();
            self.stage.ok(&["channel", "ack", "agent0", &id]);
            if envelope["kind"] == "handoff" {
                with_words += usize::from(envelope["text"].as_str().is_some_and(|text| text.contains(words)));
                assert!(self.handoffs.insert(id.clone()), "{id} was delivered twice");
                new += 1;
            }
        }
        (new, with_words)
    }

    fn end(self) {
        let checked = self.stage.run(&["check"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

#[test]
fn must_show_2_each_restart_of_a_drill_ends_verified_whoever_dies_beside_it() {
    let mut drill = Drill::begin();
    for (number, victim) in VICTIMS.into_iter().enumerate() {
        let moment = Duration::from_millis(150);
        drill.restart(number as u64, Restart { planned: number % 2 == 0, victim, moment });
    }
    drill.end();
}

/// A batch of `cargo xtask campaign restarts`: in each step twelve in one home.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_restarts() {
    const EACH: u64 = 12;
    let share = Share::asked();
    share.run(|step| {
        let mut drill = Drill::begin();
        for number in step * EACH..(step + 1) * EACH {
            drill.restart(number, Restart::of(share.seed, number));
        }
        drill.end();
        EACH
    });
}
