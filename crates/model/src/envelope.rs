//! The envelope: one message, one JSON object, one file.
//!
//! Promise: what parses is whole (its digest matches when it has one), bounded, unambiguous (no key
//! twice), and keeps the keys that this version does not know.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical;
use crate::id::{AgentId, EnvelopeId, Generation, Sender};
use crate::provenance::Trust;
use crate::strict_json;

/// Version that this program writes.
pub const VERSION: u64 = 1;
/// Most bytes of an envelope's file: a prompt fits, a bomb does not.
pub const MAX_BYTES: usize = 256 * 1024;
/// Deepest nesting of its JSON.
pub const MAX_DEPTH: usize = 64;

/// The home's key (`state/key`), with which it vouches for senders.
pub type Key = [u8; 32];

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Format version; absent in handoff packets written by hand.
    #[serde(default = "one")]
    pub v: u64,
    /// Identity; absent only in packets written by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<EnvelopeId>,
    /// Who says to have sent it: a claim.
    pub from: Sender,
    /// For whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// The message.
    pub text: String,
    /// When it was written, RFC 3339 UTC; informative, order is in the file name.
    pub ts: Timestamp,
    /// What sort of message: `brief`, `report`, `handoff`, `loop-tick`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Which conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Which envelope it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<EnvelopeId>,
    /// The sender waits for an explicit ack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_ack: Option<bool>,
    /// How long the sender waits for that ack; the home's default where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_within_secs: Option<u64>,
    /// Meant for this incarnation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_generation: Option<Generation>,
    /// How far the words may be trusted, where it is less than their sender's own; see [`crate::provenance`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Who began the path on which the words came, where that is not the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Sender>,
    /// How many hands passed the words on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Instants of a schedule that passed beside the one that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// The sender was checked when it was sent; counts only with a `mac` that is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// blake3 keyed with the home's key, of the rest without the digest in canonical form, hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// blake3 of the rest in canonical form, hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn one() -> u64 {
    VERSION
}

/// Why bytes are no envelope.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// Over [`MAX_BYTES`].
    #[error("as a file of JSON it has {size} bytes, over the limit of {MAX_BYTES} ({} KiB)", MAX_BYTES / 1024)]
    TooLarge {
        /// Bytes of the whole file, found or needed; the text is only a part of them.
        size: usize,
    },
    /// Not JSON, a key twice, too deep, a required key missing or of the wrong shape.
    #[error("not an envelope: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Changed since it was written.
    #[error("the digest does not match the content")]
    Digest,
    /// Written by a newer program.
    #[error("format version {0} is newer than this program's {VERSION}")]
    Newer(u64),
    /// A label that could not stand in an attribute.
    #[error("{key} must have 1 to 128 visible ASCII characters")]
    Label {
        /// `kind` or `thread`.
        key: &'static str,
    },
}

impl Envelope {
    /// A message with only what every message has.
    pub fn new(id: EnvelopeId, from: Sender, to: AgentId, text: String, ts: Timestamp) -> Envelope {
        Envelope {
            v: VERSION,
            id: Some(id),
            from,
            to: Some(to),
            text,
            ts,
            kind: None,
            thread: None,
            reply_to: None,
            requires_ack: None,
            ack_within_secs: None,
            for_generation: None,
            trust: None,
            origin: None,
            hops: None,
            missed: None,
            verified: None,
            mac: None,
            digest: None,
            extra: Map::new(),
        }
    }

    /// Read a file's bytes.
    ///
    /// # Errors
    /// Anything that is not a whole envelope of a known version.
    pub fn parse(bytes: &[u8]) -> Result<Envelope, Invalid> {
        if bytes.len() > MAX_BYTES {
            return Err(Invalid::TooLarge { size: bytes.len() });
        }
        let value = strict_json::parse(bytes, MAX_DEPTH)?;
        if let Some(newer) = newer_version(&value) {
            return Err(Invalid::Newer(newer));
        }
        let written = value.get("digest").cloned();
        let expected = written.is_some().then(|| canonical::digest(&value));
        if written.as_ref().and_then(Value::as_str) != expected.as_deref() {
            return Err(Invalid::Digest);
        }
        let envelope: Envelope = serde_json::from_value(value)?;
        envelope.check_labels()?;
        Ok(envelope)
    }

    /// The file's bytes, digest included.
    ///
    /// # Errors
    /// A result over [`MAX_BYTES`], or a label that could not be rendered.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Invalid> {
        self.check_labels()?;
        let mut value = serde_json::to_value(self)?;
        let digest = canonical::digest(&value);
        value["digest"] = Value::String(digest);
        let mut bytes = serde_json::to_vec(&value)?;
        bytes.push(b'\n');
        if bytes.len() > MAX_BYTES {
            return Err(Invalid::TooLarge { size: bytes.len() });
        }
        Ok(bytes)
    }

    /// Vouches for the sender: `verified`, with a mac over everything else.
    ///
    /// # Errors
    /// A content that is no JSON, which no envelope has.
    pub fn sign(&mut self, key: &Key) -> Result<(), Invalid> {
        self.verified = Some(true);
        self.mac = Some(self.mac_by(key)?.to_hex().to_string());
        Ok(())
    }

    /// Whether the home vouches for the sender: it says so, for this mailbox, with a mac of the home's key.
    pub fn is_authentic(&self, key: &Key, mailbox: &AgentId) -> bool {
        let written = self.mac.as_ref().and_then(|hex| blake3::Hash::from_hex(hex).ok());
        // Hashes are compared in constant time.
        self.verified == Some(true)
            && self.to.as_ref() == Some(mailbox)
            && written.is_some_and(|mac| self.mac_by(key).is_ok_and(|right| right == mac))
    }

    fn mac_by(&self, key: &Key) -> Result<blake3::Hash, Invalid> {
        let text = canonical::canonical(&serde_json::to_value(self)?, &["digest", "mac"]);
        Ok(blake3::keyed_hash(key, text.as_bytes()))
    }

    fn check_labels(&self) -> Result<(), Invalid> {
        let visible =
            |text: &String| (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        for (key, label) in [("kind", &self.kind), ("thread", &self.thread)] {
            if label.as_ref().is_some_and(|text| !visible(text)) {
                return Err(Invalid::Label { key });
            }
        }
        Ok(())
    }
}

