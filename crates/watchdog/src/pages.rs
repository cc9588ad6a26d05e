//! Pages for dead letters that have none: whoever buried one may have died before it paged, or could not record it, and of
//! a file that bore no name of the bus nobody is told.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use netsky_disk::state;
use netsky_ledger::{Facts, PAGE, files, poison_key};
use netsky_model::id::AgentId;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::mail::read_or_aside;
use crate::reserve;
use crate::tick::Ticked;

/// Most pages of one tick: each is a synced write, and the next tick goes on.
const MOST: usize = 20;

/// `state/tick/pages.json`: so that the record is asked only when there are others than last time.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    v: u64,
    /// A sum over the dead letters that all had their pages.
    sum: u64,
    /// Who got the last page: the others come before, however many dead letters this one has.
    #[serde(default)]
    behind: Option<AgentId>,
}

/// Which dead letters have their pages, and may go.
#[derive(Debug, Default)]
pub(crate) struct Paged {
    /// Whose dead letters could be listed.
    agents: Vec<AgentId>,
    /// The conditions that have a page; none if all of these agents' do.
    known: Option<BTreeSet<String>>,
}

impl Paged {
    pub(crate) fn has(&self, agent: &AgentId, id: &str) -> bool {
        self.agents.contains(agent)
            && self.known.as_ref().is_none_or(|known| known.contains(&poison_key(agent.as_str(), id)))
    }
}

/// A dead letter that has no page.
struct Missing {
    key: String,
    agent: AgentId,
    id: String,
    file: String,
}

