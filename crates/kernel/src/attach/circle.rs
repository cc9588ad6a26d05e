//! Whether what is printed here comes back: the session is then shown, on whatever way, what this terminal is, and each byte
//! goes round for ever. Two sessions that are attached to each other do so, and one whose `attach` goes through a pipe of
//! its own.
//!
//! Promise: whoever closes a circle finds out with the first output, as a mark goes round before it.
//!
//! Left to others: the session whose own terminal this is, which is known before anything is shown. Not found out is a
//! circle through a program that paints anew what it is given (tmux).

use std::mem;

use netsky_disk::{env, random};
use rustix::fs::{FileType, fstat};

use crate::session::ENV_SESSION;

/// A mark of this attachment alone.
#[derive(Debug)]
pub(super) struct Circle {
    /// A command of the system that no terminal knows, so that it passes them all.
    mark: Vec<u8>,
    is_printed: bool,
    /// The end of the output so far, in which the mark may have begun.
    tail: Vec<u8>,
}

impl Circle {
    /// Only inside a session can there be one, and where it is printed to what passes it on: a file does not.
    pub(super) fn find() -> Option<Circle> {
        let is_file =
            fstat(std::io::stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        let within = env::text(ENV_SESSION).filter(|_| !is_file)?;
        Some(Circle::new(&format!("{within}.{}", random::short())))
    }

    /// `name` is nobody else's.
    fn new(name: &str) -> Circle {
        Circle { mark: format!("\x1b]7867;{name}\x1b\\").into_bytes(), is_printed: false, tail: Vec::new() }
    }

    /// What is to be printed before anything else; nothing the next time.
    pub(super) fn first(&mut self) -> &[u8] {
        if mem::replace(&mut self.is_printed, true) { b"" } else { &self.mark }
    }

    /// Whether the mark has come back with this output.
    pub(super) fn is_closed_by(&mut self, output: &[u8]) -> bool {
        self.tail.extend_from_slice(output);
        let closed = self.tail.windows(self.mark.len()).any(|part| part == self.mark);
        let begun = self.tail.len().min(self.mark.len() - 1);
        self.tail.drain(..self.tail.len() - begun);
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_printed_once_and_found_wherever_it_was_cut() {
        let mut circle = Circle::new("agent7-1");
        let mark = circle.first().to_vec();
        assert!(circle.first().is_empty());
        let other = Circle::new("agent7-2").first().to_vec();
        assert!(!circle.is_closed_by(&[&other[..], &mark[..mark.len() - 1]].concat()));
        assert!(circle.is_closed_by(&mark[mark.len() - 1..]));
        for cut in 0..mark.len() {
            let mut circle = Circle::new("agent7-1");
            let (head, tail) = mark.split_at(cut);
            assert!(!circle.is_closed_by(&[b"before", head].concat()));
            assert!(circle.is_closed_by(&[tail, b"behind"].concat()));
        }
    }
}
