//! Which sessions come back, when, and what is told of it.

use netsky_model::id::Generation;

use super::*;
use crate::anchor::intensity::{WINDOW, pause_of_refused};
use crate::anchor::reap::reap;
use crate::anchor::stage::{on_stage, rows, session};
use crate::anchor::state::about;
use crate::rpc::SessionState;
use crate::session::{End, Keeper, Meta};

#[test]
fn a_first_start_that_came_to_nothing_is_not_run_later_and_can_be_put_aside() {
    on_stage(async |anchor| {
        let mut failed = session("agentinfinity", Keeper::Anchor);
        let Phase::Ended { started_at, .. } = &mut failed.phase else { panic!("it has ended") };
        *started_at = None;
        let later = Meta { generation: Generation(2), ..failed.clone() };
        let mut mistyped = Meta { generation: Generation(3), asked: true, ..failed.clone() };
        let Phase::Ended { how, .. } = &mut mistyped.phase else { panic!("it has ended") };
        *how = End::FailedToStart { why: "no such file".to_owned() };
        let revival = Meta { generation: Generation(4), asked: false, ..mistyped.clone() };
        for (meta, told) in [
            (failed, vec![EventKind::Reaped]),
            (later, vec![EventKind::Revive]),
            (mistyped, vec![EventKind::Reaped]),
            (revival, vec![EventKind::Revive]),
        ] {
            let before = rows(&anchor).len();
            anchor.put(meta.clone(), Life::Gone);
            consider(&anchor, &about(&meta), Found::AtStart);
            let reaped = reap(&anchor).expect("answers").reaped.len();
            let put_aside = usize::from(told == [EventKind::Reaped]);
            assert_eq!((rows(&anchor).split_off(before), reaped), (told, put_aside));
        }
    });
}

/// What the journal says of its newest revival: which try, and after how many milliseconds.
fn newest(anchor: &Anchor) -> (u64, u64) {
    tries(anchor).pop().expect("one is told")
}

/// Of every revival in the journal: which try, and after how many milliseconds.
fn tries(anchor: &Anchor) -> Vec<(u64, u64)> {
    let rows = anchor.journal(|journal| journal.after(0)).expect("reads");
    let revivals = rows.iter().filter(|row| row.kind == EventKind::Revive);
    let said = |row: &crate::rpc::Event, key: &str| row.data[key].as_u64().expect("said");
    revivals.map(|row| (said(row, "attempt"), said(row, "after_ms"))).collect()
}

/// A journal in which anchors brought a lineage back in vain so often.
fn brought_back(anchor: &Anchor, meta: &Meta, times: u32) -> Meta {
    let mut meta = Meta { asked: true, ..meta.clone() };
    for attempt in 0..=times {
        if attempt > 0 {
            let data = event_data::Revive { after_ms: 0, attempt: attempt - 1, at: None };
            anchor.observe(EventKind::Revive, Some(about(&meta)), data);
            meta = Meta { generation: meta.generation.next(), asked: false, ..meta };
        }
        anchor.observe(EventKind::Spawn, Some(about(&meta)), spawned(meta.spec.keeper));
    }
    meta
}

fn spawned(keeper: Keeper) -> event_data::Spawn {
    event_data::Spawn { runtime: "command".to_owned(), keeper, request_id: None }
}

