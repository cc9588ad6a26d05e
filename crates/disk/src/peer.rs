//! Who is at the other end of a Unix socket.

use std::os::fd::{AsFd, AsRawFd};

use crate::error::{Error, Result};

/// The user who connected, or who listened when we did; faults A4.
///
/// The peer's pid is not looked at: it is 0 where the peer is in a pid namespace that we do not see, and `rustix`, which
/// takes it for a number above 0, then answers neither a user nor an error that means anything.
///
/// # Errors
/// It is no Unix socket, or not connected.
pub fn uid(stream: &impl AsFd) -> Result<u32> {
    let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).expect("12 bytes");
    // SAFETY: the descriptor is open as long as it is borrowed, and `who` and `len` are ours, live through the call, and
    // are as large as they say; every bit pattern is a `ucred`.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut len,
        )
    };
    if answer != 0 {
        return Err(Error::new(
            "ask who is at",
            "the other end of a socket",
            std::io::Error::last_os_error(),
        ));
    }
    Ok(who.uid)
}

/// Whether the user at the other end is the one that this process runs as.
pub fn is_us(stream: &impl AsFd) -> bool {
    uid(stream).is_ok_and(|uid| uid == crate::env::user())
}
