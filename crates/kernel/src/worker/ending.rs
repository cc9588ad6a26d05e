//! How a program ends: by itself or on request, and then its whole tree.
//!
//! Promise: an end is reported only when no process of the session's tree is left (faults T12, I11): not one that
//! called setsid, not one that wiped its environment, not one that was orphaned (the worker is their subreaper).
//! What cannot be ended within [`SWEEP`] is named in the report, and so is
//! why nobody could look, if nobody could.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netsky_disk::cgroup::Group;
use netsky_disk::process::{self, PidFd};
use netsky_disk::sweep::{descendants, marked};
use netsky_disk::{clock, fault};
use netsky_model::process::ProcessId;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::log::say;
use crate::session::{ENV_MARK, End};

/// Longest grace between SIGTERM and SIGKILL: a kill is a kill within ten minutes.
pub const MAX_GRACE: Duration = Duration::from_secs(600);
/// Longest sweep. Killed processes are gone in milliseconds; only one in an uninterruptible system call stays.
const SWEEP: Duration = Duration::from_secs(10);
/// How soon to look again at a tree or group that is ending. Deaths of our children wake us earlier.
const LOOK: Duration = Duration::from_millis(5);
/// After so many looks at a tree that does not end …
const QUICK_LOOKS: u32 = 20;
/// … the next ones come this far apart: each reads all of `/proc`.
const SLOW_LOOK: Duration = Duration::from_millis(50);

/// How long after a signal that somebody asked for a program may take to die of it.
const ASKED_FOR: Duration = Duration::from_secs(60);

/// Where the ending stands; each stage has its limit on the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// SIGTERM was sent; at the limit, or when its whole group is gone, the sweep begins.
    Grace(Duration),
    Sweep(Duration),
    Over,
}

/// Who asked for the end; whoever wants the session down outweighs a system that only goes down itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    /// The machine or the login ends: the session is wanted again afterwards.
    System,
    /// A client.
    Client,
}

/// What an ending came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) how: End,
    /// Processes beside the program that had to be killed.
    pub(super) swept: u64,
    pub(super) left: Vec<ProcessId>,
    /// Why nobody can say that nothing is left, if the last look failed.
    pub(super) unseen: Option<String>,
}

/// The ending of one program.
#[derive(Debug)]
pub(super) struct Ending {
    program: ProcessId,
    pid: Pid,
    mark: String,
    group: Option<Group>,
    stage: Stage,
    asked: Option<Asked>,
    status: Option<End>,
    /// When somebody asked for which signal last.
    signals: BTreeMap<i32, Duration>,
    swept: BTreeSet<(u32, u64)>,
    looks: u32,
}

impl Ending {
    pub(super) fn new(program: ProcessId, pid: Pid, mark: String, group: Option<Group>) -> Ending {
        Ending {
            program,
            pid,
            mark,
            group,
            stage: Stage::Running,
            asked: None,
            status: None,
            signals: BTreeMap::new(),
            swept: BTreeSet::new(),
            looks: 0,
        }
    }

