//! What people and scripts see: one run of the program, its exit code and its words.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netsky_disk::process::{PidFd, Signal, identify_child};

use crate::bus_home::Home;

/// What one run said, with the throwaway home's path written as `$HOME`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program in a cleared environment, not started yet.
pub(crate) fn program(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netsky"));
    command
        .args(args)
        .env_clear()
        .env("NETSKY_HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) fn netsky(home: &Home, args: &[&str]) -> Said {
    said(home, program(home, args).output().expect("the program starts"))
}

/// Runs to its end what is refused, and must not serve instead: it is killed after a minute, and then has no exit code.
pub(crate) fn refusal(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    let id = identify_child(child.id()).expect("nobody has waited for it");
    if let Some(held) = PidFd::open(&id).expect("looked")
        && !held.wait(Duration::from_secs(60)).expect("waited for")
    {
        held.signal(Signal::KILL).expect("ours");
    }
    child.wait_with_output().expect("it ended")
}

/// Runs it as something below a session of `agent`.
pub(crate) fn inside(home: &Home, agent: &str, args: &[&str]) -> Said {
    let mut command = program(home, args);
    command
        .env("NETSKY_AGENT", agent)
        .env("NETSKY_GENERATION", "3")
        .env("OSTK_MARK", format!("{agent}-0a0b0c0d.g3"));
    said(home, command.output().expect("the program starts"))
}

/// Runs it with bytes on its standard input.
pub(crate) fn fed(home: &Home, args: &[&str], bytes: &[u8]) -> Said {
    let mut child = program(home, args).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    std::thread::scope(|scope| {
        // Beside the reading: it may answer before it has read all. It may also stop at its limit and be gone.
        scope.spawn(move || drop(stdin.write_all(bytes)));
        said(home, child.wait_with_output().expect("it ends"))
    })
}

pub(crate) fn said(home: &Home, output: Output) -> Said {
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).expect("UTF-8").replace(home.path().to_str().expect("UTF-8"), "$HOME")
    };
    let status = output.status;
    let code = status.code().unwrap_or_else(|| panic!("it was killed: {status}"));
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

impl Said {
    /// Asserts a failure: nothing on standard output, and exactly this one line.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, line: &str) {
        assert_eq!(
            (self.code, self.out.as_str(), self.err.as_str()),
            (code, "", &*format!("netsky: {line}\n"))
        );
    }

    /// Asserts a failure of one line that holds these words.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        assert_eq!(self.err.matches('\n').count(), 1, "one line: {:?}", self.err);
        assert!(self.err.starts_with("netsky: "), "{:?}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} in {:?}", self.err);
        }
    }

    /// Asserts success without a word on standard error.
    #[track_caller]
    pub(crate) fn works(&self) -> &str {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        &self.out
    }
}
