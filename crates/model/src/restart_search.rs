//! Every way that one crash restart can go: all interleavings of ticks, children, agent0 and deaths up to a bound, by exhaustive search
//! over [`judge`] and [`Phase::step`].
//!
//! What children and ticks do between is told here step by step as `watchdog` does it: each fence, each call to the kernel and
//! each write is a step of its own, and whoever takes one may be paused or die before the next. Each safeguard can be taken
//! out, and the search has to find what it is there for.

use std::collections::HashMap;
use std::time::Duration;

use super::{BOUND, MAX_CHILDREN, Phase, STARTUP_GRACE, Seen, Verdict, judge};

/// What protects a restart; all of it holds but for what a test takes out.
#[derive(Debug, Clone, Copy)]
struct Safeguards {
    /// Children exclude each other by a lock.
    lock: bool,
    /// A child looks before each act whether it is still the one.
    fence: bool,
    /// The kernel refuses what is asked for another generation than its newest, and to start who lives.
    guard: bool,
    /// A child ends what it saw alive before it starts anybody.
    teardown: bool,
    /// The inbox comes before the archive.
    order: bool,
}

const ALL: Safeguards = Safeguards { lock: true, fence: true, guard: true, teardown: true, order: true };

/// How much may go wrong.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    children_die: u8,
    agent_dies: u8,
    ticks_die: u8,
    stalls: u8,
}

/// Where a child stands: what it does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Next {
    Lock,
    Begin,
    Preflight,
    List,
    Teardown,
    Kill,
    SpawnFence,
    Spawn,
    NoteSpawn,
    Proof,
    Up,
    HandoffFence,
    First,
    Second,
    Source,
    HandedOff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Child {
    epoch: u8,
    next: Next,
    /// The generation that it saw, and whether that lived.
    saw: (u8, bool),
    /// The one that it started.
    started: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Status {
    phase: Phase,
    started: u8,
}

/// A tick that has marked the next child and not started or noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tick {
    Rests,
    Detaches,
    Notes,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    /// The in-flight marker: the present child's number, and whether it is noted who that is.
    epoch: u8,
    noted: bool,
    /// A full interval was watched since the handoff.
    watched: bool,
    late: bool,
    tick: Tick,
    children: Vec<Child>,
    /// The number of the child that holds the lock.
    holder: Option<u8>,
    status: Option<Status>,
    newest: u8,
    /// Generations of agent0 that live, and those that proved that they are up: a bit each.
    alive: u16,
    proved: u16,
    source: bool,
    inbox: bool,
    archive: bool,
    end: Option<Verdict>,
    left: [u8; 4],
}

const CHILD: usize = 0;
const AGENT: usize = 1;
const TICK: usize = 2;
const STALL: usize = 3;

fn bit(generation: u8) -> u16 {
    1 << generation
}

impl World {
    /// The tick has just found agent0, generation 1, dead.
    fn begin(bounds: Bounds) -> World {
        World {
            epoch: 0,
            noted: false,
            watched: false,
            late: false,
            tick: Tick::Rests,
            children: Vec::new(),
            holder: None,
            status: None,
            newest: 1,
            alive: 0,
            proved: 0,
            source: true,
            inbox: false,
            archive: false,
            end: None,
            left: [bounds.children_die, bounds.agent_dies, bounds.ticks_die, bounds.stalls],
        }
    }

    fn spend(&self, what: usize) -> Option<World> {
        let mut next = self.clone();
        next.left[what] = next.left[what].checked_sub(1)?;
        Some(next)
    }

    fn lives(&self, generation: u8) -> bool {
        self.alive & bit(generation) != 0
    }

