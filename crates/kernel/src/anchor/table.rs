//! Sessions in memory, and how clients see them.

use std::time::Duration;

use netsky_model::id::AgentId;
use tokio::time::Instant;

use crate::rpc::{HeartbeatView, SessionState, SessionView};
use crate::session::{Heartbeat, Meta, Phase, Pulse};
use crate::settings::Bounds;

/// What this anchor knows of a session's processes. Only [`Life::Gone`] lets another generation start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The generation is reserved; its worker is being started, or was by a former anchor.
    Starting,
    /// Its worker lives and is watched.
    Live,
    /// Its worker is gone; what it left is being swept.
    Ending,
    /// Nothing of it lives.
    Gone,
    /// Another pid namespace's, or held by nobody known: nothing can be said or done from here.
    Foreign,
}

/// One session.
pub(super) struct Entry {
    pub(super) meta: Meta,
    pub(super) life: Life,
    /// When this anchor learned of it: a worker that never beats is silent since then.
    pub(super) known: Instant,
    pub(super) beat: Option<Beat>,
    /// Looks in a row at a heartbeat that did not parse.
    pub(super) unread: u32,
    /// Revivals in a row without a minute of life between them.
    pub(super) revivals: u32,
    /// Whether its silence was reported.
    pub(super) hung: bool,
    /// Whether somebody must say what becomes of it.
    pub(super) asking: bool,
}

/// A heartbeat and when this anchor saw it change: a monotonic instant, which stands still in suspend.
#[derive(Debug, Clone)]
pub(super) struct Beat {
    pub(super) liveness: u64,
    pub(super) progress: u64,
    pub(super) phase: Pulse,
    pub(super) changed: Instant,
}

impl Entry {
    pub(super) fn new(meta: Meta, life: Life, now: Instant) -> Entry {
        Entry { meta, life, known: now, beat: None, unread: 0, revivals: 0, hung: false, asking: false }
    }

    pub(super) fn name(&self) -> &AgentId {
        &self.meta.spec.name
    }

    /// Takes a heartbeat file's content in; one of another generation says nothing about this.
    pub(super) fn take_beat(&mut self, seen: &Heartbeat, now: Instant) {
        if seen.generation != self.meta.generation {
            return;
        }
        let changed = match &self.beat {
            // A worker's count only rises: less than it has said over its socket is a file that stands still.
            Some(beat) if beat.liveness > seen.liveness => return,
            Some(beat) if beat.liveness == seen.liveness => beat.changed,
            _ => now,
        };
        self.beat =
            Some(Beat { liveness: seen.liveness, progress: seen.progress, phase: seen.phase, changed });
    }

    /// Takes what a worker of this generation answered just now: that it did is a beat, whatever its count.
    pub(super) fn take_answer(&mut self, answer: Option<&Heartbeat>, now: Instant) {
        if let Some(answer) = answer {
            self.take_beat(answer, now);
        }
        match &mut self.beat {
            Some(beat) => beat.changed = now,
            none => *none = Some(Beat { liveness: 0, progress: 0, phase: Pulse::Running, changed: now }),
        }
    }

    /// How long the worker has been silent.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.beat.as_ref().map_or(self.known, |beat| beat.changed))
    }

    /// The word for it.
    pub(super) fn state(&self, now: Instant, bounds: Bounds) -> SessionState {
        match self.life {
            Life::Starting => SessionState::Starting,
            Life::Ending => SessionState::Ending,
            Life::Foreign => SessionState::Unknown,
            Life::Live => SessionState::after(self.silence(now), bounds),
            Life::Gone if self.asking => SessionState::Asking,
            Life::Gone => match &self.meta.phase {
                Phase::Ended { how, .. } => how.into(),
                Phase::Inactive { .. } => SessionState::Inactive,
                // The end could not be written; the tree is swept all the same.
                Phase::Starting | Phase::Running { .. } => SessionState::Orphaned,
            },
        }
    }

    pub(super) fn view(&self, now: Instant, bounds: Bounds) -> SessionView {
        let state = self.state(now, bounds);
        let heartbeat = self.beat.as_ref().filter(|_| state.may_live()).map(|beat| HeartbeatView {
            liveness: beat.liveness,
            progress: beat.progress,
            phase: beat.phase,
            age_ms: u64::try_from(now.saturating_duration_since(beat.changed).as_millis())
                .unwrap_or(u64::MAX),
        });
        SessionView { heartbeat, ..SessionView::of(&self.meta, state) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::session;
    use crate::session::Keeper;

    #[test]
    fn a_worker_that_never_beats_is_idle_and_then_hung() {
        let (known, bounds) = (Instant::now(), Bounds::usual(Duration::from_secs(10)));
        let entry = Entry::new(session("agent0", Keeper::Watchdog), Life::Live, known);
        let after = |secs| entry.state(known + Duration::from_secs(secs), bounds);
        let states = [after(29), after(30), after(90)];
        assert_eq!(states, [SessionState::Active, SessionState::Idle, SessionState::Hung]);
    }
}
