//! The one palette: what a colour means on every screen of ours, and when there are colours at all.
//!
//! Promise: text is cleaned before it is coloured, so nobody else's bytes reach the terminal; without a terminal, or with
//! `NO_COLOR`, text stays plain.

use std::io::IsTerminal as _;

use netsky_model::render;

/// What a piece of text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it is.
    Plain,
    /// Beside the point.
    Faint,
    /// Headings.
    Strong,
    /// Proved, done.
    Good,
    /// Worth a look: a repeat, a wait.
    Note,
    /// Killed, failed.
    Bad,
    /// Words for a machine.
    Code,
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    on: bool,
}

impl Palette {
    /// For what is printed on standard output.
    pub(crate) fn of_stdout() -> Palette {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Palette { on: !refused && !dumb && std::io::stdout().is_terminal() }
    }

    /// Colours or none, whatever standard output is.
    #[cfg(test)]
    pub(crate) fn fixed(on: bool) -> Palette {
        Palette { on }
    }

    /// Whether there are colours.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// One line of text in its tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let text: String = render::plain(text);
        let code = match tone {
            _ if !self.on => return text,
            Tone::Plain => return text,
            Tone::Faint => "2",
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Note => "33",
            Tone::Bad => "31",
            Tone::Code => "36",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a10_only_our_own_escapes_leave() {
        let (on, off) = (Palette { on: true }, Palette { on: false });
        assert_eq!(on.paint(Tone::Bad, "a\u{1b}[2Jb"), "\u{1b}[31ma[2Jb\u{1b}[0m");
        assert_eq!(off.paint(Tone::Bad, "a\u{1b}[2Jb"), "a[2Jb");
        assert_eq!(on.paint(Tone::Plain, "x"), "x");
    }
}
