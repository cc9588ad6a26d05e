//! Every file-system call of this crate, each once: what is above says why, this says only which.
//!
//! With the feature `sim`, which nothing that ships has, a call goes to the simulated world that its thread has
//! entered, if it has; without it a [`Handle`] is a file and nothing here costs more than the call itself.
//! Leaves to others: names of operations and objects in errors, what is safe to open, when to sync.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RawDir, RenameFlags,
    SeekFrom,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

type Result<T> = std::result::Result<T, Errno>;

/// Bytes of names that are asked for at once.
const BATCH: usize = 32 << 10;

/// Answers from the world that this thread has entered, if it has.
#[cfg(feature = "sim")]
macro_rules! simulated {
    ($world:ident => $answer:expr) => {
        if let Some($world) = crate::sim::world() {
            return $answer;
        }
    };
}
#[cfg(not(feature = "sim"))]
macro_rules! simulated {
    ($world:ident => $answer:expr) => {};
}
pub(crate) use simulated;

/// Asks the machine or the world, whichever the handle is of.
macro_rules! ask {
    ($handle:expr, $file:ident => $real:expr, $node:ident => $simulated:expr) => {
        match $handle {
            Handle::Real($file) => $real,
            #[cfg(feature = "sim")]
            Handle::Simulated($node) => $simulated,
        }
    };
}

/// An opened file or folder.
#[derive(Debug)]
pub(crate) enum Handle {
    Real(File),
    #[cfg(feature = "sim")]
    Simulated(crate::sim::Node),
}

/// What is asked of files here.
#[cfg_attr(not(feature = "sim"), expect(unreachable_pub, reason = "public in `sim` alone"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
    /// Whose it is.
    pub uid: u32,
    /// How many names it has.
    pub links: u64,
    /// Bytes in it.
    pub size: u64,
    /// When it was last written: seconds of the wall clock.
    pub written: i64,
    /// When anything of it last changed, its name included: seconds of the wall clock.
    pub changed: i64,
    /// Which file system it is on.
    pub device: u64,
    /// Which of that file system's files it is.
    pub inode: u64,
}