/// Appends the pages that are missing, and says in `paged` which are there, also where it fails.
pub(crate) fn page(cx: &Context<'_>, paged: &mut Paged, ticked: &mut Ticked) -> Result<()> {
    let path = cx.layout.tick("pages");
    let mut sum = 0_u64;
    paged.agents = cx.bus.agents()?;
    paged.agents.retain(|agent| {
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
    // Until it is known none has a page.
    let known = paged.known.insert(BTreeSet::new());
    let last: Known = read_or_aside(&path, ticked)?.unwrap_or_default();
    if last.sum == sum {
        paged.known = None;
        return Ok(());
    }
    *known = recorded(cx, ticked)?;
    paged.agents.sort();
    let first =
        paged.agents.partition_point(|agent| last.behind.as_ref().is_some_and(|behind| agent <= behind));
    paged.agents.rotate_left(first);
    let (missing, all) = missing(cx, &paged.agents, known, ticked);
    let behind = missing.last().map(|last| last.agent.clone());
    let now = Known { v: 1, sum: if all { sum } else { 0 }, behind };
    let mut left = &missing[..];
    let work = || {
        while let [first, rest @ ..] = left {
            append(cx, first, ticked)?;
            known.insert(first.key.clone());
            left = rest;
        }
        Ok(state::write_json(&path, &now)?)
    };
    // Without its page no dead letter goes: a disk that is full of them must not keep itself full.
    reserve::lend(cx, work)
}

/// The dead letters without a page that this tick has room for, and whether they are all.
fn missing(
    cx: &Context<'_>,
    agents: &[AgentId],
    known: &BTreeSet<String>,
    ticked: &mut Ticked,
) -> (Vec<Missing>, bool) {
    let (mut missing, mut all) = (Vec::new(), true);
    for agent in agents {
        let listed = cx.bus.each_dead_letter(agent, |file, id| {
            let key = poison_key(agent.as_str(), id);
            if known.contains(&key) {
                return;
            }
            match missing.len() < MOST {
                true => missing.push(Missing {
                    key,
                    agent: agent.clone(),
                    id: id.to_owned(),
                    file: file.to_owned(),
                }),
                false => all = false,
            }
        });
        if let Err(error) = listed {
            ticked.problems.push(format!("dead letters of {agent}: {error}"));
            all = false;
        }
    }
    (missing, all)
}

/// Appends one page.
fn append(cx: &Context<'_>, missing: &Missing, ticked: &mut Ticked) -> Result<()> {
    let Missing { key, agent, id, file } = missing;
    // Of a disk that was full: there is room for a page again.
    let reason = match cx.bus.explain(agent, file) {
        Err(error) if passes(&error) => return Err(error.into()),
        // Its own trouble, or its name's: the owner hears of it without its reason, and of those behind it.
        Err(error) => {
            ticked.problems.push(format!("the reason of {key}: {error}"));
            None
        }
        Ok(reason) => reason,
    };
    let data = json!({ "agent": agent, "id": id, "file": file, "reason": reason });
    Facts::new(cx.layout).append_once(PAGE, key, data)?;
    ticked.done.push(format!("paged for {key}"));
    Ok(())
}

/// The conditions that have a page. A file of facts that does not read, or of a later format, is told of and passed by: its
/// pages are made once more, which is better than none, and those in the others are known.
fn recorded(cx: &Context<'_>, ticked: &mut Ticked) -> Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for file in files(cx.layout)? {
        match file {
            Ok(file) => {
                if let Some((line, why)) = file.broken.first() {
                    ticked.problems.push(format!("pages: line {line} of {} {why}", file.name()));
                }
                known.extend(file.facts.into_iter().filter(|fact| fact.kind == PAGE).map(|fact| fact.key));
            }
            Err(error) if error.is_of_one_file() => ticked.problems.push(format!("pages: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(known)
}

/// Whether an error is the machine's, and the next tick may fare better.
fn passes(error: &netsky_bus::Error) -> bool {
    matches!(error, netsky_bus::Error::Disk(error) if error.is_full() || error.is_out_of_descriptors())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use netsky_model::life::State;

    use netsky_ledger::facts;

    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn fm_owner_page_corrupt_one_odd_dead_letter_keeps_no_page_from_the_others() {
        in_a_home(|cx| {
            let agent = AgentId::root();
            cx.bus.create(&agent).expect("made");
            let poison = cx.layout.folder(&agent, State::Poisoned);
            // Longer than a name may be once it is printed, and longer than the key of a fact.
            fs::write(poison.join(OsStr::from_bytes(&[0xff; 200])), "x").expect("writes");
            fs::create_dir(poison.join("odd.reason")).expect("no reason will ever be read or written here");
            for name in ["odd", "plain-1", "plain-2"] {
                fs::write(poison.join(name), "x").expect("writes");
            }
            let tick = || {
                let mut ticked = Ticked::default();
                page(cx, &mut Paged::default(), &mut ticked).expect("the others are paged");
                (ticked.done.len(), ticked.problems)
            };
            let (done, problems) = tick();
            assert_eq!((done, problems.len()), (4, 2), "{problems:?}");
            let keys: BTreeSet<String> =
                facts(cx.layout).expect("they read").into_iter().map(|fact| fact.key).collect();
            for name in ["odd", "plain-1", "plain-2"] {
                assert!(keys.contains(&poison_key("agent0", name)), "{keys:?}");
            }
            assert_eq!(keys.len(), 4, "{keys:?}");
            assert_eq!(tick(), (0, Vec::new()), "each is told once");
            let paged: Option<Known> = state::read_json(cx.layout.tick("pages")).expect("it reads");
            assert_ne!(paged.expect("the record is not asked again").sum, 0);
        });
    }

    #[test]
    fn fm_owner_page_a_flood_of_dead_letters_keeps_no_page_from_those_of_another() {
        in_a_home(|cx| {
            let (much, little) = (AgentId::root(), AgentId::numbered(1));
            let bury = |agent: &AgentId, name: String| {
                fs::write(cx.layout.folder(agent, State::Poisoned).join(name), "x").expect("writes");
            };
            for agent in [&much, &little] {
                cx.bus.create(agent).expect("made");
            }
            bury(&little, "one".to_owned());
            for tick in 0..3 {
                // As many as a tick pages for.
                (0..MOST).for_each(|number| bury(&much, format!("junk-{tick}-{number}")));
                let mut paged = Paged::default();
                page(cx, &mut paged, &mut Ticked::default()).expect("paged");
                assert_eq!(paged.has(&little, "one"), tick > 0, "tick {tick}");
            }
            let mut ticked = Ticked::default();
            page(cx, &mut Paged::default(), &mut ticked).expect("paged");
            assert_eq!(ticked.done.len(), 1, "what the flood kept back: {ticked:?}");
        });
    }

    #[test]
    fn fm_owner_page_corrupt_a_file_of_facts_that_does_not_read_is_told_and_stops_no_page() {
        for sealed in ["{\"v\":9}\n", "no row\n"] {
            in_a_home(|cx| {
                let agent = AgentId::root();
                cx.bus.create(&agent).expect("made");
                let key = |id| poison_key(agent.as_str(), id);
                for id in ["one", "two"] {
                    fs::write(cx.layout.folder(&agent, State::Poisoned).join(id), "x").expect("writes");
                }
                let (record, file) =
                    (Facts::new(cx.layout), |n: u32| cx.layout.record().join(format!("facts-{n}.jsonl")));
                while !file(2).exists() {
                    record.append("note", "large", "x".repeat(60_000).into()).expect("recorded");
                }
                record.append(PAGE, &key("one"), json!({})).expect("recorded");
                fs::write(file(1), sealed).expect("writes");
                let mut ticked = Ticked::default();
                page(cx, &mut Paged::default(), &mut ticked).expect("it goes past that file");
                assert_eq!(
                    ticked.done,
                    [format!("paged for {}", key("two"))],
                    "one has its page in the other"
                );
                assert!(ticked.problems[0].contains("facts-1.jsonl"), "{:?}", ticked.problems);
                let mut ticked = Ticked::default();
                page(cx, &mut Paged::default(), &mut ticked).expect("nothing is left");
                assert_eq!(ticked.done, [""; 0]);
            });
        }
    }
}
