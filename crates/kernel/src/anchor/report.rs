//! `session/report`: what a session says about itself.
//!
//! Promise: a turn or an intent that was answered is on the disk. Said twice under one `request_id` by one generation is
//! said once; that name is kept where the report is, so that there is no moment between the two. A report of a generation
//! that is over, whether another one has begun or not, changes nothing: what becomes of a session is decided by what was
//! told while it lived, here as by the next anchor. What is in the turns log is told in the journal, once, in one row or
//! several: where an anchor dies before them or between two, by the next one that opens the log.

use std::rc::Rc;

use netsky_disk::fault;
use netsky_model::id::LineageId;
use netsky_model::lifecycle::LifecycleState;

use super::answers;
use super::state::{Anchor, about, internal, not_found};
use super::succeed;
use super::table::Life;
use crate::drain::{self, DrainError, Misfit, Progress, Report, Taken};
use crate::journal::{About, Draft};
use crate::log::say;
use crate::rpc::report::{Answer, Params};
use crate::rpc::{EventKind, Guard, Refusal, RefusalKind, event_data};
use crate::session::Meta;

pub(super) fn report(anchor: &Rc<Anchor>, params: &Params) -> Result<Answer, Refusal> {
    let Params { session, report, guard } = params;
    let found = anchor.entry(session, |entry| (entry.meta.clone(), entry.life));
    let (meta, life) = found.ok_or_else(|| not_found(session))?;
    guard.believes(session, meta.generation)?;
    answers::check(guard)?;
    if life == Life::Foreign {
        let message = format!("{session} cannot be judged from here: nobody knows which generation speaks");
        return Err(Refusal::new(RefusalKind::Refused, message));
    }
    if !anchor.has_root() {
        return Err(internal("the root was removed or moved"));
    }
    if life == Life::Gone {
        return over(anchor, &meta, report, guard);
    }
    let taken = anchor.drain(&meta.lineage, |drain| {
        let before = drain.state().progress(meta.generation, false);
        let taken = drain.take(&anchor.id, &meta, report, guard.request_id.as_deref());
        taken.map(|taken| (taken, before, drain.state().progress(meta.generation, false), drain.rows()))
    });
    let taken = taken.and_then(|taken| taken);
    let (taken, before, progress, row) = taken.map_err(|error| failed(anchor, &meta, &error))?;
    if taken == Taken::Before {
        return Ok(Answer { progress, unsnapped: None });
    }
    tell(anchor, told(&about(&meta), row, report, (&before, &progress)));
    if before.lifecycle != LifecycleState::Dead && progress.lifecycle == LifecycleState::Dead {
        succeed::begin(anchor, &about(&meta));
    }
    let unsnapped = match taken {
        Taken::Whole | Taken::Before => None,
        Taken::Unsnapped(why) => {
            let data = event_data::Unsnapped { turn: progress.turn, why: why.clone() };
            anchor.observe(EventKind::Unsnapped, Some(about(&meta)), data);
            Some(why)
        }
    };
    Ok(Answer { progress, unsnapped })
}

/// What a generation that is over told before is answered again; it tells nothing more.
fn over(anchor: &Anchor, meta: &Meta, report: &Report, guard: &Guard) -> Result<Answer, Refusal> {
    let told = anchor.drain(&meta.lineage, |drain| {
        drain.check()?;
        let state = drain.state();
        let told = guard.request_id.as_deref().map(|id| state.has_told(id, meta.generation, report));
        Ok(told.transpose()?.filter(|told| *told).map(|_| state.progress(meta.generation, true)))
    });
    match told.and_then(|told| told).map_err(|error| failed(anchor, meta, &error))? {
        Some(progress) => Ok(Answer { progress, unsnapped: None }),
        None => {
            let message = format!("{} is over at generation {}", meta.spec.name, meta.generation);
            Err(Refusal::new(RefusalKind::StaleGeneration, message))
        }
    }
}

fn failed(anchor: &Anchor, meta: &Meta, error: &DrainError) -> Refusal {
    if matches!(error, DrainError::Disk(_)) {
        anchor.forget_drain(&meta.lineage);
    }
    anchor.drain_failed(&meta.lineage, error);
    refusal(error)
}

