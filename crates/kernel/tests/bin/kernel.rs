//! The worker as a process of its own, for the tests of this crate; the real one is a hidden verb of `ostk`.

fn main() {
    let mut words = std::env::args_os().skip(1);
    let code = match words.next() {
        Some(verb) if verb == "__worker" => netsky_kernel::worker::main(words),
        verb => panic!("no such verb: {verb:?}"),
    };
    std::process::exit(code);
}
