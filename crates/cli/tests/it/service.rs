//! What service managers start: the unit of `docs/kernel.md` as it is written there, and the units of `netsky service`.

mod at_once;
mod failsafe;
mod manager;
mod units;

use std::path::Path;
use std::process::{Command, Stdio};

use netsky_disk::process::{PidFd, Signal, identify, is_alive};
use netsky_kernel::client::Client;

use crate::ostk::Folder;

const PAGE: &str = include_str!("../../../../docs/kernel.md");

/// The text of the unit.
fn unit() -> &'static str {
    let (_, behind) = PAGE.split_once("systemd/user/ostk.service`:\n\n```ini\n").expect("it is there");
    behind.split_once("```").expect("it has an end").0
}

/// A home with the program where the unit looks for it.
fn home() -> Folder {
    let home = Folder::new();
    let bin = home.dir.path().join(".local/bin");
    std::fs::create_dir_all(&bin).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ostk"), bin.join("ostk")).expect("made");
    home
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let home = home();
    let file = home.dir.path().join("ostk.service");
    std::fs::write(&file, unit()).expect("writes");
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["--user", "verify"])
        .arg(&file)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    verify.env("HOME", home.dir.path()).env("XDG_RUNTIME_DIR", home.dir.path());
    match verify.output() {
        Ok(said) => {
            let words = [said.stdout, said.stderr].concat();
            assert!(said.status.success() && words.is_empty(), "{}", String::from_utf8_lossy(&words));
        }
        Err(error) => crate::skipped::skipped(&format!("systemd-analyze: {error}")),
    }
}

#[test]
fn what_the_unit_starts_serves_and_a_stop_by_its_rule_leaves_workers_running() {
    let home = home();
    let line = |key: &str| {
        let lines: Vec<_> = unit().lines().filter_map(|line| line.strip_prefix(key)).collect();
        assert_eq!(lines.len(), 1, "{key}");
        lines[0].replace("%h", home.dir.path().to_str().expect("text"))
    };
    // Only the anchor is told to stop; with the usual rule each process of the cgroup is.
    assert_eq!((line("KillMode="), line("Delegate=")), ("process".to_owned(), "yes".to_owned()));
    let start = line("ExecStart=");
    let words: Vec<&str> = start.split(' ').collect();
    let root = Path::new(words.last().expect("a root"));
    std::fs::create_dir(root.parent().expect("a folder")).expect("made");
    let mut serve = home.command(words[0], &words[1..]);
    let mut anchor = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    home.until("it serves", |_| Client::connect(root).is_ok());
    let on_root = |args: &[&str]| {
        let mut command = home.command(env!("CARGO_BIN_EXE_ostk"), args);
        assert!(command.env("OSTK_ROOT", root).output().expect("starts").status.success(), "{args:?}");
    };
    on_root(&["kernel", "spawn", "agent1", "--", "sleep", "1000"]);
    let mut client = Client::connect(root).expect("it serves");
    let worker = client.show(&"agent1".parse().expect("a name")).expect("known").worker.expect("it has one");
    let held = identify(anchor.id()).and_then(|id| PidFd::open(&id).expect("opens")).expect("lives");
    held.signal(Signal::TERM).expect("ours to signal");
    assert!(anchor.wait().expect("ours").success(), "systemd does not start it again");
    assert!(is_alive(&worker));
    on_root(&["kernel", "shutdown", "--all"]);
    assert!(!is_alive(&worker));
}
