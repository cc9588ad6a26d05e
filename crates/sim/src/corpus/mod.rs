//! Hostile inputs without end, from a seed: the same seed gives the same inputs on every machine.
//!
//! A test that fails prints its seed; `SIM_SEED=<number>` repeats it, and any other number looks elsewhere.

mod ids;
mod texts;

pub use ids::{bad_id, disguised};
pub use texts::text;

/// A small generator (xorshift64*), for inputs and not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed; every number is one.
    pub fn new(seed: u64) -> Random {
        // Its state may not be zero, and near seeds should not begin alike.
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From `SIM_SEED`, else from `seed`; says which, so that a failure can be repeated.
    pub fn seeded(seed: u64) -> Random {
        let seed = std::env::var("SIM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(seed);
        println!("SIM_SEED={seed}");
        Random::new(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and no adapter is wanted")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 16) % bound as u64) as usize
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Any character that Unicode has.
    pub fn character(&mut self) -> char {
        loop {
            // The first plane more often: most of what normalises is there.
            let bound = if self.below(4) == 0 { 0x11_0000 } else { 0x1_0000 };
            if let Some(c) = char::from_u32(self.below(bound) as u32) {
                return c;
            }
        }
    }

    /// The bytes changed in one to four places: flipped, cut, doubled, filled, swapped for a number's edge.
    pub fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(out.len().max(1));
            let end = at + self.below((out.len() - at.min(out.len())).max(1));
            match self.below(7) {
                _ if out.is_empty() => out.push(self.next() as u8),
                0 => out[at] ^= 1 << self.below(8),
                1 => out[at] = self.next() as u8,
                2 => out.truncate(at),
                3 => drop(out.drain(at..end)),
                4 => {
                    let piece = out[at..end].to_vec();
                    let to = self.below(out.len());
                    out.splice(to..to, piece);
                }
                5 => {
                    let edge = self.pick(&[
                        "0",
                        "-1",
                        "18446744073709551616",
                        "1e999",
                        "\"",
                        "{",
                        "[",
                        "\\u0000",
                        "\0",
                    ]);
                    out.splice(at..at, edge.bytes());
                }
                _ => out.insert(at, self.pick(&[0, b'<', b'"', b'\\', b'\n', b'.', b'/', 0xff, 0x80])),
            }
        }
        out
    }
}
