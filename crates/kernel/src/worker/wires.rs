//! The worker's side of what connects it to the program: one terminal, or three pipes. All ends are non-blocking.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The ends that the worker holds.
#[derive(Debug)]
pub(super) enum Wires {
    /// One terminal for everything.
    Terminal(OwnedFd),
    /// Three pipes, each none once it is closed.
    Pipes {
        /// The program's input.
        stdin: Option<OwnedFd>,
        /// Its output.
        stdout: Option<OwnedFd>,
        /// Its errors.
        stderr: Option<OwnedFd>,
    },
}

/// Where output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The terminal, or standard output.
    Out,
    /// Standard error, with pipes.
    Err,
}

impl Wires {
    /// Whether this is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Wires::Terminal(_))
    }

    /// Where input goes; none once it is closed.
    pub(super) fn input(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Wires::Terminal(master) => Some(master.as_fd()),
            Wires::Pipes { stdin, .. } => stdin.as_ref().map(AsFd::as_fd),
        }
    }

    /// One source of output; none once it is closed.
    pub(super) fn output(&self, source: Source) -> Option<BorrowedFd<'_>> {
        match (self, source) {
            (Wires::Terminal(master), Source::Out) => Some(master.as_fd()),
            (Wires::Terminal(_), Source::Err) => None,
            (Wires::Pipes { stdout, .. }, Source::Out) => stdout.as_ref().map(AsFd::as_fd),
            (Wires::Pipes { stderr, .. }, Source::Err) => stderr.as_ref().map(AsFd::as_fd),
        }
    }

    /// Every source of output that is open.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (Source, BorrowedFd<'_>)> {
        [Source::Out, Source::Err].into_iter().filter_map(|source| Some((source, self.output(source)?)))
    }

    /// Let go of the program's input. A terminal stays: it is its output as well.
    pub(super) fn close_input(&mut self) {
        if let Wires::Pipes { stdin, .. } = self {
            *stdin = None;
        }
    }

    /// Let go of a source that has ended. A terminal stays: the program may open it anew.
    pub(super) fn close_output(&mut self, ended: Source) {
        match (self, ended) {
            (Wires::Terminal(_), _) => {}
            (Wires::Pipes { stdout, .. }, Source::Out) => *stdout = None,
            (Wires::Pipes { stderr, .. }, Source::Err) => *stderr = None,
        }
    }
}