#[test]
fn what_anchors_before_this_one_tried_in_vain_counts_and_a_pause_that_they_began_goes_on() {
    on_stage(async |anchor| {
        let crashed = brought_back(&anchor, &session("agent7", Keeper::Anchor), 4);
        anchor.put(crashed.clone(), Life::Gone);
        consider(&anchor, &about(&crashed), Found::AtStart);
        assert_eq!(newest(&anchor), (4, 60_000));
        let left = anchor.view(&crashed.spec.name).expect("known").revives_in_ms.expect("it waits");
        assert!((30_000..=60_000).contains(&left), "whoever looks sees when: {left}");
        // The next anchor: the try that was announced came to no generation.
        let recalled = anchor.recall(|recall| recall.revivals(&about(&crashed)));
        anchor.entry(&crashed.spec.name, |entry| entry.revivals = recalled);
        clock::pause(Duration::from_millis(30));
        consider(&anchor, &about(&crashed), Found::AtStart);
        let (attempt, left) = newest(&anchor);
        assert_eq!(attempt, 4, "it is the same try");
        assert!((30_000..60_000).contains(&left), "{left}");
        // And the one after it: what was waited for under both of them counts.
        anchor.entry(&crashed.spec.name, |entry| entry.revivals = recalled);
        consider(&anchor, &about(&crashed), Found::AtStart);
        let (attempt, rest) = newest(&anchor);
        assert_eq!(attempt, 4, "it is the same try");
        assert!((30_000..=left).contains(&rest), "{rest} after {left}");
        // What somebody started counts anew.
        let anew = brought_back(&anchor, &session("agent8", Keeper::Anchor), 0);
        anchor.put(anew.clone(), Life::Gone);
        consider(&anchor, &about(&anew), Found::AtStart);
        assert_eq!(newest(&anchor), (0, 0));
    });
}

#[test]
fn a_crash_loop_is_told_once_of_what_is_kept_in_any_case_too_and_is_over_after_half_an_hour_of_life() {
    for keeper in [Keeper::Anchor, Keeper::Policy] {
        on_stage(async |anchor| {
            let mut crashed = brought_back(&anchor, &session("agent7", keeper), INTENSITY - 1);
            let Phase::Ended { how, .. } = &mut crashed.phase else { panic!("it has ended") };
            *how = End::WorkerDied;
            anchor.put(crashed.clone(), Life::Gone);
            let before = rows(&anchor).len();
            for _ in 0..3 {
                consider(&anchor, &about(&crashed), Found::Watched);
            }
            let told = rows(&anchor).split_off(before);
            let revive = EventKind::Revive;
            assert_eq!(told, [revive, EventKind::Crashloop, revive, revive], "{keeper:?}");
            crashed.generation = crashed.generation.next();
            let Phase::Ended { at, .. } = &mut crashed.phase else { panic!("it has ended") };
            at.boot_ms += WINDOW.as_millis() as u64;
            anchor.put(crashed.clone(), Life::Gone);
            consider(&anchor, &about(&crashed), Found::AtStart);
            assert_eq!(newest(&anchor), (0, 0));
        });
    }
}

/// A session that was well for an hour, and that somebody had started.
fn was_well(name: &str) -> Meta {
    let mut meta = Meta { asked: true, ..session(name, Keeper::Anchor) };
    let Phase::Ended { at, .. } = &mut meta.phase else { panic!("it has ended") };
    at.boot_ms += 3_600_000;
    meta
}

#[test]
fn t13_what_was_well_and_cannot_be_started_is_tried_with_growing_pauses() {
    on_stage(async |anchor| {
        tokio::time::pause();
        // For as long as takes one of three revivals back, once.
        let mut meta = Meta { asked: true, ..session("agent7", Keeper::Anchor) };
        let Phase::Ended { at, .. } = &mut meta.phase else { panic!("it has ended") };
        at.boot_ms += WINDOW.as_millis() as u64 / u64::from(INTENSITY);
        crate::meta_file::write(&anchor.layout, &meta).expect("written");
        // One that somebody else can reach is not trusted, and nothing starts over it.
        let file = anchor.layout.meta(&meta.spec.name);
        std::fs::hard_link(&file, file.with_extension("link")).expect("linked");
        anchor.put(meta.clone(), Life::Gone);
        anchor.entry(&meta.spec.name, |entry| entry.revivals = 3);
        let began = tokio::time::Instant::now();
        consider(&anchor, &about(&meta), Found::Watched);
        // After its own 20 seconds, and refused, after 10, 20, 40 and 60 more; the next one is a minute later.
        tokio::time::sleep(Duration::from_secs(151)).await;
        assert_eq!(tries(&anchor), [(2, 20_000)], "it is one try");
        std::fs::remove_file(file).expect("there");
        let mut changes = anchor.changes();
        while rows(&anchor).last() != Some(&EventKind::Spawn) {
            changes.changed().await.expect("it lives");
        }
        assert_eq!(began.elapsed().as_secs(), 210);
        anchor.begin_stop();
    });
}

