//! The name of a message as programs know it: always a UUID, for that is what they take.

use std::fmt;
use std::str::FromStr;

use netsky_model::id::EnvelopeId;
use serde::{Deserialize, Serialize};

/// A UUID in its lower-case form with dashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageKey(String);

impl MessageKey {
    /// That of an envelope: its id where that is a UUID, else one that derives from it.
    pub fn of(id: &EnvelopeId) -> MessageKey {
        if id.is_uuid_v7() {
            MessageKey(id.to_string())
        } else {
            MessageKey::derived(&["envelope", id.as_str()])
        }
    }

    /// One that derives from words, the same whenever it is asked for.
    pub fn derived(parts: &[&str]) -> MessageKey {
        let digest = EnvelopeId::derived(parts);
        let mut hex: Vec<char> = digest.as_str().chars().collect();
        // Version 8, "of somebody's own making", and the variant that all of them have.
        hex[12] = '8';
        hex[16] = 'a';
        let group = |from: usize, to: usize| hex[from..to].iter().collect::<String>();
        MessageKey([group(0, 8), group(8, 12), group(12, 16), group(16, 20), group(20, 32)].join("-"))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is no UUID in its lower-case form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no UUID")]
pub struct BadKey(String);

impl FromStr for MessageKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<MessageKey, BadKey> {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let fits = |(at, byte): (usize, u8)| {
            if is_dash(at) { byte == b'-' } else { matches!(byte, b'0'..=b'9' | b'a'..=b'f') }
        };
        match text.len() == 36 && text.bytes().enumerate().all(fits) {
            true => Ok(MessageKey(text.to_owned())),
            false => Err(BadKey(text.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_has_one_key_for_ever_and_it_is_a_uuid() {
        let own: EnvelopeId = "0192f0c1-2345-7abc-8def-0123456789ab".parse().expect("an id");
        assert_eq!(MessageKey::of(&own).as_str(), own.as_str());
        let derived = EnvelopeId::derived(&["restart", "r1"]);
        let key = MessageKey::of(&derived);
        assert_eq!(key, MessageKey::of(&derived));
        assert_eq!(key.as_str().parse(), Ok(key.clone()));
        assert_ne!(key, MessageKey::of(&EnvelopeId::derived(&["restart", "r2"])));
    }

    #[test]
    fn what_a_program_says_is_a_key_only_in_its_one_form() {
        for text in ["", "x", "0192F0C1-2345-7abc-8def-0123456789ab", "0192f0c12345-7abc-8def-0123456789ab0"]
        {
            assert!(text.parse::<MessageKey>().is_err(), "{text}");
        }
    }
}