impl From<rustix::fs::Stat> for Stat {
    fn from(stat: rustix::fs::Stat) -> Stat {
        Stat {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o777,
            uid: stat.st_uid,
            links: stat.st_nlink as _,
            size: stat.st_size.unsigned_abs(),
            written: stat.st_mtime,
            changed: stat.st_ctime,
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// Opens a path, below a folder where one is given.
pub(crate) fn open(base: Option<&Handle>, path: &Path, flags: OFlags, mode: u32) -> Result<Handle> {
    let mode = Mode::from_raw_mode(mode);
    let fd = match base {
        None => {
            simulated!(world => crate::sim::open(world, None, path, flags));
            rustix::fs::open(path, flags, mode)
        }
        Some(base) => ask!(base,
            dir => rustix::fs::openat(dir, path, flags, mode),
            node => return crate::sim::open(node.world(), Some(node.number()), path, flags)
        ),
    };
    fd.map(|fd| Handle::Real(fd.into()))
}

/// Looks at what has a path.
pub(crate) fn stat(base: Option<&Handle>, path: &Path, flags: AtFlags) -> Result<Stat> {
    match base {
        None => {
            simulated!(world => world.stat(None, path));
            rustix::fs::statat(CWD, path, flags).map(Stat::from)
        }
        Some(base) => ask!(base,
            dir => rustix::fs::statat(dir, path, flags).map(Stat::from),
            node => node.world().stat(Some(node.number()), path)
        ),
    }
}

/// Makes a folder.
pub(crate) fn mkdir(path: &Path, mode: u32) -> Result<()> {
    simulated!(world => world.mkdir(path));
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode))
}

/// Makes each of these files durable, from up to so many threads at once; in a simulation from this one.
pub(crate) fn sync_all(files: &[&Handle], threads: usize) -> Vec<Result<()>> {
    let machine: Option<Vec<&File>> =
        files.iter().map(|file| ask!(file, file => Some(file), _node => None)).collect();
    let Some(machine) = machine.filter(|_| threads > 1) else {
        return files.iter().map(|file| file.sync()).collect();
    };
    let mut answers = vec![Ok(()); machine.len()];
    let queue = Mutex::new(machine.into_iter().zip(&mut answers));
    let work = || {
        loop {
            let next = queue.lock().expect("no thread panics while it takes work").next();
            let Some((file, answer)) = next else { break };
            *answer = rustix::fs::fsync(file);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be had, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    answers
}

/// Renames within and between folders.
pub(crate) fn rename(dir: &Handle, name: &OsStr, to: &Handle, new: &OsStr, flags: RenameFlags) -> Result<()> {
    match (dir, to) {
        (Handle::Real(dir), Handle::Real(to)) if flags.is_empty() => rustix::fs::renameat(dir, name, to, new),
        (Handle::Real(dir), Handle::Real(to)) => rustix::fs::renameat_with(dir, name, to, new, flags),
        #[cfg(feature = "sim")]
        (Handle::Simulated(dir), Handle::Simulated(to)) => {
            dir.world().rename((dir.number(), name), (to.number(), new), flags)
        }
        #[cfg(feature = "sim")]
        _ => Err(Errno::XDEV),
    }
}

impl Handle {
    /// Looks at it.
    pub(crate) fn stat(&self) -> Result<Stat> {
        ask!(self, file => rustix::fs::fstat(file).map(Stat::from), node => node.world().stat_handle(node.number()))
    }

    /// Inode, last write and last change in nanoseconds of the wall clock; a simulated world does not say.
    pub(crate) fn version(&self) -> Result<Option<(u64, i128, i128)>> {
        let stat = ask!(self, file => rustix::fs::fstat(file)?, _node => return Ok(None));
        let nanos = |seconds, nanos| i128::from(seconds) * 1_000_000_000 + nanos as i128;
        let (written, changed) =
            (nanos(stat.st_mtime, stat.st_mtime_nsec), nanos(stat.st_ctime, stat.st_ctime_nsec));
        Ok(Some((stat.st_ino, written, changed)))
    }

    /// As [`Handle::version`], of what has a name in this folder, with its size, whatever it is; nothing of it is opened.
    pub(crate) fn version_of(&self, name: &OsStr) -> Result<Option<(u64, u64, i128, i128)>> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = ask!(self, dir => rustix::fs::statat(dir, name, flags)?, _node => return Ok(None));
        let nanos = |seconds, nanos| i128::from(seconds) * 1_000_000_000 + nanos as i128;
        let (written, changed) =
            (nanos(stat.st_mtime, stat.st_mtime_nsec), nanos(stat.st_ctime, stat.st_ctime_nsec));
        Ok(Some((stat.st_ino, stat.st_size.unsigned_abs(), written, changed)))
    }

    /// Each name in a folder, as they come, with what has it where the folder says so, until `take` breaks off. One that was
    /// removed has none. The place in a folder is the opening's: while this runs nobody lists by the same handle.
    pub(crate) fn each_name(&self, mut take: impl FnMut(&OsStr, FileType) -> ControlFlow<()>) -> Result<()> {
        let from_the_start = |dir: &File| rustix::fs::seek(dir, SeekFrom::Start(0));
        let dir = ask!(self, dir => from_the_start(dir).map(|_| dir)?, node => {
            let _ = node.world().names(node.number())?.iter().try_for_each(|name| take(name, FileType::Unknown));
            return Ok(());
        });
        let mut batch = [MaybeUninit::uninit(); BATCH];
        let mut entries = RawDir::new(dir, &mut batch);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::NOENT) => break,
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." && take(name, entry.file_type()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Whether we may write what has a name in this folder.
    pub(crate) fn may_write(&self, name: &OsStr) -> bool {
        ask!(self,
            dir => rustix::fs::accessat(dir, name, Access::WRITE_OK, AtFlags::EACCESS).is_ok(),
            node => node.world().stat(Some(node.number()), name.as_ref()).is_ok()
        )
    }

    /// Why this folder lets us change no names in it, where that is known.
    pub(crate) fn shut(&self) -> Option<Errno> {
        ask!(self,
            dir => match rustix::fs::accessat(dir, ".", Access::WRITE_OK, AtFlags::EACCESS) {
                Err(why @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Some(why),
                _ => None,
            },
            _node => None
        )
    }

    /// Removes a name that is no folder's from this folder.
    pub(crate) fn unlink(&self, name: &OsStr) -> Result<()> {
        ask!(self,
            dir => rustix::fs::unlinkat(dir, name, AtFlags::empty()),
            node => node.world().unlink(node.number(), name)
        )
    }

    /// Removes the name of an empty folder; a simulated world removes none.
    pub(crate) fn rmdir(&self, name: &OsStr) -> Result<()> {
        ask!(self,
            dir => rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR),
            _node => Err(Errno::OPNOTSUPP)
        )
    }

    /// Makes a file and what it takes to find its bytes durable, or a folder's names.
    pub(crate) fn sync(&self) -> Result<()> {
        ask!(self, file => rustix::fs::fsync(file), node => node.world().sync(node.number()))
    }

    /// As [`Handle::sync`], without times.
    pub(crate) fn sync_data(&self) -> Result<()> {
        ask!(self, file => rustix::fs::fdatasync(file), node => node.world().sync(node.number()))
    }

    /// Gives a file real blocks from its start on.
    pub(crate) fn allocate(&self, len: u64) -> Result<()> {
        ask!(self,
            file => rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len),
            node => node.world().allocate(node.number(), len)
        )
    }

    /// Cuts a file, or makes it longer.
    pub(crate) fn set_len(&self, len: u64) -> Result<()> {
        ask!(self, file => rustix::fs::ftruncate(file, len), node => node.world().set_len(node.number(), len))
    }

    /// Takes or asks for a flock.
    pub(crate) fn lock(&self, operation: FlockOperation) -> Result<()> {
        ask!(self, file => rustix::fs::flock(file, operation), node => node.world().lock(node.number(), operation))
    }

    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        ask!(self,
            file => file.read_exact_at(bytes, at),
            node => match node.world().read_at(node.number(), bytes, at)? {
                all if all == bytes.len() => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        )
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        ask!(self, file => file.read_at(bytes, at), node => Ok(node.world().read_at(node.number(), bytes, at)?))
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        ask!(self,
            file => file.write_all_at(bytes, at),
            node => Ok(node.world().write_at(node.number(), bytes, at)?)
        )
    }

    /// Shares the first `len` bytes of the file with every other process that does.
    pub(crate) fn map(&self, len: usize) -> Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let map = ask!(self,
            // SAFETY: a new shared mapping at an address of the kernel's choice, which nothing in this process refers to
            // yet; it is unmapped only in `drop`, and only the atomics of `word` touch it.
            file => unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, file, 0) }?,
            node => return node.world().map(node.number(), len).map(Mapping::Simulated)
        );
        let start = NonNull::new(map.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapping::Real { start, len })
    }

    /// The file as the standard library knows it, for callers whose files are no part of any simulation.
    pub(crate) fn into_std(self) -> Result<File> {
        ask!(self, file => Ok(file), _node => Err(Errno::OPNOTSUPP))
    }
}

