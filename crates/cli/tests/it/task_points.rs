//! The real verbs of tasks, killed before and after each of their file-system calls, and where one of these fails: a task is as it
//! was or as it was to be, its brief is whole, and a repeat ends what was begun.

use anyhow::{Context, Result, ensure};
use netsky_sim::{Call, Fault};
use serde_json::Value;

use crate::bus_home::Home;
use crate::everywhere::{break_everywhere, hit};
use crate::screen::netsky;

const CLOSE: [&str; 3] = ["task", "close", "1"];

/// A home with one task.
fn template() -> Home {
    let home = Home::init();
    netsky(&home, &["task", "create", "one"]).works();
    home
}

/// A task that is to be made, with a brief that has a file.
fn create(brief: &str) -> [&str; 7] {
    ["task", "create", "two", "--id", "second", "--brief", brief]
}

fn show(home: &Home, id: &str) -> Result<Option<Value>> {
    let told = netsky(home, &["task", "show", id, "--json"]);
    match told.code {
        0 => Ok(Some(serde_json::from_str(&told.out)?)),
        3 => Ok(None),
        code => anyhow::bail!("{code}: {}", told.err),
    }
}

fn is_closed(home: &Home) -> Result<bool> {
    let task = show(home, "1")?.context("it was there")?;
    ensure!(task["title"] == "one", "{task}");
    match task["state"]["is"].as_str() {
        Some("open") => Ok(false),
        Some("closed") => Ok(true),
        other => anyhow::bail!("{other:?}"),
    }
}

/// What is there of the new task is all of it; after a repeat it is there.
fn is_made(home: &Home, brief: &str) -> Result<bool> {
    ensure!(!is_closed(home)?, "another was touched");
    let whole = |task: &Value| task["title"] == "two" && task["brief_text"] == brief;
    let found = show(home, "second")?;
    ensure!(found.as_ref().is_none_or(whole), "{found:?}");
    let again = netsky(home, &create(brief));
    ensure!(again.code == if found.is_some() { 4 } else { 0 }, "{again:?}");
    let made = show(home, "second")?;
    ensure!(made.as_ref().is_some_and(whole), "{made:?}");
    Ok(found.is_some())
}

#[test]
fn fm_task_create_kill_every_syscall() {
    let (home, brief) = (template(), "long ".repeat(2_000));
    let points = break_everywhere("task create", Fault::Kill, &home, &create(&brief), |home, _| {
        is_made(home, &brief).map(drop)
    });
    hit(&points, Call::Rename, "/briefs/", 2);
    hit(&points, Call::Write, "/record/", 2);
}

#[test]
fn fm_task_close_kill_every_syscall() {
    let points = break_everywhere("task close", Fault::Kill, &template(), &CLOSE, |home, _| {
        is_closed(home)?;
        ensure!(netsky(home, &CLOSE).code == 0 && is_closed(home)?, "a repeat does not end it");
        let told = netsky(home, &["query", "SELECT count(*) FROM facts WHERE kind = 'task.closed'"]);
        ensure!(told.out.lines().nth(1).map(str::trim) == Some("1"), "told twice: {told:?}");
        Ok(())
    });
    hit(&points, Call::Write, "/record/", 2);
}

// Elsewhere the stepper kills, but cannot yet make a call fail.
#[cfg(target_arch = "x86_64")]
mod errno {
    use netsky_sim::{Ended, Errno};

    use super::*;
    use crate::errno_points::clear_answer;

    fn under(errno: Errno) {
        let name = format!("task close, {errno}");
        break_everywhere(&name, Fault::Fail(errno), &template(), &CLOSE, |home, outcome| {
            clear_answer(outcome, errno)?;
            // 6 is for what was done and could not be said.
            let said = matches!(outcome.run.ended, Ended::Exited(0 | 6));
            ensure!(is_closed(home)? == said, "{:?}, and closed: {}", outcome.run.ended, !said);
            ensure!(netsky(home, &CLOSE).code == 0 && is_closed(home)?, "a repeat does not end it");
            Ok(())
        });
        let (home, brief) = (template(), "long ".repeat(2_000));
        let name = format!("task create, {errno}");
        break_everywhere(&name, Fault::Fail(errno), &home, &create(&brief), |home, outcome| {
            clear_answer(outcome, errno)?;
            let said = matches!(outcome.run.ended, Ended::Exited(0 | 6));
            ensure!(is_made(home, &brief)? == said, "{:?}, and made: {}", outcome.run.ended, !said);
            Ok(())
        });
    }

    #[test]
    fn fm_task_create_close_enospc_every_syscall() {
        under(Errno::ENOSPC);
    }

    #[test]
    fn fm_task_create_close_eio_every_syscall() {
        under(Errno::EIO);
    }
}
