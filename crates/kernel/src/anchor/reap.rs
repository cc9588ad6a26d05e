//! `kernel/reap`: put ended sessions aside and remove what they left.
//!
//! Promise: only what is gone is reaped, and its lineage and generation stay in its meta: a later start goes on counting.
//! One whose meta a later program wrote, or does not read just now, is left alone.
//! Asked for, that is all of it, in parts where it takes long; by itself, what ended long ago (`LIMIT reap_after`) and has no
//! keeper above, who may not have seen it yet.

use std::time::Duration;

use netsky_disk::clock;
use netsky_model::id::AgentId;

use super::recall::Recall;
use super::state::{Anchor, about, internal, unread, unwritten};
use super::table::Life;
use super::{revive, settle};
use crate::journal::About;
use crate::log::say;
use crate::meta_file;
use crate::rpc::reap::Answer;
use crate::rpc::{EventKind, Refusal, RefusalKind, SessionState, event_data};
use crate::session::{Keeper, Meta, Phase, PhaseEvent};

/// Sessions that are put aside by themselves at once: each is a few writes, and who asks something waits for them.
const AT_ONCE: usize = 16;
/// Where somebody asks for it: as many as a line names, whatever their names.
const MOST: usize = 8_192;
/// And for so long: everybody else waits, and who asks does for 20 s and no longer.
const LONGEST: Duration = Duration::from_secs(5);

pub(super) fn reap(anchor: &Anchor) -> Result<Answer, Refusal> {
    let end = clock::boot() + LONGEST;
    until(anchor, || clock::boot() >= end)
}

/// What is done of it until that is so, which is asked behind each one that was tried.
fn until(anchor: &Anchor, mut is_over: impl FnMut() -> bool) -> Result<Answer, Refusal> {
    let (mut reaped, mut refused, mut over, mut more) = (Vec::new(), None, false, false);
    for name in anchor.names() {
        more = over;
        if more {
            break;
        }
        match one(anchor, &name) {
            Ok(true) => reaped.push(name),
            Ok(false) => continue,
            // The others do not wait for what is done about that one.
            Err(refusal) => drop(refused.get_or_insert(refusal)),
        }
        over = reaped.len() == MOST || is_over();
    }
    match refused {
        // The last part meets it again and says it; so does one that came to nothing: the next would come to no more.
        Some(refusal) if !more || reaped.is_empty() => Err(refusal),
        _ => Ok(Answer { reaped, more }),
    }
}

/// What is done of it once a period; what is more waits for the next.
pub(super) fn old(anchor: &Anchor) {
    let (now, after) = (netsky_disk::clock::stamp(), anchor.settings().reap_after);
    let is_old = |name: &AgentId| {
        anchor.entry(name, |entry| match &entry.meta.phase {
            Phase::Ended { at, .. } => entry.meta.spec.keeper != Keeper::Watchdog && now.since(at) >= after,
            _ => false,
        })
    };
    let mut left = AT_ONCE;
    for name in anchor.names().into_iter().filter(|name| is_old(name) == Some(true)) {
        match one(anchor, &name) {
            Ok(reaped) => left -= usize::from(reaped),
            // Of a later program: it would be said again each period.
            Err(refusal) if refusal.kind() == RefusalKind::Refused => {}
            Err(refusal) => say!("failed to put {name} aside: {refusal}"),
        }
        if left == 0 {
            break;
        }
    }
}

fn one(anchor: &Anchor, name: &AgentId) -> Result<bool, Refusal> {
    let Some((Life::Gone, meta)) = anchor.entry(name, |entry| (entry.life, entry.meta.clone())) else {
        return Ok(false);
    };
    // A session in the pause before its revival is not over, and one that waits to be told least of all.
    if !matches!(meta.phase, Phase::Ended { .. }) || revive::wanted(anchor, &about(&meta)) {
        return Ok(false);
    }
    put_aside(anchor, &about(&meta))
}