impl Read for &Handle {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        ask!(self, file => (&*file).read(bytes), node => Ok(node.world().read(node.number(), bytes)?))
    }
}

impl Write for &Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ask!(self, file => (&*file).write(bytes), node => Ok(node.world().write(node.number(), bytes)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of a file that are shared memory.
#[derive(Debug)]
pub(crate) enum Mapping {
    Real {
        start: NonNull<u8>,
        len: usize,
    },
    #[cfg(feature = "sim")]
    Simulated(std::rc::Rc<[AtomicU64]>),
}

impl Mapping {
    /// The 8 bytes that begin at `at`, a multiple of 8.
    ///
    /// # Panics
    /// If they are not all in the mapping, or not aligned.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        match self {
            Mapping::Real { start, len } => {
                assert!(at.is_multiple_of(8) && at + 8 <= *len, "a word of the mapping");
                // SAFETY: the word lies in the mapping and is 8-aligned, as just asserted (a mapping is page aligned);
                // it is only ever accessed as an atomic, by every process.
                unsafe { AtomicU64::from_ptr(start.add(at).cast::<u64>().as_ptr()) }
            }
            #[cfg(feature = "sim")]
            Mapping::Simulated(words) => &words[at / 8],
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self {
            Mapping::Real { start, len } => {
                // SAFETY: the mapping made in `map`, of that size; nothing borrows from it any more.
                let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), *len) };
            }
            #[cfg(feature = "sim")]
            Mapping::Simulated(_) => {}
        }
    }
}
