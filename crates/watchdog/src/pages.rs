//! Pages for dead letters that have none: whoever buried one may have died before it paged, or could not record it, and of
//! a file that bore no name of the bus nobody is told.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use netsky_disk::state;
use netsky_ledger::{Facts, PAGE, facts, poison_key};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::tick::Ticked;

/// Most pages of one tick: each is a synced write, and the next tick goes on.
const MOST: usize = 20;

/// `state/tick/pages.json`: so that the record is asked only when there are others than last time.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Paged {
    v: u64,
    /// A sum over the dead letters that all had their pages.
    sum: u64,
}

/// Appends the pages that are missing.
pub(crate) fn page(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    let path = cx.layout.tick("pages");
    let mut agents = cx.bus.agents()?;
    let mut sum = 0_u64;
    agents.retain(|agent| {
        let listed = cx.bus.each_dead_letter(agent, |file, _| {
            let mut hasher = DefaultHasher::new();
            (agent, file).hash(&mut hasher);
            // In whatever order they are listed.
            sum = sum.wrapping_add(hasher.finish());
        });
        if let Err(error) = &listed {
            ticked.problems.push(format!("dead letters of {agent}: {error}"));
        }
        listed.is_ok()
    });
    let paged: Option<Paged> = read_or_aside(&path, ticked)?;
    if paged.unwrap_or_default().sum == sum {
        return Ok(());
    }
    let known: BTreeSet<String> =
        facts(cx.layout)?.into_iter().filter(|fact| fact.kind == PAGE).map(|fact| fact.key).collect();
    let mut missing = Vec::new();
    for agent in &agents {
        cx.bus.each_dead_letter(agent, |file, id| {
            let key = poison_key(agent.as_str(), id);
            if missing.len() < MOST && !known.contains(&key) {
                missing.push((key, agent, id.to_owned(), file.to_owned()));
            }
        })?;
    }
    let all = missing.len() < MOST;
    let record = Facts::new(cx.layout);
    for (key, agent, id, file) in missing {
        // Of a disk that was full: there is room for a page again.
        let reason = cx.bus.explain(agent, &file)?;
        let data = json!({ "agent": agent, "id": id, "file": file, "reason": reason });
        record.append_once(PAGE, &key, data)?;
        ticked.done.push(format!("paged for {key}"));
    }
    if all {
        state::write_json(&path, &Paged { v: 1, sum })?;
    }
    Ok(())
}
