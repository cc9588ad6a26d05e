//! A4: two users on one machine. The other one gets nothing of ours, and has a home of its own beside it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::skipped::skipped;
use crate::stage::{QUIET, Stage};

/// `nobody`, who owns nothing here.
const OTHER: u32 = 65_534;

/// What touches a home, of every sort.
const VERBS: [&[&str]; 20] = [
    &["init"],
    &["status"],
    &["check"],
    &["attach", "agent0"],
    &["up", "0"],
    &["down"],
    &["restart"],
    &["logs", "agent0"],
    &["home", "adopt"],
    &["watchdog", "tick"],
    &["channel", "list", "agent0"],
    &["channel", "drain", "agent0"],
    &["channel", "wait", "agent0", "--timeout", "1s"],
    &["channel", "send", "agent0", "let me in", "--from", "agent1"],
    &["channel", "ack", "agent0", "0"],
    &["ledger", "status"],
    &["query", "SELECT 1"],
    &["channel", "show", "agent0", "0"],
    &["channel", "release", "agent0", "0"],
    &["channel", "poison", "list", "agent0"],
];

fn open(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
}

/// A folder that everybody may enter, with copies of the programs that everybody may run.
struct Public {
    folder: tempfile::TempDir,
}

impl Public {
    fn new() -> Public {
        let folder = tempfile::Builder::new().prefix("ns").tempdir().expect("a folder");
        open(folder.path(), 0o755);
        for program in [env!("CARGO_BIN_EXE_netsky"), env!("CARGO_BIN_EXE_ostk")] {
            let name = Path::new(program).file_name().expect("a name");
            // By another process: a descriptor open for writing that a test beside us forks along makes it "busy".
            let copied = Command::new("cp").arg(program).arg(folder.path().join(name)).status();
            assert!(copied.is_ok_and(|status| status.success()), "copied");
            open(&folder.path().join(name), 0o755);
        }
        Public { folder }
    }

    /// A folder of the other user's, for a home of its own.
    fn theirs(&self) -> PathBuf {
        let folder = self.folder.path().join("theirs");
        std::fs::create_dir(&folder).expect("made");
        open(&folder, 0o700);
        std::os::unix::fs::chown(&folder, Some(OTHER), Some(OTHER)).expect("we are root");
        folder.join("home")
    }

    fn as_other(&self, home: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(self.folder.path().join("netsky"));
        command.args(args).env_clear().env("NETSKY_HOME", home).env("HOME", home.parent().expect("a folder"));
        command.env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null()).uid(OTHER).gid(OTHER);
        command.output().expect("the program starts")
    }
}

/// One line, and exit 4.
fn refused(args: &[&str], output: &Output) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "netsky {args:?}: {line}");
    assert!(line.lines().count() == 1 && output.stdout.is_empty(), "netsky {args:?}: {line}");
}

/// Everything below a folder, with its bytes where it is a file.
fn all_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("listed").flatten() {
        match entry.file_type().expect("known") {
            kind if kind.is_dir() => found.extend(all_of(&entry.path())),
            kind if kind.is_file() => {
                found.push((entry.path(), std::fs::read(entry.path()).expect("read")));
            }
            _ => found.push((entry.path(), Vec::new())),
        }
    }
    found.sort();
    found
}

#[test]
fn must_show_a4_another_user_is_refused_by_every_verb_and_changes_nothing() {
    if !rustix::process::geteuid().is_root() {
        return skipped("root");
    }
    let (public, stage) = (Public::new(), super::namespaces::home_with_mail(&["ours"]));
    open(stage.home().parent().expect("a folder"), 0o755);
    let before = all_of(&stage.home());
    for mode in [0o700, 0o755] {
        // Even where somebody opened the folder: it is not theirs.
        open(&stage.home(), mode);
        for args in VERBS {
            refused(args, &public.as_other(&stage.home(), args));
        }
    }
    open(&stage.home(), 0o700);
    assert_eq!(all_of(&stage.home()), before);
    assert!(stage.ok(&["channel", "drain", "agent0"]).contains("ours"));
}

#[test]
fn must_show_a4_two_users_have_a_constellation_each_and_root_is_refused_at_the_others() {
    if !rustix::process::geteuid().is_root() {
        return skipped("root");
    }
    let (public, stage) = (Public::new(), Stage::up(0, QUIET, "500ms"));
    let (home, root) = (public.theirs(), stage.program("agent0"));
    let as_other = |args: &[&str]| {
        let output = public.as_other(&home, args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "netsky {args:?}: {}\n{out}{err}", output.status);
        out.into_owned()
    };
    let told = as_other(&["up", "0", "--tick", "10m", "--", "/bin/sh", "-c", QUIET]);
    assert!(told.contains("agent0 session 1 starting at "), "{told}");
    as_other(&["channel", "send", "agent0", "theirs", "--from", "agent1", "--create"]);
    as_other(&["check"]);
    stage.ok(&["check"]);

    // Root could read it all, and is refused like anybody else: what it wrote there would be root's.
    for args in VERBS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netsky"));
        command.args(args).env_clear().env("NETSKY_HOME", &home).stdin(Stdio::null());
        refused(args, &command.output().expect("the program starts"));
    }
    assert!(as_other(&["channel", "drain", "agent0"]).contains("theirs"));
    as_other(&["down"]);
    assert_eq!(stage.program("agent0"), root);
    assert_eq!(stage.living_roots(), ["1"]);
}
