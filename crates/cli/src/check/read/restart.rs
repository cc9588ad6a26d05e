//! What is on disk of restarts of agent0: the statuses first, then the marker that names the child.

use std::ffi::OsStr;

use netsky_disk::layout::Layout;
use netsky_model::restart::{Inflight, Status, VERSION};

use super::files::{self, StateFile};
use super::place;

/// Restarts, over and under way.
#[derive(Debug, Default)]
pub(crate) struct Restart {
    pub(crate) inflight: Option<Inflight>,
    /// Where each is, and what it says.
    pub(crate) statuses: Vec<(String, Status)>,
}

pub(super) fn read(layout: &Layout, files: &mut Vec<StateFile>) -> netsky_disk::Result<Restart> {
    let mut restart = Restart::default();
    if let Some(dir) = files::folder(layout, layout.restart_status_folder(), files)? {
        for file in dir.names()? {
            let Some(id) = file.strip_suffix(".json") else { continue };
            let status: Option<Status> = files::state(layout, &dir, &file, VERSION, files)?;
            let Some(status) = status else { continue };
            let place = place(layout, dir.path().join(&file));
            if status.id.as_str() != id {
                files.push(StateFile::damaged(place.clone(), format!("is about {}", status.id)));
            }
            restart.statuses.push((place, status));
        }
    }
    let path = layout.restart_inflight();
    if let (Some(state), Some(name)) =
        (files::folder(layout, layout.state(), files)?, path.file_name().and_then(OsStr::to_str))
    {
        restart.inflight = files::state(layout, &state, name, VERSION, files)?;
    }
    Ok(restart)
}
