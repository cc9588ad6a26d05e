//! A copied or moved home becomes a home of its own (faults A25).
//!
//! Promise: nothing here touches the home it was copied from, nor a process that runs there. What tells of processes
//! (the kernel's root, wishes, tokens, ticks, restarts) is put aside in the copy, since by it the copy would end sessions
//! of the original; messages, loops, landings, the record and the clock stay. `home.json` is written last: a run that was cut short
//! is completed by the next one, and until then every verb refuses the copy.

use crate::clock;
use crate::error::Error;
use crate::fs::{Dir, is_folder};
use crate::home::{Home, Refused, host_of};
use crate::layout::{KernelLayout, Layout};
use crate::lock::Lock;
use crate::{random, state};

/// What of `state/` belongs to the home wherever it is.
const KEPT: [&str; 8] =
    ["clock", "clock.lock", "key", "reserve", "reserve-retention", "loops", "cron-state.toml", "landings"];

/// What an adoption did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The home as it is now.
    pub home: Home,
    /// The id and the place it had before.
    pub was: (String, String),
    /// Where its sessions' files were put, below the home.
    pub aside: String,
}

/// Adopts a home that was copied or moved here; none if it was made here, and nothing is changed then.
///
/// `settle` is called when nothing of the old sessions is left, and before the home may be used.
///
/// # Errors
/// It cannot be used for another reason than being a copy, its sessions run (it was moved under them), or `settle` failed.
pub fn adopt<E: From<Refused>>(
    layout: &Layout,
    settle: impl FnOnce() -> std::result::Result<(), E>,
) -> std::result::Result<Option<Adopted>, E> {
    let _lock = match Home::open(layout) {
        Ok(_) => return Ok(None),
        Err(Refused::Copied { .. }) => Lock::take(layout.adoption_lock()).map_err(Refused::from)?,
        Err(other) => return Err(other.into()),
    };
    let Some(mut home) = state::read_json::<Home>(layout.home_json()).map_err(Refused::from)? else {
        return Err(Refused::Missing(layout.home().display().to_string()).into());
    };
    let here = host_of(layout).map_err(Refused::from)?;
    if home.host == here {
        // Another run was faster.
        return Ok(None);
    }
    let aside = put_aside(layout, &home)?;
    settle()?;
    let was = (home.home_id, home.host);
    home.home_id = random::token()[..32].to_owned();
    home.host = here;
    let told = serde_json::json!({ "home_id": was.0, "host": was.1, "at": clock::wall_seconds() });
    home.extra.insert("adopted".to_owned(), told);
    state::write_json(layout.home_json(), &home).map_err(Refused::from)?;
    Ok(Some(Adopted { home, was, aside }))
}

/// Moves what tells of processes out of the way; what an earlier run moved stays where it is.
fn put_aside(layout: &Layout, home: &Home) -> std::result::Result<String, Refused> {
    let kernel = KernelLayout::new(layout.kernel_root());
    if let Some(lock) = held(&kernel)? {
        return Err(Refused::Running { path: layout.home().display().to_string(), lock });
    }
    // From a file that anybody could have written: no part of a path is taken from it as it is.
    let old = blake3::hash(home.home_id.as_bytes()).to_hex();
    let name = format!("before-{}", &old[..8]);
    let aside = Dir::create(layout.home().join(&name))?;
    let from = Dir::open(layout.home())?;
    // What stands there already was put there by an earlier run, and what stands here now was made by it.
    if from.exists(".ostk")? && !aside.exists("ostk")? {
        from.rename(".ostk", &aside, "ostk")?;
    }
    let (state, state_aside) = (Dir::create(layout.state())?, Dir::create(aside.path().join("state"))?);
    for file in state.raw_names()?.iter().filter(|name| !KEPT.iter().any(|kept| *name == kept)) {
        if !state_aside.exists(file)? {
            state.rename(file, &state_aside, file)?;
        }
    }
    for changed in [&state_aside, &aside, &state, &from] {
        changed.sync()?;
    }
    for folder in layout.folders() {
        Dir::create(folder)?;
    }
    Ok(name)
}

/// A lock that a living anchor or worker holds: the folder was moved under them, for a copy is another file.
fn held(kernel: &KernelLayout) -> Result<Option<String>, Error> {
    let mut locks = vec![kernel.lock()];
    if is_folder(kernel.agents()) {
        let agents = Dir::open(kernel.agents())?;
        let names = agents.names()?;
        locks
            .extend(names.iter().filter(|name| name.ends_with(".lock")).map(|name| agents.path().join(name)));
    }
    for lock in locks {
        if Lock::is_held(&lock)? {
            return Ok(Some(lock.display().to_string()));
        }
    }
    Ok(None)
}
