//! What keeps an agent from being driven, told to whoever looks: its book cannot say so, which does not read by then, or is
//! another's to write.

use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

/// What passes sooner is nobody's trouble: a program ends, a worker is being started.
const PASSES: Duration = Duration::from_secs(10);

/// An agent that netsky-drivers tries to speak to in vain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undriven {
    v: u64,
    /// What it met last.
    pub why: String,
    /// Since when nothing goes.
    pub since: Stamp,
}

impl Undriven {
    /// What keeps an agent from being driven, if that does not pass by itself. What does not read says nothing.
    pub fn read(layout: &Layout, agent: &AgentId) -> Option<Undriven> {
        let noted: Option<Undriven> = state::read_json(layout.undriven(agent)).unwrap_or_default();
        noted.filter(|noted| clock::stamp().since(&noted.since) >= PASSES)
    }
}

/// What is noted of one agent.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// What stands there; none where that is not known, as an earlier process may have left it.
    noted: Option<Option<Undriven>>,
}

impl Notes {
    /// It is spoken to.
    pub(super) fn is_well(&mut self, layout: &Layout, agent: &AgentId) {
        if self.noted != Some(None) && state::remove(layout.undriven(agent)).is_ok() {
            self.noted = Some(None);
        }
    }

    /// It is not.
    pub(super) fn is_kept_by(&mut self, why: &str, layout: &Layout, agent: &AgentId) {
        let before = match &self.noted {
            Some(before) => before.clone(),
            None => state::read_json(layout.undriven(agent)).unwrap_or_default(),
        };
        if before.as_ref().is_some_and(|before| before.why == why) {
            self.noted = Some(before);
            return;
        }
        let since = before.map_or_else(clock::stamp, |before| before.since);
        let now = Undriven { v: 1, why: why.to_owned(), since };
        // Where that cannot be written either, the log has it.
        if state::write_json(layout.undriven(agent), &now).is_ok() {
            self.noted = Some(Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use netsky_disk::home::Home;

    use super::*;

    #[test]
    fn what_keeps_an_agent_from_being_driven_stands_until_it_is_driven_and_is_told_when_it_does_not_pass() {
        let temp = tempfile::tempdir().expect("made");
        let layout = Layout::new(temp.path().join("home"));
        Home::init(&layout).expect("made");
        let (agent, mut notes) = (AgentId::numbered(1), Notes::default());
        notes.is_kept_by("its book", &layout, &agent);
        assert_eq!(Undriven::read(&layout, &agent), None, "it may pass");
        let stands = || state::read_json::<Undriven>(layout.undriven(&agent)).expect("reads");
        let mut first = stands().expect("noted");
        first.since.boot_ms -= 60_000;
        state::write_json(layout.undriven(&agent), &first).expect("written");
        // Another process, and another reason: it is one trouble.
        let mut notes = Notes::default();
        notes.is_kept_by("its seat", &layout, &agent);
        let told = Undriven::read(&layout, &agent).expect("told");
        assert_eq!((told.why.as_str(), told.since), ("its seat", first.since));
        Notes::default().is_well(&layout, &agent);
        assert_eq!(stands(), None, "whoever drives it says so");
    }
}
