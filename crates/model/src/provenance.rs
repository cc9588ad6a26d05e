//! Where words come from: how far they may be trusted, how many hands they went through, who began (faults A3).
//!
//! Promise: along a path of forwards and replies trust never rises and hops never fall; a text that went through
//! [`MAX_HOPS`] hands goes no further. What an envelope says of itself counts only downwards from what its sender may say.
//!
//! Leaves to others: who really sent it (the mac, `envelope`), and what an agent does with words it trusts little.

use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::id::Sender;

/// Most forwards of one text: more than any chain of command here, few enough that a text which makes its readers pass
/// it on dies out. One more is refused.
pub const MAX_HOPS: u32 = 8;

/// How far words may be trusted, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// From a page, a repository, a log: nobody answers for it.
    External,
    /// From an agent of another machine.
    Peer,
    /// From an agent or a component of this home.
    Agent,
    /// From the owner.
    Owner,
}

impl Trust {
    /// The most that a sender's own words have.
    pub fn of(sender: &Sender) -> Trust {
        if *sender == Sender::owner() {
            Trust::Owner
        } else if sender.is_peer() {
            Trust::Peer
        } else {
            Trust::Agent
        }
    }
}

impl Trust {
    /// The word in files and renderings.
    pub fn word(self) -> &'static str {
        match self {
            Trust::External => "external",
            Trust::Peer => "peer",
            Trust::Agent => "agent",
            Trust::Owner => "owner",
        }
    }
}

impl std::str::FromStr for Trust {
    type Err = UnknownTrust;

    fn from_str(text: &str) -> Result<Trust, UnknownTrust> {
        let all = [Trust::External, Trust::Peer, Trust::Agent, Trust::Owner];
        all.into_iter().find(|trust| trust.word() == text).ok_or(UnknownTrust)
    }
}

/// A word that names no trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("trust is one of owner, agent, peer, external")]
pub struct UnknownTrust;

/// A text that went through too many hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it was forwarded {MAX_HOPS} times, which is the limit")]
pub struct TooFar;

/// Where the words of an envelope come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Who began the path.
    pub origin: Sender,
    /// How many hands passed it on.
    pub hops: u32,
    /// The least trust on the path.
    pub trust: Trust,
}

impl Provenance {
    /// Of a sender's own words.
    pub fn fresh(from: &Sender) -> Provenance {
        Provenance { origin: from.clone(), hops: 0, trust: Trust::of(from) }
    }

    /// Of an envelope as it lies there; what it claims beyond its sender's own trust is not believed.
    pub fn of(envelope: &Envelope) -> Provenance {
        let ceiling = Trust::of(&envelope.from);
        Provenance {
            origin: envelope.origin.clone().unwrap_or_else(|| envelope.from.clone()),
            hops: envelope.hops.unwrap_or(0),
            trust: envelope.trust.map_or(ceiling, |trust| trust.min(ceiling)),
        }
    }

    /// Of the same words, passed on.
    ///
    /// # Errors
    /// They went through [`MAX_HOPS`] hands already.
    pub fn forwarded(&self, by: &Sender) -> Result<Provenance, TooFar> {
        if self.hops >= MAX_HOPS {
            return Err(TooFar);
        }
        Ok(Provenance { hops: self.hops + 1, ..self.replied(by) })
    }

    /// Of an answer to the words: an agent that read them may speak for them. It is no further hand, so that two agents
    /// may talk for as long as they like.
    #[must_use]
    pub fn replied(&self, by: &Sender) -> Provenance {
        Provenance { trust: self.trust.min(Trust::of(by)), ..self.clone() }
    }

    /// With no more trust than that.
    #[must_use]
    pub fn at_most(self, trust: Trust) -> Provenance {
        Provenance { trust: self.trust.min(trust), ..self }
    }

    /// Writes it into an envelope; what goes without saying is left out.
    pub fn mark(self, envelope: &mut Envelope) {
        let own = Provenance::fresh(&envelope.from);
        envelope.trust = (self.trust != own.trust).then_some(self.trust);
        envelope.hops = (self.hops > 0).then_some(self.hops);
        envelope.origin = (self.origin != own.origin).then_some(self.origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::AgentId;

    fn sender(text: &str) -> Sender {
        text.parse().expect("valid")
    }

    /// One envelope with this provenance, written and read again.
    fn through_a_file(from: &Sender, provenance: Provenance) -> Provenance {
        let ts = "2026-04-19T19:25:00Z".parse().expect("valid");
        let id = "x".parse().expect("valid");
        let mut envelope = Envelope::new(id, from.clone(), AgentId::root(), "t".to_owned(), ts);
        provenance.mark(&mut envelope);
        Provenance::of(&Envelope::parse(&envelope.to_bytes().expect("small")).expect("whole"))
    }

    /// A sequence that is the same in each run.
    fn choices(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % n as u64) as usize
        }
    }

    #[test]
    fn a3_trust_never_rises_and_hops_never_fall_along_a_path() {
        let who = ["owner", "agent0", "agent7", "agentloop", "peer:b/agent0", "build-bot"].map(sender);
        let trusts = [Trust::External, Trust::Peer, Trust::Agent, Trust::Owner];
        for seed in 0..2_000 {
            let mut choose = choices(seed);
            let first = &who[choose(who.len())];
            let mut at = Provenance::fresh(first).at_most(trusts[choose(4)]);
            for _ in 0..20 {
                let by = &who[choose(who.len())];
                let next = match choose(3) {
                    0 => Ok(at.replied(by)),
                    1 => at.forwarded(by),
                    _ => at.forwarded(by).map(|next| next.at_most(trusts[choose(4)])),
                };
                let Ok(next) = next else {
                    assert_eq!(at.hops, MAX_HOPS, "refused at the limit only");
                    continue;
                };
                assert!(next.trust <= at.trust && next.trust <= Trust::of(by), "{at:?} → {next:?}");
                assert!(next.hops >= at.hops && next.hops <= MAX_HOPS, "{at:?} → {next:?}");
                assert_eq!(next.origin, *first);
                assert_eq!(through_a_file(by, next.clone()), next, "a file keeps it");
                at = next;
            }
        }
    }

    #[test]
    fn a3_the_ninth_forward_is_refused() {
        let mut at = Provenance::fresh(&sender("agent1"));
        for _ in 0..MAX_HOPS {
            at = at.forwarded(&sender("agent2")).expect("within the limit");
        }
        assert_eq!(at.forwarded(&sender("agent2")), Err(TooFar));
        assert_eq!(at.replied(&sender("agent3")).hops, MAX_HOPS);
    }

    #[test]
    fn a3_what_an_envelope_says_of_itself_does_not_raise_it() {
        for (from, says, is) in [
            ("agent7", "owner", Trust::Agent),
            ("peer:b/agent0", "owner", Trust::Peer),
            ("peer:b/agent0", "external", Trust::External),
            ("owner", "owner", Trust::Owner),
        ] {
            let line =
                format!(r#"{{"from":"{from}","text":"t","ts":"2026-04-19T19:25:00Z","trust":"{says}"}}"#);
            let envelope = Envelope::parse(line.as_bytes()).expect("valid");
            assert_eq!(Provenance::of(&envelope).trust, is, "{line}");
        }
    }
}
