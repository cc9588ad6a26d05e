//! Taking over what workers wrote down.
//!
//! Promise: each row of `agents/<name>.events.jsonl` reaches the journal once, by `(worker, n)`, no matter how many anchors
//! came and went; a row that does not read is skipped and said so.

use netsky_disk::lines;
use netsky_model::id::AgentId;

use super::settle;
use super::state::Anchor;
use crate::journal::About;
use crate::rpc::{EventKind, event_data};
use crate::session::{End, Seen, VERSION, WorkerEvent};

/// Folds every row of a session's workers that the journal does not have yet.
pub(super) fn catch_up(anchor: &Anchor, name: &AgentId) {
    let path = anchor.layout.events(name);
    let lines = match lines::read(&path) {
        Ok(lines) => lines,
        Err(error) => return damaged(anchor, name, &error.to_string()),
    };
    let mut rows: Vec<WorkerEvent> = Vec::with_capacity(lines.len());
    let mut unread = 0;
    for line in &lines {
        match serde_json::from_slice::<WorkerEvent>(line) {
            Ok(row) if row.v <= VERSION => rows.push(row),
            _ => unread += 1,
        }
    }
    let known = anchor.recall(|recall| recall.session(name).cloned());
    let folded = known.and_then(|known| known.folded.map(|folded| (folded, known.generation)));
    if let Some(((worker, n), generation)) = &folded {
        let is_last = |row: &WorkerEvent| row.worker == *worker && row.n == *n;
        match rows.iter().rposition(is_last) {
            // Rows stand in the order of time, so everything up to the last folded one is in the journal.
            Some(last) => drop(rows.drain(..=last)),
            // A power cut took it, or the file was begun anew after it: what was before it is there with it.
            None => rows.retain(|row| row.generation >= *generation && (row.worker != *worker || row.n > *n)),
        }
    }
    for row in rows {
        take(anchor, name, row);
    }
    if unread > 0 && folded.is_none() {
        damaged(anchor, name, &format!("{unread} rows do not read"));
    }
}

fn take(anchor: &Anchor, name: &AgentId, row: WorkerEvent) {
    let WorkerEvent { n, ts: at, worker, lineage, generation, what, .. } = row;
    let about = Some(About { session: name.clone(), lineage, generation });
    match what {
        Seen::Started { program } => {
            anchor.observe(EventKind::Started, about, event_data::Started { worker, n, at, program });
        }
        Seen::KillAsked { grace_ms } => {
            anchor.observe(EventKind::KillAsked, about, event_data::KillAsked { worker, n, at, grace_ms });
        }
        // Told from the description, while this could not be read.
        Seen::Exited { .. } if about.as_ref().is_some_and(|about| settle::is_told(anchor, about)) => {}
        Seen::Exited { how, swept, left, unseen } => {
            let never_ran = matches!(how, End::FailedToStart { .. });
            let kind = if never_ran { EventKind::Failed } else { EventKind::Exited };
            let (worker, n, at) = (Some(worker), Some(n), Some(at));
            let ended = event_data::Ended { worker, n, at, ..event_data::Ended::by(how) };
            anchor.observe(kind, about, event_data::Ended { swept: Some(swept), left, unseen, ..ended });
        }
    }
}

fn damaged(anchor: &Anchor, name: &AgentId, why: &str) {
    anchor.damaged(format!("agents/{name}.events.jsonl"), why);
}

#[cfg(test)]
mod tests {
    use netsky_model::id::Generation;

    use super::*;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::anchor::state::about;
    use crate::session::{Keeper, Meta};

    /// What the worker of a generation has seen, as it writes it down.
    fn life(meta: &Meta) -> String {
        let (mut worker, ts) = (netsky_disk::process::me(), netsky_disk::clock::stamp());
        worker.start_time += meta.generation.0;
        let ended = Seen::Exited { how: End::Exited { code: 1 }, swept: 0, left: Vec::new(), unseen: None };
        let seen = [Seen::Started { program: worker.clone() }, ended];
        let row = |(n, what): (u64, Seen)| {
            let (worker, ts, lineage) = (worker.clone(), ts.clone(), meta.lineage.clone());
            let row = WorkerEvent { v: VERSION, n, ts, worker, lineage, generation: meta.generation, what };
            format!("{}\n", serde_json::to_string(&row).expect("plain"))
        };
        (1..).zip(seen).map(row).collect()
    }

    /// A power cut may take the last rows of the file and leave what the journal has of them.
    #[test]
    fn t14_rows_that_were_told_are_not_told_again_where_the_last_of_them_is_lost() {
        on_stage(async |anchor| {
            let first = session("agent0", Keeper::Policy);
            let next = Meta { generation: Generation(2), ..first.clone() };
            let file = anchor.layout.events(&first.spec.name);
            let (before, since) = (life(&first), life(&next));
            let write = |seen: &str| {
                netsky_disk::state::write(&file, seen.as_bytes()).expect("written");
                catch_up(&anchor, &first.spec.name);
                rows(&anchor).len()
            };
            assert_eq!(write(&format!("{before}{since}")), 4);
            assert_eq!(write(&before), 4);
            // The same worker has said less than was told of it.
            let begun = since.split_inclusive('\n').next().expect("a row");
            assert_eq!(write(&format!("{before}{begun}")), 4);
            let third = life(&Meta { generation: Generation(3), ..first.clone() });
            assert_eq!(write(&third), 6, "of a file that was begun anew all is told");
        });
    }

    #[test]
    fn an_end_that_was_told_from_the_description_is_not_told_again_when_the_rows_read() {
        let both = vec![EventKind::Started, EventKind::Exited];
        // Nobody told it; it was told; it was told, and the next generation is reserved.
        for (told, followed, wanted) in [
            (false, false, both),
            (true, false, vec![EventKind::Started]),
            (true, true, vec![EventKind::Started]),
        ] {
            on_stage(async |anchor| {
                let meta = session("agent0", Keeper::Policy);
                if told {
                    let data = event_data::Ended::by(End::Exited { code: 1 });
                    anchor.observe(EventKind::Exited, Some(about(&meta)), data);
                }
                if followed {
                    let (runtime, keeper) = ("command".to_owned(), Keeper::Policy);
                    let data = event_data::Spawn { runtime, keeper, request_id: None };
                    let next = About { generation: Generation(2), ..about(&meta) };
                    anchor.observe(EventKind::Spawn, Some(next), data);
                }
                let before = rows(&anchor).len();
                netsky_disk::state::write(anchor.layout.events(&meta.spec.name), life(&meta).as_bytes())
                    .expect("written");
                for _ in 0..2 {
                    catch_up(&anchor, &meta.spec.name);
                }
                assert_eq!(rows(&anchor).split_off(before), wanted);
            });
        }
    }
}
