//! Stands in for `ostk` in this crate's tests, which cannot see the crate that makes the real one.

#![expect(unsafe_code, reason = "no safe call ends one thread alone, and the first one by itself")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use netsky_disk::layout::KernelLayout;
use netsky_kernel::anchor::{self, AnchorError};
use netsky_kernel::attach::{DetachKey, Options, attach, connect};
use netsky_kernel::client::Client;

#[path = "../../../disk/tests/bin/headless.rs"]
mod headless;

fn main() {
    let mut words = std::env::args_os().skip(1);
    let verb = words.next().expect("a verb").into_string().expect("text");
    let code = match verb.as_str() {
        "__worker" => netsky_kernel::worker::main(words),
        "serve" => serve(&PathBuf::from(words.nth(1).expect("--root ROOT"))),
        "attach" => attached(&words.map(|word| word.into_string().expect("text")).collect::<Vec<_>>()),
        "ensure" => ensure(&PathBuf::from(words.next().expect("ROOT"))),
        "headless" => headless::run(Path::new(&words.next().expect("FILE"))),
        "probe" => probe(&PathBuf::from(words.next().expect("ROOT"))),
        "greeting" => greeting(Path::new(&words.next().expect("SOCKET"))),
        other => panic!("no such verb: {other:?}"),
    };
    std::process::exit(code);
}

fn serve(root: &Path) -> i32 {
    match anchor::main(root) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            if matches!(error, AnchorError::Taken { .. }) { 5 } else { 4 }
        }
    }
}

/// Makes sure that a root is served, and then stays.
fn ensure(root: &Path) -> i32 {
    let me = std::env::current_exe().expect("a file of our own");
    let client = Client::ensure(root, &me).expect("an anchor");
    println!("{}", client.hello().anchor.pid);
    loop {
        std::thread::park();
    }
}

/// Asks an anchor by hand, without the caution of our own client: 0 it answers, 1 it (or the system) refuses.
fn probe(root: &Path) -> i32 {
    let ask = || {
        let mut stream = UnixStream::connect(root.join("ostk.sock"))?;
        // It may have refused and closed already; what it said can still be read.
        let _ = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kernel/hello\"}\n");
        let mut said = String::new();
        BufReader::new(stream).read_line(&mut said).map(|_| said)
    };
    let said = ask().unwrap_or_else(|error: std::io::Error| error.to_string());
    println!("{said}");
    i32::from(!said.contains("\"result\""))
}

/// The first line that a worker says: 0 there is one, 1 there is none.
fn greeting(socket: &Path) -> i32 {
    let mut said = String::new();
    let stream = UnixStream::connect(socket).expect("it may connect");
    // Closed without a word, or reset.
    let _ = BufReader::new(stream).read_line(&mut said);
    println!("{}", said.trim_end());
    i32::from(said.is_empty())
}

/// `attach ROOT NAME [--read-only]`; prints how it was left.
fn attached(words: &[String]) -> i32 {
    let [root, name, flags @ ..] = words else { panic!("ROOT NAME") };
    let options = Options {
        layout: KernelLayout::new(root),
        name: name.parse().expect("a name"),
        read_only: !flags.is_empty(),
        detach: DetachKey::default(),
    };
    match connect(&options).and_then(|client| attach(&options, client)) {
        Ok(left) => println!("left: {left:?}"),
        Err(error) => println!("error: {error}"),
    }
    0
}
