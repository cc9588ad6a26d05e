//! `cargo xtask sabotage`: counts of tests prove nothing, so each safeguard is taken out in turn.
//!
//! In scratch copies of the tree, one change at a time in each, the named test must turn red by failing, not by failing
//! to build. A safeguard whose removal no test notices is the finding this verb exists for. The working tree is
//! never touched, and what the tests leave running is ended with the run, however that ends.

mod leftovers;
mod progress;
mod scratch;
mod table;
mod verdict;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::tree;
pub(crate) use leftovers::{JANITOR, janitor};
use scratch::{Scratch, Scratches};
use table::{Safeguard, safeguards};
use verdict::Verdict;

/// Where the report lands, from the root.
const REPORT: &str = "reports/sabotage.json";

/// Copies that are at work at a time: a test without its safeguard often waits until its patience is over, and two cores
/// have something to do meanwhile.
const LANES: usize = 3;

/// What became of one safeguard.
struct Outcome {
    safeguard: &'static Safeguard,
    verdict: Verdict,
    seconds: u64,
}

/// Runs the verb; true when every removal turned its test red.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let chosen = match arguments {
        [flag] if flag == "--list" => {
            list();
            return Ok(true);
        }
        names => choose(names)?,
    };

    // A part is asked for to be seen; a whole run goes on where one of the same tree was cut off.
    let whole = arguments.is_empty();
    let scratches = Scratches::prepare(LANES.min(chosen.len()))?;
    let mut progress = scratches.progress();
    let known = |row: &Safeguard| progress.seconds(row.name).filter(|_| whole);
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut todo = Vec::new();
    for safeguard in chosen {
        match known(safeguard) {
            Some(seconds) => outcomes.push(Outcome { safeguard, verdict: Verdict::Red, seconds }),
            None => todo.push(safeguard),
        }
    }
    if !outcomes.is_empty() {
        println!("{:<18}        {} removals, seen in this very tree", "red already", outcomes.len());
    }
    let groups = groups(&todo);
    in_lanes(&scratches, groups, |scratch, group| healthy(scratch, &group))?;
    let seen = Mutex::new((&mut outcomes, &mut progress));
    in_lanes(&scratches, todo, |scratch, safeguard| {
        let outcome = remove(scratch, safeguard)?;
        let Outcome { verdict, seconds, .. } = outcome;
        println!("{:<18} {:>4}s  {:<32} {}", verdict.word(), seconds, safeguard.name, safeguard.test);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.0.push(outcome);
        if verdict == Verdict::Red { seen.1.add(safeguard.name, seconds) } else { Ok(()) }
    })?;
    let red = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Red).count();
    println!("sabotage: {red} of {} removals turned their test red", outcomes.len());
    report(&outcomes)?;
    if whole {
        // Who asks again wants to see it again.
        progress.forget()?;
    }
    Ok(red == outcomes.len())
}

/// The safeguards that are named, by the whole name, a part of it, or the begin of their file; all of them where none is.
fn choose(words: &[String]) -> Result<Vec<&'static Safeguard>> {
    let is_name = |word: &String| safeguards().any(|row| row.name == word);
    let means = |word: &String, row: &Safeguard| match word.strip_prefix('@') {
        Some(file) => row.file.starts_with(file),
        None if is_name(word) => row.name == word,
        None => row.name.contains(word),
    };
    if let Some(word) = words.iter().find(|word| !safeguards().any(|row| means(word, row))) {
        bail!("no safeguard is {word:?}; usage: cargo xtask sabotage [--list | NAME… | @FILE…]");
    }
    let chosen = |row: &&Safeguard| words.is_empty() || words.iter().any(|word| means(word, row));
    Ok(safeguards().filter(chosen).collect())
}

fn list() {
    for safeguard in safeguards() {
        let Safeguard { name, faults, file, package, test, .. } = safeguard;
        println!("{name:<32} {faults:<16} {file}\n{:32} {package} {test}", "");
    }
}

