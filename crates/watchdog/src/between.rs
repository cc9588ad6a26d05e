//! Who is neither up nor down: a session that starts, ends or cannot be judged, and the child of a restart that does not end,
//! are none of the hang's and none of the restart's business. Past a bound somebody has to look.

use std::time::Duration;

use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_model::desired::{Desired, Want};
use netsky_model::duration::human;
use netsky_model::id::AgentId;
use netsky_model::restart::Inflight;
use netsky_runtime::driver::is_driven;

use crate::decide::{self, Effect, runs, unread};
use crate::observe::Observed;
use crate::standing::Found;

/// The kind of the condition; behind it stands the agent, or `restart`.
pub(crate) const BETWEEN: &str = "between";
/// Longest that anything of it takes: twice what a new session has until it proves that it is up.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// Everybody who is neither, or of whom `is_proved` has nothing though he is wanted.
pub(crate) fn found(seen: &Observed, is_proved: impl Fn(&SessionView) -> bool) -> Vec<Found> {
    // Of an agent0 that nothing can be done about this is what is told.
    let is_told = |wish: &&Desired| wish.agent == AgentId::root() && seen.restart_unread.is_some();
    let untold = seen.desired.iter().filter(|wish| !is_told(wish));
    let sessions = untold.filter_map(|wish| Some((wish, seen.sessions.get(&wish.agent)?)));
    let between = sessions.filter_map(|(wish, session)| {
        // Of one that is driven its driver says why it does not begin.
        let is_free = seen.restart.is_none() && wish.want == Want::Up;
        let is_asked = wish.agent == AgentId::root() && !is_driven(&wish.runtime) && is_free;
        let unproved = || (is_asked && runs(session) && !is_proved(session)).then(|| unproved(session));
        judge(session).or_else(unproved)
    });
    let unread = seen.restart_unread.as_ref().map(|why| Found {
        condition: format!("{BETWEEN}.{}", AgentId::root()),
        of: "restart".to_owned(),
        reason: format!("{}: {}", AgentId::root(), unread(why)),
        tell: None,
        page: Some(seen.interval / 2),
    });
    unread.into_iter().chain(endless(seen)).chain(between).collect()
}

/// The child of a restart that its kill did not end: agent0 waits for it.
fn endless(seen: &Observed) -> Option<Found> {
    let under = seen.restart.as_ref()?;
    let Effect::KillChild(Inflight { id, epoch, child, .. }) = decide::judge(seen, under) else {
        return None;
    };
    let pid = child.map_or_else(String::new, |child| format!(", pid {}", child.pid));
    Some(Found {
        condition: format!("{BETWEEN}.restart"),
        of: format!("{id} {epoch}"),
        reason: format!(
            "child {epoch} of {id}{pid} is killed at each look and does not end, and {} waits for that: see what it waits for",
            AgentId::root()
        ),
        tell: None,
        // The look before this one killed it.
        page: Some(seen.interval / 2),
    })
}

fn unproved(session: &SessionView) -> Found {
    let (agent, longest) = (&session.name, human(LONGEST));
    Found {
        condition: format!("{BETWEEN}.{agent}"),
        of: format!("g{} unproved", session.generation),
        reason: format!(
            "{agent} runs for more than {longest} and never called `netsky session up`: no start of it counts; `netsky restart` replaces it"
        ),
        tell: None,
        page: Some(LONGEST),
    }
}

fn judge(session: &SessionView) -> Option<Found> {
    let (agent, state) = (&session.name, session.state);
    let is_between = matches!(state, SessionState::Starting | SessionState::Ending | SessionState::Unknown);
    is_between.then(|| Found {
        condition: format!("{BETWEEN}.{agent}"),
        of: format!("g{} {state}", session.generation),
        reason: format!(
            "{agent} is {state} for more than {}: nobody can say what becomes of it",
            human(LONGEST)
        ),
        tell: Some(LONGEST),
        page: Some(LONGEST),
    })
}

#[cfg(test)]
mod tests {
    use netsky_model::restart::{Kind, Phase};

    use super::*;
    use crate::context::observed;
    use crate::decide::tests::{SINCE, seen, session, stamp, underway, wish};

    #[test]
    fn who_starts_ends_or_cannot_be_judged_for_long_is_told_of_with_its_word() {
        let agent = AgentId::numbered(1);
        for state in ["starting", "ending", "unknown"] {
            let all = found(&observed(&agent, state), |_| false);
            let [one] = &all[..] else { panic!("{state}: {all:?}") };
            assert_eq!((one.condition.as_str(), one.page), ("between.agent1", Some(LONGEST)));
            assert!(
                one.of.ends_with(state) && one.reason.starts_with(&format!("agent1 is {state} for")),
                "{one:?}"
            );
        }
        for state in ["active", "idle", "hung", "exited", "stopped", "inactive"] {
            assert_eq!(found(&observed(&agent, state), |_| false), [], "{state}");
        }
        let mut stopped = observed(&agent, "ending");
        stopped.desired[0].want = Want::Stopped;
        assert_eq!(found(&stopped, |_| false).len(), 1, "whoever does not end");
        let mut over = observed(&AgentId::root(), "active");
        over.desired[0].want = Want::Stopped;
        assert_eq!(found(&over, |_| false), [], "and owes no proof");
    }

    #[test]
    fn i7_the_child_of_a_restart_that_its_kill_does_not_end_is_told_of() {
        let root = AgentId::root();
        let mut look = seen(vec![wish(&root, "up")], vec![session(&root, 1, "exited", SINCE)]);
        let mut under = underway(Kind::Crash, Some(Phase::Teardown), 2);
        under.child_alive = true;
        look.restart = Some(under);
        // No look is late: all of this time was watched.
        let looks = (200..).step_by(60).map(|secs| {
            look.now = stamp(secs);
            let under = look.restart.as_ref().expect("under way");
            let Effect::Look(inflight) = decide::judge(&look, under) else { return true };
            look.restart.as_mut().expect("under way").inflight = inflight;
            assert_eq!(found(&look, |_| true), [], "it works");
            false
        });
        assert!((1..20).contains(&looks.take_while(|is_over| !is_over).count()));
        let [one] = &found(&look, |_| true)[..] else { panic!("{look:?}") };
        assert_eq!((one.condition.as_str(), one.page), ("between.restart", Some(look.interval / 2)));
        assert!(one.reason.contains("does not end"), "{one:?}");
        look.restart.as_mut().expect("under way").child_alive = false;
        assert_eq!(found(&look, |_| true), [], "it has ended");
    }

    #[test]
    fn an_agent0_that_never_says_that_it_is_up_is_paged_for_and_a_clone_owes_no_proof() {
        let mut look = observed(&AgentId::root(), "active");
        let told = |look: &Observed, is_proved| found(look, move |_| is_proved);
        assert_eq!(told(&look, true), []);
        let [one] = &told(&look, false)[..] else { panic!("{:?}", told(&look, false)) };
        assert_eq!((one.condition.as_str(), one.page), ("between.agent0", Some(LONGEST)));
        assert!(one.reason.contains("`netsky restart` replaces it"), "{one:?}");
        look.desired[0].runtime = "claude".to_owned();
        assert_eq!(told(&look, false), []);
        assert_eq!(told(&observed(&AgentId::numbered(1), "active"), false), []);
    }
}
