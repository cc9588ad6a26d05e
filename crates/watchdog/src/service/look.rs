//! What is installed, whose it is, and whether it runs.

use std::path::{Path, PathBuf};

use netsky_disk::ReadError;
use netsky_disk::env;
use netsky_disk::fs::Dir;
use netsky_disk::state;
use serde::Serialize;

use super::systemd::Names;
use super::{Error, File, Manager, Plan, Result, manager};

/// What says that a file is ours, before the digest of all before it.
const MARK: &str = "written by `netsky service install`; edited, it is left alone: ";

/// Most bytes of a unit that are read.
const CAP: u64 = 64 * 1024;

/// A text with its mark behind it.
pub(super) fn marked(open: &str, close: &str, text: &str) -> String {
    format!("{text}{open}{MARK}{}{close}\n", digest(text))
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// What is where a file of a unit goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Nothing.
    Missing,
    /// What would be written.
    Current,
    /// What another version wrote, or for another program or interval.
    Older,
    /// What was written, and edited by somebody.
    Edited,
    /// Something else: another's file, a link, a folder.
    Foreign,
}

impl Standing {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Missing => "missing",
            Standing::Current => "installed",
            Standing::Older => "outdated",
            Standing::Edited => "edited",
            Standing::Foreign => "not ours",
        }
    }
}

/// What stands where this file goes.
pub(super) fn standing(folder: &Path, file: &File) -> Result<Standing> {
    let dir = match Dir::look_into(folder) {
        Err(error) if error.is_not_found() => return Ok(Standing::Missing),
        opened => opened?,
    };
    let bytes = match dir.read(&file.name, CAP) {
        Ok(bytes) => bytes,
        Err(ReadError::Io(error)) if error.is_not_found() => return Ok(Standing::Missing),
        Err(ReadError::Io(error)) => return Err(error.into()),
        Err(_) => return Ok(Standing::Foreign),
    };
    let text = String::from_utf8_lossy(&bytes);
    if text == file.text {
        return Ok(Standing::Current);
    }
    // The default home of another `HOME` has the same names.
    let ours = text.rsplit_once(MARK).filter(|_| text.contains(&file.home));
    let Some((before, _)) = ours else { return Ok(Standing::Foreign) };
    let body = before.rfind('\n').map_or("", |end| &before[..=end]);
    let mut comments = [("# ", ""), ("<!-- ", " -->")].iter();
    let is_whole = comments.any(|(open, close)| text == marked(open, close, body));
    Ok(if is_whole { Standing::Older } else { Standing::Edited })
}

/// The folder that a user's units go to, as it is: a link to it is followed.
pub(super) fn folder(manager: Manager) -> Result<PathBuf> {
    let home = || env::path("HOME").ok_or(Error::NoFolder);
    let folder = match manager {
        Manager::Launchd => home()?.join("Library/LaunchAgents"),
        Manager::Systemd => match env::path("XDG_CONFIG_HOME") {
            Some(config) => config.join("systemd/user"),
            None => home()?.join(".config/systemd/user"),
        },
    };
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let there = folder.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let behind = there.and_then(|(above, real)| Some(real.join(folder.strip_prefix(above).ok()?)));
    Ok(behind.unwrap_or(folder))
}

/// One file of the service.
#[derive(Debug, Serialize)]
pub struct Unit {
    /// Where.
    pub path: PathBuf,
    /// What is there.
    pub standing: Standing,
    /// What its manager says of it; none where nobody answers.
    pub active: Option<String>,
}

/// How the service of a home stands.
#[derive(Debug, Serialize)]
pub struct Service {
    /// All of its files.
    pub units: Vec<Unit>,
    /// Whether it starts with the machine, or the user's login.
    pub enabled: bool,
    /// Whether the user's processes outlive his logins; none where nobody ends them.
    pub linger: Option<bool>,
}

impl Service {
    /// Whether nothing of it is there.
    pub fn is_missing(&self) -> bool {
        self.units.iter().all(|unit| unit.standing == Standing::Missing)
    }

    /// Whether all of it is there, ours or edited by its owner.
    pub fn is_installed(&self) -> bool {
        !self.units.iter().any(|unit| matches!(unit.standing, Standing::Missing | Standing::Foreign))
    }
}

/// Looks; asks the manager too where that is wanted.
///
/// # Errors
/// A folder or file that cannot be looked at.
pub fn look(plan: &Plan, manager: Manager, ask: bool) -> Result<Service> {
    let folder = folder(manager)?;
    let mut units = Vec::new();
    for file in plan.files(manager) {
        let standing = standing(&folder, &file)?;
        let active = if ask { manager::active(manager, &file.name) } else { None };
        units.push(Unit { path: folder.join(&file.name), standing, active });
    }
    let is_linked = |link: &PathBuf| state::exists(folder.join(link)).unwrap_or(false);
    let enabled = match manager {
        // What stands in the folder is loaded at each login.
        Manager::Launchd => units.iter().all(|unit| unit.standing != Standing::Missing),
        Manager::Systemd => wants(&Names::of(&plan.suffix)).iter().all(is_linked),
    };
    Ok(Service { units, enabled, linger: linger() })
}

/// The links by which units are enabled, in the folder of the units.
pub(super) fn wants(names: &Names) -> [PathBuf; 2] {
    [
        Path::new("default.target.wants").join(&names.ticker),
        Path::new("timers.target.wants").join(&names.timer),
    ]
}

/// Whether the processes of this user begin before his first login and outlive his last one; none where that is not known.
pub fn linger() -> Option<bool> {
    if !Path::new("/run/systemd/system").exists() {
        return None;
    }
    let user = env::text("USER").or_else(|| env::text("LOGNAME")).filter(|user| !user.is_empty())?;
    Some(Path::new("/var/lib/systemd/linger").join(user).exists())
}
