//! The daemon's own words, for people: standard error, which is the root's `anchor.log`.
//!
//! Promise: no word ends the daemon. `eprintln!` panics when it cannot write, so a full disk would; here a line that
//! cannot be written is lost. What must not be lost is a row of the journal. A word is one line and drives no terminal,
//! whatever a client called its session (faults A10, A11).

use std::fmt;
use std::io::{self, Write};

use netsky_model::render;

/// Says one line, with the daemon's name before it.
macro_rules! say {
    ($($part:tt)*) => {
        crate::log::line(format_args!($($part)*))
    };
}
pub(crate) use say;

pub(crate) fn line(words: fmt::Arguments<'_>) {
    // Nobody is left to tell.
    let _ = writeln!(io::stderr().lock(), "ostk: {}", render::line(&words.to_string()));
}
