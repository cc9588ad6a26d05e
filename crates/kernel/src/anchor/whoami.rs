//! `kernel/whoami`: found by descent, which a program cannot change of itself, and where that leads nowhere (its parent
//! is dead) by the mark in the environment that it was started with.

use netsky_disk::{process, sweep};

use super::state::Anchor;
use super::table::Life;
use crate::rpc::whoami::{Answer, Who};
use crate::session::{ENV_MARK, Meta};

/// The session above the process at the other end of a connection.
pub(super) fn whoami(anchor: &Anchor, caller: Option<u32>) -> Answer {
    let Some(caller) = caller else { return Answer { session: None } };
    let living: Vec<Meta> = anchor
        .names()
        .iter()
        .filter_map(|name| {
            anchor.entry(name, |entry| (entry.life != Life::Gone).then(|| entry.meta.clone()))?
        })
        .collect();
    // The nearest one: a session may be started from another. And none above this anchor, which a session may have started
    // too: a program that asks before its worker has told of it would be taken for that one.
    let here = process::me();
    let by_descent =
        process::lineage(caller).into_iter().take_while(|above| *above != here).find_map(|above| {
            living
                .iter()
                .find(|meta| meta.program.as_ref() == Some(&above) || meta.worker.as_ref() == Some(&above))
        });
    let by_mark = || {
        let mark = sweep::environment_of(caller, ENV_MARK)?;
        living.iter().find(|meta| meta.mark() == mark)
    };
    let session = by_descent.or_else(by_mark).map(|meta| Who {
        name: meta.spec.name.clone(),
        lineage: meta.lineage.clone(),
        generation: meta.generation,
    });
    Answer { session }
}
