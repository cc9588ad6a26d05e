//! The system calls that matter to files, and what each of them names.
//!
//! One table maps numbers to kinds; calls outside it are never counted. Memory maps are left out on purpose: a store
//! into a shared map is no call, so a stepper cannot stop there.

use nix::libc;

/// A kind of file-system call; the forms of one call (`open`, `openat`, `openat2`) are one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Opens or creates a file.
    Open,
    /// Writes bytes, also to standard output.
    Write,
    /// Moves a name.
    Rename,
    /// Forces a file or folder to disk.
    Sync,
    /// Removes a name.
    Unlink,
    /// Makes a folder.
    Mkdir,
    /// Gives a file a second name, hard or symbolic.
    Link,
    /// Sets a file's length.
    Truncate,
    /// Changes a file's mode or owner.
    Chmod,
    /// Takes or drops a `flock`.
    Lock,
    /// Closes a descriptor.
    Close,
    /// Becomes another program.
    Exec,
    /// Ends.
    Exit,
}

impl Call {
    /// Every call after which another process could see something different, and the locks.
    pub const CHANGES: &[Call] = &[
        Call::Open,
        Call::Write,
        Call::Rename,
        Call::Sync,
        Call::Unlink,
        Call::Mkdir,
        Call::Link,
        Call::Truncate,
        Call::Chmod,
        Call::Lock,
    ];

    /// Whether files are otherwise after it, where it did not fail; `flags` of an open.
    pub(crate) fn changes_files(self, flags: u64) -> bool {
        match self {
            Call::Open => {
                flags & (libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64 != 0
            }
            // A lock and an open file go with whoever dies; a kill loses nothing that was written and not synced.
            Call::Lock | Call::Close | Call::Sync => false,
            _ => true,
        }
    }

    /// The steps of processes: a file that they name is none that they change.
    pub(crate) fn is_of_processes(self) -> bool {
        matches!(self, Call::Exec | Call::Exit)
    }
}

/// Where a call's arguments name files.
#[derive(Clone, Copy)]
pub(crate) enum Names {
    /// Nowhere.
    Nothing,
    /// Argument 0 is a descriptor.
    Fd,
    /// Argument `.0` is a path.
    Path(usize),
    /// Arguments `.0` and `.0 + 1` are a folder's descriptor and a path below it.
    At(usize),
    /// Two of [`Names::Path`], at arguments 0 and 1.
    TwoPaths,
    /// Two of [`Names::At`], at arguments 0 and 2.
    TwoAt,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) call: Call,
    pub(crate) name: &'static str,
    pub(crate) names: Names,
}

macro_rules! known {
    ($($sys:ident $name:literal $call:ident $names:expr;)*) => {
        &[$((libc::$sys, Known { call: Call::$call, name: $name, names: $names })),*]
    };
}

const EVERYWHERE: &[(libc::c_long, Known)] = known! {
    SYS_openat "openat" Open Names::At(0);
    SYS_openat2 "openat2" Open Names::At(0);
    SYS_write "write" Write Names::Fd;
    SYS_writev "writev" Write Names::Fd;
    SYS_pwrite64 "pwrite64" Write Names::Fd;
    SYS_pwritev "pwritev" Write Names::Fd;
    SYS_copy_file_range "copy_file_range" Write Names::Fd;
    SYS_sendfile "sendfile" Write Names::Fd;
    SYS_renameat "renameat" Rename Names::TwoAt;
    SYS_renameat2 "renameat2" Rename Names::TwoAt;
    SYS_fsync "fsync" Sync Names::Fd;
    SYS_fdatasync "fdatasync" Sync Names::Fd;
    SYS_sync_file_range "sync_file_range" Sync Names::Fd;
    SYS_syncfs "syncfs" Sync Names::Fd;
    SYS_unlinkat "unlinkat" Unlink Names::At(0);
    SYS_mkdirat "mkdirat" Mkdir Names::At(0);
    SYS_linkat "linkat" Link Names::TwoAt;
    SYS_symlinkat "symlinkat" Link Names::At(1);
    SYS_truncate "truncate" Truncate Names::Path(0);
    SYS_ftruncate "ftruncate" Truncate Names::Fd;
    SYS_fallocate "fallocate" Truncate Names::Fd;
    SYS_fchmod "fchmod" Chmod Names::Fd;
    SYS_fchmodat "fchmodat" Chmod Names::At(0);
    SYS_fchown "fchown" Chmod Names::Fd;
    SYS_fchownat "fchownat" Chmod Names::At(0);
    SYS_flock "flock" Lock Names::Fd;
    SYS_close "close" Close Names::Fd;
    SYS_execve "execve" Exec Names::Nothing;
    SYS_execveat "execveat" Exec Names::Nothing;
    SYS_exit_group "exit_group" Exit Names::Nothing;
};

