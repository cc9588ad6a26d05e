//! The enumeration: which sequences, cut where, and how the distinct states are counted.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::actor::Done;
use super::history::History;
use super::op::{OPS, Op};
use super::recovery::{BRANCHES, Damage, Recovered, recover};
use super::stage::{Recorded, STAGES, Stage};
use crate::memory::{Disk, Image, Memory, Model, POWER_CUTS, Rng};

/// Up to here every sequence is tried.
const EXHAUSTIVE: usize = 3;
/// Random sequences are at most this long.
const LONGEST: usize = 10;
/// States that are looked at for one cut under one model.
const STATES_A_CUT: usize = 256;
/// One recovery in so many is cut as well.
const STACKED: u64 = 8;
/// One state in so many is also tried with a damaged clock.
const DAMAGED: u64 = 8;
/// A clock chip that lost its time: less than the day by which names may be ahead.
const SET_BACK: Duration = Duration::from_secs(3600);
/// After so many failures nothing new is learnt.
const MOST_FAILURES: usize = 5;

/// How much to enumerate.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Distinct states after which it ends.
    pub states: usize,
    /// The longest sequences.
    pub longest: usize,
    /// Up to this length the last operation is also killed everywhere and done again by a successor.
    pub again: usize,
    /// Sequences to begin after: where an earlier run ended.
    pub from: usize,
}

/// What an enumeration did.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Distinct states, each recovered and judged.
    pub states: usize,
    /// Those of them that came of a recovery that was cut.
    pub stacked: usize,
    /// Those of them with a damaged clock.
    pub damaged: usize,
    /// Sequences of operations.
    pub sequences: usize,
    /// Where the next run begins.
    pub next: usize,
    /// How often recovery went each of its ways.
    pub branches: BTreeMap<&'static str, usize>,
    /// What did not hold, with what it takes to see it again.
    pub failures: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Every state that was counted, in this run or before.
    pub seen: HashSet<u64>,
}

impl Report {
    /// Ways of recovery that were never gone.
    pub fn untaken(&self) -> Vec<&'static str> {
        BRANCHES.into_iter().filter(|branch| !self.branches.contains_key(branch)).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seed, states, stacked, damaged, sequences, seconds, .. } = self;
        writeln!(f, "{states} distinct crash states of {sequences} sequences, seed {seed}, {seconds:.1} s")?;
        writeln!(f, "{stacked} of them of a recovery that was cut, {damaged} with a damaged clock")?;
        self.branches.iter().try_for_each(|(branch, times)| writeln!(f, "{times:>9}  {branch}"))?;
        self.untaken().iter().try_for_each(|branch| writeln!(f, "    never  {branch}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "FAILED: {failure}"))
    }
}

/// Enumerates as planned, on every processor there is. What was `seen` before is not counted again.
pub fn explore(plan: Plan, seen: HashSet<u64>) -> Report {
    let began = Instant::now();
    let shared = Shared {
        plan,
        sequences: sequences(plan),
        next: AtomicUsize::new(plan.from),
        seen: Mutex::new(seen),
        report: Mutex::new(Report { seed: plan.seed, ..Report::default() }),
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| shared.work());
        }
    });
    let mut report = shared.report.into_inner().expect("no worker panicked");
    report.next = shared.next.into_inner();
    report.seen = shared.seen.into_inner().expect("no worker panicked");
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// A sequence of operations from a stage.
type Sequence = (Stage, Vec<Op>);