/// Puts a session aside whose program is gone; false if its lock says that somebody is at it, or another generation is.
pub(super) fn put_aside(anchor: &Anchor, about: &About) -> Result<bool, Refusal> {
    let name = &about.session;
    let found = anchor.entry(name, |entry| (entry.life, entry.meta.clone()));
    let Some((Life::Gone, mut meta)) = found.filter(|(_, meta)| meta.generation == about.generation) else {
        return Ok(false);
    };
    let Some(_held) = settle::hold(anchor, name) else { return Ok(false) };
    match meta_file::read(&anchor.layout, name) {
        Err(error) if error.is_newer() => return Err(unread(error)),
        // It is whole, and may say more than is known here.
        Err(error) if error.may_pass() => return Err(Refusal::new(RefusalKind::Refused, error.to_string())),
        Ok(Some(written)) if !written.phase.may_live() => {}
        // Its end had no room, and may only be in what is removed below.
        Ok(_) | Err(_) => anchor.write_meta(&meta).map_err(unwritten)?,
    }
    meta.phase = meta.phase.next(PhaseEvent::Reaped).map_err(internal)?;
    meta.written_at = clock::stamp();
    // Before it counts as put aside: then nobody looks for them any more.
    for left in [anchor.layout.heartbeat(name), anchor.layout.worker_sock(name)] {
        netsky_disk::state::remove(left).map_err(internal)?;
    }
    anchor.write_meta(&meta).map_err(unwritten)?;
    anchor.entry(name, |entry| {
        entry.meta = meta;
        entry.asking = false;
    });
    anchor.register(std::slice::from_ref(name));
    anchor.observe(EventKind::Reaped, Some(about.clone()), event_data::Reaped { acknowledged_by: None });
    Ok(true)
}

