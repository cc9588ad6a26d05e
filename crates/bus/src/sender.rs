//! Who may send under which name (faults A1, T21).
//!
//! `from` is a claim. Between programs of one user this rule is evidence, not proof: it keeps mistakes and confused
//! agents out. Who the caller is, whoever asks has found out before.

use netsky_disk::env::Caller;
use netsky_model::id::Sender;

use crate::error::{Error, Result};

/// Whether this caller may send as `from`.
///
/// # Errors
/// A reserved name from anyone but its bearer; inside a session any name but the session's own.
pub fn check(caller: &Caller, from: &Sender) -> Result<()> {
    let refused = |why: String| Err(Error::Sender { from: from.clone(), why });
    match caller {
        Caller::Inside { agent: Some(me), .. } if from.as_str() == me.as_str() => Ok(()),
        Caller::Inside { agent: Some(me), .. } => refused(format!("this session is {me}")),
        Caller::Inside { agent: None, .. } => refused("this session bears no agent's name".to_owned()),
        Caller::Outside if *from == Sender::owner() => Ok(()),
        Caller::Outside if from.is_reserved() => refused("the name is reserved for its component".to_owned()),
        Caller::Outside => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use netsky_model::id::Generation;

    use super::*;

    fn session(agent: Option<&str>) -> Caller {
        let agent = agent.map(|name| name.parse().expect("valid"));
        Caller::Inside { agent, generation: Generation(1) }
    }

    fn sender(text: &str) -> Sender {
        text.parse().expect("valid")
    }

    #[test]
    fn a1_reserved_names_are_for_their_bearers() {
        for name in ["agentinfinity", "agentloop", "agentcron", "netsky-ticker", "peer:home/agent0"] {
            assert!(check(&Caller::Outside, &sender(name)).is_err(), "{name}");
        }
        let ticker = session(Some("netsky-ticker"));
        assert!(check(&ticker, &sender("netsky-ticker")).is_ok());
        assert!(check(&ticker, &sender("agentloop")).is_err());
    }

    #[test]
    fn t21_a_session_sends_under_its_own_name_only() {
        let seven = session(Some("agent7"));
        assert!(check(&seven, &sender("agent7")).is_ok());
        for name in ["agent0", "owner", "agent77", "build-bot"] {
            assert!(check(&seven, &sender(name)).is_err(), "{name}");
            assert!(check(&session(None), &sender(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn a_person_may_be_the_owner_or_act_for_an_agent() {
        for name in ["owner", "agent0", "build-bot"] {
            assert!(check(&Caller::Outside, &sender(name)).is_ok(), "{name}");
        }
    }
}
