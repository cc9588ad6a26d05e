//! The process: one thread for each agent that is driven, one inotify instance for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use netsky_bus::Missed;
use netsky_disk::bell::Bell;
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::state;
use netsky_disk::wake::Stop;
use netsky_disk::watch::Watch;
use netsky_kernel::session::Meta;
use netsky_model::desired::Desired;
use netsky_model::id::AgentId;
use netsky_model::life::State;

use super::reporter::Reporter;
use super::slot::{self, Shared};
use super::undriven;
use crate::driver;

/// Slow look for what gave no event.
const RESCAN: Duration = Duration::from_secs(30);

/// Pause where nothing can be watched.
const PAUSE: Duration = Duration::from_secs(1);

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// Its home went away.
    NoHome,
    /// A part of it ended by itself.
    Failed,
}

/// Drive every agent of a home until this process is asked to end, or something in it ends by itself. `missed` says what
/// passed while an envelope waited.
pub fn serve(layout: &Layout, stop: &Stop, missed: Missed, said: &(dyn Fn(&str) + Sync)) -> Ended {
    // Each slot holds several.
    netsky_kernel::files::take_all();
    let (reporter, reports) = Reporter::new();
    let shared = Shared::new(layout, reporter, missed, said);
    let watch = Watch::default();
    std::thread::scope(|scope| {
        let shared = &shared;
        let mut agents: BTreeMap<AgentId, (Arc<Bell>, ScopedJoinHandle<'_, ()>)> = BTreeMap::new();
        scope.spawn(move || reports.pass_on(&layout.kernel_root(), || shared.is_over()));
        let ended = loop {
            if stop.came() {
                break Ended::Asked;
            }
            if !state::exists(layout.home_json()).unwrap_or(true) {
                break Ended::NoHome;
            }
            // One that failed in a way that nobody thought of: the keeper starts all of it anew.
            let failed =
                agents.iter().find(|(_, (_, thread))| thread.is_finished()).map(|(agent, _)| agent.clone());
            if let Some((_, thread)) = failed.as_ref().and_then(|agent| agents.remove(agent)) {
                // Taken here, it is not thrown on by the scope.
                let _ = thread.join();
                said(&format!(
                    "{}: its thread ended",
                    failed.map_or_else(String::new, |agent| agent.to_string())
                ));
                break Ended::Failed;
            }
            for agent in driven(layout, &shared.kernel) {
                if agents.contains_key(&agent) {
                    continue;
                }
                let bell = match Bell::new() {
                    Ok(bell) => Arc::new(bell),
                    // Without a descriptor left it is met by a later round.
                    Err(error) => {
                        undriven::Notes::default().is_kept_by(&error.to_string(), layout, &agent);
                        continue;
                    }
                };
                let (name, heard) = (agent.clone(), Arc::clone(&bell));
                let thread = scope.spawn(move || slot::run(shared, &name, &heard));
                agents.insert(agent, (bell, thread));
            }
            // Watched before anybody looks: what comes in between rings once more.
            watch_all(&watch, shared, agents.keys());
            for (bell, _) in agents.values() {
                bell.ring();
            }
            if watch.wait_or_stop(RESCAN, stop).is_err() {
                netsky_disk::clock::pause(PAUSE);
            }
        };
        shared.end();
        for (bell, _) in agents.values() {
            bell.ring();
        }
        ended
    })
}

/// Who has a driver, by what is or was wanted of them; where no wish reads, by what runs: that is kept, and wants its mail.
fn driven(layout: &Layout, kernel: &KernelLayout) -> Vec<AgentId> {
    let mut agents = layout.desired_agents().unwrap_or_default();
    agents.extend(kernel.described_agents().unwrap_or_default());
    agents.sort_unstable();
    agents.dedup();
    let is_driven = |agent: &AgentId| match state::read_json::<Desired>(layout.desired(agent)) {
        Ok(Some(wish)) => driver::is_driven(&wish.runtime),
        Ok(None) | Err(_) => {
            let described = state::read(kernel.meta(agent)).ok().flatten();
            let meta = described.and_then(|bytes| Meta::parse(&bytes).ok());
            meta.is_some_and(|meta| driver::is_driven(&meta.spec.runtime))
        }
    };
    agents.into_iter().filter(is_driven).collect()
}

fn watch_all<'a>(watch: &Watch, shared: &Shared<'_>, agents: impl Iterator<Item = &'a AgentId>) {
    let layout = shared.layout;
    let inboxes = agents.map(|agent| layout.folder(agent, State::Written));
    let others = [layout.desired_folder(), layout.answers_folder(), shared.kernel.agents()];
    for folder in inboxes.chain(others) {
        // Of one that gives no events the rescan has to do.
        let _ = watch.add(folder);
    }
}
