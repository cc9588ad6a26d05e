//! Who understands what a session prints: a person is then shown that, and not the bytes.
//!
//! Promise: a session that is read so is typed to by nobody from here, and is told no size of any window.

/// What is made of a session's output, and of what a person types at it.
///
/// What each returns is written to this terminal as it is.
pub trait Reader {
    /// Output of the session.
    fn output(&mut self, offset: u64, bytes: &[u8]) -> Vec<u8>;

    /// Output that is no longer kept.
    fn gap(&mut self, from: u64, to: u64) -> Vec<u8>;

    /// All that was printed before we came was told. Called once.
    fn caught_up(&mut self) -> Vec<u8>;

    /// Keys, without the one that leaves; only of a terminal whose output is one too.
    fn keys(&mut self, bytes: &[u8]) -> Typed;

    /// The window has so many columns, and what stands in it may have to be drawn anew.
    fn window(&mut self, columns: u16) -> Vec<u8>;

    /// What puts a terminal right that is left.
    fn undo(&self) -> Vec<u8>;
}

/// What came of keys.
#[derive(Debug, Default)]
pub struct Typed {
    /// What is shown.
    pub shown: Vec<u8>,
    /// Whether the person leaves.
    pub leaves: bool,
}
