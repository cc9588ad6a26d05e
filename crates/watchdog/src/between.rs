//! Who is neither up nor down: a session that starts, ends or cannot be judged is none of the hang's and none of the restart's
//! business. Past a bound somebody has to look.

use std::time::Duration;

use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_model::desired::Want;
use netsky_model::duration::human;

use crate::observe::Observed;
use crate::standing::Found;

/// The kind of the condition; behind it stands the agent.
pub(crate) const BETWEEN: &str = "between";
/// Longest that anything of it takes: twice what a new session has until it proves that it is up.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// Everybody who is wanted and is neither.
pub(crate) fn found(seen: &Observed) -> Vec<Found> {
    let wanted = seen.desired.iter().filter(|wish| wish.want == Want::Up);
    wanted.filter_map(|wish| judge(seen.sessions.get(&wish.agent)?)).collect()
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
    use netsky_model::id::AgentId;

    use super::*;
    use crate::context::observed;

    #[test]
    fn who_starts_ends_or_cannot_be_judged_for_long_is_told_of_with_its_word() {
        let agent = AgentId::numbered(1);
        for state in ["starting", "ending", "unknown"] {
            let all = found(&observed(&agent, state));
            let [one] = &all[..] else { panic!("{state}: {all:?}") };
            assert_eq!((one.condition.as_str(), one.page), ("between.agent1", Some(LONGEST)));
            assert!(
                one.of.ends_with(state) && one.reason.starts_with(&format!("agent1 is {state} for")),
                "{one:?}"
            );
        }
        for state in ["active", "idle", "hung", "exited", "stopped", "inactive"] {
            assert_eq!(found(&observed(&agent, state)), [], "{state}");
        }
        let mut stopped = observed(&agent, "ending");
        stopped.desired[0].want = Want::Stopped;
        assert_eq!(found(&stopped), [], "a wish that is over");
    }
}
