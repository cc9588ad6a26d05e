//! Names of a folder that may hold any number of files: in order, and a bounded number of them at once; and those of folders alone.
//!
//! Promise: the memory that a selection needs depends on its bound, not on the folder.

use std::ffi::OsStr;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::fs::Dir;

impl Dir {
    /// Hands over each name in it, in no order. Holds none of them: a folder may have any number. `take` does not list this same
    /// opening, and no other thread does meanwhile: they would share one place in it.
    ///
    /// # Errors
    /// The folder cannot be read; some names may have been handed over then.
    pub fn each_name(&self, mut take: impl FnMut(&OsStr)) -> Result<()> {
        self.each_kind(|name, _| {
            take(name);
            ControlFlow::Continue(())
        })
    }

    fn each_kind(&self, take: impl FnMut(&OsStr, FileType) -> ControlFlow<()>) -> Result<()> {
        self.handle.each_name(take).map_err(|e| Error::new("list folder", self.path(), e))
    }

    /// Whether nothing is in it; asks for no more than the first names.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn is_empty(&self) -> Result<bool> {
        let mut is_empty = true;
        self.each_kind(|_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        Ok(is_empty)
    }

    /// Names in it, in no order, but for those that it says are folders'.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names_but_folders(&self) -> Result<Vec<String>> {
        let mut others = Vec::new();
        self.each_kind(|name, kind| {
            if kind != FileType::Directory {
                others.push(name.to_string_lossy().into_owned());
            }
            ControlFlow::Continue(())
        })?;
        Ok(others)
    }

    /// Names of the folders in it, sorted as bytes: a link to one is none. Asks about a name only where the file system keeps that
    /// from whoever lists.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn folders(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        self.each_kind(|name, kind| {
            if matches!(kind, FileType::Directory | FileType::Unknown) {
                all.push((name.to_string_lossy().into_owned(), kind));
            }
            ControlFlow::Continue(())
        })?;
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut folders = Vec::with_capacity(all.len());
        for (name, kind) in all {
            if kind == FileType::Directory || self.is_folder(&name)? {
                folders.push(name);
            }
        }
        Ok(folders)
    }

    /// The lowest names in it above `after`, in order, as far as `bound` allows.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn lowest_names(&self, after: Option<&OsStr>, bound: usize) -> Result<Names> {
        self.lowest_of(after, bound, |_| true)
    }

    /// As [`Dir::lowest_names`], of those that `wanted` accepts.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn lowest_of(
        &self,
        after: Option<&OsStr>,
        bound: usize,
        wanted: impl Fn(&OsStr) -> bool,
    ) -> Result<Names> {
        let mut lowest = Selection::new(End::Lowest, bound);
        self.each_name(|name| {
            if after.is_none_or(|after| name > after) && wanted(name) {
                lowest.offer(name);
            }
        })?;
        Ok(lowest.end())
    }

    /// The highest names in it that `wanted` accepts, in rising order, as far as `bound` allows.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn highest_names(&self, bound: usize, wanted: impl Fn(&OsStr) -> bool) -> Result<Names> {
        let mut highest = Selection::new(End::Highest, bound);
        self.each_name(|name| {
            if wanted(name) {
                highest.offer(name);
            }
        })?;
        Ok(highest.end())
    }

    /// As [`Dir::lowest_names`], but with each name come all lower ones that were placed before it.
    ///
    /// A large folder is read in several calls, so one listing can show a name and miss an older one that came between
    /// two calls. So it is listed until a listing adds nothing: all of that one was there when it began.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn settled_names(&self, after: Option<&OsStr>, bound: usize) -> Result<Names> {
        // Ends: names rise with time, so only what was on its way already can still come below the last one.
        loop {
            let names = self.lowest_names(after, bound)?;
            let Some(last) = names.last() else { return Ok(names) };
            let mut missed = false;
            self.each_name(|name| {
                missed |= after.is_none_or(|after| name > after) && name <= last && !names.has(name);
            })?;
            if !missed {
                return Ok(names);
            }
        }
    }
}

/// Names in rising order, as bytes.
#[derive(Debug, Default)]
pub struct Names {
    // One block for all: a name of its own each would cost twice the memory.
    bytes: Vec<u8>,
    places: Vec<Place>,
    left_out: usize,
}

