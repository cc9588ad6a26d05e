//! What lies about in the folders of state: files of dead writers, up proofs of sessions that are over.

use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Generation};
use serde::Deserialize;

use super::files::{self, StateFile};
use super::kernel::Kernel;
use super::place;

/// No write takes this long: what is older in a `tmp/` has no living writer.
const STRAY: Duration = Duration::from_secs(3600);
/// Statuses of restarts that are kept for people.
const STATUSES: usize = 20;

/// An up proof, as far as it matters here.
#[derive(Deserialize)]
struct UpProof {
    v: u64,
    agent: AgentId,
    generation: Generation,
}

pub(super) fn read(
    layout: &Layout,
    kernel: &Kernel,
    files: &mut Vec<StateFile>,
) -> netsky_disk::Result<Vec<(String, String)>> {
    let mut strays = Vec::new();
    for tmp in scratch_folders(layout)? {
        let Some(dir) = files::folder(layout, &tmp, files)? else { continue };
        let old = dir.ages()?.into_iter().filter(|(_, age)| *age > STRAY).count();
        if old > 0 {
            strays.push((
                place(layout, &tmp),
                format!("{old} files of writers that died more than an hour ago"),
            ));
        }
    }
    if let Some(dir) = files::folder(layout, layout.restart_status_folder(), files)? {
        let count = dir.names()?.iter().filter(|name| name.ends_with(".json")).count();
        if count > STATUSES {
            let what = format!("{count} statuses, the newest {STATUSES} are kept");
            strays.push((place(layout, dir.path()), what));
        }
    }
    if let Some(dir) = files::folder(layout, layout.up_folder(), files)? {
        let over = proofs_of_the_dead(layout, &dir, kernel, files)?;
        if over > 0 {
            strays.push((place(layout, dir.path()), format!("{over} up proofs of sessions that are over")));
        }
    }
    Ok(strays)
}

/// Every folder in which files are written before they get their name.
fn scratch_folders(layout: &Layout) -> netsky_disk::Result<Vec<std::path::PathBuf>> {
    let root = layout.kernel_root();
    let mut folders: Vec<_> =
        [layout.home(), &layout.state(), &root, &root.join("agents")].map(|folder| folder.join("tmp")).into();
    // What does not open is told by who reads the mail.
    folders.extend(layout.channel_agents().unwrap_or_default().iter().map(|agent| layout.channel_tmp(agent)));
    Ok(folders)
}

fn proofs_of_the_dead(
    layout: &Layout,
    dir: &Dir,
    kernel: &Kernel,
    files: &mut Vec<StateFile>,
) -> netsky_disk::Result<usize> {
    let mut over = 0;
    for (name, age) in dir.ages()? {
        let name = name.to_string_lossy();
        if name.parse::<netsky_model::id::Nonce>().is_err() {
            continue;
        }
        let proof: Option<UpProof> = files::state(layout, dir, &name, 1, files)?;
        let is_over = |proof: UpProof| proof.v <= 1 && kernel.has_ended(&proof.agent, proof.generation);
        // A younger one a tick may keep.
        over += usize::from(proof.is_some_and(is_over) && age > netsky_runtime::UpProof::KEPT);
    }
    Ok(over)
}
