//! The daemon's own words, for people: standard error, which is the root's `anchor.log`.
//!
//! Promise: no word ends the daemon. `eprintln!` panics when it cannot write, so a full disk would; here a line that
//! cannot be written is lost. What must not be lost is a row of the journal. A word is one line and drives no terminal,
//! whatever a client called its session (faults A10, A11). The log is kept within [`LIMIT`], as often as an anchor looks.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_disk::{Error, state};
use netsky_model::render;
use rustix::fs::OFlags;

/// Most bytes of the log before it begins anew; as many of the former one are kept beside it.
const LIMIT: u64 = 1 << 20;

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

/// Has a log that is over its bound begin anew, and keeps the end of what it said in the file beside it.
///
/// Copied and cut, not moved: workers have it open for weeks. They append, so they go on at its new end. A word that is said
/// between the copy and the cut is lost.
///
/// # Errors
/// The copy cannot be written, on a full disk say; nothing was cut then.
pub(crate) fn bound(layout: &KernelLayout) -> netsky_disk::Result<()> {
    let path = layout.log();
    let (Some(name), root) = (path.file_name(), Dir::open(layout.root())?) else { return Ok(()) };
    let Some(bytes) = root.size(name)?.filter(|bytes| *bytes > LIMIT) else { return Ok(()) };
    let mut log = root.open_file(name, OFlags::RDWR)?;
    let failed = |error| Error::new("cut", &path, error);
    let mut end = Vec::new();
    log.seek(SeekFrom::Start(bytes - LIMIT)).map_err(failed)?;
    (&log).take(LIMIT).read_to_end(&mut end).map_err(failed)?;
    state::write(layout.former_log(), &end)?;
    log.set_len(0).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_a_log_over_its_bound_begins_anew_and_who_has_it_open_goes_on_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = KernelLayout::new(folder.path().join("root"));
        let root = Dir::create(layout.root()).expect("made");
        bound(&layout).expect("there is none");
        let append = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY;
        let mut worker = root.open_file("anchor.log", append).expect("opens");
        worker.write_all(b"short\n").expect("written");
        bound(&layout).expect("looked at");
        assert_eq!(root.size("anchor.log").expect("there"), Some(6), "within its bound it is left alone");
        worker.write_all(&vec![b'x'; LIMIT as usize]).expect("written");
        worker.write_all(b"last\n").expect("written");
        bound(&layout).expect("cut");
        worker.write_all(b"on\n").expect("written");
        assert_eq!(root.read("anchor.log", LIMIT).expect("reads"), b"on\n");
        let former = root.read("anchor.log.1", LIMIT).expect("no more than its bound");
        assert!(former.ends_with(b"xlast\n") && former.len() as u64 == LIMIT);
    }
}
