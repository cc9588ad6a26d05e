//! Power cuts on a real file system: an image in memory, mounted where only this thread's children see it.
//!
//! [`Image::cut`] is the file system's own emergency stop (`FS_IOC_SHUTDOWN` without a flush): from that moment nothing
//! reaches the image any more, every call on it fails, and [`Image::restore`] mounts what had reached it, by way of the
//! file system's own journal. What was acknowledged before the cut has to be there.
//!
//! What it cannot show: a disk that loses what it said it had flushed, and sectors torn in the middle.
#![expect(unsafe_code, reason = "the emergency stop of a file system has no safe wrapper")]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::ioctl;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tempfile::TempDir;

/// How long a file of the image may still be held after a cut.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which file system is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4 as `mkfs.ext4` makes it: metadata in a journal, data in order.
    Ext4,
    /// XFS as `mkfs.xfs` makes it: metadata in a log, data when it likes.
    Xfs,
}

impl Kind {
    /// `ext4`, `xfs`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
        }
    }

    /// Bytes of an image: the smallest that its `mkfs` takes without special wishes.
    fn size(self) -> u64 {
        match self {
            Kind::Ext4 => 64 << 20,
            Kind::Xfs => 320 << 20,
        }
    }
}

/// A file system in memory. Only the thread that made it, and what that thread starts, sees it.
#[derive(Debug)]
pub struct Image {
    kind: Kind,
    file: PathBuf,
    place: PathBuf,
    /// Held open for [`Image::cut`]: after it nothing can be opened.
    root: Option<File>,
    _folder: TempDir,
}

impl Image {
    /// Makes and mounts an empty file system.
    ///
    /// # Errors
    /// This user may not mount, or the tools of the file system are not there; the text says which.
    pub fn new(kind: Kind) -> io::Result<Image> {
        // SAFETY: a mount namespace concerns paths, not memory; the descriptors of this thread stay what they were.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        // Else what is mounted here would show, and stay, outside.
        run("mount", &["--make-rprivate", "/"])?;
        let folder = TempDir::new()?;
        let (memory, place) = (folder.path().join("memory"), folder.path().join("place"));
        fs::create_dir(&memory)?;
        fs::create_dir(&place)?;
        run("mount", &["-t", "tmpfs", "-o", "mode=0700,size=50%", "none", text(&memory)])?;
        let file = memory.join("image");
        File::create(&file)?.set_len(kind.size())?;
        match kind {
            Kind::Ext4 => run("mkfs.ext4", &["-q", "-F", text(&file)])?,
            Kind::Xfs => run("mkfs.xfs", &["-q", text(&file)])?,
        }
        let mut image = Image { kind, file, place, root: None, _folder: folder };
        image.mount()?;
        Ok(image)
    }

    /// Where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The power goes: nothing more is written, what the file system only remembered is lost.
    ///
    /// # Errors
    /// It is cut already, or the kernel has no such call for it.
    pub fn cut(&self) -> io::Result<()> {
        /// `FS_IOC_SHUTDOWN`, `_IOR('X', 125, u32)`: ext4, XFS and f2fs share it.
        const SHUTDOWN: ioctl::Opcode = ioctl::opcode::read::<u32>(b'X', 125);
        /// Stop at once; do not flush the log first.
        const NO_FLUSH: u32 = 2;
        let root = self.root.as_ref().ok_or_else(|| io::Error::other("no power to cut"))?;
        // SAFETY: the call reads one u32 through the pointer it is given, and Setter gives it one.
        unsafe { ioctl::ioctl(root, ioctl::Setter::<SHUTDOWN, u32>::new(NO_FLUSH)) }?;
        Ok(())
    }

    /// The power comes back: mounts what had reached the image.
    ///
    /// # Errors
    /// It cannot be mounted: the file system itself is damaged, or somebody still holds a file of it.
    pub fn restore(&mut self) -> io::Result<()> {
        self.root = None;
        // A program that another thread starts holds copies of our descriptors until it is what it becomes.
        let began = Instant::now();
        while let Err(busy) = run("umount", &[text(&self.place)]) {
            if began.elapsed() > PATIENCE {
                return Err(busy);
            }
        }
        self.mount()
    }

    fn mount(&mut self) -> io::Result<()> {
        run("mount", &["-t", self.kind.word(), "-o", "loop", text(&self.file), text(&self.place)])?;
        self.root = Some(File::open(&self.place)?);
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.root = None;
        // A thread that a test runner uses again must not keep it; the loop device goes with the mount.
        let _ = run("umount", &["--lazy", text(&self.place)]);
        let _ = run("umount", &["--lazy", text(self.file.parent().expect("the folder in memory"))]);
    }
}

fn run(program: &str, args: &[&str]) -> io::Result<()> {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let output = Command::new(program)
        .args(args)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {}: {}", args.join(" "), said.trim())))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary folder has a plain name")
}