/// The version of an envelope from a newer program: it has what every version has. Anything else with a large number in
/// it is damage, not a future.
fn newer_version(value: &Value) -> Option<u64> {
    let version = value.get("v")?.as_u64().filter(|v| *v > VERSION)?;
    ["from", "text", "ts"].iter().all(|key| value.get(key).is_some()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Envelope {
        let ts = "2026-04-19T19:25:00Z".parse().expect("valid");
        let id = "0196".parse().expect("valid");
        let mut envelope = Envelope::new(
            id,
            "agentloop".parse().expect("valid"),
            AgentId::root(),
            "check CI".to_owned(),
            ts,
        );
        envelope.kind = Some("loop-tick".to_owned());
        envelope
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes = sample().to_bytes().expect("small");
        let read = Envelope::parse(&bytes).expect("whole");
        assert_eq!(read.text, "check CI");
        assert!(read.digest.is_some());
        assert_eq!(read.to_bytes().expect("small"), bytes);
    }

    #[test]
    fn the_handoff_packet_of_the_seeds_is_an_envelope() {
        let packet =
            br#"{"from":"agentinfinity","text":"agent0 session 4 close","ts":"2026-04-19T17:22:57Z"}"#;
        let read = Envelope::parse(packet).expect("three keys suffice");
        assert_eq!((read.v, read.id), (1, None));
    }

    #[test]
    fn i4_one_changed_byte_is_found() {
        let bytes = sample().to_bytes().expect("small");
        let text = String::from_utf8(bytes).expect("json").replace("check CI", "check CJ");
        assert!(matches!(Envelope::parse(text.as_bytes()), Err(Invalid::Digest)));
    }

    #[test]
    fn a1_a_mac_holds_for_these_words_this_sender_and_this_mailbox_alone() {
        let key: Key = [7; 32];
        let mut signed = sample();
        signed.sign(&key).expect("plain data");
        let read = Envelope::parse(&signed.to_bytes().expect("small")).expect("whole");
        assert!(read.is_authentic(&key, &AgentId::root()));
        assert!(!read.is_authentic(&[8; 32], &AgentId::root()), "another home's key");
        assert!(!read.is_authentic(&key, &AgentId::numbered(1)), "laid into another mailbox");
        assert!(!sample().is_authentic(&key, &AgentId::root()), "nobody vouched");
        let changes: [fn(&mut Envelope); 7] = [
            |e| e.from = Sender::owner(),
            |e| e.text.push('!'),
            |e| e.trust = Some(Trust::Owner),
            |e| e.hops = Some(1),
            |e| e.kind = None,
            |e| e.id = None,
            |e| e.mac = Some("00".repeat(32)),
        ];
        for (n, change) in changes.iter().enumerate() {
            let mut changed = read.clone();
            change(&mut changed);
            assert!(!changed.is_authentic(&key, &AgentId::root()), "change {n}");
        }
    }

    #[test]
    fn unknown_keys_of_this_version_survive() {
        let line = br#"{"from":"a","text":"t","ts":"2026-04-19T17:22:57Z","shade":{"z":1,"a":[true,null]}}"#;
        let read = Envelope::parse(line).expect("valid");
        let again = Envelope::parse(&read.to_bytes().expect("small")).expect("valid");
        assert_eq!(again.extra["shade"]["a"][0], true);
    }

    #[test]
    fn a12_ambiguous_deep_large_and_newer_bytes_are_refused() {
        let head = r#"{"from":"a","text":"t","ts":"2026-04-19T17:22:57Z""#;
        assert!(Envelope::parse(format!(r#"{head},"text":"u"}}"#).as_bytes()).is_err(), "key twice");
        assert!(
            Envelope::parse(format!(r#"{head},"x":{{"k":1,"k":2}}}}"#).as_bytes()).is_err(),
            "inner key twice"
        );
        let deep = format!("{head},\"x\":{}{}}}", "[".repeat(100), "]".repeat(100));
        assert!(Envelope::parse(deep.as_bytes()).is_err(), "depth");
        assert!(matches!(Envelope::parse(&vec![b' '; MAX_BYTES + 1]), Err(Invalid::TooLarge { .. })));
        assert!(matches!(Envelope::parse(format!(r#"{head},"v":2}}"#).as_bytes()), Err(Invalid::Newer(2))));
        for junk in [r#"{"v":9}"#, r#"{"v":9,"from":"a","text":"t"}"#] {
            assert!(
                matches!(Envelope::parse(junk.as_bytes()), Err(Invalid::Digest | Invalid::Syntax(_))),
                "{junk}"
            );
        }
        assert!(Envelope::parse(format!(r#"{head},"kind":"a b"}}"#).as_bytes()).is_err(), "label");
        assert!(
            Envelope::parse(b"{}").is_err()
                && Envelope::parse(b"").is_err()
                && Envelope::parse(b"[]").is_err()
        );
    }
}
