//! `cargo xtask sabotage`: counts of tests prove nothing, so each safeguard is taken out in turn.
//!
//! In a scratch copy of the tree, one change at a time, the named test must turn red by failing, not by failing
//! to build. A safeguard whose removal no test notices is the finding this verb exists for. The working tree is
//! never touched, and what the tests leave running is ended with the run, however that ends.

mod leftovers;
mod progress;
mod scratch;
mod table;
mod verdict;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::tree;
pub(crate) use leftovers::{JANITOR, janitor};
use scratch::Scratch;
use table::{Safeguard, safeguards};
use verdict::Verdict;

/// Where the report lands, from the root.
const REPORT: &str = "reports/sabotage.json";

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
    let scratch = Scratch::prepare()?;
    let mut progress = scratch.progress();
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
    healthy(&scratch, &todo)?;
    for safeguard in todo {
        let began = Instant::now();
        let verdict = remove(&scratch, safeguard)?;
        let seconds = began.elapsed().as_secs();
        println!("{:<18} {:>4}s  {:<32} {}", verdict.word(), seconds, safeguard.name, safeguard.test);
        if verdict == Verdict::Red {
            progress.add(safeguard.name, seconds)?;
        }
        outcomes.push(Outcome { safeguard, verdict, seconds });
    }
    let red = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Red).count();
    println!("sabotage: {red} of {} removals turned their test red", outcomes.len());
    // A part says nothing about the whole, so only a full run is reported.
    if whole {
        report(&outcomes)?;
        // Who asks again wants to see it again.
        progress.forget()?;
    }
    Ok(red == outcomes.len())
}

/// The safeguards that are named, by the whole name or a part of it; all of them where none is.
fn choose(words: &[String]) -> Result<Vec<&'static Safeguard>> {
    if let Some(word) = words.iter().find(|word| !safeguards().any(|row| row.name.contains(*word))) {
        bail!("no safeguard's name contains {word:?}; usage: cargo xtask sabotage [--list | NAME…]");
    }
    let is_name = |word: &String| safeguards().any(|row| row.name == word);
    let means = |word: &String, row: &Safeguard| {
        if is_name(word) { row.name == word } else { row.name.contains(word) }
    };
    let chosen = |row: &&Safeguard| words.is_empty() || words.iter().any(|word| means(word, row));
    Ok(safeguards().filter(chosen).collect())
}

fn list() {
    for safeguard in safeguards() {
        let Safeguard { name, faults, file, package, test, .. } = safeguard;
        println!("{name:<32} {faults:<16} {file}\n{:32} {package} {test}", "");
    }
}

/// Demands that the named tests exist and pass while nothing is removed.
fn healthy(scratch: &Scratch, chosen: &[&Safeguard]) -> Result<()> {
    let mut groups: BTreeMap<(&str, &[&str]), Vec<&str>> = BTreeMap::new();
    for safeguard in chosen {
        let names = groups.entry((safeguard.package, safeguard.target)).or_default();
        if !names.contains(&safeguard.test) {
            names.push(safeguard.test);
        }
    }
    for ((package, target), names) in groups {
        if let Some(trouble) = scratch.build(package, target)? {
            bail!("{package} does not build unsabotaged:\n{trouble}");
        }
        let ran = scratch.test(package, target, &names)?;
        if ran.passed != names.len() || ran.failed != 0 {
            bail!(
                "unsabotaged, {package} passed {} of {}: {}\n{}",
                ran.passed,
                names.len(),
                names.join(" "),
                ran.tail
            );
        }
        println!("{:<18}        {package}: {} named tests", "green unsabotaged", names.len());
    }
    Ok(())
}

/// Takes one safeguard out, looks at its test, and puts it back.
fn remove(scratch: &Scratch, safeguard: &Safeguard) -> Result<Verdict> {
    let healthy = scratch.read(safeguard.file)?;
    let Some(broken) = safeguard.applied(&healthy) else {
        return Ok(Verdict::NotFoundOnce);
    };
    scratch.write(safeguard.file, &broken)?;
    let verdict = judge(scratch, safeguard);
    scratch.write(safeguard.file, &healthy)?;
    verdict
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

fn report(outcomes: &[Outcome]) -> Result<()> {
    let row = |outcome: &Outcome| {
        let Safeguard { name, faults, file, package, test, .. } = outcome.safeguard;
        serde_json::json!({
            "name": name, "faults": faults, "file": file, "package": package, "test": test,
            "verdict": outcome.verdict.word(), "seconds": outcome.seconds,
        })
    };
    // In the order of the table, whichever run looked at them.
    let of = |safeguard: &Safeguard| outcomes.iter().find(|outcome| outcome.safeguard.name == safeguard.name);
    let rows: Vec<serde_json::Value> = safeguards().filter_map(of).map(row).collect();
    let red = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Red).count();
    let whole = serde_json::json!({ "v": 1, "commit": tree::commit()?, "safeguards": rows, "removed": outcomes.len(), "red": red });
    let path = tree::root().join(REPORT);
    std::fs::create_dir_all(path.parent().expect("the report stands in a folder"))?;
    let text = serde_json::to_string_pretty(&whole)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("write {REPORT}"))
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
    fn a_whole_name_chooses_its_row_a_part_every_row_with_it_and_a_wrong_one_is_refused() {
        let choose = |words: &[&str]| {
            choose(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
                .map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(choose(&["file sync", "folder sync"]).expect("rows"), ["file sync", "folder sync"]);
        assert!(choose(&["sync"]).expect("rows").len() > 2);
        assert_eq!(choose(&[]).expect("all").len(), safeguards().count());
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
