//! Numbers that every process of a home sees at once and nobody waits for: advice, good for one boot.
//!
//! Promise: each word is changed atomically by all processes that have it open, and survives their deaths. It is not
//! durable and not the truth: after a boot, or when its file is damaged, it begins anew with what the caller calls
//! unknown.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::fs::Dir;
use crate::identity::FileId;
use crate::process;
use crate::sys::Mapping;

/// How often a file is made and looked at again: once for one that is missing, once for one that is damaged, and others
/// may do the same at the same time.
const TRIES: u32 = 8;

/// Some shared numbers.
#[derive(Debug)]
pub struct Words {
    map: Mapping,
    path: PathBuf,
    id: FileId,
}

impl Words {
    /// The words of that name in a folder, made with their first values where this boot has none.
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn open(dir: &Dir, name: &str, first: &[u64]) -> Result<Words> {
        let file = format!("{name}.{}", process::known_boot_id()?);
        let failed = |op, e: rustix::io::Errno| Error::new(op, dir.path().join(&file), e);
        for _ in 0..TRIES {
            let handle = match dir.open_handle(file.as_ref(), OFlags::RDWR) {
                Err(e) if e.is_not_found() => {
                    make(dir, name, &file, first)?;
                    continue;
                }
                opened => opened?,
            };
            // A word beyond the end of the file would kill whoever reads it.
            let stat = handle.stat().map_err(|e| failed("look at", e))?;
            if stat.size == 8 * first.len() as u64 {
                let map = handle.map(8 * first.len()).map_err(|e| failed("map", e))?;
                return Ok(Words { map, path: dir.path().join(&file), id: FileId::of(&stat) });
            }
            match dir.remove(&file) {
                Err(e) if !e.is_not_found() => return Err(e),
                _ => {}
            }
        }
        Err(Error::because("use", dir.path().join(&file), "it keeps being damaged"))
    }

    /// Whether the file lost its name, removed or moved away: what is written here no other process sees. Mapped, its
    /// number is nobody else's. A look that fails says nothing.
    pub fn is_lost(&self) -> bool {
        FileId::at(&self.path).is_ok_and(|named| named != Some(self.id))
    }

    /// The word at a place.
    ///
    /// # Panics
    /// There are fewer.
    pub fn at(&self, place: usize) -> &AtomicU64 {
        self.map.word(8 * place)
    }
}

/// Makes the file whole before it has its name, so that nobody sees a part; of several makers one wins.
fn make(dir: &Dir, name: &str, file: &str, first: &[u64]) -> Result<()> {
    let scratch = format!("{name}.{}.new", crate::random::short());
    let bytes: Vec<u8> = first.iter().flat_map(|word| word.to_le_bytes()).collect();
    let made = crate::fs::write_unsynced(dir, &scratch, &bytes).and_then(|handle| {
        // Real blocks now: a full disk must not turn a later store into a fault.
        handle
            .allocate(bytes.len() as u64)
            .map_err(|e| Error::new("preallocate", dir.path().join(file), e))?;
        dir.rename(&scratch, dir, file)
    });
    match made {
        Ok(()) => forget_older(dir, name, file),
        Err(error) => {
            let _ = dir.remove(&scratch);
            if !error.is_exists() {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Removes what other boots left, which nobody opens again.
fn forget_older(dir: &Dir, name: &str, file: &str) {
    for other in dir.names().unwrap_or_default() {
        let of_us = other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        if of_us && other != file && !other.ends_with(".new") {
            // Harmless where it stays.
            let _ = dir.remove(&other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn words_are_shared_and_another_boots_are_forgotten() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let dir = Dir::create(temp.path().join("usage")).expect("a folder");
        std::fs::write(dir.path().join("agent1.00000000"), b"old").expect("written");
        std::fs::write(dir.path().join("agent10.00000000"), b"of another").expect("written");
        let one = Words::open(&dir, "agent1", &[7, 8]).expect("made");
        let two = Words::open(&dir, "agent1", &[0, 0]).expect("found");
        one.at(1).fetch_add(1, SeqCst);
        assert_eq!((two.at(0).load(SeqCst), two.at(1).load(SeqCst)), (7, 9));
        let names = dir.names().expect("readable");
        assert_eq!((names.len(), names[1].as_str()), (2, "agent10.00000000"), "{names:?}");
    }

    #[test]
    fn words_whose_file_was_moved_or_removed_are_lost() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let dir = Dir::create(temp.path().join("usage")).expect("a folder");
        let one = Words::open(&dir, "agent1", &[7]).expect("made");
        assert!(!one.is_lost());
        dir.rename(&dir.names().expect("readable")[0], &dir, "elsewhere").expect("moved");
        assert!(one.is_lost());
        let two = Words::open(&dir, "agent1", &[7]).expect("made anew");
        assert!(one.is_lost() && !two.is_lost());
    }

    #[test]
    fn a_damaged_file_is_never_mapped_and_stops_nobody() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let dir = Dir::create(temp.path().join("usage")).expect("a folder");
        drop(Words::open(&dir, "a", &[1; 600]).expect("made"));
        let file = dir.path().join(&dir.names().expect("readable")[0]);
        std::fs::write(&file, b"short").expect("written");
        assert_eq!(Words::open(&dir, "a", &[5; 600]).expect("made anew").at(599).load(SeqCst), 5);
    }
}
