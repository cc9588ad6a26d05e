//! What a test could not look at on this machine, said where somebody sees it. Shared by the test programs of all crates.
//!
//! The test runner keeps the output of a test that passes to itself, so the line goes to the file that `./check` names
//! in `CHECK_SKIPPED` as well; `./check` prints and counts what is in there.

use std::io::Write;

/// Say that the running test is skipped, or a part of it, and what it needs.
pub(crate) fn skipped(needs: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED {} needs {needs}\n", thread.name().unwrap_or("a test"));
    print!("{line}");
    let Some(path) = std::env::var_os("CHECK_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the file that ./check named can be written");
}
