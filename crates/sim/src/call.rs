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
}

/// Where a call's arguments name files.
#[derive(Clone, Copy)]
pub(crate) enum Names {
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