    /// Whether nobody has asked for its end and it has not come.
    pub(super) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }

    /// Whether a kill is in its grace.
    pub(super) fn is_in_grace(&self) -> bool {
        matches!(self.stage, Stage::Grace(_))
    }

    /// Take the ends of all our children, the adopted ones too.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid != self.pid {
                continue;
            }
            let code = status.exit_status().map(|code| End::Exited { code });
            let signalled = || {
                let signal = status.terminating_signal().unwrap_or(0);
                let asked_at = self.signals.get(&signal);
                let asked = asked_at.is_some_and(|at| clock::boot().saturating_sub(*at) < ASKED_FOR);
                End::Signalled { signal, asked }
            };
            self.status = Some(code.unwrap_or_else(signalled));
        }
    }

    /// Ask for its end; false if a client had asked before. A second request may shorten the grace, never lengthen it.
    pub(super) fn kill(&mut self, now: Duration, grace: Duration) -> bool {
        let first =
            self.asked != Some(Asked::Client) && matches!(self.stage, Stage::Running | Stage::Grace(_));
        self.end_in_order(Asked::Client, now, grace);
        first
    }

    /// End it because the system ends: nobody wanted this session down, and its end says so.
    pub(super) fn terminate(&mut self, now: Duration, grace: Duration) {
        // What ended by itself a moment before keeps its own end.
        if self.stage != Stage::Running || self.status.is_none() {
            self.end_in_order(Asked::System, now, grace);
        }
    }

    fn end_in_order(&mut self, by: Asked, now: Duration, grace: Duration) {
        let until = now + grace.min(MAX_GRACE);
        if matches!(self.stage, Stage::Running | Stage::Grace(_)) {
            self.asked = self.asked.max(Some(by));
        }
        match self.stage {
            Stage::Running => {
                self.stage = Stage::Grace(until);
                if !grace.is_zero() {
                    self.signal(Signal::TERM);
                    // A stopped program would only see the signal when somebody continues it.
                    self.signal(Signal::CONT);
                }
            }
            Stage::Grace(earlier) => self.stage = Stage::Grace(earlier.min(until)),
            Stage::Sweep(_) | Stage::Over => {}
        }
    }

    /// A signal for the program's process group, as long as the program holds that number.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        process::signal_group_of_child(&self.program, signal).unwrap_or(false)
    }

    /// Somebody asks for this signal, or presses its key.
    pub(super) fn asked_for(&mut self, signal: Signal, now: Duration) {
        self.signals.insert(signal.as_raw(), now);
    }

    /// When to look again, if not woken before.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        match self.stage {
            Stage::Running | Stage::Over => None,
            Stage::Grace(until) if self.status.is_none() => Some(until),
            Stage::Grace(until) => Some(until.min(now + LOOK)),
            Stage::Sweep(_) if self.looks > QUICK_LOOKS => Some(now + SLOW_LOOK),
            Stage::Sweep(_) => Some(now + LOOK),
        }
    }

    /// End the tree without a client, a grace or a report: for a start that cannot be completed.
    pub(super) fn end_now(&mut self) {
        self.kill(clock::boot(), Duration::ZERO);
        while self.advance(clock::boot()).is_none() {
            clock::pause(LOOK);
        }
    }

    /// Go on; the verdict comes once, when the tree is gone.
    pub(super) fn advance(&mut self, now: Duration) -> Option<Verdict> {
        if self.stage == Stage::Running && self.status.is_some() {
            self.stage = Stage::Sweep(now + SWEEP);
        }
        if let Stage::Grace(until) = self.stage
            && (now >= until || (self.status.is_some() && !process::group_exists(self.program.pid)))
        {
            self.signal(Signal::KILL);
            self.stage = Stage::Sweep(now + SWEEP);
        }
        if let Stage::Sweep(until) = self.stage {
            self.reap();
            let looked = self.sweep();
            let gone = looked.as_ref().is_ok_and(Vec::is_empty) && self.status.is_some();
            if gone || now >= until {
                self.stage = Stage::Over;
                self.leave_group();
                return Some(self.verdict(looked));
            }
        }
        None
    }

    /// One round: kill whatever of the tree lives; returns it. A look that failed is no empty one.
    fn sweep(&mut self) -> Result<Vec<ProcessId>, String> {
        self.looks = self.looks.saturating_add(1);
        // Counted before the look below, which may fail.
        let in_group = self.kill_group();
        self.count(in_group.as_deref().unwrap_or_default());
        let mut living = self.look().map_err(|why| why.to_string())?;
        for id in &living {
            if PidFd::open(id).ok().flatten().is_some_and(|held| held.signal(Signal::KILL).is_ok()) {
                self.count(std::slice::from_ref(id));
            }
        }
        for id in in_group? {
            if !living.contains(&id) {
                living.push(id);
            }
        }
        Ok(living)
    }

    fn count(&mut self, killed: &[ProcessId]) {
        let beside = killed.iter().filter(|id| **id != self.program);
        self.swept.extend(beside.map(|id| (id.pid, id.start_time)));
    }

    /// Kills everybody in the program's group; whoever was. A group that fails is let go of: the anchor removes it when it
    /// starts, and what was in it is below us or bears our mark.
    fn kill_group(&mut self) -> Result<Vec<ProcessId>, String> {
        match self.group.as_ref().map(Group::kill) {
            None => Ok(Vec::new()),
            Some(Ok(round)) if round.living.is_empty() && !round.over => {
                Err("somebody in its cgroup cannot be seen from here".to_owned())
            }
            Some(Ok(round)) => Ok(round.living),
            Some(Err(error)) => {
                say!("{error}");
                self.group = None;
                Ok(Vec::new())
            }
        }
    }

    fn leave_group(&mut self) {
        if let Some(Err(error)) = self.group.take().map(|group| group.remove()) {
            say!("{error}");
        }
    }

    /// What of the tree lives. Marks are looked for once nothing is below us: that reads every environment there is.
    fn look(&self) -> netsky_disk::Result<Vec<ProcessId>> {
        fault::point("worker.looked")
            .map_err(|e| netsky_disk::Error::new("list processes in", "/proc", e))?;
        let below = descendants(std::process::id())?;
        if below.is_empty() { marked(ENV_MARK, &self.mark) } else { Ok(below) }
    }

    fn verdict(&self, looked: Result<Vec<ProcessId>, String>) -> Verdict {
        let ended =
            self.status.clone().unwrap_or(End::Signalled { signal: Signal::KILL.as_raw(), asked: false });
        Verdict {
            how: match self.asked {
                Some(Asked::Client) => End::Killed,
                Some(Asked::System) => End::Signalled { signal: Signal::TERM.as_raw(), asked: false },
                None => ended,
            },
            swept: self.swept.len() as u64,
            unseen: looked.as_ref().err().cloned(),
            left: looked.unwrap_or_default(),
        }
    }
}