/// All short ones in order; those of the greatest length in an order that the seed decides.
fn sequences(plan: Plan) -> Vec<Sequence> {
    let mut all: Vec<Sequence> = Vec::new();
    let mut longest: Vec<Sequence> = STAGES.map(|stage| (stage, Vec::new())).to_vec();
    for _ in 0..plan.longest.min(EXHAUSTIVE) {
        let longer = |(stage, ops): &Sequence| OPS.map(|op| (*stage, [ops.as_slice(), &[op]].concat()));
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    let (mut rng, first) = (Rng::new(plan.seed), all.len() - longest.len());
    for at in (first + 1..all.len()).rev() {
        all.swap(at, first + rng.below(at - first + 1));
    }
    all
}

struct Shared {
    plan: Plan,
    sequences: Vec<Sequence>,
    next: AtomicUsize,
    seen: Mutex<HashSet<u64>>,
    report: Mutex<Report>,
}

impl Shared {
    fn work(&self) {
        let stages = STAGES.map(|stage| (stage, stage.build()));
        loop {
            let nth = self.next.fetch_add(1, Ordering::SeqCst);
            let Some((stage, ops)) = self.sequence(nth) else { break };
            let (_, built) = stages.iter().find(|(built, _)| *built == stage).expect("every stage was built");
            let names: Vec<String> = ops.iter().map(Op::to_string).collect();
            let what = format!("sequence {nth} of seed {}: {stage:?}: {}", self.plan.seed, names.join(", "));
            let mut run = Run { shared: self, rng: Rng::new(self.plan.seed ^ nth as u64), what };
            let tried = catch_unwind(AssertUnwindSafe(|| match built {
                Ok(built) => run.sequence(built, &ops),
                Err(trouble) => Err(format!("the stage: {trouble}")),
            }));
            match tried {
                Ok(Ok(())) => self.with(|report| report.sequences += 1),
                Ok(Err(trouble)) => self.fail(format!("{}: {trouble}", run.what)),
                Err(_) => self.fail(format!("{}: panicked", run.what)),
            }
            if self.with(|report| report.states >= self.plan.states || report.failures.len() >= MOST_FAILURES)
            {
                break;
            }
        }
    }

    /// The sequence of a number; beyond all short ones a random one, where longer ones are wanted.
    fn sequence(&self, nth: usize) -> Option<Sequence> {
        if let Some(sequence) = self.sequences.get(nth) {
            return Some(sequence.clone());
        }
        (self.plan.longest > EXHAUSTIVE).then(|| {
            let mut rng = Rng::new(self.plan.seed.rotate_left(17) ^ nth as u64);
            let len = EXHAUSTIVE + 1 + rng.below(self.plan.longest.min(LONGEST) - EXHAUSTIVE);
            let ops = (0..len).map(|_| OPS[rng.below(OPS.len())]).collect();
            (STAGES[rng.below(STAGES.len())], ops)
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Report) -> T) -> T {
        change(&mut self.report.lock().expect("no worker panics with the report"))
    }

    fn fail(&self, failure: String) {
        self.with(|report| report.failures.push(failure));
    }

    /// Whether nobody saw this before.
    fn is_new(&self, state: u64) -> bool {
        self.seen.lock().expect("no worker panics with the set").insert(state)
    }
}

/// How the former programs died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Death {
    /// Killed: the machine goes on.
    Kill,
    /// The power was cut, with what the model leaves.
    Cut(Model),
}

/// One sequence.
struct Run<'a> {
    shared: &'a Shared,
    rng: Rng,
    what: String,
}