/// Hands the items out to the copies, in their order, until none is left or one of them failed.
fn in_lanes<T: Send>(
    scratches: &Scratches,
    items: Vec<T>,
    work: impl Fn(&Scratch, T) -> Result<()> + Sync,
) -> Result<()> {
    let left = Mutex::new((items.into_iter(), Ok(())));
    let next = || {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.1.is_ok() { left.0.next() } else { None }
    };
    let lane = |scratch: &Scratch| {
        while let Some(item) = next() {
            if let Err(error) = work(scratch, item) {
                left.lock().unwrap_or_else(PoisonError::into_inner).1 = Err(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for scratch in &scratches.lanes {
            scope.spawn(|| lane(scratch));
        }
    });
    left.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

/// Named tests of one test binary.
struct Group {
    package: &'static str,
    target: &'static [&'static str],
    tests: Vec<&'static str>,
}

/// The tests of the safeguards, each once.
fn groups(chosen: &[&'static Safeguard]) -> Vec<Group> {
    let mut groups: BTreeMap<(&str, &[&str]), Vec<&str>> = BTreeMap::new();
    for safeguard in chosen {
        let names = groups.entry((safeguard.package, safeguard.target)).or_default();
        if !names.contains(&safeguard.test) {
            names.push(safeguard.test);
        }
    }
    groups.into_iter().map(|((package, target), tests)| Group { package, target, tests }).collect()
}

/// Demands that the named tests exist and pass while nothing is removed.
fn healthy(scratch: &Scratch, Group { package, target, tests }: &Group) -> Result<()> {
    if let Some(trouble) = scratch.build(package, target)? {
        bail!("{package} does not build unsabotaged:\n{trouble}");
    }
    let ran = scratch.test(package, target, tests)?;
    if ran.passed != tests.len() || ran.failed != 0 {
        let all = tests.len();
        bail!("unsabotaged, {package} passed {} of {all}: {}\n{}", ran.passed, tests.join(" "), ran.tail);
    }
    println!("{:<18}        {package}: {} named tests", "green unsabotaged", tests.len());
    Ok(())
}

/// Takes one safeguard out, looks at its test, and puts it back.
fn remove(scratch: &Scratch, safeguard: &'static Safeguard) -> Result<Outcome> {
    let began = Instant::now();
    let healthy = scratch.read(safeguard.file)?;
    let verdict = match safeguard.applied(&healthy) {
        None => Verdict::NotFoundOnce,
        Some(broken) => {
            scratch.write(safeguard.file, &broken)?;
            let verdict = judge(scratch, safeguard);
            scratch.write(safeguard.file, &healthy)?;
            verdict?
        }
    };
    Ok(Outcome { safeguard, verdict, seconds: began.elapsed().as_secs() })
}

fn judge(scratch: &Scratch, safeguard: &Safeguard) -> Result<Verdict> {
    if let Some(trouble) = scratch.build(safeguard.package, safeguard.target)? {
        println!("{trouble}");
        return Ok(Verdict::DoesNotBuild);
    }
    let ran = scratch.test(safeguard.package, safeguard.target, &[safeguard.test])?;
    let verdict = Verdict::of(&ran);
    if verdict != Verdict::Red {
        println!("{}", ran.tail);
    }
    Ok(verdict)
}

/// Writes down what was seen, each row with the commit it was seen on; of rows that this run did not look at, what the
/// report said before.
fn report(outcomes: &[Outcome]) -> Result<()> {
    let path = tree::root().join(REPORT);
    let before: Value =
        std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let text = serde_json::to_string_pretty(&reported(outcomes, &before, &tree::commit()?))? + "\n";
    std::fs::create_dir_all(path.parent().expect("the report stands in a folder"))?;
    std::fs::write(&path, text).with_context(|| format!("write {REPORT}"))
}

fn reported(outcomes: &[Outcome], before: &Value, commit: &str) -> Value {
    let seen = |Outcome { safeguard, verdict, seconds }: &Outcome| {
        let Safeguard { name, faults, file, package, test, .. } = safeguard;
        json!({
            "name": name, "faults": faults, "file": file, "package": package, "test": test,
            "verdict": verdict.word(), "seconds": seconds, "commit": commit,
        })
    };
    let known = |safeguard: &Safeguard| {
        let rows = before["rows"].as_array().or_else(|| before["safeguards"].as_array())?;
        let same = |row: &&Value| row["name"] == safeguard.name && row["test"] == safeguard.test;
        let mut row = rows.iter().find(same)?.clone();
        if row["commit"].is_null() {
            row["commit"] = before["commit"].clone();
        }
        Some(row)
    };
    let row = |safeguard: &'static Safeguard| {
        let now = outcomes.iter().find(|outcome| outcome.safeguard.name == safeguard.name);
        now.map(seen).or_else(|| known(safeguard))
    };
    // In the order of the table.
    let rows: Vec<Value> = safeguards().filter_map(row).collect();
    let red = rows.iter().filter(|row| row["verdict"] == Verdict::Red.word()).count();
    json!({ "v": 2, "safeguards": safeguards().count(), "seen": rows.len(), "red": red, "rows": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_safeguard_is_still_where_the_table_says() {
        let lost = |safeguard: &&Safeguard| {
            let text = std::fs::read_to_string(tree::root().join(safeguard.file)).unwrap_or_default();
            safeguard.applied(&text).is_none()
        };
        let lost: Vec<String> = safeguards()
            .filter(lost)
            .map(|safeguard| format!("{} in {}", safeguard.name, safeguard.file))
            .collect();
        assert!(lost.is_empty(), "the text to remove does not occur exactly once: {lost:#?}");
    }

    #[test]
    fn every_test_of_a_row_is_still_in_its_package() {
        let sources = tree::sources().expect("the tree reads");
        let folder = |row: &Safeguard| match row.package {
            "netsky" => "cli",
            package => package.trim_start_matches("netsky-"),
        };
        let lost = |row: &&Safeguard| {
            let name = row.test.rsplit("::").next().unwrap_or(row.test);
            let begin = format!("fn {name}(");
            !sources
                .iter()
                .any(|source| source.package() == Some(folder(row)) && source.text.contains(&begin))
        };
        let lost: Vec<&str> = safeguards().filter(lost).map(|row| row.name).collect();
        assert!(lost.is_empty(), "their tests have gone or have another name: {lost:#?}");
    }

    #[test]
    fn a_part_is_reported_beside_what_was_seen_before_each_with_its_commit() {
        let mut rows = safeguards();
        let (first, second) = (rows.next().expect("a row"), rows.next().expect("another"));
        let former = json!({"commit": "a", "safeguards": [
            {"name": first.name, "test": first.test, "verdict": "red"},
            {"name": second.name, "test": "a test of before", "verdict": "red"},
            {"name": "no row any more", "test": "x", "verdict": "red"},
        ]});
        let read = |report: &Value| {
            let rows = report["rows"].as_array().expect("rows").iter();
            rows.map(|row| (row["commit"].as_str().map(str::to_owned), row["verdict"].clone()))
                .collect::<Vec<_>>()
        };
        let seen = [Outcome { safeguard: second, verdict: Verdict::Green, seconds: 1 }];
        let report = reported(&seen, &former, "b");
        assert_eq!(
            read(&report),
            [(Some("a".to_owned()), json!("red")), (Some("b".to_owned()), json!("GREEN"))]
        );
        assert_eq!((&report["seen"], &report["red"]), (&json!(2), &json!(1)));
        let again = reported(&[Outcome { verdict: Verdict::Red, ..seen[0] }], &report, "c");
        assert_eq!((read(&again)[1].0.as_deref(), &again["red"]), (Some("c"), &json!(2)));
    }

    #[test]
    fn a_whole_name_chooses_its_row_a_part_every_row_with_it_and_a_wrong_one_is_refused() {
        let choose = |words: &[&str]| {
            choose(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
                .map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(choose(&["file sync", "folder sync"]).expect("rows"), ["file sync", "folder sync"]);
        assert!(choose(&["sync"]).expect("rows").len() > 2);
        assert_eq!(choose(&[]).expect("all").len(), safeguards().count());
        assert!(choose(&["@crates/bus/"]).expect("rows").len() > 20 && choose(&["@crates/none/"]).is_err());
        assert!(choose(&["file sync", "no such row"]).is_err());
    }

    #[test]
    fn names_are_used_once() {
        let mut names: Vec<&str> = safeguards().map(|safeguard| safeguard.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), safeguards().count());
    }
}