/// Where a name stands in the block; no file system has one over 255 bytes.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    len: u8,
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many others there were that the bound left out.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The name at a place in the order.
    pub fn get(&self, nth: usize) -> Option<&OsStr> {
        Some(self.at(*self.places.get(nth)?))
    }

    /// The highest one.
    pub fn last(&self) -> Option<&OsStr> {
        Some(self.at(*self.places.last()?))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.places.iter().map(|place| self.at(*place))
    }

    fn has(&self, name: &OsStr) -> bool {
        self.places.binary_search_by(|place| self.at(*place).cmp(name)).is_ok()
    }

    fn at(&self, place: Place) -> &OsStr {
        let start = place.start as usize;
        OsStr::from_bytes(&self.bytes[start..start + usize::from(place.len)])
    }

    fn push(&mut self, name: &OsStr) {
        // Both always fit: a name has at most 255 bytes, and the block is bounded by a selection.
        let (Ok(start), Ok(len)) = (u32::try_from(self.bytes.len()), u8::try_from(name.len())) else {
            return;
        };
        self.bytes.extend_from_slice(name.as_bytes());
        self.places.push(Place { start, len });
    }

    fn sort(&mut self) {
        let Names { bytes, places, .. } = self;
        let of = |place: &Place| &bytes[place.start as usize..][..usize::from(place.len)];
        places.sort_unstable_by(|a, b| of(a).cmp(of(b)));
    }

    /// Keeps the names at these places in the order and forgets the rest.
    fn keep(&mut self, range: Range<usize>) {
        let mut kept = Names { left_out: self.left_out + self.len() - range.len(), ..Names::default() };
        for place in &self.places[range] {
            kept.push(self.at(*place));
        }
        *self = kept;
    }
}

/// Which end of the order is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lowest,
    Highest,
}

/// The names at one end of the order, of however many are offered.
#[derive(Debug)]
struct Selection {
    names: Names,
    end: End,
    bound: usize,
}

impl Selection {
    fn new(end: End, bound: usize) -> Selection {
        Selection { names: Names::default(), end, bound }
    }

    fn offer(&mut self, name: &OsStr) {
        self.names.push(name);
        // Sorted once for as many names as are kept, so the work for each name is bounded too.
        if self.names.len() >= self.bound.saturating_mul(2) {
            self.cut();
        }
    }

    fn end(mut self) -> Names {
        self.cut();
        self.names
    }

    fn cut(&mut self) {
        self.names.sort();
        let len = self.names.len();
        let bound = self.bound.min(len);
        if bound < len {
            self.names.keep(if self.end == End::Lowest { 0..bound } else { len - bound..len });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(end: End, bound: usize) -> (Vec<String>, usize) {
        let mut selection = Selection::new(end, bound);
        for n in 0..1_000_u32 {
            // In no order, and each once: 7 and 1000 have no common divisor.
            selection.offer(format!("{:04}", n * 7 % 1_000).as_ref());
        }
        let names = selection.end();
        (names.iter().map(|name| name.to_string_lossy().into_owned()).collect(), names.left_out())
    }

    #[test]
    fn a_selection_is_the_end_of_the_order_whatever_its_bound() {
        let all: Vec<String> = (0..1_000).map(|n| format!("{n:04}")).collect();
        for bound in [1, 3, 64, 999, 1_000, 5_000] {
            let kept = bound.min(1_000);
            assert_eq!(selected(End::Lowest, bound), (all[..kept].to_vec(), 1_000 - kept), "{bound}");
            assert_eq!(
                selected(End::Highest, bound),
                (all[1_000 - kept..].to_vec(), 1_000 - kept),
                "{bound}"
            );
        }
        assert_eq!(selected(End::Lowest, 0), (Vec::new(), 1_000));
    }

    #[test]
    fn a_name_is_found_among_them() {
        let mut selection = Selection::new(End::Lowest, 10);
        ["b", "a", "c"].iter().for_each(|name| selection.offer(name.as_ref()));
        let names = selection.end();
        assert!(names.has("b".as_ref()) && !names.has("bb".as_ref()));
        assert_eq!((names.last(), names.get(0)), (Some("c".as_ref()), Some("a".as_ref())));
    }

    #[test]
    fn one_opening_lists_what_is_there_now_each_time_and_nothing_once_the_folder_is_removed() {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let dir = Dir::make(temp.path().join("folder")).expect("made");
        assert!(dir.is_empty().expect("listed"));
        // More than one call of the system hands out.
        for n in 0..2_000 {
            std::fs::write(dir.path().join(format!("a-file-with-a-name-of-some-length-{n:04}")), "")
                .expect("written");
        }
        std::fs::create_dir(dir.path().join("a-folder")).expect("made");
        assert!(!dir.is_empty().expect("listed"));
        assert_eq!((dir.names().expect("listed").len(), dir.folders().expect("listed").len()), (2_001, 1));
        assert_eq!(dir.names_but_folders().expect("listed").len(), 2_000);
        std::fs::remove_dir_all(dir.path()).expect("removed");
        assert_eq!(dir.names().expect("what is gone holds nothing"), Vec::<String>::new());
    }
}
