//! A process without its main thread, for the tests of this crate.

#![expect(unsafe_code, reason = "no safe call ends one thread alone, and the first one by itself")]

mod headless;

fn main() {
    headless::run(std::env::args_os().nth(1).expect("a file").as_ref());
}
