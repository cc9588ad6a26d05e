//! What one run of the program costs, in memory and in work.

use std::fs::{self, File};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::bus_home::Home;
use crate::screen::program;

/// What one run cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Its peak, in KiB; as often looked at as the machine lets us, and 0 if that was never.
    pub(crate) memory: u64,
    /// Ticks of the processor for it and for the system on its behalf, to its end.
    pub(crate) work: u64,
}

/// Runs the program with its standard output into a file; what it cost, and how it ended.
pub(crate) fn cost(home: &Home, args: &[&str], output: &Path) -> (Cost, ExitStatus) {
    let stdout = File::create(output).expect("made");
    let mut child =
        program(home, args).stdout(stdout).stderr(Stdio::null()).spawn().expect("the program starts");
    let process = Path::new("/proc").join(child.id().to_string());
    let mut memory = 0;
    // The ended process stays for us to read what it worked, which is not counted before its end.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(Pid::from_child(&child)), ended).expect("our child").is_none() {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        memory = peak.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(memory);
        std::thread::yield_now();
    }
    let stat = fs::read_to_string(process.join("stat")).expect("not waited for yet");
    // The 14th and the 15th field; the second is a name in brackets.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let work = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    (Cost { memory, work }, child.wait().expect("our child"))
}
