//! Identifiers, parsed into types at every boundary.
//!
//! Promise: a value of these types can be part of a path and cannot escape it: no separator, no
//! dot at the start, no control byte, bounded length. No path is built from anything else.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest id in bytes: a claimed file name holds one beside 120 other bytes and must stay under 255.
pub const MAX_ID: usize = 64;

/// An id that does not follow its grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not of the form {grammar}")]
pub struct BadId {
    what: &'static str,
    text: String,
    grammar: &'static str,
}

fn bad(what: &'static str, text: &str, grammar: &'static str) -> BadId {
    // Echo no more than a reader needs: the text may be megabytes of somebody's input.
    BadId { what, text: text.chars().take(80).collect(), grammar }
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= MAX_ID
        && bytes[0] != b'-'
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $grammar:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(bad($what, text, $grammar)) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

text_id!(
    /// A name on the bus, and of a session under the kernel: `agent0`, `agentinfinity`, any word.
    AgentId,
    "agent id",
    "[a-z0-9][a-z0-9-]{0,63}",
    is_word
);
text_id!(
    /// An envelope's identity: a UUIDv7, a derived id (32 hex), or what a sender chose.
    EnvelopeId,
    "envelope id",
    "[a-z0-9][a-z0-9-]{0,63}",
    is_word
);
text_id!(
    /// The logical identity of a session across processes: `<session name>-<8 hex>`.
    LineageId,
    "lineage id",
    "<session name>-<8 hex>",
    is_lineage
);
text_id!(
    /// One run of the restart protocol.
    RestartId,
    "restart id",
    "[a-z0-9][a-z0-9-]{0,63}",
    is_word
);
text_id!(
    /// A task: what a workspace, its branch and what lands of it are named after.
    TaskId,
    "task id",
    "[a-z0-9][a-z0-9-]{0,63}",
    is_word
);
text_id!(
    /// A word that tasks are found by.
    Label,
    "label",
    "[a-z0-9][a-z0-9-]{0,63}",
    is_word
);
text_id!(
    /// The blake3 of a task's brief: what its file is called.
    BriefDigest,
    "digest of a brief",
    "64 hex digits",
    is_digest
);
text_id!(
    /// Who an envelope says it is from: an agent id, or `peer:<name>/<agent>`.
    Sender,
    "sender",
    "[a-z0-9][a-z0-9-]{0,63} or peer:<name>/<agent>",
    is_sender
);
text_id!(
    /// The random proof that one start of a session returns: 32 hex digits.
    Nonce,
    "nonce",
    "32 hex digits",
    is_nonce
);

fn is_lineage(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(name, tail)| {
        is_word(name) && tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn is_sender(text: &str) -> bool {
    match text.strip_prefix("peer:") {
        Some(rest) => rest.split_once('/').is_some_and(|(peer, agent)| is_word(peer) && is_word(agent)),
        None => is_word(text),
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_nonce(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl AgentId {
    /// `agent0`: the root of a constellation.
    pub fn root() -> AgentId {
        AgentId("agent0".to_owned())
    }

    /// `agentinfinity`: the watchdog's own session.
    pub fn infinity() -> AgentId {
        AgentId("agentinfinity".to_owned())
    }

    /// `netsky-ticker`: the heartbeat's session.
    pub fn ticker() -> AgentId {
        AgentId("netsky-ticker".to_owned())
    }

    /// `netsky-drivers`: the session of the process that runs all drivers.
    pub fn drivers() -> AgentId {
        AgentId("netsky-drivers".to_owned())
    }

    /// `owner`: the mailbox of the person whose constellation this is.
    pub fn owner() -> AgentId {
        AgentId("owner".to_owned())
    }

    /// `agent<n>`.
    pub fn numbered(n: u32) -> AgentId {
        AgentId(format!("agent{n}"))
    }

    /// `n` of `agent<n>`; none for any other name.
    pub fn number(&self) -> Option<u32> {
        let digits = self.0.strip_prefix("agent")?;
        let n: u32 = digits.parse().ok()?;
        // `agent07` is a name of its own, not another spelling of agent7.
        (n.to_string() == digits).then_some(n)
    }

    /// Where it stands in a list of agents: agent0, the clones by their numbers, then the others by name.
    pub fn place(&self) -> (u32, &str) {
        (self.number().unwrap_or(u32::MAX), &self.0)
    }

    /// What people type for an agent: its name, or `7` for `agent7`.
    ///
    /// # Errors
    /// Text that is neither.
    pub fn from_shorthand(text: &str) -> Result<AgentId, BadId> {
        // Digits only: `+7` would be a second spelling.
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(n) if digits => Ok(AgentId::numbered(n)),
            _ => text.parse(),
        }
    }
}

/// Senders that only one component may be.
const RESERVED: [&str; 5] = ["owner", "agentinfinity", "agentloop", "agentcron", "netsky-ticker"];

impl Sender {
    /// The owner, at a terminal outside any session.
    pub fn owner() -> Sender {
        Sender("owner".to_owned())
    }

    /// Whether this name is refused from anyone but the component that bears it.
    pub fn is_reserved(&self) -> bool {
        self.is_peer() || self.is_system()
    }

    /// Whether it is the owner or one of the components that keep a constellation.
    pub fn is_system(&self) -> bool {
        RESERVED.contains(&self.0.as_str())
    }

    /// Whether it is an agent of another machine.
    pub fn is_peer(&self) -> bool {
        self.0.starts_with("peer:")
    }
}

impl From<AgentId> for Sender {
    fn from(agent: AgentId) -> Sender {
        Sender(agent.0)
    }
}

impl EnvelopeId {
    /// An id derived from what caused the envelope, so that a repeat after a crash is the same one.
    ///
    /// blake3 over the parts, each preceded by its length; 32 hex digits.
    pub fn derived(parts: &[&str]) -> EnvelopeId {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        EnvelopeId(hasher.finalize().to_hex()[..32].to_owned())
    }

    /// Whether it has the form of those that are made for a message without one: UUIDv7 in lower case.
    pub fn is_uuid_v7(&self) -> bool {
        let fits = |(at, b): (usize, u8)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            14 => b == b'7',
            19 => matches!(b, b'8' | b'9' | b'a' | b'b'),
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        };
        self.0.len() == 36 && self.0.bytes().enumerate().all(fits)
    }
}

impl BriefDigest {
    /// Of that text.
    pub fn of(text: &str) -> BriefDigest {
        BriefDigest(blake3::hash(text.as_bytes()).to_hex().to_string())
    }
}

impl TaskId {
    /// The `n`th of those that nobody named.
    pub fn numbered(n: u64) -> TaskId {
        TaskId(n.to_string())
    }
}

/// Which incarnation of a session; only rises. 0 stands for "outside any session".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// No session: a person at a terminal.
    pub const NONE: Generation = Generation(0);

    /// The next incarnation.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_ids_that_could_leave_their_folder_are_refused() {
        for text in
            ["", ".", "..", "../x", "a/b", "A", "é", "a b", "-a", "a\0", "agent0 ", "a\n", &"a".repeat(65)]
        {
            assert!(text.parse::<AgentId>().is_err(), "{text:?}");
            assert!(text.parse::<EnvelopeId>().is_err(), "{text:?}");
        }
        assert!("a".repeat(64).parse::<AgentId>().is_ok());
    }

    #[test]
    fn shorthand_names_the_same_agent() {
        assert_eq!(AgentId::from_shorthand("7"), "agent7".parse());
        assert!(AgentId::from_shorthand("+7").is_err());
        assert_eq!(AgentId::numbered(7).number(), Some(7));
        assert_eq!("agent07".parse::<AgentId>().expect("valid").number(), None);
    }

    #[test]
    fn a1_reserved_senders_are_known_in_every_spelling_that_parses() {
        for text in ["owner", "agentinfinity", "agentloop", "agentcron", "netsky-ticker", "peer:a/agent0"] {
            assert!(text.parse::<Sender>().expect("valid").is_reserved(), "{text}");
        }
        for text in ["Owner", "owner ", "owner\0", "оwner", "peer:a", "peer:/x", "peer:a/../b"] {
            assert!(text.parse::<Sender>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn derived_ids_depend_on_where_the_parts_end() {
        assert_ne!(EnvelopeId::derived(&["ab", "c"]), EnvelopeId::derived(&["a", "bc"]));
        assert_eq!(EnvelopeId::derived(&["ab", "c"]), EnvelopeId::derived(&["ab", "c"]));
    }
}
