//! What sabotaged tests leave running: constellations whose test was ended in the middle, daemons that stand apart.
//!
//! Promise: however the run ends (its end, Ctrl-C, SIGKILL) nothing goes on below the folder that its tests were
//! given for temporary files, and nobody else is touched. A janitor, in a session of its own, holds on to the run's
//! identity for the ends that the run itself does not see.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use netsky_disk::lock::Lock;
use netsky_disk::process::{self, PidFd, Signal};
use netsky_disk::spawn::Program;
use netsky_model::process::ProcessId;

use super::scratch;

/// The hidden verb of the janitor.
pub(crate) const JANITOR: &str = "sabotage-janitor";

/// How long one look at the run lasts; only a bound, its end is an event.
const LOOK: Duration = Duration::from_secs(3600);
/// Longest that killed processes may take to be gone.
const GONE: Duration = Duration::from_secs(10);

/// Starts a janitor for this process.
pub(super) fn hire_janitor() -> Result<()> {
    let me = process::me();
    let args = vec![JANITOR.to_owned(), me.pid.to_string(), me.start_time.to_string()];
    let path = std::env::current_exe().context("find this program")?;
    Program { path, args, ..Program::default() }.detach().context("start a janitor")?;
    Ok(())
}

/// The janitor's own life: wait for the end of the run, then end what it left.
pub(crate) fn janitor(arguments: &[String]) -> Result<bool> {
    let [pid, start_time] = arguments else { bail!("the janitor is started by a run") };
    let run = ProcessId { pid: pid.parse()?, start_time: start_time.parse()?, ..process::me() };
    if let Some(held) = PidFd::open(&run)? {
        while !held.wait(LOOK)? {}
    }
    // Whoever has the copy by now has ended everything before it began.
    if let Some(_alone) = Lock::try_take(scratch::base().join("lock"))? {
        end(&scratch::base().join("tmp"))?;
    }
    Ok(true)
}

/// Ends every process that was started with a path below `folder` in its environment or among its arguments.
pub(super) fn end(folder: &Path) -> Result<()> {
    let until = Instant::now() + GONE;
    loop {
        let left = below(folder)?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{} processes below {} do not end", left.len(), folder.display());
        for id in &left {
            if let Some(held) = PidFd::open(id)? {
                held.signal(Signal::KILL)?;
                held.wait(GONE)?;
            }
        }
    }
}

fn below(folder: &Path) -> Result<Vec<ProcessId>> {
    let inside = [folder.as_os_str().as_bytes(), b"/"].concat();
    let names = |entry: &[u8]| {
        let value = entry.iter().position(|byte| *byte == b'=').map_or(entry, |at| &entry[at + 1..]);
        value.starts_with(&inside) || value == folder.as_os_str().as_bytes()
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("list processes")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(id) = process::identify(pid).filter(|id| id.pid != std::process::id()) else { continue };
        // One that is gone, or another user's, is none of ours.
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        if [read("environ"), read("cmdline")].iter().any(|text| text.split(|byte| *byte == 0).any(names)) {
            found.push(id);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_names_the_folder_is_ended_and_nobody_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let tmp = folder.path().join("tmp");
        let start = |value: &Path| {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000").env_clear().env("NETSKY_HOME", value).stdin(Stdio::null());
            sleep.spawn().expect("sleep is part of every Linux")
        };
        let (mut ours, mut other) = (start(&tmp.join("ns1/home")), start(&folder.path().join("tmp2/home")));
        end(&tmp).expect("ended");
        assert!(!ours.wait().expect("waited").success(), "killed");
        assert!(other.try_wait().expect("looked").is_none(), "spared");
        other.kill().expect("ours to end");
        other.wait().expect("waited");
    }
}
