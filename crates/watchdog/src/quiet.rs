//! Quiet windows: for so long nobody calls an agent's silence a hang. A person's word, kept in
//! `state/<agent>-quiet-until-<epoch>`; how long it holds is measured by the boot clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::{clock, state};
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Longest window: whoever wants more says so again.
pub const LONGEST_QUIET: Duration = Duration::from_secs(24 * 60 * 60);
/// What stands between the agent and the second at which it ends.
const UNTIL: &str = "quiet-until-";

/// One window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// Format version.
    pub v: u64,
    /// Whose.
    pub agent: AgentId,
    /// When it began.
    pub at: Stamp,
    /// How long it holds, in milliseconds.
    pub for_ms: u64,
    /// Why.
    pub why: String,
}

impl Quiet {
    /// How much of it is left; none once it is over.
    pub fn left(&self, now: &Stamp) -> Option<Duration> {
        // One that was written by a clock that ran ahead is no longer than any.
        let whole = Duration::from_millis(self.for_ms).min(LONGEST_QUIET);
        // Of another boot and ahead of the wall clock it would never end.
        whole.checked_sub(now.age_of(&self.at)?).filter(|left| !left.is_zero())
    }
}

/// Begin a window. One that holds already is replaced, also by a shorter one.
///
/// # Errors
/// The system refuses.
pub fn begin_quiet(layout: &Layout, agent: &AgentId, time: Duration, why: &str) -> Result<Quiet> {
    let time = time.min(LONGEST_QUIET);
    let at = clock::stamp();
    let until = SignedDuration::try_from(time).ok().and_then(|time| at.wall.checked_add(time).ok());
    let until = until.unwrap_or(at.wall).as_second();
    let quiet =
        Quiet { v: 1, agent: agent.clone(), at, for_ms: time.as_millis() as u64, why: why.to_owned() };
    let name = format!("{UNTIL}{until}");
    state::write_json(layout.marker(agent, &name), &quiet)?;
    // The new one first: nobody is called hung in between.
    clear(layout, agent, Some(&format!("{agent}-{name}")))?;
    Ok(quiet)
}

/// End every window of an agent; how many there were.
///
/// # Errors
/// The system refuses.
pub fn end_quiet(layout: &Layout, agent: &AgentId) -> Result<usize> {
    clear(layout, agent, None)
}

fn clear(layout: &Layout, agent: &AgentId, keep: Option<&str>) -> Result<usize> {
    let folder = Dir::make(layout.state())?;
    let prefix = format!("{agent}-{UNTIL}");
    let mut cleared = 0;
    for name in
        folder.names()?.into_iter().filter(|name| name.starts_with(&prefix) && Some(name.as_str()) != keep)
    {
        folder.remove(name)?;
        cleared += 1;
    }
    Ok(cleared)
}

/// The windows that hold now, of each agent the longest. One that does not read is none: an alarm too many is better than none.
pub(crate) fn quiet_windows(layout: &Layout, now: &Stamp) -> BTreeMap<AgentId, Quiet> {
    let names = Dir::open(layout.state()).and_then(|folder| folder.names()).unwrap_or_default();
    let windows = names.into_iter().filter(|name| name.contains(UNTIL));
    let windows = windows.filter_map(|name| read(&layout.state().join(name), now));
    let mut longest = BTreeMap::<AgentId, Quiet>::new();
    for quiet in windows.filter(|quiet| quiet.left(now).is_some()) {
        if longest.get(&quiet.agent).is_none_or(|known| known.left(now) < quiet.left(now)) {
            longest.insert(quiet.agent.clone(), quiet);
        }
    }
    longest
}

/// Whether what stands in a file of a window is over, or says nothing.
pub(crate) fn is_over(path: &Path) -> bool {
    let now = clock::stamp();
    read(path, &now).is_none_or(|quiet| quiet.left(&now).is_none())
}

/// A window: as it was begun, or as a hand wrote it, which says why and has its end in its name alone.
fn read(path: &Path, now: &Stamp) -> Option<Quiet> {
    let why = match state::read_json::<Quiet>(path) {
        Ok(quiet) => return quiet,
        Err(error) if !error.is_damage() => return None,
        Err(_) => String::from_utf8(state::read(path).ok()??).ok()?,
    };
    let (agent, until) = path.file_name()?.to_str()?.split_once(UNTIL)?;
    let left = until.parse::<i64>().ok()?.saturating_sub(now.wall.as_second());
    // A text that begins so is one that was torn or edited.
    let is_text = !why.trim_start().starts_with('{');
    Some(Quiet {
        v: 1,
        agent: agent.strip_suffix('-')?.parse().ok()?,
        at: now.clone(),
        for_ms: u64::try_from(left).ok().filter(|left| is_text && *left <= LONGEST_QUIET.as_secs())? * 1000,
        why: netsky_model::render::line(&why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn a_window_that_a_hand_wrote_says_why_and_ends_by_its_name() {
        in_a_home(|cx| {
            let now = clock::stamp();
            for (in_secs, text, holds) in [
                (3600, "I look at it\n", true),
                (-1, "I look at it", false),
                (25 * 3600, "for ever", false),
                (3600, "{\"v\":1", false),
            ] {
                let name = format!("agent1-{UNTIL}{}", now.wall.as_second() + in_secs);
                state::write(cx.layout.state().join(&name), text.as_bytes()).expect("written");
                let windows = quiet_windows(cx.layout, &now);
                let why = windows.get(&AgentId::numbered(1)).map(|quiet| quiet.why.as_str());
                assert_eq!(why, holds.then_some("I look at it"), "{in_secs} {text}");
                assert_eq!(is_over(&cx.layout.state().join(&name)), !holds, "{in_secs} {text}");
                state::remove(cx.layout.state().join(&name)).expect("there");
            }
        });
    }

    #[test]
    fn t9_a_window_ends_with_a_boot_whose_wall_clock_is_behind_it() {
        let at = |wall, boot_ms, boot: &str| Stamp {
            wall: jiff::Timestamp::from_second(wall).expect("in range"),
            boot_ms,
            boot_id: boot.to_owned(),
        };
        let hour = 60 * 60 * 1000;
        let quiet = Quiet {
            v: 1,
            agent: AgentId::root(),
            at: at(1_000_000, hour, "b1"),
            for_ms: hour,
            why: "I look at it".to_owned(),
        };
        assert!(quiet.left(&at(0, hour + 1, "b1")).is_some(), "a step of the wall clock ends none");
        assert!(quiet.left(&at(1_000_060, 1, "b2")).is_some(), "nor does a boot");
        assert_eq!(quiet.left(&at(999_999, 1, "b2")), None);
    }
}