fn tell(anchor: &Anchor, rows: impl IntoIterator<Item = Draft>) {
    for row in rows {
        // Only a kill can be asked for here.
        let _ = fault::point("anchor.report.row");
        anchor.tell(row);
    }
}

/// What the journal tells of a report and of what it moved, as rows in their order; `row` is its own in the turns log.
fn told(about: &About, row: u64, report: &Report, (before, now): (&Progress, &Progress)) -> Vec<Draft> {
    let mut told = Vec::from_iter(arrived(about, row, report, now.turn));
    if before.lifecycle != now.lifecycle {
        let (from, to) = (before.lifecycle, now.lifecycle);
        let data = event_data::Lifecycle { from, to, context_pct: now.context_pct, row: Some(row) };
        told.push(Draft::of(EventKind::Lifecycle, Some(about.clone()), data));
    }
    told.extend(succeed::told(about, row, report, (before, now)));
    told
}

/// Tells what is in a turns log and not in the journal: whoever took it died, or had no room, in between. Where a context
/// ended with it, whoever looks at its session next begins the succession.
pub(super) fn catch_up(anchor: &Anchor, lineage: &LineageId, rows: u64) {
    let Some((newest_about, newest, told_in)) = anchor.recall(|recall| recall.told(lineage)) else { return };
    if rows < newest {
        // It is another log than the one of which that was told: whoever began it anew died before it could say so.
        anchor.observe(EventKind::Anew, Some(newest_about), event_data::Anew { rows });
        return;
    }
    // The newest may have rows that nobody came to.
    let whole = if told_in.is_some() { newest.saturating_sub(1) } else { newest };
    if rows <= whole {
        return;
    }
    let read = drain::untold(&anchor.layout, lineage, whole, |row, before, now| {
        let about = About { generation: row.generation, ..newest_about.clone() };
        let is_told = if row.n == newest { told_in.unwrap_or_default() } else { 0 };
        tell(anchor, told(&about, row.n, &row.report, (before, now)).into_iter().skip(is_told));
    });
    if let Err(error) = read {
        anchor.drain_failed(lineage, &error);
        say!("{error}: what {} reported is not all in the journal", newest_about.session);
    }
}

/// What the journal says of a report itself: that it came, not what was in it.
fn arrived(about: &About, row: u64, report: &Report, turn: u64) -> Option<Draft> {
    let (about, row) = (Some(about.clone()), Some(row));
    match report {
        Report::Turn(said) => {
            let (messages, usage) = (said.messages.len(), said.usage.clone());
            Some(Draft::of(EventKind::Turn, about, event_data::Turn { turn, messages, usage, row }))
        }
        Report::Intent { id, tool, .. } => {
            let data = event_data::Intent { id: id.clone(), tool: tool.clone(), row };
            Some(Draft::of(EventKind::Intent, about, data))
        }
        Report::Result { id, failed, .. } => {
            let data = event_data::ToolResult { id: id.clone(), failed: *failed, row };
            Some(Draft::of(EventKind::Result, about, data))
        }
        Report::SessionId { session_id, .. } => {
            let data = event_data::SessionId { session_id: session_id.clone(), row };
            Some(Draft::of(EventKind::SessionId, about, data))
        }
        // They come by the second and say nothing about the past, or are told as a lifecycle.
        Report::Begun
        | Report::Context { .. }
        | Report::Compacted
        | Report::Finalization
        | Report::Phase { .. } => None,
        // Told where their effect is.
        Report::Handoff { .. } | Report::Acknowledge => None,
    }
}