#[test]
fn t13_the_next_anchor_does_not_count_a_life_anew_that_was_counted() {
    on_stage(async |anchor| {
        let meta = brought_back(&anchor, &was_well("agent7"), 0);
        let data = event_data::Revive { after_ms: 60_000, attempt: 4, at: None };
        anchor.observe(EventKind::Revive, Some(about(&meta)), data);
        anchor.put(meta.clone(), Life::Gone);
        consider(&anchor, &about(&meta), Found::AtStart);
        let (attempt, left) = newest(&anchor);
        assert_eq!(attempt, 4, "it is the same try");
        assert!((30_000..=60_000).contains(&left), "{left}");
    });
}

#[test]
fn what_passed_until_an_anchor_found_it_dead_is_no_life_of_a_program() {
    on_stage(async |anchor| {
        let mut crashed = brought_back(&anchor, &session("agent7", Keeper::Anchor), 4);
        let Phase::Ended { how, at, started_at } = &mut crashed.phase else { panic!("it has ended") };
        *how = End::Orphaned;
        at.boot_ms += 3_600_000;
        let beat = Heartbeat {
            v: crate::session::VERSION,
            name: crashed.spec.name.clone(),
            generation: crashed.generation,
            worker: netsky_disk::process::me(),
            liveness: 1,
            progress: 0,
            phase: crate::session::Pulse::Running,
            killed: false,
            ended: None,
            at: started_at.clone().expect("it ran"),
        };
        let file = anchor.layout.heartbeat(&crashed.spec.name);
        std::fs::write(file, serde_json::to_vec(&beat).expect("plain")).expect("written");
        anchor.put(crashed.clone(), Life::Gone);
        consider(&anchor, &about(&crashed), Found::AtStart);
        assert_eq!(newest(&anchor).0, 4);
    });
}

#[test]
fn t13_a_revival_that_is_refused_is_tried_on_and_is_no_crash() {
    // Never before; after crashes; where a start was reserved that came to no description; the same for the next anchor.
    for (keeper, crashes, reserved, found, first) in [
        (Keeper::Policy, 0, false, Found::Watched, 0),
        (Keeper::Anchor, 12, false, Found::Watched, 60),
        (Keeper::Policy, 12, false, Found::Watched, 3600),
        (Keeper::Policy, 0, true, Found::Watched, 0),
        (Keeper::Policy, 0, true, Found::AtStart, 0),
        (Keeper::Policy, 12, true, Found::AtStart, 10),
    ] {
        on_stage(async |anchor| {
            tokio::time::pause();
            let mut taken = brought_back(&anchor, &session("agent7", keeper), crashes);
            let Phase::Ended { how, .. } = &mut taken.phase else { panic!("it has ended") };
            *how = End::WorkerDied;
            // Nothing starts over what a later program wrote.
            let path = anchor.layout.meta(&taken.spec.name);
            std::fs::write(&path, "{\"v\":2}").expect("written");
            let next = About { generation: taken.generation.next(), ..about(&taken) };
            if reserved {
                let data = event_data::Revive { after_ms: 0, attempt: crashes, at: None };
                anchor.observe(EventKind::Revive, Some(about(&taken)), data);
                anchor.observe(EventKind::Spawn, Some(next), spawned(keeper));
            }
            anchor.put(taken.clone(), Life::Gone);
            let (before, began) = (rows(&anchor).len(), tokio::time::Instant::now());
            let mut changes = anchor.changes();
            consider(&anchor, &about(&taken), found);
            let full = Duration::from_secs(12 * 3600);
            tokio::time::sleep(full).await;
            assert_eq!(rows(&anchor).split_off(before), [EventKind::Revive], "one try, and no crash loop");
            assert_eq!(newest(&anchor), (crashes.into(), first * 1_000));
            // It went on all the time.
            std::fs::remove_file(path).expect("there");
            while rows(&anchor).last() != Some(&EventKind::Spawn) {
                changes.changed().await.expect("it lives");
            }
            let (mut tried, mut refusals) = (Duration::from_secs(first), 0);
            while tried < full {
                refusals += 1;
                tried += pause_of_refused(keeper, refusals);
            }
            assert_eq!(began.elapsed().as_secs(), tried.as_secs());
            // The first crash behind hundreds of refusals is one.
            let generation = anchor.entry(&taken.spec.name, |entry| entry.meta.generation).expect("known");
            assert!(generation > taken.generation, "it has a description");
            let crashed = Meta { generation, ..taken };
            anchor.put(crashed.clone(), Life::Gone);
            consider(&anchor, &about(&crashed), Found::Watched);
            assert_eq!(newest(&anchor).0, u64::from(crashes) + 1);
            assert!(!rows(&anchor)[before..].contains(&EventKind::Crashloop));
            anchor.begin_stop();
        });
    }
}

