//! One fault at every point of a run of the program, each on a fresh copy of a small home.
//!
//! Every failing point is reported, not only the first, and what was hit is counted and printed. A kill where all is as it was at
//! the point before leaves what the kill there left (after a call is before the next; a read, a lock, a sync and a call that fails
//! change nothing): it is made only where `NETSKY_ROUNDS` or a campaign asks for more than a check has time for.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use netsky_sim::{Call, Ended, Errno, Fault, Moment, Outcome, Point};

use crate::bus_home::Home;

/// A run with fewer points never came to what it is about.
const FEWEST: usize = 40;

/// Those of a run's points where a kill leaves what none before it left; all of them where more is asked for.
pub(crate) fn distinct(points: &[Point]) -> impl Iterator<Item = &Point> {
    let all = is_all();
    points.iter().filter(move |point| all || point.is_new)
}

/// Calls of one kind of one file, the numbers in whose name say nothing: of each such row the first two, the last, and a third of
/// the others, another third for each error of a disk, so that every call is refused once; all where more is asked for.
fn sampled(points: &[Point], errno: Errno) -> Vec<&Point> {
    let mut rows: BTreeMap<(&str, String), Vec<&Point>> = BTreeMap::new();
    for point in points {
        let files = point.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ");
        let row = files.replace(|c: char| c.is_ascii_hexdigit(), "");
        rows.entry((point.name, row)).or_default().push(point);
    }
    let third = [Errno::ENOSPC, Errno::EIO, Errno::EROFS].iter().position(|one| *one == errno).unwrap_or(0);
    let mut kept: Vec<&Point> = rows
        .into_values()
        .flat_map(|row| {
            let last = row.len() - 1;
            let is_kept = move |nth: usize| is_all() || nth < 2 || nth == last || nth % 3 == third;
            row.into_iter().enumerate().filter(move |(nth, _)| is_kept(*nth)).map(|(_, point)| point)
        })
        .collect();
    kept.sort_by_key(|point| point.index);
    kept
}

/// Whether more is asked for than a check has time for.
fn is_all() -> bool {
    ["NETSKY_ROUNDS", "CAMPAIGN_WANTED"].iter().any(|key| std::env::var_os(key).is_some())
}

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
    break_share((0, 1), name, fault, template, args, after)
}

/// One share of these points, of so many, for what takes long: on a home that is ten minutes old a send reserves time anew, which
/// its unbroken run did not.
pub(crate) fn break_share(
    (share, of): (usize, usize),
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
    assert!(points.len() >= FEWEST, "{name} hit only {} points", points.len());
    if let Fault::Fail(errno) = fault {
        points.retain(|point| point.moment == Moment::Entry && can_fail(point.call, errno));
    }
    let all: Vec<&Point> = match fault {
        Fault::Fail(errno) => sampled(&points, errno),
        _ => distinct(&points).collect(),
    };
    let broken = &all[all.len() * share / of..all.len() * (share + 1) / of];
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Tracing belongs to a thread: each of the two makes its runs from their start to their end.
    let worker = || {
        while let Some(point) = broken.get(next.fetch_add(1, Ordering::Relaxed)) {
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
    println!("{name}: {} of {} points in {:.1?}", broken.len(), points.len(), started.elapsed());
    let failures = failures.into_inner().expect("no judge panics");
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), broken.len(), failures.join("\n"));
    points
}

fn break_once(fault: Fault, home: &Home, args: &[&str], point: &Point) -> Result<Outcome> {
    let stepper = home.stepper(args.iter().copied());
    let outcome = stepper.break_when(|here| here.index == point.index, fault)?;
    let hit = outcome.hit.as_ref().context("ended before the point")?;
    ensure!(hit.name == point.name && hit.moment == point.moment, "hit {hit} instead");
    Ok(outcome)
}

/// Calls that a full or failing disk makes fail; locks and closes are not among them. Only what opens a file takes a descriptor.
fn can_fail(call: Call, errno: Errno) -> bool {
    match errno {
        Errno::EMFILE => call == Call::Open,
        _ => !matches!(call, Call::Lock | Call::Close),
    }
}

/// Fails a test that did not hit what it is about.
pub(crate) fn hit(points: &[Point], call: Call, file: &str, at_least: usize) {
    let fits = |point: &&Point| {
        point.call == call && point.files.iter().any(|path| path.to_string_lossy().contains(file))
    };
    let count = points.iter().filter(fits).count();
    assert!(count >= at_least, "only {count} points at a {call:?} of {file}: {points:#?}");
}
