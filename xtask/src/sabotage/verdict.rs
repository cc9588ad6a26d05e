//! What a run of a named test says about a removed safeguard.

use std::process::Output;

/// `timeout` ends with this when the time was up, and with the other when it had to use SIGKILL.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Counts of one run of `cargo test`, over all its binaries.
pub(crate) struct Ran {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) hung: bool,
    pub(crate) tail: String,
}

impl Ran {
    pub(crate) fn read(output: &Output, tail: String) -> Ran {
        let text = String::from_utf8_lossy(&output.stdout);
        let (passed, failed) = counts(&text);
        // A test that takes its whole process along, as by its stack, is counted by nobody.
        let is_dead = text.contains("process didn't exit successfully") && text.contains("(signal: ");
        let failed = failed.max(usize::from(is_dead));
        let hung = output.status.code().is_none_or(|code| TIMED_OUT.contains(&code));
        Ran { passed, failed, hung, tail }
    }
}

/// What became of a safeguard's test when the safeguard was gone.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Verdict {
    /// The test failed: the safeguard is held by it.
    Red,
    /// The test did not notice.
    Green,
    /// The test neither passed nor failed in time.
    Hung,
    /// The removal broke the build, which proves nothing.
    DoesNotBuild,
    /// The text to remove is not there exactly once.
    NotFoundOnce,
    /// No test of that name ran.
    NoSuchTest,
}

impl Verdict {
    pub(crate) fn of(ran: &Ran) -> Verdict {
        match (ran.hung, ran.passed, ran.failed) {
            (true, ..) => Verdict::Hung,
            (false, _, 1..) => Verdict::Red,
            (false, 1.., 0) => Verdict::Green,
            (false, 0, 0) => Verdict::NoSuchTest,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Red => "red",
            Verdict::Green => "GREEN",
            Verdict::Hung => "HUNG",
            Verdict::DoesNotBuild => "DOES NOT BUILD",
            Verdict::NotFoundOnce => "NOT FOUND ONCE",
            Verdict::NoSuchTest => "NO SUCH TEST",
        }
    }
}

/// Sums of `test result: … N passed; M failed; …`.
fn counts(text: &str) -> (usize, usize) {
    let number = |line: &str, word: &str| -> usize {
        let before = line.split(word).next().unwrap_or_default();
        before.rsplit(' ').find(|part| !part.is_empty()).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    text.lines().filter(|line| line.starts_with("test result:")).fold((0, 0), |(passed, failed), line| {
        (passed + number(line, " passed;"), failed + number(line, " failed;"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str, hung: bool) -> Verdict {
        let (passed, failed) = counts(text);
        Verdict::of(&Ran { passed, failed, hung, tail: String::new() })
    }

    #[test]
    fn a_test_that_takes_its_process_along_is_red() {
        let said = "running 1 test\nerror: test failed\n  process didn't exit successfully: `it` (signal: 6, SIGABRT)\n";
        for (said, expected) in [(said, Verdict::Red), ("running 0 tests\n", Verdict::NoSuchTest)] {
            let (status, stdout) = (std::os::unix::process::ExitStatusExt::from_raw(101 << 8), said.into());
            let ran = Ran::read(&Output { status, stdout, stderr: Vec::new() }, String::new());
            assert_eq!(Verdict::of(&ran), expected);
        }
    }

    #[test]
    fn only_a_failing_test_is_red() {
        let failed = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out";
        let passed = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 10 filtered out";
        assert_eq!(verdict(failed, false), Verdict::Red);
        assert_eq!(verdict(passed, false), Verdict::Green);
        assert_eq!(verdict(none, false), Verdict::NoSuchTest);
        assert_eq!(verdict("", true), Verdict::Hung);
        assert_eq!(verdict("error: could not compile", false), Verdict::NoSuchTest);
    }

    #[test]
    fn counts_add_up_over_binaries() {
        let two = "test result: ok. 2 passed; 0 failed;\nx\ntest result: FAILED. 11 passed; 3 failed;";
        assert_eq!(counts(two), (13, 3));
    }
}