/// The older forms, which newer machines never had.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(libc::c_long, Known)] = known! {
    SYS_open "open" Open Names::Path(0);
    SYS_creat "creat" Open Names::Path(0);
    SYS_rename "rename" Rename Names::TwoPaths;
    SYS_unlink "unlink" Unlink Names::Path(0);
    SYS_rmdir "rmdir" Unlink Names::Path(0);
    SYS_mkdir "mkdir" Mkdir Names::Path(0);
    SYS_link "link" Link Names::TwoPaths;
    SYS_symlink "symlink" Link Names::Path(1);
    SYS_chmod "chmod" Chmod Names::Path(0);
    SYS_chown "chown" Chmod Names::Path(0);
};
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(libc::c_long, Known)] = &[];

/// The row of call number `nr`, or `None` when it does not touch files.
pub(crate) fn known(nr: i64) -> Option<Known> {
    EVERYWHERE.iter().chain(OLDER).find(|(number, _)| *number == nr).map(|(_, known)| *known)
}

/// Calls outside the table that leave every file and every other process as they are, also when their process dies next.
const QUIET: &[libc::c_long] = &[
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_prlimit64,
    libc::SYS_futex,
    libc::SYS_sched_getaffinity,
    libc::SYS_uname,
    libc::SYS_umask,
];

/// The older forms of those.
#[cfg(target_arch = "x86_64")]
const QUIET_OLDER: &[libc::c_long] =
    &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_poll, libc::SYS_dup2];
#[cfg(not(target_arch = "x86_64"))]
const QUIET_OLDER: &[libc::c_long] = &[];

/// Whether call `nr` changes nothing that another process sees.
pub(crate) fn is_quiet(nr: i64) -> bool {
    QUIET.contains(&nr) || QUIET_OLDER.contains(&nr) || nr == libc::SYS_close
}

/// Whether it maps a file such that a store, which is no call, changes it.
pub(crate) fn shares_memory(nr: i64, args: &[u64; 6]) -> bool {
    nr == libc::SYS_mmap
        && args[2] & libc::PROT_WRITE as u64 != 0
        && args[3] & libc::MAP_SHARED as u64 != 0
        && args[3] & libc::MAP_ANONYMOUS as u64 == 0
}

/// The flags of an open, by the names that it has: they are behind its path.
pub(crate) fn flags(known: Known, args: &[u64; 6]) -> u64 {
    match (known.call, known.name) {
        (Call::Open, "openat") => args[2],
        (Call::Open, "open") => args[1],
        // In memory, or always making a file.
        _ => libc::O_CREAT as u64,
    }
}

/// What call `nr` with that first argument starts: a process or a second thread by these flags, or by those that stand at
/// this address; nothing.
pub(crate) enum Starts {
    By(u64),
    At(u64),
    Nothing,
}

/// See [`Starts`].
pub(crate) fn starts(nr: i64, first: u64) -> Starts {
    match nr {
        libc::SYS_clone => Starts::By(first),
        libc::SYS_clone3 => Starts::At(first),
        _ => Starts::Nothing,
    }
}
