//! `session/report`: what a session says about itself.
//!
//! Promise: a turn or an intent that was answered is on the disk. Said twice under one `request_id` by one generation is
//! said once; that name is kept where the report is, so that there is no moment between the two. A report of a generation
//! that is over, whether another one has begun or not, changes nothing: what becomes of a session is decided by what was
//! told while it lived, here as by the next anchor.

use std::rc::Rc;

use super::answers;
use super::state::{Anchor, about, internal, not_found};
use super::succeed;
use super::table::Life;
use crate::drain::{DrainError, Misfit, Report, Taken};
use crate::journal::About;
use crate::rpc::report::{Answer, Params};
use crate::rpc::{EventKind, Guard, Refusal, RefusalKind, event_data};
use crate::session::Meta;

pub(super) fn report(anchor: &Rc<Anchor>, params: &Params) -> Result<Answer, Refusal> {
    let Params { session, report, guard } = params;
    let found = anchor.entry(session, |entry| (entry.meta.clone(), entry.life));
    let (meta, life) = found.ok_or_else(|| not_found(session))?;
    if let Some(said) = guard.if_generation
        && said != meta.generation
    {
        let message = format!("{session} is at generation {}, not {said}", meta.generation);
        return Err(Refusal::new(RefusalKind::StaleGeneration, message));
    }
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
        taken.map(|taken| (taken, before, drain.state().progress(meta.generation, false)))
    });
    let taken = taken.and_then(|taken| taken);
    let (taken, before, progress) = taken.map_err(|error| failed(anchor, &meta, &error))?;
    if taken == Taken::Before {
        return Ok(Answer { progress, unsnapped: None });
    }
    row(anchor, about(&meta), report, progress.turn);
    if before.lifecycle != progress.lifecycle {
        let (from, to) = (before.lifecycle, progress.lifecycle);
        let data = event_data::Lifecycle { from, to, context_pct: progress.context_pct };
        anchor.observe(EventKind::Lifecycle, Some(about(&meta)), data);
    }
    succeed::told(anchor, &about(&meta), report, &before, &progress);
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

/// What the journal says of a report: that it came, not what was in it.
fn row(anchor: &Anchor, about: About, report: &Report, turn: u64) {
    let about = Some(about);
    match report.clone() {
        Report::Turn(said) => {
            let data = event_data::Turn { turn, messages: said.messages.len(), usage: said.usage };
            anchor.observe(EventKind::Turn, about, data);
        }
        Report::Intent { id, tool, .. } => {
            anchor.observe(EventKind::Intent, about, event_data::Intent { id, tool });
        }
        Report::Result { id, failed, .. } => {
            anchor.observe(EventKind::Result, about, event_data::ToolResult { id, failed });
        }
        Report::SessionId { session_id, .. } => {
            anchor.observe(EventKind::SessionId, about, event_data::SessionId { session_id });
        }
        // They come by the second and say nothing about the past, or are told as a lifecycle.
        Report::Begun | Report::Context { .. } | Report::Finalization | Report::Phase { .. } => {}
        // Told where their effect is.
        Report::Handoff { .. } | Report::Acknowledge => {}
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
        DrainError::Misfit(Misfit::BadWord { .. } | Misfit::OtherCall { .. } | Misfit::LongHandoff) => {
            RefusalKind::BadParams
        }
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
    use netsky_model::lifecycle::LifecycleState;

    use super::*;
    use crate::anchor::revive;
    use crate::anchor::settle::Found;
    use crate::anchor::stage::{on_stage, rows, session};
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
}