    /// What may come next.
    fn successors(&self, with: Safeguards) -> Vec<World> {
        if self.end.is_some() {
            return Vec::new();
        }
        let mut all = Vec::new();
        self.ticks(&mut all);
        for index in 0..self.children.len() {
            all.extend(self.child(index, with));
            if let Some(mut next) = self.spend(CHILD) {
                next.remove(index);
                all.push(next);
            }
        }
        if self.alive != 0 {
            let newest = 15 - self.alive.leading_zeros() as u8;
            if let Some(mut next) = self.spend(AGENT) {
                next.alive &= !bit(newest);
                all.push(next);
            }
            if self.proved & bit(newest) == 0 {
                let mut next = self.clone();
                next.proved |= bit(newest);
                all.push(next);
            }
        }
        all.iter_mut().for_each(|next| next.children.sort_unstable());
        all
    }

    fn remove(&mut self, index: usize) {
        let gone = self.children.remove(index);
        if self.holder == Some(gone.epoch) {
            self.holder = None;
        }
    }

    fn ticks(&self, all: &mut Vec<World>) {
        let mut next = self.clone();
        match self.tick {
            Tick::Rests => return self.looks(all),
            Tick::Detaches => {
                let child = Child { epoch: self.epoch, next: Next::Lock, saw: (0, false), started: 0 };
                next.children.push(child);
                next.tick = Tick::Notes;
            }
            Tick::Notes => {
                next.noted = true;
                next.tick = Tick::Rests;
            }
        }
        all.push(next);
        if let Some(mut died) = self.spend(TICK) {
            died.tick = Tick::Rests;
            all.push(died);
        }
    }

    /// A tick looks, in time or after a stall, and does what it is told.
    fn looks(&self, all: &mut Vec<World>) {
        for stalled in [false, true] {
            let Some(mut world) = (if stalled { self.spend(STALL) } else { Some(self.clone()) }) else {
                continue;
            };
            world.late |= stalled && world.left[STALL] == 0;
            let verdict = judge(&world.seen(stalled));
            let mut next = world;
            match verdict {
                Verdict::Wait => continue,
                Verdict::Watch => next.watched = true,
                Verdict::Verified | Verdict::Failed => {
                    // One that started an agent0 that lives still gives it the handoff.
                    let started = next.status.is_some_and(|status| status.started != 0);
                    if verdict == Verdict::Failed && started && next.alive != 0 {
                        (next.inbox, next.archive, next.source) = (true, true, false);
                    }
                    next.end = Some(verdict);
                }
                Verdict::KillChild => {
                    let present = next.children.iter().position(|child| child.epoch == next.epoch);
                    next.remove(present.expect("it was seen to live"));
                }
                Verdict::StartChild => {
                    (next.epoch, next.noted, next.watched) = (next.epoch + 1, false, false);
                    next.tick = Tick::Detaches;
                }
            }
            all.push(next);
        }
    }

    fn seen(&self, stalled: bool) -> Seen {
        let present = self.children.iter().any(|child| child.epoch == self.epoch);
        let started = self.status.map_or(0, |status| status.started);
        let interval = Duration::from_secs(60);
        Seen {
            phase: self.status.map(|status| status.phase),
            // One that is not noted is known by the lock that it holds.
            child_alive: present && (self.noted || self.holder == Some(self.epoch)),
            step_age: if stalled { STARTUP_GRACE * 2 } else { Duration::ZERO },
            age: if self.late { BOUND * 2 } else { Duration::ZERO },
            agent0_alive: started != 0 && started == self.newest && self.lives(started),
            handoff_there: self.inbox,
            watched: if self.watched { interval } else { Duration::ZERO },
            interval,
            epoch: self.epoch.into(),
        }
    }

