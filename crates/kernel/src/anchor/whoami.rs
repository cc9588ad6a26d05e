//! `kernel/whoami`: found by descent, which a program cannot change of itself, and where that leads nowhere (its parent
//! is dead) by the mark in the environment that it was started with.

use netsky_disk::{process, sweep};
use netsky_model::process::ProcessId;

use super::state::Anchor;
use super::table::Life;
use crate::rpc::whoami::{Answer, Who};
use crate::session::{ENV_MARK, Meta};

/// The session above the process at the other end of a connection.
pub(super) fn whoami(anchor: &Anchor, caller: Option<&ProcessId>) -> Answer {
    let Some(caller) = caller else { return Answer { session: None } };
    let lineage = process::lineage(caller.pid);
    if lineage.first() != Some(caller) {
        // It is gone, and its number may be another's by now.
        return Answer { session: None };
    }
    let living: Vec<Meta> = anchor
        .names()
        .iter()
        .filter_map(|name| {
            anchor.entry(name, |entry| (entry.life != Life::Gone).then(|| entry.meta.clone()))?
        })
        .collect();
    // The nearest one: a session may be started from another. And none above this anchor, which a session may have started
    // too: a program that asks before its worker has told of it would be taken for that one.
    let above: Vec<ProcessId> = lineage.into_iter().take_while(|above| *above != anchor.me).collect();
    let by_descent = above.iter().find_map(|above| {
        living.iter().find(|meta| meta.program.as_ref() == Some(above) || meta.worker.as_ref() == Some(above))
    });
    // Of whoever is above it too: a session that its worker has not told of yet may ask with an environment of its own making.
    let by_mark = || {
        above.iter().find_map(|above| {
            let mark = sweep::environment_of(above.pid, ENV_MARK)?;
            living.iter().find(|meta| meta.mark() == mark)
        })
    };
    let session = by_descent.or_else(by_mark).map(|meta| Who {
        name: meta.spec.name.clone(),
        lineage: meta.lineage.clone(),
        generation: meta.generation,
    });
    Answer { session }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::anchor::stage::{on_stage, session};
    use crate::session::{Keeper, Phase};

    /// A process that this anchor, which is this process, is above of; it ends with its standard input.
    fn child() -> (Child, ProcessId) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is there");
        let id = process::identify(child.id()).expect("not waited for");
        (child, id)
    }

    fn runs(anchor: &Anchor, program: &ProcessId) {
        let mut meta = session("agent0", Keeper::Anchor);
        meta.program = Some(program.clone());
        meta.phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
        anchor.put(meta, Life::Live);
    }

    #[test]
    fn who_is_below_the_anchor_is_not_below_the_session_that_started_it() {
        on_stage(async |anchor| {
            let (mut child, caller) = child();
            let lineage = process::lineage(caller.pid);
            let at = lineage.iter().position(|above| *above == process::me()).expect("it is our child");
            let Some(above) = lineage.get(at + 1) else {
                return println!("skipped: whoever runs the tests is the first process there is");
            };
            runs(&anchor, above);
            assert_eq!(whoami(&anchor, Some(&caller)).session, None);
            drop(child.stdin.take());
            child.wait().expect("it ends");
        });
    }

    #[test]
    fn t8_a_caller_whose_number_is_another_s_by_now_is_nobody() {
        on_stage(async |anchor| {
            let (mut child, caller) = child();
            runs(&anchor, &caller);
            assert!(whoami(&anchor, Some(&caller)).session.is_some());
            let before = ProcessId { start_time: caller.start_time - 1, ..caller };
            assert_eq!(whoami(&anchor, Some(&before)).session, None);
            drop(child.stdin.take());
            child.wait().expect("it ends");
        });
    }

    #[test]
    fn a1_who_asks_without_its_environment_before_its_worker_has_told_of_it_is_known_by_who_is_above() {
        on_stage(async |anchor| {
            let meta = session("agent0", Keeper::Anchor);
            let mut above = Command::new("sh");
            above.args(["-c", "env -i sleep 1000 & echo $!; wait"]).env(ENV_MARK, meta.mark());
            let mut above = above.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh is there");
            let mut pid = String::new();
            let said = above.stdout.take().expect("piped");
            std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut pid).expect("told");
            let caller = process::identify(pid.trim().parse().expect("a pid")).expect("it waits");
            anchor.put(meta, Life::Starting);
            assert!(whoami(&anchor, Some(&caller)).session.is_some());
            process::signal(&caller, process::Signal::KILL).expect("ours");
            above.wait().expect("ours");
        });
    }
}