impl Run<'_> {
    /// Short sequences are cut in their last operation, since the others were at the end of shorter ones; random ones
    /// in all. One with an operation that did nothing is another one.
    fn sequence(&mut self, stage: &Recorded, ops: &[Op]) -> Done {
        let mut actor = stage.actor();
        for (nth, op) in ops.iter().enumerate() {
            let recorded = Recorded::begin(&mut actor);
            actor = op.act(actor)?;
            let recorded = recorded.end(&mut actor);
            if recorded.is_idle() {
                return Ok(());
            }
            if nth + 1 == ops.len() || ops.len() > EXHAUSTIVE {
                // Recoveries enter worlds of their own, and leave them again.
                self.cut_everywhere(&recorded)?;
            }
            if ops.len() <= self.shared.plan.again {
                self.again(&recorded, *op)?;
            }
        }
        Ok(())
    }

    /// The operation is killed after each of its changes, and a successor does the same on the machine that goes on,
    /// where what the first one did not sync still may be lost.
    fn again(&mut self, first: &Recorded, op: Op) -> Done {
        for events in 1..first.events.len() {
            let mut actor = first.killed(events)?;
            let second = Recorded::begin(&mut actor);
            let found = |trouble| {
                format!("killed after {events} of {} changes, and done again: {trouble}", first.events.len())
            };
            let mut actor = op.act(actor).map_err(found)?;
            self.cut_everywhere(&second.end(&mut actor)).map_err(found)?;
        }
        Ok(())
    }

    fn cut_everywhere(&mut self, recorded: &Recorded) -> Done {
        for events in 0..=recorded.events.len() {
            let (disk, history) = recorded.at(events);
            let found = |trouble| format!("after {events} of {} changes, {trouble}", recorded.events.len());
            self.kill(&disk, &history, recorded).map_err(found)?;
            for model in POWER_CUTS {
                for image in disk.cuts(model, STATES_A_CUT, &mut self.rng) {
                    self.cut(model, image, &history, recorded).map_err(found)?;
                }
            }
        }
        Ok(())
    }

    fn kill(&mut self, disk: &Disk, history: &History, recorded: &Recorded) -> Done {
        let state = digest(Death::Kill, disk.live(), history, Damage::None);
        if !self.shared.is_new(state) {
            return Ok(());
        }
        let memory = Memory::killed(disk.clone(), &recorded.era);
        let recovered = recover(&memory, history, recorded.generation).map_err(|e| format!("killed: {e}"))?;
        self.count(&recovered, Damage::None, false);
        self.stack(state, &recovered)
    }

    fn cut(&mut self, model: Model, image: Image, history: &History, recorded: &Recorded) -> Done {
        let state = digest(Death::Cut(model), &image, history, Damage::None);
        if !self.shared.is_new(state) {
            return Ok(());
        }
        let recovered = self.boot(model, image.clone(), history, recorded, state)?;
        self.count(&recovered, Damage::None, false);
        self.stack(state, &recovered)?;
        if state.is_multiple_of(DAMAGED) {
            let damages = [Damage::Lost, Damage::Zeroed, Damage::Torn, Damage::Cut];
            let damage = damages[self.rng.below(damages.len())];
            let mut image = image;
            damage.strike(&mut image);
            if self.shared.is_new(digest(Death::Cut(model), &image, history, damage)) {
                let recovered = self.boot(model, image, history, recorded, state);
                let recovered = recovered.map_err(|e| format!("clock {damage:?}, {e}"))?;
                self.count(&recovered, damage, false);
            }
        }
        Ok(())
    }

    fn boot(
        &self,
        model: Model,
        image: Image,
        history: &History,
        recorded: &Recorded,
        state: u64,
    ) -> Done<Recovered> {
        let back = if state & 64 == 0 { Duration::ZERO } else { SET_BACK };
        let memory = Memory::booted(image, &recorded.era, back);
        recover(&memory, history, recorded.generation).map_err(|e| format!("power cut, {model:?}: {e}"))
    }

    /// Cuts a recovery too, once, somewhere.
    fn stack(&mut self, state: u64, recovered: &Recovered) -> Done {
        let record = &recovered.record;
        if !(state >> 8).is_multiple_of(STACKED) || record.events.is_empty() {
            return Ok(());
        }
        let events = self.rng.below(record.events.len() + 1);
        let (disk, history) = record.at(events);
        let deaths = [Death::Kill, Death::Cut(Model::Ext4), Death::Cut(Model::Xfs), Death::Cut(Model::Worst)];
        let death = deaths[self.rng.below(deaths.len())];
        let (memory, image) = match death {
            Death::Kill => (Memory::killed(disk.clone(), &record.era), disk.live().clone()),
            Death::Cut(model) => {
                let images = disk.cuts(model, STATES_A_CUT, &mut self.rng);
                let image = images[self.rng.below(images.len())].clone();
                (Memory::booted(image.clone(), &record.era, Duration::ZERO), image)
            }
        };
        if self.shared.is_new(digest(death, &image, &history, Damage::None)) {
            let again = recover(&memory, &history, record.generation);
            let again =
                again.map_err(|e| format!("its recovery cut after {events} changes, {death:?}: {e}"))?;
            self.count(&again, Damage::None, true);
        }
        Ok(())
    }

    fn count(&self, recovered: &Recovered, damage: Damage, stacked: bool) {
        self.shared.with(|report| {
            report.states += 1;
            report.stacked += usize::from(stacked);
            report.damaged += usize::from(damage != Damage::None);
            for branch in &recovered.branches {
                *report.branches.entry(branch).or_default() += 1;
            }
        });
    }
}

/// What makes a state another one: what is on the disk, what was promised, and whether the machine went on.
fn digest(death: Death, image: &Image, history: &History, damage: Damage) -> u64 {
    let mut hasher = DefaultHasher::new();
    (death == Death::Kill, image.digest(), history, damage).hash(&mut hasher);
    hasher.finish()
}
