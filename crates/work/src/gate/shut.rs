//! The process that shuts itself in, and runs a gate's command: a program of ours calls [`serve`] first thing in `main`, while
//! it has one thread.
//!
//! Nothing has to happen between a fork and an exec: what is shut is this process, and what it starts inherits that.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use netsky_disk::alone;
use netsky_disk::spawn::{Ended, Program};

use super::{Order, Shut};

/// How the first line begins that is said before the command runs.
pub(super) const FIRST: &str = "netsky: sandbox = ";
/// Exit code of a gate that was ended at its limit.
pub(super) const TOO_LATE: i32 = 124;
/// And where a signal ended it.
const BY_SIGNAL: u8 = 128;
/// Exit code where the command was not run.
pub(super) const NOT_RUN: i32 = 125;
/// Most bytes of an order.
const MOST: u64 = 1024 * 1024;
/// The newest rules that are asked for; an older system gets those that it has.
const RULES: ABI = ABI::V6;
/// Folders of the system that programs need.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys"];
/// Devices that all may use; no terminal of the machine's is among them, for somebody types there.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];
/// What is beside them where they are its own.
const OWN_DEVICES: &[&str] = &["/dev"];

/// Run the gate that standard input orders, shut in; returns its exit code. Its first line of output says by what.
pub fn serve() -> u8 {
    let mut text = Vec::new();
    let read = std::io::stdin().take(MOST).read_to_end(&mut text);
    let order: Order = match read.map_err(serde_json::Error::io).and_then(|_| serde_json::from_slice(&text)) {
        Ok(order) => order,
        Err(error) => return refuse(&format!("its order does not read: {error}")),
    };
    match run(&order) {
        Ok(code) => code,
        Err(why) => refuse(&why),
    }
}

fn refuse(why: &str) -> u8 {
    say(&format!("netsky: the gate was not run: {why}"));
    NOT_RUN as u8
}

/// A line of output; nobody may be there to read it.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn run(order: &Order) -> Result<u8, String> {
    let has_left = alone::leave_network().map_err(|e| e.to_string())?;
    let has_root = has_left && leave_files(order).map_err(|e| e.to_string())?;
    // Opened before the rules hold, and looked up by what is in the order only.
    let is_walled = wall(order, has_left, has_root).map_err(|e| e.to_string())?;
    let shut = match (is_walled, has_left, has_root) {
        (true, _, true) => Shut::All,
        (true, true, _) => Shut::Both,
        (true, ..) => Shut::Landlock,
        (false, _, true) => Shut::Spaces,
        (false, true, _) => Shut::Network,
        (false, ..) => Shut::None,
    };
    say(&format!("{FIRST}{shut}"));
    if order.is_strict && shut != Shut::All {
        return Err("it cannot be shut in here, and must be".into());
    }
    let (path, args) = order.command.split_first().ok_or("it has no command")?;
    let program = Program {
        path: found(path, order),
        args: args.to_vec(),
        set: order.set.clone(),
        bare: true,
        folder: Some(order.folder.clone()),
        ..Program::default()
    };
    match alone::tend(&program, order.limit).map_err(|e| e.to_string())? {
        Ended::Exited(Some(code)) => Ok(u8::try_from(code).unwrap_or(1)),
        Ended::Exited(None) => {
            say("netsky: the gate was ended by a signal");
            Ok(BY_SIGNAL)
        }
        Ended::TooLate => {
            say(&format!("netsky: the gate was ended after {} s", whole(order.limit)));
            Ok(TOO_LATE as u8)
        }
    }
}

fn whole(limit: Duration) -> u64 {
    limit.as_secs().max(1)
}

/// A relative path is of the folder that it runs in; a plain word is looked for where programs are.
fn found(path: &str, order: &Order) -> std::path::PathBuf {
    if path.contains('/') {
        return order.folder.join(path);
    }
    let search = order.set.get("PATH").map(String::as_str).unwrap_or_default();
    let found = std::env::split_paths(search).map(|folder| folder.join(path)).find(|path| path.is_file());
    found.unwrap_or_else(|| path.into())
}

/// Have no path lead anywhere but to what the order says and the system: rules on files do not hold for a socket that has a path.
fn leave_files(order: &Order) -> netsky_disk::Result<bool> {
    let named = order.read.iter().chain(&order.write).map(AsRef::as_ref);
    let seen: Vec<&Path> = SYSTEM.iter().map(Path::new).chain(named).collect();
    alone::leave_files(&seen, &order.root)
}

/// Let nothing be written but what the order says, and nothing be read but that and the system; whether that holds. TCP is
/// shut too where there is no network of its own, as that would shut its loopback.
fn wall(order: &Order, has_left: bool, has_root: bool) -> Result<bool, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RULES))?
        .scope(Scope::from_all(RULES))?;
    if !has_left {
        rules = rules.handle_access(AccessNet::from_all(RULES))?;
    }
    let mut rules = rules.create()?;
    let read = AccessFs::from_read(RULES);
    for folder in SYSTEM.iter().map(Path::new).chain(order.read.iter().map(AsRef::as_ref)) {
        rules = beneath(rules, folder, read)?;
    }
    let own = OWN_DEVICES.iter().filter(|_| has_root);
    for device in DEVICES.iter().chain(own) {
        rules = beneath(rules, Path::new(device), AccessFs::from_all(RULES))?;
    }
    for folder in &order.write {
        rules = beneath(rules, folder, AccessFs::from_all(RULES))?;
    }
    let status = rules.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// What is not there needs no rule.
fn beneath(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RULES) };
    rules.add_rule(PathBeneath::new(opened, access))
}
