//! Random ids, from the kernel's generator.

use netsky_model::id::{AgentId, EnvelopeId, LineageId, Nonce, RestartId};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::sys::simulated;

fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    simulated!(world => {
        world.fill(&mut out);
        out
    });
    // Up to 256 bytes are never short and never interrupted once the pool is up (getrandom(2)).
    getrandom(&mut out, GetRandomFlags::empty()).expect("the kernel has randomness");
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A session's secret: 64 hex digits.
pub fn token() -> String {
    hex(&bytes::<32>())
}

/// A key: 32 bytes.
pub fn key() -> [u8; 32] {
    bytes()
}

/// The proof that one start must return.
pub fn nonce() -> Nonce {
    hex(&bytes::<16>()).parse().expect("32 hex digits")
}

/// 8 hex digits, for names that people read.
pub fn short() -> String {
    hex(&bytes::<4>())
}

/// A new lineage of a session name.
pub fn lineage(name: &AgentId) -> LineageId {
    format!("{name}-{}", short()).parse().expect("a name and 8 hex digits")
}

/// A new restart: sorts by time, unique by chance.
pub fn restart_id() -> RestartId {
    let secs = crate::clock::wall().as_second();
    format!("restart-{secs}-{}", short()).parse().expect("lower case and digits")
}

/// A new envelope's id: UUIDv7, 48 bits of milliseconds and 74 random ones.
pub fn uuid_v7() -> EnvelopeId {
    let millis = crate::clock::wall().as_millisecond().unsigned_abs();
    let mut raw: [u8; 16] = bytes();
    raw[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    raw[6] = raw[6] & 0x0f | 0x70;
    raw[8] = raw[8] & 0x3f | 0x80;
    let text = hex(&raw);
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
    parts.join("-").parse().expect("hex and hyphens")
}
