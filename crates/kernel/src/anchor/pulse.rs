//! Heartbeats, seen from here.
//!
//! Promise: ages count on a clock that stands still in suspend, from the beat this anchor saw itself: a machine that slept
//! wakes to healthy sessions. Silence is reported once, and its end too; what to do about it is the keeper's business.

use std::rc::Rc;

use netsky_model::id::AgentId;
use serde_json::json;
use tokio::time::Instant;

use super::fold;
use super::state::{Anchor, about};
use super::table::Life;
use crate::log::say;
use crate::rpc::{EventKind, SessionState};
use crate::session::Heartbeat;

/// Looks at every worker once a period.
pub(super) fn start(anchor: &Rc<Anchor>) {
    let anchor = Rc::clone(anchor);
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(anchor.period).await;
            for name in anchor.names() {
                look(&anchor, &name);
            }
            if let Err(error) = anchor.journal(|journal| journal.flush()) {
                say!("rows of the journal wait: {error}");
            }
        }
    });
}

fn look(anchor: &Anchor, name: &AgentId) {
    anchor.refresh(name);
    if anchor.recall(|recall| recall.session(name).is_some_and(|known| !known.started)) {
        // Adopted before its worker had written the row of its start.
        fold::catch_up(anchor, name);
    }
    let turned = anchor.entry(name, |entry| {
        let now = Instant::now();
        let hung = entry.state(now, anchor.period) == SessionState::Hung;
        let turned = hung != entry.hung && entry.life == Life::Live;
        entry.hung = hung;
        turned.then(|| (hung, about(&entry.meta), entry.silence(now)))
    });
    match turned.flatten() {
        Some((true, about, silence)) => {
            let data = json!({"age_ms": silence.as_millis() as u64});
            anchor.observe(EventKind::Hung, Some(about), data);
        }
        Some((false, about, _)) => anchor.observe(EventKind::Recovered, Some(about), json!({})),
        None => {}
    }
}

impl Anchor {
    /// Reads a live session's heartbeat file.
    pub(super) fn refresh(&self, name: &AgentId) {
        if self.entry(name, |entry| entry.life) != Some(Life::Live) {
            return;
        }
        let read = netsky_disk::state::read(self.layout.heartbeat(name));
        // A beat that is just being rewritten does not parse; the next look has it.
        let Ok(Some(bytes)) = read else { return };
        let Ok(beat) = serde_json::from_slice::<Heartbeat>(bytes.trim_ascii_end()) else { return };
        self.entry(name, |entry| entry.take_beat(&beat, Instant::now()));
    }
}
