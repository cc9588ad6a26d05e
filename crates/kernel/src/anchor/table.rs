//! Sessions in memory, and how clients see them.

use std::time::Duration;

use netsky_disk::clock;
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
    /// Revivals that its life since has not taken back.
    pub(super) revivals: u32,
    /// Starts after this generation that were refused: nothing ran, which is no revival.
    pub(super) refusals: u32,
    /// Whether a revival after this generation has begun: what it lived is counted once, not with every try.
    pub(super) counted: bool,
    /// Which revival after this generation this anchor announced last.
    pub(super) announced: Option<u32>,
    /// When the pause before that is over, by the boot clock.
    pub(super) revives_at: Option<Duration>,
    /// Whether it is just being ended for its dead context.
    pub(super) giving_way: bool,
    /// Whether its silence was reported.
    pub(super) hung: bool,
    /// Whether somebody must say what becomes of it.
    pub(super) asking: bool,
}

/// What a look finds where something has changed, or has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Silent for too long, for the first time.
    Hung(Duration),
    /// Hung at the look before, and now.
    StillHung,
    /// No longer hung.
    Recovered,
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
        Entry {
            meta,
            life,
            known: now,
            beat: None,
            unread: 0,
            revivals: 0,
            refusals: 0,
            counted: false,
            announced: None,
            revives_at: None,
            giving_way: false,
            hung: false,
            asking: false,
        }
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

    /// Looks at its silence. Only [`Found::StillHung`] is a reason to end it: after a machine stood still, its anchor may look
    /// before its worker came to beat, and the worker beats before the second look.
    pub(super) fn judge(&mut self, now: Instant, bounds: Bounds) -> Option<Found> {
        let hung = self.state(now, bounds) == SessionState::Hung;
        match (std::mem::replace(&mut self.hung, hung), hung) {
            (false, true) => Some(Found::Hung(self.silence(now))),
            (true, true) => Some(Found::StillHung),
            (true, false) => Some(Found::Recovered),
            (false, false) => None,
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
        let revives_at = self.revives_at.filter(|_| self.life == Life::Gone);
        let revives_in_ms = revives_at.map(|at| at.saturating_sub(clock::boot()).as_millis() as u64);
        SessionView { heartbeat, revives_in_ms, ..SessionView::of(&self.meta, state) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::session;
    use crate::session::Keeper;

    #[test]
    fn a_file_that_stands_still_is_no_beat_behind_what_its_worker_answered() {
        let known = Instant::now();
        let mut entry = Entry::new(session("agent0", Keeper::Watchdog), Life::Live, known);
        let sample: Heartbeat =
            serde_json::from_slice(include_bytes!("../../samples/heartbeat.v1.json")).expect("loads");
        let beat = |liveness| Heartbeat { liveness, generation: entry.meta.generation, ..sample.clone() };
        let (still, answered) = (beat(17), beat(19));
        let at = |secs| known + Duration::from_secs(secs);
        entry.take_beat(&still, at(0));
        entry.take_answer(Some(&answered), at(20));
        entry.take_beat(&still, at(30));
        assert_eq!(entry.silence(at(40)), Duration::from_secs(20));
        entry.take_answer(None, at(50));
        assert_eq!(entry.silence(at(50)), Duration::ZERO, "whoever greets lives");
    }

    #[test]
    fn a_worker_that_never_beats_is_idle_and_then_hung() {
        let (known, bounds) = (Instant::now(), Bounds::usual(Duration::from_secs(10)));
        let entry = Entry::new(session("agent0", Keeper::Watchdog), Life::Live, known);
        let after = |secs| entry.state(known + Duration::from_secs(secs), bounds);
        let states = [after(29), after(30), after(90)];
        assert_eq!(states, [SessionState::Active, SessionState::Idle, SessionState::Hung]);
    }

    #[test]
    fn a_worker_is_ended_only_where_two_looks_in_a_row_find_it_hung() {
        let (known, bounds) = (Instant::now(), Bounds::usual(Duration::from_secs(10)));
        let mut entry = Entry::new(session("agent0", Keeper::Anchor), Life::Live, known);
        let at = |secs| known + Duration::from_secs(secs);
        assert_eq!(entry.judge(at(89), bounds), None);
        assert_eq!(entry.judge(at(90), bounds), Some(Found::Hung(Duration::from_secs(90))));
        entry.take_answer(None, at(95));
        assert_eq!(entry.judge(at(100), bounds), Some(Found::Recovered));
        assert_eq!(
            entry.judge(at(185), bounds),
            Some(Found::Hung(Duration::from_secs(90))),
            "the first again"
        );
        assert_eq!(entry.judge(at(195), bounds), Some(Found::StillHung));
    }

    /// Chance that its seed decides (a linear congruence; the high bits are the better ones).
    struct Rng(u64);

    impl Rng {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    /// Hours of a tool that says nothing, in no time: a worker whose loop comes round, an anchor that looks, a machine that
    /// is busy, stands still or sleeps. Answers how often the session would have been ended: found hung at two looks in a row.
    fn kills_of_a_healthy_session(rng: &mut Rng, began: Instant) -> u32 {
        let (bounds, secs) = (Bounds::usual(Duration::from_secs(10)), Duration::from_secs);
        let mut entry = Entry::new(session("agent0", Keeper::Anchor), Life::Live, began);
        let mut beat = beat(&entry);
        let mut next_beat = began + secs(rng.below(10) as u64);
        let mut next_look = began + secs(rng.below(10) as u64);
        let end = began + secs(600 + rng.below(6_600) as u64);
        let mut kills = 0;
        while next_look < end {
            if next_beat <= next_look {
                beat.liveness += 1;
                // Late on a busy machine, and now and then very late.
                let late = if rng.below(50) == 0 { rng.below(60) } else { rng.below(5) };
                next_beat += secs(10 + late as u64);
                continue;
            }
            entry.take_beat(&beat, next_look);
            kills += u32::from(entry.judge(next_look, bounds) == Some(Found::StillHung));
            next_look += secs(10 + rng.below(2) as u64);
            match rng.below(100) {
                // A suspend of up to eight hours: the clocks of stamps go on, the one that silence is counted on does not.
                0 => beat.at.boot_ms += rng.below(28_800_000) as u64,
                // A virtual machine that stood still for up to an hour: both come late, in either order. Where that comes
                // again before the worker has beaten, silence alone would end it: a real look asks it first.
                1 if !entry.hung => {
                    next_look += secs(rng.below(3_600) as u64);
                    next_beat = next_beat.max(next_look - secs(4) + secs(rng.below(9) as u64));
                }
                // Only the anchor stood still.
                2 => next_look += secs(rng.below(3_600) as u64),
                _ => {}
            }
        }
        kills
    }

    /// Of a worker whose program is in the middle of a long tool call: nothing goes in or out.
    fn beat(entry: &Entry) -> Heartbeat {
        Heartbeat {
            v: crate::session::VERSION,
            name: entry.name().clone(),
            generation: entry.meta.generation,
            worker: netsky_disk::process::me(),
            liveness: 0,
            progress: 7,
            phase: Pulse::Running,
            killed: false,
            ended: None,
            at: netsky_disk::clock::stamp(),
        }
    }

    #[test]
    fn must_show_5_no_healthy_session_is_ended_in_10_000_long_tools() {
        let (mut rng, began) = (Rng(1), Instant::now());
        let kills: u32 = (0..10_000).map(|_| kills_of_a_healthy_session(&mut rng, began)).sum();
        assert_eq!(kills, 0);
    }
}