    /// One step of a child; none while it waits.
    fn child(&self, index: usize, with: Safeguards) -> Option<World> {
        let (mut next, mut child) = (self.clone(), self.children[index]);
        let is_present = !with.fence || child.epoch == self.epoch;
        let phase = self.status.map(|status| status.phase);
        let ends = match child.next {
            Next::Lock => {
                if with.lock && self.holder.is_some() {
                    // It may wait, or go; that it goes is what changes something.
                    true
                } else {
                    next.holder = Some(child.epoch);
                    child.next = Next::Begin;
                    false
                }
            }
            Next::Begin if !is_present || phase == Some(Phase::HandedOff) => true,
            Next::Begin => {
                let started = self.status.map_or(0, |status| status.started);
                child.started = started;
                let is_up = phase == Some(Phase::UpDetected) && started == self.newest && self.lives(started);
                child.next = if is_up { Next::HandoffFence } else { Next::Preflight };
                false
            }
            Next::Preflight => match phase {
                None | Some(Phase::Preflight) => {
                    next.enter(&mut child, Phase::Preflight, is_present, Next::List)
                }
                Some(_) => {
                    child.next = Next::List;
                    false
                }
            },
            Next::List => {
                child.saw = (self.newest, self.lives(self.newest));
                child.started = 0;
                child.next = Next::Teardown;
                false
            }
            Next::Teardown => next.enter(&mut child, Phase::Teardown, is_present, Next::Kill),
            Next::Kill => {
                let (saw, lived) = child.saw;
                if lived && with.teardown && (!with.guard || saw == self.newest) {
                    next.alive &= !bit(saw);
                }
                child.next = Next::SpawnFence;
                false
            }
            Next::SpawnFence => {
                child.next = Next::Spawn;
                !is_present
            }
            Next::Spawn => next.spawn(&mut child, with),
            Next::NoteSpawn => next.enter(&mut child, Phase::Spawned, is_present, Next::Proof),
            Next::Proof if self.proved & bit(child.started) != 0 => {
                child.next = Next::Up;
                false
            }
            Next::Proof if !is_present => true,
            Next::Proof if !self.lives(child.started) => next.fail(&child),
            // It waits.
            Next::Proof => return None,
            Next::Up => next.enter(&mut child, Phase::UpDetected, is_present, Next::HandoffFence),
            Next::HandoffFence => {
                child.next = Next::First;
                !is_present
            }
            Next::First => {
                if with.order {
                    next.inbox = true
                } else {
                    next.archive = true
                }
                child.next = Next::Second;
                false
            }
            Next::Second => {
                if with.order {
                    next.archive = true
                } else {
                    next.inbox = true
                }
                child.next = Next::Source;
                false
            }
            Next::Source => {
                next.source = false;
                child.next = Next::HandedOff;
                false
            }
            Next::HandedOff => {
                next.enter(&mut child, Phase::HandedOff, is_present, Next::HandedOff);
                true
            }
        };
        next.children[index] = child;
        if ends {
            next.remove(index);
        }
        Some(next)
    }

    /// Makes a phase durable; whether the child ends because it is not the one any more, or the order cannot be.
    fn enter(&mut self, child: &mut Child, phase: Phase, is_present: bool, then: Next) -> bool {
        let from = self.status.map_or(Phase::Preflight, |status| status.phase);
        match from.step(phase) {
            Ok(phase) if is_present => {
                self.status = Some(Status { phase, started: child.started });
                child.next = then;
                false
            }
            _ => true,
        }
    }

    fn spawn(&mut self, child: &mut Child, with: Safeguards) -> bool {
        let is_refused = self.newest != child.saw.0 || self.lives(self.newest);
        if with.guard && is_refused {
            return self.fail(child);
        }
        self.newest += 1;
        self.alive |= bit(self.newest);
        child.started = self.newest;
        child.next = Next::NoteSpawn;
        false
    }

    /// The child gives up, and says so where it is still the one.
    fn fail(&mut self, child: &Child) -> bool {
        let from = self.status.map_or(Phase::Preflight, |status| status.phase);
        if child.epoch == self.epoch
            && let Ok(phase) = from.step(Phase::Failed)
        {
            self.status = Some(Status { phase, started: child.started });
        }
        true
    }

    /// What must not be.
    fn broken(&self) -> Option<&'static str> {
        let verified = self.end == Some(Verdict::Verified);
        let started = self.status.map_or(0, |status| status.started);
        [
            (self.alive.count_ones() > 1, "two agent0 live"),
            (self.archive && !self.inbox, "a handoff is archived that was never delivered"),
            (!self.source && !self.inbox, "a handoff is lost"),
            (verified && !self.lives(started), "verified, and dead"),
            (verified && !self.inbox, "verified without its handoff"),
            (verified && self.proved & bit(started) == 0, "verified without a proof"),
            (u64::from(self.epoch) > MAX_CHILDREN, "more children than a restart has"),
        ]
        .into_iter()
        .find_map(|(is_so, what)| is_so.then_some(what))
    }
}

