//! What a service manager is told by the ticker that it runs (`sd_notify`): a word at each beat.
//!
//! Promise: nothing waits for who listens, and nobody below hears of the socket.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use netsky_disk::env;

/// What systemd gives to the service alone: whoever else speaks there is refused, and may wonder why.
pub(crate) const OURS: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// It is ready, and lives.
pub(crate) const BEAT: &str = "READY=1\nWATCHDOG=1\nSTATUS=ticks";

/// The same of one that waits for another to end.
pub(crate) const WAITS: &str = "READY=1\nWATCHDOG=1\nSTATUS=another ticker runs; waits for its end";

/// Tells it, where anybody listens.
pub(crate) fn tell(word: &str) {
    if let Some(socket) = env::path(OURS[0]) {
        // Who is not told asks by killing this process, and the next beat is soon enough before that.
        let _ = send(&socket, word);
    }
}

fn send(socket: &Path, word: &str) -> io::Result<usize> {
    let datagram = UnixDatagram::unbound()?;
    // A manager that reads nothing must not stop time.
    datagram.set_nonblocking(true)?;
    match socket.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => send_abstract(&datagram, name, word),
        None => datagram.send_to(word.as_bytes(), socket),
    }
}

#[cfg(target_os = "linux")]
fn send_abstract(datagram: &UnixDatagram, name: &[u8], word: &str) -> io::Result<usize> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    datagram.send_to_addr(word.as_bytes(), &address)
}

#[cfg(not(target_os = "linux"))]
fn send_abstract(_: &UnixDatagram, _: &[u8], _: &str) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_reaches_a_socket_with_a_path_and_one_without() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let heard = |listener: UnixDatagram, socket: &Path| {
            send(socket, BEAT).expect("sent");
            let mut bytes = [0; 100];
            let length = listener.recv(&mut bytes).expect("heard");
            assert_eq!(&bytes[..length], BEAT.as_bytes());
        };
        heard(UnixDatagram::bind(&path).expect("bound"), &path);
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("netsky-notify-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
            heard(UnixDatagram::bind_addr(&address).expect("bound"), Path::new(&format!("@{name}")));
        }
    }

    #[test]
    fn nobody_below_hears_of_the_socket() {
        crate::context::in_a_home(|cx| {
            let unset = crate::ticker::program(cx, &["watchdog", "tick"]).unset;
            assert!(OURS.iter().all(|key| unset.iter().any(|unset| unset == key)));
        });
    }

    #[test]
    fn t24_a_manager_that_reads_nothing_stops_no_beat() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).expect("bound");
        let full = (0..10_000).find_map(|_| send(&path, BEAT).err()).expect("its queue is full");
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(send(&folder.path().join("nobody"), BEAT).is_err());
    }
}
