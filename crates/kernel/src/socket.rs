//! Unix sockets by path, also where the path is longer than an address can hold.
//!
//! Promise: a long path is reached through `/proc/self/fd/<folder>/<name>`; what is bound is a listening socket from the
//! first moment its name exists.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::Dir;
use rustix::fs::OFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Most bytes of a path in a `sockaddr_un`, with its terminating zero.
const ADDRESS: usize = 108;

/// A path that fits into an address, and what keeps it valid.
struct Address {
    path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    fn of(path: &Path) -> io::Result<Address> {
        if path.as_os_str().len() < ADDRESS {
            return Ok(Address { path: path.to_owned(), _folder: None });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket needs a folder and a name"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(folder, flags, rustix::fs::Mode::empty())?);
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Address { path, _folder: Some(folder) })
    }
}

/// Connects to the socket at `path`; `WouldBlock` where it takes nobody for all of `patience`: those whom a stopped server
/// never took stay in its queue, and a plain connect waits for room in it without end.
pub(crate) fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = Address::of(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The one limit that the system knows for a connect.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(&address.path)?)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

/// Listens at `path`, replacing whatever bears that name: the caller holds the lock that makes the name its own.
///
/// Bound beside it and renamed onto it, so that a client finds either a listener or nothing.
pub(crate) fn listen(path: &Path) -> netsky_disk::Result<UnixListener> {
    let error = |source| netsky_disk::Error::new("listen at", path, source);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(error(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    let folder = Dir::open(folder)?;
    let mut beside = name.to_owned();
    beside.push(".new");
    folder.remove(&beside)?;
    let listener =
        UnixListener::bind(Address::of(&path.with_file_name(&beside)).map_err(error)?.path).map_err(error)?;
    folder.rename_over(&beside, &folder, name)?;
    Ok(listener)
}