pub(super) fn refusal(error: &DrainError) -> Refusal {
    let kind = match error {
        DrainError::Disk(error) if error.is_full() => RefusalKind::Busy,
        DrainError::Disk(_) => RefusalKind::Internal,
        DrainError::Damaged { .. } => RefusalKind::Damaged,
        DrainError::Misfit(Misfit::Stale { .. }) => RefusalKind::StaleGeneration,
        DrainError::Misfit(Misfit::NoIntent { .. } | Misfit::NoHandoff) => RefusalKind::NotFound,
        DrainError::Misfit(Misfit::TooManyIntents | Misfit::IntentsTooLarge { .. }) => RefusalKind::Busy,
        DrainError::Full { .. } => RefusalKind::TooLarge,
        DrainError::Misfit(
            Misfit::BadWord { .. } | Misfit::OtherCall { .. } | Misfit::NoTurn { .. } | Misfit::LongHandoff,
        ) => RefusalKind::BadParams,
        DrainError::Misfit(
            Misfit::OldTurn { .. }
            | Misfit::OpenIntent { .. }
            | Misfit::NotDying
            | Misfit::NotAging
            | Misfit::Unacknowledged { .. }
            | Misfit::Dead,
        ) => RefusalKind::Refused,
    };
    Refusal::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use netsky_model::id::Generation;

    use super::*;
    use crate::anchor::revive;
    use crate::anchor::settle::Found;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::rpc::Event;
    use crate::session::{Keeper, Phase};

    #[test]
    fn i5_a_generation_that_is_over_tells_nothing_but_what_it_told_before_and_has_no_successor_for_it() {
        on_stage(async |anchor| {
            let returned = session("agent7", Keeper::Policy);
            let living = Meta {
                phase: Phase::Running { started_at: netsky_disk::clock::stamp() },
                ..returned.clone()
            };
            let tell = |report: Report, request_id: &str| {
                let guard = Guard { if_generation: None, request_id: Some(request_id.to_owned()) };
                super::report(&anchor, &Params { session: returned.spec.name.clone(), report, guard })
            };
            anchor.put(living, Life::Live);
            let used = 95.try_into().expect("a percentage");
            tell(Report::Context { used }, "r1").expect("taken");
            tell(Report::Finalization, "r2").expect("taken");
            anchor.put(returned.clone(), Life::Gone);
            let before = rows(&anchor).len();
            let refused = tell(Report::Turn(Box::default()), "r3").expect_err("it is over");
            assert_eq!(refused.kind(), RefusalKind::StaleGeneration, "{refused}");
            let again = tell(Report::Finalization, "r2").expect("it was told");
            assert_eq!(again.progress.lifecycle, LifecycleState::Draining);
            for found in [Found::Watched, Found::AtStart] {
                revive::consider(&anchor, &about(&returned), found);
            }
            assert_eq!(rows(&anchor).split_off(before), [], "nobody takes over from who returned");
        });
    }

    #[test]
    fn fm_snapshot_kill_what_an_anchor_took_and_died_over_is_told_by_the_next_one_once() {
        on_stage(async |anchor| {
            let phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
            let first = Meta { phase, ..session("agent7", Keeper::Watchdog) };
            let second = Meta { generation: first.generation.next(), ..first.clone() };
            let turn = || Report::Turn(Box::default());
            anchor.put(first.clone(), Life::Live);
            let params = Params { session: first.spec.name.clone(), report: turn(), guard: Guard::none() };
            super::report(&anchor, &params).expect("taken");
            let died_over = |meta: &Meta, report: Report| {
                let taken = anchor.drain(&meta.lineage, |drain| drain.take("before", meta, &report, None));
                taken.expect("it reads").expect("it fits");
            };
            let intent = Report::Intent { id: "a".into(), tool: "sh".into(), input: serde_json::Value::Null };
            died_over(&first, intent);
            died_over(
                &first,
                Report::Result { id: "a".into(), failed: false, output: serde_json::Value::Null },
            );
            died_over(&first, turn());
            died_over(&first, Report::Context { used: 5.try_into().expect("a percentage") });
            died_over(&first, Report::Context { used: 95.try_into().expect("a percentage") });
            died_over(&first, Report::Finalization);
            died_over(&first, Report::Handoff { text: "go on".into() });
            died_over(&first, turn());
            died_over(&second, Report::SessionId { session_id: "conv-2".into(), transcript: None });
            died_over(&second, Report::Acknowledge);
            let before = rows(&anchor).len();
            let third = About { generation: second.generation.next(), ..about(&first) };
            for is_reserved in [false, true] {
                if is_reserved {
                    let (runtime, keeper) = ("command".to_owned(), Keeper::Watchdog);
                    let data = event_data::Spawn { runtime, keeper, request_id: None };
                    anchor.observe(EventKind::Spawn, Some(third.clone()), data);
                }
                // Another anchor.
                anchor.forget_drain(&first.lineage);
                anchor.drain(&first.lineage, |_| ()).expect("it reads");
            }
            let told = anchor.journal(|journal| journal.after(before as u64)).expect("reads");
            let told: Vec<_> =
                told.iter().map(|row| (row.kind, row.generation, row.data["row"].as_u64())).collect();
            use EventKind::{Handoff, Intent, Lifecycle, Reaped, Result, SessionId, Spawn, Turn};
            let (one, two) = (Some(first.generation), Some(second.generation));
            let wanted = [
                (Intent, one, Some(2)),
                (Result, one, Some(3)),
                (Turn, one, Some(4)),
                (Lifecycle, one, Some(6)),
                (Handoff, one, Some(6)),
                (Lifecycle, one, Some(7)),
                (Handoff, one, Some(8)),
                (Turn, one, Some(9)),
                (Lifecycle, one, Some(9)),
                (SessionId, two, Some(10)),
                (Handoff, two, Some(11)),
                (Reaped, one, None),
                (Spawn, Some(third.generation), None),
            ];
            assert_eq!(told, wanted);
        });
    }

    /// What the journal tells of a lineage whose anchor had told these rows when it died, and two came after it.
    fn told_behind(known: &[Rc<Event>]) -> Vec<Rc<Event>> {
        let mut told = Vec::new();
        on_stage(async |anchor| {
            let first = session("agent7", Keeper::Watchdog);
            let second = Meta { generation: first.generation.next(), ..first.clone() };
            let (runtime, keeper) = ("command".to_owned(), Keeper::Watchdog);
            let data = event_data::Spawn { runtime, keeper, request_id: None };
            anchor.observe(EventKind::Spawn, Some(about(&first)), data);
            let used = |used: u8| Report::Context { used: used.try_into().expect("a percentage") };
            for (meta, report) in [
                (&first, used(95)),
                (&first, Report::Finalization),
                (&first, Report::Handoff { text: "go on".into() }),
                (&first, Report::Turn(Box::default())),
                (&second, used(71)),
                (&second, Report::Acknowledge),
                (&second, Report::Turn(Box::default())),
            ] {
                let taken = anchor.drain(&meta.lineage, |drain| drain.take("before", meta, &report, None));
                taken.expect("it reads").expect("it fits");
            }
            for row in known {
                let generation = row.generation.expect("one of a session");
                anchor.observe(row.kind, Some(About { generation, ..about(&first) }), &row.data);
            }
            for _ in 0..2 {
                anchor.forget_drain(&first.lineage);
                anchor.drain(&first.lineage, |_| ()).expect("it reads");
            }
            told = anchor.journal(|journal| journal.after(1)).expect("reads");
        });
        told
    }

    #[test]
    fn fm_snapshot_kill_an_anchor_that_dies_between_two_rows_of_a_report_leaves_the_others_to_the_next() {
        let all = told_behind(&[]);
        use EventKind::{Handoff, Lifecycle, Reaped, Turn};
        let kinds: Vec<_> = all.iter().map(|row| row.kind).collect();
        let of_the_first = [Lifecycle, Handoff, Lifecycle, Handoff, Turn, Lifecycle];
        let of_the_second = [Lifecycle, Handoff, Reaped, Handoff, Turn];
        assert_eq!(kinds, [&of_the_first[..], &of_the_second].concat());
        let said = |rows: &[Rc<Event>]| -> Vec<_> {
            rows.iter().map(|row| (row.seq, row.kind, row.generation, row.data.clone())).collect()
        };
        for told in 1..=all.len() {
            assert_eq!(said(&told_behind(&all[..told])), said(&all), "{told} were told");
        }
    }

    #[test]
    fn fm_snapshot_kill_of_a_lineage_whose_journal_is_lost_nothing_is_told_again() {
        // What its anchor died over is told where the journal has its beginning, and not where that is lost.
        for (first, told) in [(Some(1), true), (Some(3), false), (None, false)] {
            on_stage(async |anchor| {
                let phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
                let living = Meta { phase, ..session("agent7", Keeper::Watchdog) };
                let living = Meta { generation: Generation(first.unwrap_or(3)), ..living };
                let turn = Report::Turn(Box::default());
                let taken = anchor.drain(&living.lineage, |drain| drain.take("before", &living, &turn, None));
                taken.expect("it reads").expect("it fits");
                let about = about(&living);
                let (runtime, keeper) = ("command".to_owned(), Keeper::Watchdog);
                let spawned = event_data::Spawn { runtime, keeper, request_id: None };
                if first.is_some() {
                    anchor.observe(EventKind::Spawn, Some(about.clone()), &spawned);
                }
                anchor.observe(EventKind::Adopted, Some(about.clone()), event_data::Adopted { pid: 1 });
                anchor.forget_drain(&living.lineage);
                anchor.drain(&living.lineage, |_| ()).expect("it reads");
                assert_eq!(rows(&anchor).contains(&EventKind::Turn), told, "{first:?}");
                // Nor under a later generation.
                let before = rows(&anchor).len();
                let next = About { generation: living.generation.next(), ..about };
                anchor.observe(EventKind::Spawn, Some(next), &spawned);
                anchor.forget_drain(&living.lineage);
                anchor.drain(&living.lineage, |_| ()).expect("it reads");
                assert_eq!(rows(&anchor).split_off(before), [EventKind::Spawn], "{first:?}");
            });
        }
    }

    /// What the journal tells of a log with four turns that is begun anew by an anchor that says so, or died before; the next
    /// one took another turn and died over that.
    fn told_of_begun_anew(is_said: bool) -> Vec<(EventKind, serde_json::Value)> {
        let mut told = Vec::new();
        on_stage(async |anchor| {
            let phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
            let living = Meta { phase, ..session("agent7", Keeper::Watchdog) };
            let turn = || Report::Turn(Box::default());
            anchor.put(living.clone(), Life::Live);
            for _ in 0..4 {
                let params =
                    Params { session: living.spec.name.clone(), report: turn(), guard: Guard::none() };
                super::report(&anchor, &params).expect("taken");
            }
            let before = rows(&anchor).len();
            anchor.forget_drain(&living.lineage);
            drain::Drain::begin_anew(&anchor.layout, &living.lineage).expect("begun");
            if is_said {
                anchor.begin_drain(&about(&living)).expect("it reads");
            }
            let taken = anchor.drain(&living.lineage, |drain| drain.take("before", &living, &turn(), None));
            taken.expect("it reads").expect("it fits");
            for _ in 0..2 {
                anchor.forget_drain(&living.lineage);
                anchor.drain(&living.lineage, |_| ()).expect("it reads");
            }
            let rows = anchor.journal(|journal| journal.after(before as u64)).expect("reads");
            told = rows.iter().map(|row| (row.kind, row.data.clone())).collect();
        });
        told
    }

    #[test]
    fn fm_snapshot_kill_a_log_that_was_begun_anew_is_not_held_against_the_rows_told_of_the_former() {
        for is_said in [true, false] {
            let told = told_of_begun_anew(is_said);
            let [(EventKind::Anew, begun), (EventKind::Turn, turn)] = &told[..] else { panic!("{told:?}") };
            assert_eq!((&begun["rows"], &turn["row"], &turn["turn"]), (&1.into(), &2.into(), &5.into()));
        }
    }

    #[test]
    fn what_a_program_told_that_did_not_number_it_is_not_told_again() {
        on_stage(async |anchor| {
            let phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
            let living = Meta { phase, ..session("agent7", Keeper::Watchdog) };
            anchor.put(living.clone(), Life::Live);
            let (runtime, keeper) = ("command".to_owned(), Keeper::Watchdog);
            let data = event_data::Spawn { runtime, keeper, request_id: None };
            anchor.observe(EventKind::Spawn, Some(about(&living)), data);
            let turn = Report::Turn(Box::default());
            let taken = anchor.drain(&living.lineage, |drain| drain.take("before", &living, &turn, None));
            taken.expect("it reads").expect("it fits");
            let usage = crate::drain::Usage::default();
            let data = event_data::Turn { turn: 1, messages: 0, usage, row: None };
            anchor.observe(EventKind::Turn, Some(about(&living)), data);
            anchor.forget_drain(&living.lineage);
            anchor.drain(&living.lineage, |_| ()).expect("it reads");
            assert_eq!(rows(&anchor), [EventKind::Spawn, EventKind::Turn]);
            // From the first one that is numbered on it is known again.
            let params = Params { session: living.spec.name.clone(), report: turn, guard: Guard::none() };
            super::report(&anchor, &params).expect("taken");
            assert_eq!(
                anchor.recall(|recall| recall.told(&living.lineage).map(|(_, told, _)| told)),
                Some(2)
            );
        });
    }
}
