//! One fault at every point of a run of the program, each on a fresh copy of a small home.
//!
//! Every failing point is reported, not only the first, and what was hit is counted and printed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use netsky_sim::{Call, Ended, Fault, Moment, Outcome, Point};

use crate::bus_home::Home;

/// A run with fewer points never came to what it is about.
const FEWEST: usize = 20;

/// Breaks `args` at each of its points on copies of `template`, two at a time; `after` judges and recovers.
///
/// Answers the points, so that a test can say that it hit what it is about.
pub(crate) fn break_everywhere(
    name: &str,
    fault: Fault,
    template: &Home,
    args: &[&str],
    after: impl Fn(&Home, &Outcome) -> Result<()> + Sync,
) -> Vec<Point> {
    let started = Instant::now();
    let trace = template.copy().stepper(args.iter().copied()).points().expect("the unbroken run");
    // Exit 7 says that something was put aside.
    assert!(matches!(trace.run.ended, Ended::Exited(0 | 7)), "unbroken: {}", trace.run.stderr);
    let mut points = trace.points;
    if let Fault::Fail(_) = fault {
        points.retain(|point| point.moment == Moment::Entry && can_fail(point.call));
    }
    assert!(points.len() >= FEWEST, "{name} hit only {} points", points.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Tracing belongs to a thread: each of the two makes its runs from their start to their end.
    let worker = || {
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            let home = template.copy();
            if let Err(why) = break_once(fault, &home, args, point).and_then(|outcome| after(&home, &outcome))
            {
                failures.lock().expect("no judge panics").push(format!("{point}: {why:#}"));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(worker);
        scope.spawn(worker);
    });
    println!("{name}: {} points in {:.1?}", points.len(), started.elapsed());
    let failures = failures.into_inner().expect("no judge panics");
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), points.len(), failures.join("\n"));
    points
}

fn break_once(fault: Fault, home: &Home, args: &[&str], point: &Point) -> Result<Outcome> {
    let stepper = home.stepper(args.iter().copied());
    let outcome = stepper.break_when(|here| here.index == point.index, fault)?;
    let hit = outcome.hit.as_ref().context("ended before the point")?;
    ensure!(hit.name == point.name && hit.moment == point.moment, "hit {hit} instead");
    Ok(outcome)
}

/// Calls that a full or failing disk makes fail; locks and closes are not among them.
fn can_fail(call: Call) -> bool {
    !matches!(call, Call::Lock | Call::Close)
}

/// Fails a test that did not hit what it is about.
pub(crate) fn hit(points: &[Point], call: Call, file: &str, at_least: usize) {
    let fits = |point: &&Point| {
        point.call == call && point.files.iter().any(|path| path.to_string_lossy().contains(file))
    };
    let count = points.iter().filter(fits).count();
    assert!(count >= at_least, "only {count} points at a {call:?} of {file}: {points:#?}");
}
