//! `session/report`: what a session says about itself.
//!
//! Promise: a turn or an intent that was answered is on the disk. Said twice under one `request_id` by one generation is
//! said once; that name is kept where the report is, so that there is no moment between the two. A report of a generation that is over changes nothing.

use std::rc::Rc;

use super::answers;
use super::state::{Anchor, about, internal, not_found};
use super::succeed;
use super::table::Life;
use crate::drain::{DrainError, Misfit, Report, Taken};
use crate::journal::About;
use crate::rpc::report::{Answer, Params};
use crate::rpc::{EventKind, Refusal, RefusalKind, event_data};

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
    let taken = anchor.drain(&meta.lineage, |drain| {
        let before = drain.state().progress(meta.generation, false);
        let taken = drain.take(&anchor.id, &meta, report, guard.request_id.as_deref());
        taken.map(|taken| (taken, before, drain.state().progress(meta.generation, false)))
    });
    let (taken, before, progress) = taken.and_then(|taken| taken).map_err(|error| {
        if matches!(error, DrainError::Disk(_)) {
            anchor.forget_drain(&meta.lineage);
        }
        anchor.drain_failed(&meta.lineage, &error);
        refusal(&error)
    })?;
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
