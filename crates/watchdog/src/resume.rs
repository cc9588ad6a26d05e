//! `state/netsky-loop-resume.txt`: what an agent0 was doing and what comes next, from `netsky session down` to the next
//! `netsky session up`.

use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::{clock, fs::Dir, random, state};

use crate::error::Result;

/// Longest payload, in bytes.
pub const MAX_RESUME: usize = 64 * 1024;
/// Older than that it says nothing of what comes next.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// What is left for the next session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The text.
    pub text: String,
    /// How long ago it was written.
    pub age: Duration,
}

/// Leave it; durable when this returns. What was left before is replaced.
///
/// # Errors
/// The system refuses.
pub fn leave_resume(layout: &Layout, text: &str) -> Result<()> {
    Ok(state::write(layout.loop_resume(), text.as_bytes())?)
}

/// What was left and is fresh. It stays until [`archive_resume`].
///
/// # Errors
/// The system refuses.
pub fn resume(layout: &Layout) -> Result<Option<Resume>> {
    let Some(bytes) = state::read(layout.loop_resume())? else { return Ok(None) };
    let age =
        Dir::open(layout.state())?.ages()?.into_iter().find(|(name, _)| name == "netsky-loop-resume.txt");
    let age = age.map_or(Duration::ZERO, |(_, age)| age);
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_RESUME)]).into_owned();
    Ok((age <= FRESH).then_some(Resume { text, age }))
}

/// Once a session was told it, it goes to `restart-archive/`.
///
/// # Errors
/// The system refuses.
pub fn archive_resume(layout: &Layout) -> Result<Option<PathBuf>> {
    Dir::make(layout.restart_archive())?;
    let name = format!("loop-resume-{}-{}.txt", clock::wall().as_second(), random::short());
    let to = layout.restart_archive().join(name);
    Ok(state::claim(layout.loop_resume(), &to)?.then_some(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn t25_what_is_stale_is_told_nobody_before_a_tick_has_pruned_it() {
        in_a_home(|cx| {
            leave_resume(cx.layout, "stale").expect("left");
            assert!(resume(cx.layout).expect("it reads").is_some());
            let file = std::fs::File::options().write(true).open(cx.layout.loop_resume()).expect("opens");
            let old = std::time::SystemTime::now() - FRESH - Duration::from_secs(60);
            file.set_modified(old).expect("aged");
            assert_eq!(resume(cx.layout).expect("it reads"), None);
        });
    }
}
