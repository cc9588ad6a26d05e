//! Who is not started or ended because something stands in the way that no tick can move: each tick tells it as a problem, and
//! what lasts is the owner's to hear.

use std::time::Duration;

use netsky_model::id::AgentId;

use crate::decide::Effect;
use crate::standing::Found;

/// The kind of the condition; behind it stands the agent.
pub(crate) const STUCK: &str = "stuck";
/// How long that is for a slot; agent0 is somebody without whom nothing goes on.
const LONGEST: Duration = Duration::from_secs(10 * 60);
const ROOT: Duration = Duration::from_secs(60);

/// What did not work, and about whom.
pub(crate) type Failures = Vec<(AgentId, String)>;

/// Whom an effect is about.
pub(crate) fn about(effect: &Effect) -> AgentId {
    match effect {
        Effect::Start { agent, .. } | Effect::Stop { agent, .. } | Effect::Succeed { agent, .. } => {
            agent.clone()
        }
        Effect::Settled(agent) | Effect::Wait { agent, .. } => agent.clone(),
        _ => AgentId::root(),
    }
}

/// Everybody for whom something failed at this look.
pub(crate) fn found(failures: &Failures) -> Vec<Found> {
    let found = failures.iter().map(|(agent, why)| Found {
        condition: format!("{STUCK}.{agent}"),
        of: String::new(),
        reason: format!("what {agent} needs cannot be done, and each tick tries it in vain: {why}"),
        tell: None,
        page: Some(if *agent == AgentId::root() { ROOT } else { LONGEST }),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use netsky_model::id::Generation;

    use super::*;

    #[test]
    fn i10_what_cannot_be_done_is_told_of_by_whom_it_is_about() {
        let one = AgentId::numbered(1);
        let stop = Effect::Stop { agent: one.clone(), generation: Generation(1) };
        assert_eq!([about(&Effect::ClaimRequest), about(&stop)], [AgentId::root(), one.clone()]);
        let all = found(&vec![(AgentId::root(), "it is a folder".to_owned()), (one, "why".to_owned())]);
        let told: Vec<_> = all.iter().map(|found| (found.condition.as_str(), found.page)).collect();
        assert_eq!(told, [("stuck.agent0", Some(ROOT)), ("stuck.agent1", Some(LONGEST))]);
        assert!(all[0].reason.ends_with("in vain: it is a folder"), "{all:?}");
        assert_eq!(found(&Vec::new()), []);
    }
}