/// What a search found.
struct Searched {
    states: usize,
    transitions: usize,
    verified: usize,
    failed: usize,
    /// States from which no end can be reached.
    stuck: usize,
    broken: Option<(&'static str, World)>,
}

fn search(bounds: Bounds, with: Safeguards) -> Searched {
    let begin = World::begin(bounds);
    let mut numbers: HashMap<World, usize> = HashMap::from([(begin.clone(), 0)]);
    let (mut worlds, mut before) = (vec![begin], vec![Vec::new()]);
    let (mut at, mut transitions) = (0, 0);
    let mut broken = None;
    while at < worlds.len() && broken.is_none() {
        for next in worlds[at].clone().successors(with) {
            transitions += 1;
            if let Some(what) = next.broken() {
                broken = Some((what, next));
                break;
            }
            let number = *numbers.entry(next.clone()).or_insert_with(|| {
                worlds.push(next);
                before.push(Vec::new());
                worlds.len() - 1
            });
            before[number].push(at);
        }
        at += 1;
    }
    let ends = |verdict| move |world: &&World| world.end == Some(verdict);
    let mut reaches: Vec<bool> = worlds.iter().map(|world| world.end.is_some()).collect();
    let mut open: Vec<usize> = (0..worlds.len()).filter(|at| reaches[*at]).collect();
    while let Some(at) = open.pop() {
        for from in std::mem::take(&mut before[at]) {
            if !std::mem::replace(&mut reaches[from], true) {
                open.push(from);
            }
        }
    }
    Searched {
        states: worlds.len(),
        transitions,
        verified: worlds.iter().filter(ends(Verdict::Verified)).count(),
        failed: worlds.iter().filter(ends(Verdict::Failed)).count(),
        stuck: reaches.iter().filter(|reaches| !**reaches).count(),
        broken,
    }
}

const DEATHS: Bounds = Bounds { children_die: 3, agent_dies: 2, ticks_die: 2, stalls: 2 };

#[test]
fn i7_must_show_3_every_way_of_a_restart_ends_and_none_breaks_what_it_promises() {
    let found = search(DEATHS, ALL);
    assert!(found.broken.is_none(), "{:?}", found.broken);
    assert_eq!(found.stuck, 0, "a state without a way out");
    // As docs/restart.md says; a search that was cut short shows nothing.
    let counted = (found.states, found.transitions, found.verified, found.failed);
    assert_eq!(counted, (1_601_595, 5_560_607, 12_429, 220_680));
}

#[test]
fn i7_a_search_without_a_safeguard_finds_what_it_is_there_for() {
    for (what, with) in [
        ("two agent0 live", Safeguards { guard: false, lock: false, fence: false, ..ALL }),
        ("two agent0 live", Safeguards { guard: false, teardown: false, ..ALL }),
        ("a handoff is archived that was never delivered", Safeguards { order: false, ..ALL }),
    ] {
        let found = search(DEATHS, with).broken.map(|(what, _)| what);
        assert_eq!(found, Some(what), "{with:?}");
    }
}

#[test]
fn i7_any_one_of_lock_fence_and_guard_keeps_a_second_agent0_from_living() {
    let fewer = Bounds { children_die: 2, agent_dies: 1, ticks_die: 1, stalls: 1 };
    for (bounds, with) in [
        (fewer, Safeguards { guard: false, lock: false, ..ALL }),
        (fewer, Safeguards { guard: false, fence: false, ..ALL }),
        (Bounds { children_die: 1, ..fewer }, Safeguards { lock: false, fence: false, ..ALL }),
    ] {
        let found = search(bounds, with);
        assert!(found.broken.is_none() && found.stuck == 0, "{with:?}: {:?}", found.broken);
    }
}