#[test]
fn each_policy_does_what_it_says_with_what_was_taken_away_and_nothing_with_what_returned() {
    on_stage(async |anchor| {
        let mut taken = session("agent7", Keeper::Policy);
        let returned = taken.clone();
        let Phase::Ended { how, .. } = &mut taken.phase else { panic!("it has ended") };
        *how = End::WorkerDied;
        let settings = anchor.layout.root().join("settings");
        for (policy, told) in
            [("revive", EventKind::Revive), ("reap", EventKind::Reaped), ("ask", EventKind::Asking)]
        {
            std::fs::write(&settings, format!("LIMIT revival_policy {policy}\n")).expect("written");
            for (meta, told) in [(&taken, vec![told]), (&returned, vec![])] {
                let before = rows(&anchor).len();
                anchor.put(meta.clone(), Life::Gone);
                consider(&anchor, &about(meta), Found::Watched);
                assert_eq!(rows(&anchor).split_off(before), told, "{policy}");
            }
        }
        // Of a file that does not read the last that did goes on; it is said once.
        std::fs::write(&settings, "LIMIT revival_policy perhaps\n").expect("written");
        let before = rows(&anchor).len();
        for _ in 0..2 {
            anchor.put(taken.clone(), Life::Gone);
            consider(&anchor, &about(&taken), Found::Watched);
        }
        let told = rows(&anchor).split_off(before);
        assert_eq!(told, [EventKind::Damaged, EventKind::Asking, EventKind::Asking]);
    });
}

#[test]
fn a_policy_that_was_set_during_a_pause_counts_when_it_is_over() {
    for (policy, told) in [("ask", EventKind::Asking), ("reap", EventKind::Reaped)] {
        on_stage(async |anchor| {
            tokio::time::pause();
            let mut taken = session("agent7", Keeper::Policy);
            let Phase::Ended { how, .. } = &mut taken.phase else { panic!("it has ended") };
            *how = End::WorkerDied;
            anchor.put(taken.clone(), Life::Gone);
            anchor.entry(&taken.spec.name, |entry| entry.revivals = 3);
            consider(&anchor, &about(&taken), Found::Watched);
            assert_eq!(newest(&anchor), (3, 40_000));
            let settings = anchor.layout.root().join("settings");
            std::fs::write(&settings, format!("LIMIT revival_policy {policy}\n")).expect("written");
            let mut changes = anchor.changes();
            while !rows(&anchor).contains(&told) {
                let changed = tokio::time::timeout(Duration::from_secs(600), changes.changed());
                changed.await.expect("it is told").expect("it lives");
            }
            assert_eq!(rows(&anchor), [EventKind::Revive, told], "nothing is started");
        });
    }
}

