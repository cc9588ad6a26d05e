//! The hybrid logical clock: an order that agrees with cause even when the wall clock steps back.
//!
//! 48 bits of milliseconds and a 16-bit counter in one word. Leaves to `disk` where the word lives.

use std::fmt;

/// A reading of the clock; every reading of one home is above the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hlc(pub u64);

/// Digits of the text form: any u64 fits, so names sort as numbers do.
pub const DIGITS: usize = 20;

impl Hlc {
    /// The year 4199: no wall clock and no name is followed above it. What stands there was not named by a clock of ours,
    /// and must not carry one to where no readings are left.
    pub const FAR: Hlc = Hlc(1 << 62);

    /// Above every reading that is given: a clock that started at [`Hlc::FAR`] has 2^62 of them before it gets here.
    pub const END: Hlc = Hlc(1 << 63);

    /// The first reading of a wall-clock millisecond.
    pub fn at(wall_ms: u64) -> Hlc {
        Hlc(wall_ms.min(Hlc::FAR.millis()) << 16)
    }

    /// Milliseconds part; ahead of the wall clock where that stepped back.
    pub fn millis(self) -> u64 {
        self.0 >> 16
    }

    /// The next reading: the wall clock where it is ahead, else one more than the last.
    ///
    /// The counter carries into the milliseconds when it is full. None at the end of all readings, which no clock of ours
    /// reaches.
    pub fn next(self, wall_ms: u64) -> Option<Hlc> {
        let next = Hlc(self.0.checked_add(1)?).max(Hlc::at(wall_ms));
        (next < Hlc::END).then_some(next)
    }

    /// Read the 20-digit text form back.
    pub fn parse(text: &str) -> Option<Hlc> {
        let plain = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        if plain { text.parse().ok().map(Hlc) } else { None }
    }
}

impl fmt::Display for Hlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t5_a_wall_clock_that_steps_back_reorders_nothing() {
        let first = Hlc::at(0).next(5_000).expect("early");
        let second = first.next(1_000).expect("early");
        assert!(second > first);
        assert_eq!(second.next(6_000).expect("early").millis(), 6_000);
        assert_eq!(Hlc(u64::MAX).next(6_000), None);
        assert_eq!(Hlc(Hlc::END.0 - 1).next(6_000), None);
        assert_eq!(first.next(u64::MAX), Some(Hlc::FAR), "a wall clock that is out of its mind");
    }

    #[test]
    fn text_sorts_as_the_number_does() {
        assert!(Hlc(9).to_string() < Hlc(10).to_string());
        assert_eq!(Hlc::parse(&Hlc(77).to_string()), Some(Hlc(77)));
        for text in ["", "77", "+0000000000000000077", "99999999999999999999"] {
            assert_eq!(Hlc::parse(text), None, "{text}");
        }
    }
}
