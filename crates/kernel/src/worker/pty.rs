//! A pseudo terminal: both ends, closed on exec, never our controlling terminal.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

/// The two ends of a terminal.
pub(super) struct Pty {
    /// The worker's end, non-blocking.
    pub(super) master: OwnedFd,
    /// The program's end.
    pub(super) slave: OwnedFd,
}

/// Open a terminal of that size.
pub(super) fn open(rows: u16, cols: u16) -> io::Result<Pty> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    // The peer by ioctl instead of by its path: no mount of devpts can put another file there.
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&slave)?;
    // A backspace in canonical mode removes a character, not a byte.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    resize(&master, rows, cols)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok(Pty { master, slave })
}

/// The signals that these keys send, as the terminal is set now.
pub(super) fn signals_of(master: &OwnedFd, keys: &[u8]) -> Vec<Signal> {
    let Ok(modes) = tcgetattr(master) else { return Vec::new() };
    if !modes.local_modes.contains(LocalModes::ISIG) {
        return Vec::new();
    }
    let keyed = [(SpecialCodeIndex::VINTR, Signal::INT), (SpecialCodeIndex::VQUIT, Signal::QUIT)];
    let pressed = keyed.into_iter().filter(|(index, _)| {
        let key = modes.special_codes[*index];
        // 0 stands for no key.
        key != 0 && keys.contains(&key)
    });
    pressed.map(|(_, signal)| signal).collect()
}

/// Give the terminal a new size; its foreground group gets SIGWINCH from the system.
pub(super) fn resize(master: &OwnedFd, rows: u16, cols: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(master, size)?)
}