#[test]
fn of_many_that_are_to_come_back_at_once_four_are_started_at_a_time() {
    on_stage(async |anchor| {
        let orphans: Vec<Meta> = (1..=5)
            .map(|n| {
                let mut meta = Meta { asked: true, ..session(&format!("agent{n}"), Keeper::Anchor) };
                meta.lineage = format!("agent{n}-00000000").parse().expect("a lineage");
                meta
            })
            .collect();
        for meta in &orphans {
            anchor.put(meta.clone(), Life::Gone);
            consider(&anchor, &about(meta), Found::AtStart);
        }
        let reserved = || rows(&anchor).iter().filter(|kind| **kind == EventKind::Spawn).count();
        let starting = || {
            let is =
                |meta: &&Meta| anchor.entry(&meta.spec.name, |entry| entry.life != Life::Gone) == Some(true);
            orphans.iter().filter(is).count()
        };
        let (mut changes, mut most) = (anchor.changes(), 0);
        while reserved() < orphans.len() {
            changes.changed().await.expect("it lives");
            most = most.max(starting());
        }
        assert_eq!(most, 4);
        anchor.begin_stop();
    });
}

#[test]
fn who_has_the_name_by_now_is_not_brought_back_for_another() {
    on_stage(async |anchor| {
        let mut taken = session("agent7", Keeper::Anchor);
        anchor.put(taken.clone(), Life::Gone);
        assert!(wanted(&anchor, &about(&taken)));
        taken.lineage = "agent7-00000000".parse().expect("a lineage");
        assert!(!wanted(&anchor, &about(&taken)));
    });
}

#[test]
fn settings_that_do_not_read_keep_nobody_from_looking_and_a_kill_answers_who_asks() {
    on_stage(async |anchor| {
        let mut taken = session("agent7", Keeper::Policy);
        let Phase::Ended { how, .. } = &mut taken.phase else { panic!("it has ended") };
        *how = End::WorkerDied;
        let settings = anchor.layout.root().join("settings");
        std::fs::write(&settings, "LIMIT revival_policy ask\n").expect("written");
        anchor.put(taken.clone(), Life::Gone);
        consider(&anchor, &about(&taken), Found::Watched);
        std::fs::write(&settings, "nonsense\n").expect("written");
        let state = |anchor: &Anchor| anchor.view(&taken.spec.name).expect("known").state;
        assert_eq!(state(&anchor), SessionState::Asking);
        assert_eq!(rows(&anchor), [EventKind::Asking, EventKind::Damaged]);
        for text in ["LIMIT revival_policy ask\n", "other nonsense\n"] {
            std::fs::write(&settings, text).expect("written");
            assert_eq!(state(&anchor), SessionState::Asking);
        }
        let told = [EventKind::Asking, EventKind::Damaged, EventKind::Damaged];
        assert_eq!(rows(&anchor), told, "each that does not read is told");
        let params = crate::rpc::kill::Params {
            session: taken.spec.name.clone(),
            grace_ms: 0,
            guard: crate::rpc::Guard::none(),
        };
        crate::anchor::kill::kill(&anchor, params).await.expect("it is down");
        assert_ne!(state(&anchor), SessionState::Asking);
        assert!(!wanted(&anchor, &about(&taken)));
    });
}

#[test]
fn fm_rehydrate_corrupt_a_lineage_that_does_not_read_is_asked_about_whatever_the_policy() {
    on_stage(async |anchor| {
        let meta = session("agentinfinity", Keeper::Anchor);
        netsky_disk::fs::Dir::make(anchor.layout.drain()).expect("made");
        let log = anchor.layout.drain().join(format!("{}.turns.jsonl", meta.lineage));
        std::fs::write(&log, "no row\n").expect("written");
        anchor.put(meta.clone(), Life::Gone);
        consider(&anchor, &about(&meta), Found::AtStart);
        assert_eq!(rows(&anchor), [EventKind::Damaged, EventKind::Asking]);
        assert_eq!(std::fs::read(&log).expect("reads"), b"no row\n");
    });
}
