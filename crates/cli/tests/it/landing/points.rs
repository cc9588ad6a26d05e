//! L2: the verb `netsky task harvest` with the gits that it starts, broken before and after each of their calls that change a
//! file, become another program or end: all of them are killed at once, or the one alone that was about to.
//!
//! A check breaks a few, far from each other; the campaign `harvest-kills` breaks all, for each way to land, pushed and not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use netsky_sim::campaign::Share;
use netsky_sim::{Call, Fault, Point, Stepper, Watched};

use super::kills::{WAYS, Way};
use super::{Bench, Kept};

/// A run with fewer steps never came to what it is about.
const FEWEST: usize = 500;
/// How many a check breaks.
const FEW: usize = 8;

/// Where a run is broken, as it can be found again in another, whose processes run beside each other a little otherwise.
type Step = (String, usize);

/// Names the steps of a run as they come.
struct Namer<'a> {
    places: [&'a Path; 2],
    seen: BTreeMap<String, usize>,
}

impl<'a> Namer<'a> {
    fn new(places: [&'a Path; 2]) -> Namer<'a> {
        Namer { places, seen: BTreeMap::new() }
    }

    fn name(&mut self, point: &Point) -> Step {
        let files: Vec<String> = point.files.iter().map(|file| same(&below(self.places, file))).collect();
        // A path there is another one on each bench.
        let by: Vec<&str> = point.by.split(' ').map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
        let call = format!("{}: {:?} {}({})", by.join(" "), point.moment, point.name, files.join(" -> "));
        let nth = self.seen.entry(call.clone()).or_default();
        *nth += 1;
        (call, *nth)
    }
}

/// A file of the bench as it is called there; the name alone of any other.
fn below(places: [&Path; 2], file: &Path) -> String {
    let own = places.iter().find_map(|place| file.strip_prefix(place).ok());
    own.map_or_else(
        || format!("/{}", file.file_name().unwrap_or_default().display()),
        |own| own.display().to_string(),
    )
}

/// Without what differs from run to run: numbers, names of objects, what git calls a file for a moment.
fn same(file: &str) -> String {
    let stem = file.find("tmp_").map_or(file, |at| {
        let kind = file[at + 4..].find('_').map_or(file.len(), |end| at + 4 + end);
        &file[..kind]
    });
    let same = |c: char| if c.is_ascii_digit() || ('a'..='f').contains(&c) { '#' } else { c };
    let mut name: Vec<char> = stem.chars().map(same).collect();
    name.dedup_by(|a, b| (*a, *b) == ('#', '#'));
    name.into_iter().collect()
}

impl Way {
    /// The verb on a bench, watched with all that it starts, and broken where it is said.
    fn watched(
        self,
        bench: &Bench,
        here: impl Fn(&mut Namer<'_>, &Point) -> bool + Send + 'static,
        fault: Fault,
    ) -> Watched {
        let (home, folder) = (bench.home.path(), bench.beside(""));
        let stepper = Stepper::new(env!("CARGO_BIN_EXE_netsky"))
            .args(self.words)
            .env("NETSKY_HOME", &home)
            .env("PATH", std::env::var_os("PATH").expect("a PATH"))
            .from_first_touch_of(&home)
            .only(Call::CHANGES)
            .family();
        let mut seen = BTreeMap::new();
        let here = move |point: &Point| {
            let mut namer = Namer { places: [&home, &folder], seen: std::mem::take(&mut seen) };
            let is_here = here(&mut namer, point);
            seen = namer.seen;
            is_here
        };
        stepper.serve(here, fault).expect("it is watched").ended().expect("it ends")
    }

    /// Every step of an unbroken run.
    fn steps(self, kept: &Kept) -> Vec<Step> {
        let bench = kept.anew();
        let old = bench.main();
        let watched = self.watched(bench, |_, _| false, Fault::Kill);
        let (home, folder) = (bench.home.path(), bench.beside(""));
        let mut namer = Namer::new([&home, &folder]);
        let steps: BTreeSet<Step> = watched.points.iter().map(|point| namer.name(point)).collect();
        assert!(steps.len() >= FEWEST, "{self:?} has only {} steps: {steps:#?}", steps.len());
        self.ends_well(bench, &old, "unbroken");
        steps.into_iter().collect()
    }

    /// Breaks it at a step; false if it did not come there.
    fn is_broken(self, kept: &Kept, step: &Step, fault: Fault) -> bool {
        let bench = kept.anew();
        let old = bench.main();
        let wanted = step.clone();
        let watched = self.watched(bench, move |namer, point| namer.name(point) == wanted, fault);
        self.ends_well(bench, &old, &format!("{self:?}, {fault:?} at {step:?}"));
        watched.outcome.hit.is_some()
    }
}

/// The nth of all: the ways in turn, and of each its steps far from each other, until all were; all killed, and then one alone.
fn nth(steps: &[Vec<Step>], n: usize) -> Option<(usize, &Step, Fault)> {
    let (way, at) = (n % steps.len(), n / steps.len());
    let steps = &steps[way];
    let fault = [Fault::Kill, Fault::KillOne][(at + at / steps.len()) % 2];
    (at < 2 * steps.len()).then(|| (way, &steps[at * far(steps.len()) % steps.len()], fault))
}

/// A stride that comes to each of so many.
fn far(all: usize) -> usize {
    let shared = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (all * 5 / 13..).find(|stride| *stride > 0 && shared(*stride, all) == 1).expect("there are primes")
}

/// Breaks those of the given numbers, two at a time; how many were broken, and what was wrong. The steps are those that `known`
/// has, if it is there, so that batches after each other count the same ones.
fn broken(ways: &[Way], numbers: std::ops::Range<usize>, known: Option<&Path>) -> (usize, Vec<String>) {
    let benches = || -> Vec<Kept> { ways.iter().map(|way| Kept::of(way.bench())).collect() };
    let kept = [benches(), benches()];
    let steps = known.and_then(|file| std::fs::read(file).ok()).map_or_else(
        || ways.iter().zip(&kept[0]).map(|(way, kept)| way.steps(kept)).collect(),
        |text| serde_json::from_slice::<Vec<Vec<Step>>>(&text).expect("as it was written"),
    );
    if let Some(file) = known {
        std::fs::write(file, serde_json::to_vec(&steps).expect("plain")).expect("written");
    }
    let (next, hits) = (AtomicUsize::new(numbers.start), AtomicUsize::new(0));
    let (failures, over) = (Mutex::new(Vec::new()), numbers.end);
    let worker = |kept: &[Kept]| {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= over {
                break;
            }
            let Some((way, step, fault)) = nth(&steps, n) else { continue };
            let run = std::panic::AssertUnwindSafe(|| ways[way].is_broken(&kept[way], step, fault));
            match std::panic::catch_unwind(run) {
                Ok(is_hit) => drop(hits.fetch_add(usize::from(is_hit), Ordering::Relaxed)),
                Err(panic) => {
                    let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    failures.lock().expect("held for a moment").push(format!("step {n}: {why}"));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        kept.iter().for_each(|kept| drop(scope.spawn(|| worker(kept))));
    });
    (hits.into_inner(), failures.into_inner().expect("held for a moment"))
}

#[test]
fn t19_i9_fm_harvest_kill_with_its_gits_or_one_of_them_a_repeat_does_what_is_missing_once() {
    let (hits, failures) = broken(&WAYS[..1], 0..FEW, None);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(hits * 10 >= FEW * 7, "only {hits} of {FEW} were broken");
}

/// A batch of `cargo xtask campaign harvest-kills`.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_harvest_kills() {
    let share = Share::asked();
    let (from, wanted) = (share.from as usize, share.wanted as usize);
    let known = std::env::var_os("CAMPAIGN_MEMORY").map(std::path::PathBuf::from);
    let (hits, failures) = broken(&WAYS, from..from + wanted, known.as_deref());
    share.answer(hits as u64, (from + wanted) as u64, &failures);
}
