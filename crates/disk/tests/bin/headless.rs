//! `headless FILE`: a process whose main thread ends while another one runs. `FILE` gets its pid as a line once that is so.
//!
//! Shared by the test programs of this crate and of the kernel.

use std::ffi::c_long;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// `SYS_exit`, which ends one thread: the kernel's tests name no `libc`.
const EXIT: c_long = if cfg!(target_arch = "x86_64") { 60 } else { 93 };

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Loses its main thread; the other one stays for as long as a test may take.
pub(crate) fn run(file: &Path) -> ! {
    // Opened while there is a main thread: without one there is no `/proc/self/fd`.
    let mut file = File::options().append(true).create(true).open(file).expect("a place for a pid");
    std::thread::spawn(move || {
        while !main_has_ended() {
            std::thread::yield_now();
        }
        writeln!(file, "{}", std::process::id()).expect("somebody reads it");
        std::thread::park_timeout(Duration::from_secs(1000));
        std::process::exit(0);
    });
    // SAFETY: nothing of this thread is used by the other one, and the process stays as it is.
    unsafe { syscall(EXIT, 0 as c_long) };
    unreachable!("this thread has ended")
}

fn main_has_ended() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("it is there as long as a thread is");
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.starts_with(" Z"))
}