/// Tells of one that was put aside, where the journal does not have it: whoever put it aside died before it had told, or
/// what it told did not reach the disk. Of a generation of which the journal has no row there is nothing to be told.
pub(super) fn tell(anchor: &Anchor, meta: &Meta) {
    let about = about(meta);
    let is_untold = |recall: &Recall| {
        let known = recall.of(&about).filter(|known| known.generation == about.generation);
        known.is_some_and(|known| known.state != SessionState::Inactive)
    };
    if matches!(meta.phase, Phase::Inactive { .. }) && anchor.recall(is_untold) {
        anchor.observe(EventKind::Reaped, Some(about), event_data::Reaped { acknowledged_by: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, rows, session};

    #[test]
    fn what_ended_a_day_ago_is_put_aside_by_itself_and_what_a_keeper_above_has_waits_for_it() {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        on_stage(async |anchor| {
            let ended = |name: &str, keeper: Keeper, before: Duration| {
                let mut meta = session(name, keeper);
                let Phase::Ended { at, .. } = &mut meta.phase else { panic!("it has ended") };
                // Before this boot, where the machine runs for less than that.
                (at.boot_id, at.wall) = ("0".to_owned(), at.wall - before);
                anchor.put(meta, Life::Gone);
            };
            ended("agent1", Keeper::Policy, DAY);
            ended("agent2", Keeper::Policy, DAY - Duration::from_secs(60));
            ended("agent3", Keeper::Watchdog, DAY);
            let aside = |anchor: &Anchor| {
                let is = |name: &AgentId| {
                    anchor.entry(name, |entry| matches!(entry.meta.phase, Phase::Inactive { .. }))
                };
                let names = anchor.names().into_iter().filter(|name| is(name) == Some(true));
                names.map(|name| name.to_string()).collect::<Vec<_>>()
            };
            let ended_at = || anchor.view(&"agent1".parse().expect("a name")).expect("known").ended_at;
            let at = ended_at();
            old(&anchor);
            assert_eq!(ended_at(), at, "when it ended, not when it was put aside");
            assert_eq!((aside(&anchor), rows(&anchor)), (vec!["agent1".to_owned()], vec![EventKind::Reaped]));
            std::fs::write(anchor.layout.root().join("settings"), "LIMIT reap_after 23h\n").expect("written");
            old(&anchor);
            assert_eq!(aside(&anchor), ["agent1", "agent2"]);
            (0..AT_ONCE + 1).for_each(|n| ended(&format!("many{n}"), Keeper::Policy, DAY));
            old(&anchor);
            assert_eq!(aside(&anchor).len(), 2 + AT_ONCE, "the others wait");
            old(&anchor);
            assert_eq!(aside(&anchor).len(), 2 + AT_ONCE + 1);
        });
    }

    #[test]
    fn a_reap_that_takes_long_goes_on_with_the_next_call() {
        on_stage(async |anchor| {
            for name in ["agent1", "agent2"] {
                anchor.put(session(name, Keeper::Policy), Life::Gone);
            }
            let part = || {
                let Answer { reaped, more } = until(&anchor, || true).expect("reaped");
                (reaped.len(), more)
            };
            assert_eq!([part(), part(), part()], [(1, true), (1, false), (0, false)]);
        });
    }

    #[test]
    fn fm_reap_enospc_the_word_of_a_worker_whose_end_had_no_room_stays_until_the_end_is_written() {
        on_stage(async |anchor| {
            let ended = session("agent1", Keeper::Policy);
            let mut runs = ended.clone();
            runs.phase = Phase::Running { started_at: clock::stamp() };
            meta_file::write(&anchor.layout, &runs).expect("written");
            anchor.put(ended.clone(), Life::Gone);
            let word = anchor.layout.heartbeat(&ended.spec.name);
            std::fs::write(&word, "its last").expect("written");
            // Stand-in for a full disk: what is written nowhere replaces nothing.
            let tmp = anchor.layout.agents().join("tmp");
            std::fs::remove_dir(&tmp).expect("empty");
            std::fs::write(&tmp, "").expect("written");
            for gone in [false, true] {
                if gone {
                    std::fs::remove_file(anchor.layout.meta(&ended.spec.name)).expect("there");
                }
                assert!(put_aside(&anchor, &about(&ended)).is_err());
                assert!(word.exists());
            }
            std::fs::remove_file(&tmp).expect("removed");
            assert_eq!(put_aside(&anchor, &about(&ended)).ok(), Some(true));
            assert!(!word.exists());
        });
    }

    /// A session that nobody may put aside: a later program wrote its description.
    fn refused(anchor: &Anchor, name: &str) {
        anchor.put(session(name, Keeper::Policy), Life::Gone);
        std::fs::create_dir_all(anchor.layout.agents()).expect("made");
        let file = anchor.layout.meta(&name.parse().expect("a name"));
        std::fs::write(file, "{\"v\":2}").expect("written");
    }

    #[test]
    fn a_reap_in_parts_goes_on_past_one_that_is_refused_and_the_last_part_says_it() {
        on_stage(async |anchor| {
            refused(&anchor, "agent0");
            for name in ["agent1", "agent2", "agent3"] {
                anchor.put(session(name, Keeper::Policy), Life::Gone);
            }
            let part = || {
                let mut tried = 0;
                let is_over = || {
                    tried += 1;
                    tried == 2
                };
                let answer = until(&anchor, is_over);
                answer.map(|Answer { reaped, more }| (reaped, more)).map_err(|refusal| refusal.kind())
            };
            let one = |name: &str| Ok((vec![name.parse::<AgentId>().expect("a name")], true));
            assert_eq!([part(), part()], [one("agent1"), one("agent2")]);
            assert_eq!(part(), Err(RefusalKind::Refused));
            assert_eq!(rows(&anchor), [EventKind::Reaped; 3], "agent3 as well");
        });
    }

    #[test]
    fn a_reap_of_which_each_one_is_refused_is_over_in_time_and_says_so() {
        on_stage(async |anchor| {
            ["agent1", "agent2", "agent3"].into_iter().for_each(|name| refused(&anchor, name));
            let mut tried = 0;
            let is_over = || {
                tried += 1;
                tried == 2
            };
            let refusal = until(&anchor, is_over).expect_err("of a later program");
            assert_eq!((refusal.kind(), tried), (RefusalKind::Refused, 2));
        });
    }

    #[test]
    fn t8_a_description_of_a_later_program_is_not_written_over_by_a_reap_and_the_others_are_reaped() {
        const NEWER: &str = "{\"v\":2}";
        on_stage(async |anchor| {
            for name in ["agent1", "agent2"] {
                anchor.put(session(name, Keeper::Policy), Life::Gone);
            }
            let file = anchor.layout.meta(&"agent1".parse().expect("a name"));
            std::fs::create_dir_all(anchor.layout.agents()).expect("made");
            std::fs::write(&file, NEWER).expect("written");
            let refusal = reap(&anchor).expect_err("of a later program");
            assert_eq!(refusal.kind(), RefusalKind::Refused);
            assert!(refusal.message.contains("agent1: written in format 2"), "{}", refusal.message);
            assert_eq!(std::fs::read_to_string(file).expect("reads"), NEWER);
            assert_eq!(rows(&anchor), [EventKind::Reaped], "the other one");
        });
    }
}
