//! A person's terminal: a command whose standard streams are a pseudo terminal that we read and type on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The size of every terminal measured.
pub(crate) const ROWS: u16 = 24;
pub(crate) const COLS: u16 = 80;

/// Nothing that is waited for here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running command and its terminal; ended when dropped.
pub(crate) struct Viewer {
    child: Child,
    master: File,
    /// What came after the last thing that was waited for.
    seen: Vec<u8>,
}

impl Viewer {
    pub(crate) fn start(mut command: Command) -> Result<Viewer> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave: OwnedFd = ioctl_tiocgptpeer(&master, flags)?;
        tcsetwinsize(&master, Winsize { ws_row: ROWS, ws_col: COLS, ws_xpixel: 0, ws_ypixel: 0 })?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        let child = command.spawn().context("start a viewer")?;
        Ok(Viewer { child, master: File::from(master), seen: Vec::new() })
    }

    /// Types.
    pub(crate) fn write(&mut self, keys: &[u8]) -> Result<()> {
        Ok(self.master.write_all(keys)?)
    }

    /// Reads until this text was shown; what was shown up to and with it is behind us then.
    pub(crate) fn until(&mut self, text: &str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some(at) = find(&self.seen, text.as_bytes()) {
                self.seen.drain(..at + text.len());
                return Ok(());
            }
            // A text may come in two pieces.
            self.seen.drain(..self.seen.len().saturating_sub(text.len()));
            ensure!(Instant::now() < until, "the viewer never showed {text:?}");
            if self.is_ready(PATIENCE)? {
                let read = self.master.read(&mut piece).context("the viewer ended")?;
                self.seen.extend_from_slice(&piece[..read]);
            }
        }
    }

    /// Reads what there is until nothing more comes for so long.
    pub(crate) fn rest(&mut self, quiet: Duration) -> Result<()> {
        self.seen.clear();
        let mut piece = vec![0; 64 << 10];
        while self.is_ready(quiet)? {
            self.master.read(&mut piece).context("the viewer ended")?;
        }
        Ok(())
    }

    fn is_ready(&self, patience: Duration) -> Result<bool> {
        let patience = Timespec::try_from(patience)?;
        Ok(poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&patience))? > 0)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}
