//! Whether a folder was removed under who works in it: what is kept there is then reachable by nobody.

use crate::fs::Dir;

impl Dir {
    /// Whether the folder itself was removed since it was opened: nothing leads to it any more, whatever has its path
    /// now. One that was moved is not removed, and one that cannot be looked at is not known to be.
    pub fn is_removed(&self) -> bool {
        self.handle.stat().is_ok_and(|stat| stat.links == 0)
    }
}
