//! `netsky check`: says which invariants hold.

use std::path::PathBuf;

use netsky_disk::home::{Home, Refused};
use netsky_disk::layout::Layout;
use serde_json::json;

use crate::check::{self, BadFact, Facts, Finding, Verdict};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Most findings that are printed; `--json` has all of them.
const MAX_LINES: usize = 100;

/// Check that nothing is lost, doubled, damaged or left running; changes nothing
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What only a test harness knows, one JSON object a line
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let facts = match &self.facts {
            Some(path) => Facts::read(path).map_err(|bad| unusable(path, bad))?,
            None => Facts::default(),
        };
        // Not through the context: a use of the home is recorded in it, and this verb changes nothing.
        let layout = Context::layout()?;
        is_home(&layout)?;
        let verdicts = check::check(&layout, &facts)?;
        match cx.json {
            true => as_json(&verdicts)?,
            false => as_table(&verdicts)?,
        }
        let broken: Vec<&str> = verdicts.iter().filter(|v| !v.holds()).map(|v| v.id).collect();
        match broken.len() {
            0 => Ok(()),
            _ => Err(Error::new(Kind::Damaged, format!("{} does not hold", broken.join(", ")))
                .hint("nothing was changed, each finding names its file")),
        }
    }
}

fn unusable(path: &std::path::Path, bad: BadFact) -> Error {
    let path = path.display();
    match bad {
        BadFact::File(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Error::new(Kind::NotFound, format!("there is no facts file at {path}"))
        }
        BadFact::File(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Error::new(Kind::Usage, format!("{path} holds no facts: {error}"))
        }
        BadFact::File(error) => Error::new(Kind::Failed, format!("failed to read {path}: {error}")),
        BadFact::Line(line, error) => {
            Error::new(Kind::Usage, format!("line {line} of {path} is no fact: {error}"))
        }
    }
}

fn is_home(layout: &Layout) -> Result<(), Error> {
    match Home::open(layout) {
        Ok(_) => Ok(()),
        Err(Refused::Disk(error)) if error.op == "understand" => {
            Err(Error::new(Kind::Damaged, format!("failed to {error}"))
                .hint("without it nobody uses this home"))
        }
        Err(refused) => Err(refused.into()),
    }
}

fn as_json(verdicts: &[Verdict]) -> Result<(), Error> {
    let invariants: Vec<_> = verdicts
        .iter()
        .map(|verdict| {
            json!({
                "id": verdict.id,
                "says": verdict.says,
                "holds": verdict.holds(),
                "looked_at": verdict.looked_at,
                "findings": verdict.findings,
                "notes": verdict.notes,
            })
        })
        .collect();
    output::json(&json!({ "invariants": invariants, "holds": verdicts.iter().all(Verdict::holds) }))
}

fn as_table(verdicts: &[Verdict]) -> Result<(), Error> {
    let row = |verdict: &Verdict| {
        let said = match verdict.findings.len() {
            0 => "holds".to_owned(),
            count => format!("BROKEN: {count}"),
        };
        vec![verdict.id.to_owned(), verdict.says.to_owned(), verdict.looked_at.to_string(), said]
    };
    output::table(&["id", "invariant", "looked at", "verdict"], verdicts.iter().map(row).collect(), "")?;
    list(verdicts, "", |verdict| &verdict.findings)?;
    list(verdicts, "note ", |verdict| &verdict.notes)
}

fn list(verdicts: &[Verdict], word: &str, of: impl Fn(&Verdict) -> &Vec<Finding>) -> Result<(), Error> {
    let all: Vec<(&str, &Finding)> =
        verdicts.iter().flat_map(|verdict| of(verdict).iter().map(|finding| (verdict.id, finding))).collect();
    for (id, finding) in all.iter().take(MAX_LINES) {
        output::say(&output::one_line(&format!("{word}{id} {}: {}", finding.place, finding.what)))?;
    }
    match all.len().saturating_sub(MAX_LINES) {
        0 => Ok(()),
        more => output::say(&format!("{more} more are in --json")),
    }
}
