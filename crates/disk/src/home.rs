//! The home's own file, checked by every verb: which home it is, in which format, on which machine.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fs::{self, Dir};
use crate::layout::Layout;
use crate::{key, random, state};

/// Format that this program writes.
pub const FORMAT: u64 = 1;

/// `home.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Format version.
    pub format: u64,
    /// Random identity of this home.
    pub home_id: String,
    /// Features that a program must know to touch it.
    pub incompat: Vec<String>,
    /// Machine and place it was made for: a copy is seen by a mismatch.
    pub host: String,
    /// Keys of newer versions.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Why a home is not used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is none.
    #[error("there is no home at {0}")]
    Missing(String),
    /// A newer program made or changed it.
    #[error("the home at {path} has {what}, newer than this program understands")]
    Newer {
        /// Where.
        path: String,
        /// Its format or feature.
        what: String,
    },
    /// It was made on another machine or at another path.
    #[error("the home at {path} was made as {made}, and this is {here}")]
    Copied {
        /// Where.
        path: String,
        /// What it says.
        made: String,
        /// What is true.
        here: String,
    },
    /// It was moved while its sessions ran.
    #[error("the home at {path} was moved while its sessions run: {lock} is held")]
    Running {
        /// Where.
        path: String,
        /// Which lock says so.
        lock: String,
    },
    /// It cannot be used.
    #[error(transparent)]
    Disk(#[from] Error),
}

/// Where a machine has its name.
const MACHINE: &str = "/etc/machine-id";

/// This machine and a home's place on it, as `home.json` names it. The place is the one behind every link: reached by
/// another path it is the same home.
///
/// # Errors
/// The machine's own name is there and does not read now: without it, it would be taken for another machine.
pub(crate) fn host_of(layout: &Layout) -> crate::error::Result<String> {
    let machine = match std::fs::read_to_string(MACHINE) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::new("read", MACHINE, error));
        }
        machine => machine.unwrap_or_default(),
    };
    let machine = blake3::hash(machine.trim().as_bytes()).to_hex();
    let place = layout.home().canonicalize().unwrap_or_else(|_| layout.home().to_owned());
    Ok(format!("{}:{}", &machine[..16], place.display()))
}

impl Home {
    /// Check the home.
    ///
    /// # Errors
    /// It is missing, newer, copied, not ours, or open to others.
    pub fn open(layout: &Layout) -> std::result::Result<Home, Refused> {
        let path = layout.home().display().to_string();
        if let Err(error) = Dir::open(layout.home()) {
            return Err(if error.is_not_found() { Refused::Missing(path) } else { error.into() });
        }
        let file = layout.home_json();
        let value: serde_json::Value = state::read_json(&file)?.ok_or(Refused::Missing(path.clone()))?;
        // Before anything else of it is understood: a newer home may have another shape.
        if let Some(newer) = value.get("format").and_then(serde_json::Value::as_u64).filter(|f| *f > FORMAT) {
            return Err(Refused::Newer { path, what: format!("format {newer}") });
        }
        let home: Home = serde_json::from_value(value)
            .map_err(|e| Error::new("understand", &file, std::io::Error::from(e)))?;
        if let Some(feature) = home.incompat.first() {
            return Err(Refused::Newer { path, what: format!("feature {feature:?}") });
        }
        let here = host_of(layout)?;
        if home.host != here {
            return Err(Refused::Copied { path, made: home.host, here });
        }
        Ok(home)
    }

    /// Make the folders that a home lacks: of an older format, or because somebody tidied it. Never the home itself.
    ///
    /// # Errors
    /// There is no home, or one of them cannot be made; the others were.
    pub fn complete(layout: &Layout) -> crate::error::Result<()> {
        let made = |folder: &std::path::PathBuf| match state::exists(folder)? {
            true => Ok(()),
            false => Dir::make(folder).map(drop),
        };
        let folders = layout.folders();
        folders.iter().filter(|folder| *folder != layout.home()).map(made).fold(Ok(()), Result::and)
    }

    /// Make a home, or check the one that is there and make what folders it lacks; true if it was made. It survives a
    /// power cut from then on, whoever made its folders: of several first runs at once one makes it, and all answer the
    /// same home.
    ///
    /// # Errors
    /// As [`Home::open`], or it cannot be made.
    pub fn init(layout: &Layout) -> std::result::Result<(Home, bool), Refused> {
        match Home::open(layout) {
            Err(Refused::Missing(_)) => {}
            found => {
                let home = found?;
                Home::complete(layout)?;
                // Whoever made it may have died before its last sync.
                Dir::open(layout.home())?.sync()?;
                return Ok((home, false));
            }
        }
        for folder in layout.folders() {
            Dir::create(folder)?;
        }
        // A folder that was found may be of a run that was killed before it synced what holds it.
        for folder in layout.folders() {
            Dir::open(folder)?.sync()?;
        }
        fs::sync_ancestors(layout.home())?;
        let home = Home {
            format: FORMAT,
            home_id: random::token()[..32].to_owned(),
            incompat: Vec::new(),
            host: host_of(layout)?,
            extra: serde_json::Map::new(),
        };
        key::create(layout)?;
        let made = state::create_json(layout.home_json(), &home)?;
        Ok((Home::open(layout)?, made))
    }
}
