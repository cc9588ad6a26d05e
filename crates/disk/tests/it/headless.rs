//! A process whose main thread has ended: the state of a zombie, no memory, no program, and it runs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netsky_disk::process::{PidFd, Signal, identify, probe};
use netsky_disk::sweep;
use netsky_model::process::{Life, ProcessId};

const LIMIT: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_headless-under-test");

/// One below a shell; both end with their test.
struct Headless {
    shell: Child,
    id: ProcessId,
}

impl Headless {
    fn start(entries: &[(&str, &str)]) -> Headless {
        let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut shell = Command::new("sh")
            .args(["-c", "env \"$@\" /dev/stdout & wait", "sh"])
            .args(&entries)
            .arg(PROGRAM)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") Z "), "{stat}");
        let Some(id) = identify(pid) else {
            end_unseen(pid);
            panic!("{pid} is taken for dead: {stat}");
        };
        Headless { shell, id }
    }
}

/// Ends one that the code under test does not see.
fn end_unseen(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

impl Drop for Headless {
    fn drop(&mut self) {
        let _ = netsky_disk::process::signal(&self.id, Signal::KILL);
        let _ = self.shell.wait();
    }
}

#[test]
fn t12_i11_a_process_lives_until_its_last_thread_has_ended() {
    let headless = Headless::start(&[]);
    assert_eq!(probe(&headless.id), Life::Alive);
    let held = PidFd::open(&headless.id).unwrap().expect("it lives");
    assert!(!held.wait(Duration::from_millis(1)).unwrap());
    assert!(held.signal(Signal::KILL).unwrap());
    assert!(held.wait(LIMIT).unwrap());
    assert_eq!(probe(&headless.id), Life::Dead);
}

#[test]
fn t12_i11_a_mark_is_found_where_another_thread_than_the_main_one_has_the_memory() {
    let mark = netsky_disk::random::token();
    let headless = Headless::start(&[("OSTK_MARK", &mark)]);
    assert_eq!(sweep::marked("OSTK_MARK", &mark).unwrap(), std::slice::from_ref(&headless.id));
    let environments = sweep::environments(&["OSTK_MARK"]).unwrap();
    assert!(environments.iter().any(|(id, values)| *id == headless.id && values["OSTK_MARK"] == mark));
    assert_eq!(sweep::environment_of(headless.id.pid, "OSTK_MARK"), Some(mark.clone()));
    let swept = sweep::sweep_marked("OSTK_MARK", &mark, LIMIT).unwrap();
    assert!(swept.killed == 1 && swept.left.is_empty(), "{swept:?}");
    assert_eq!(probe(&headless.id), Life::Dead);
}

#[test]
fn t12_i11_a_process_without_its_main_thread_is_found_below_another() {
    let headless = Headless::start(&[]);
    assert_eq!(sweep::descendants(headless.shell.id()).unwrap(), std::slice::from_ref(&headless.id));
    let swept = sweep::sweep_descendants(headless.shell.id(), LIMIT).unwrap();
    assert!(swept.killed == 1 && swept.left.is_empty(), "{swept:?}");
    assert_eq!(probe(&headless.id), Life::Dead);
}

#[test]
fn what_stands_apart_does_so_without_its_main_thread_too() {
    let headless = Headless::start(&[("OSTK_APART", "1")]);
    assert_eq!(sweep::descendants(headless.shell.id()).unwrap(), []);
    assert_eq!(probe(&headless.id), Life::Alive);
}
