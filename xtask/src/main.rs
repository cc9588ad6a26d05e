//! The house's own tools: each verb keeps one promise about the tree honest.
//!
//! Nothing here is shipped, and nothing shipped depends on it.

#![forbid(unsafe_code)]

mod bench;
mod campaign;
mod real;
mod sabotage;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <verb>

  tidy      fail on wrong crate edges, banned calls, overlong code, debug residue, foreign licences
  sabotage  take each safeguard out in a scratch copy; its named test must turn red
            [--list | NAME…] a part of a name chooses every row that contains it, @FILE every row of that file;
            a whole run that was cut off goes on where it was, on the same tree
  bench     measure against a floor of the same run, write docs/benchmarks.md
            [PART…] these parts alone, the page keeps the others; [--builds] also clean builds;
            [--here] this build as it is, print only
  campaign  long runs of the proof tools, in batches that reports/reliability.json records
            [LEVEL [--wanted N] [--seed S]] without a level they are listed";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match (verb.as_str(), rest.as_slice()) {
        ("tidy", []) => tidy::run(),
        ("bench", _) => bench::run(&rest),
        ("campaign", _) => campaign::run(&rest),
        ("sabotage", _) => sabotage::run(&rest),
        (bench::SPEAKER, _) => bench::speak(&rest),
        (sabotage::JANITOR, _) => sabotage::janitor(&rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {verb}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
