//! `ostk journal verify`: whether anybody touched the journal.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::audit::{self, Audit, Findings, Told};
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Lines that are named; the JSON names all.
const NAMED: usize = 8;

/// See whether every row is there as the anchors wrote it
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let path = KernelLayout::new(cx.kernel_root()?).journal();
        let audit = audit::journal(&path, |_, _| {})?;
        let none = || Error::new(Kind::NotFound, format!("no journal at {}", path.display()));
        let audit = audit.ok_or_else(none)?;
        let Audit { rows, broken, files, torn, newer, head, heads } = &audit;
        if cx.json {
            let Findings { heads, rewritten, cut, unsynced, unread, gone, told, anew } = heads;
            output::json(&json!({
                "rows": rows, "head": head, "heads": heads, "broken": broken, "files": files, "rewritten": rewritten, "cut": cut,
                "unsynced": unsynced, "unread": unread, "gone": gone, "told": told, "anew": anew,
                "torn": torn, "newer": newer, "whole": !audit.is_damage(),
            }))?;
        } else {
            said(&audit).iter().try_for_each(|line| output::say(line))?;
        }
        if audit.is_damage() {
            return Err(Error::new(Kind::Damaged, format!("{} is not as it was written", path.display()))
                .hint("it was left as it is"));
        }
        Ok(())
    }
}

fn said(audit: &Audit) -> Vec<String> {
    let Audit { rows, broken, files, torn, newer, head, heads } = audit;
    let mut said = vec![format!("{rows} rows up to {head}, {} keyed heads held against them", heads.heads)];
    let named = |numbers: &[u64]| {
        let names: Vec<String> = numbers.iter().take(NAMED).map(u64::to_string).collect();
        let more = numbers.len().saturating_sub(NAMED);
        if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
    };
    if !broken.is_empty() {
        said.push(format!("lines that do not parse or do not follow from the one before: {}", named(broken)));
    }
    said.extend(files.iter().cloned());
    if !heads.rewritten.is_empty() {
        said.push(format!("rows whose hash is another than it was: {}", named(&heads.rewritten)));
    }
    said.extend(heads.cut.map(|cut| format!("rows behind {head} are gone: there were rows up to {cut}")));
    let power = |cut| format!("rows behind {head}, up to {cut}, went with the power before they were synced");
    said.extend(heads.unsynced.map(power));
    said.extend(heads.unread.iter().map(|file| format!("{file} does not read, or was changed")));
    said.extend(heads.gone.iter().map(|file| format!("{file} is gone")));
    said.extend(heads.told.iter().map(found_before));
    // Each has a row of its own, but for one whose anchor did not live to write it.
    let anew = heads.anew.iter().filter(|_| heads.told.is_empty());
    said.extend(
        anew.map(|row| format!("what was kept of the rows up to {row} did not match, and counts anew since")),
    );
    said.extend(torn.then(|| "the last line has no end: it is being written, or was torn".to_owned()));
    said.extend(newer.map(|line| {
        format!("line {line} is of a later format; such rows were held against the chain and not read")
    }));
    said
}

/// What an anchor told of.
fn found_before(told: &Told) -> String {
    let Told { row, damage } = told;
    let cut = damage.cut.map(|cut| format!(": there had been rows up to {cut}")).unwrap_or_default();
    let unread: Vec<String> = damage.unread.iter().map(|file| format!(" ({file})")).collect();
    format!("row {row} tells of damage that an anchor found, {}{cut}{}", damage.why, unread.concat())
}
