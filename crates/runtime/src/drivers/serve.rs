//! The process: one thread for each agent that is driven, one inotify instance for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use netsky_disk::bell::Bell;
use netsky_disk::layout::Layout;
use netsky_disk::state;
use netsky_disk::wake::Stop;
use netsky_disk::watch::Watch;
use netsky_model::desired::Desired;
use netsky_model::id::AgentId;
use netsky_model::life::State;

use super::reporter::Reporter;
use super::slot::{self, Shared};
use crate::driver;

/// Slow look for what gave no event.
const RESCAN: Duration = Duration::from_secs(30);

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// Its home went away.
    NoHome,
}

/// Drive every agent of a home until this process is asked to end.
///
/// # Errors
/// The system gives no more descriptors or no signals, before anything was begun.
pub fn serve(layout: &Layout, stop: &Stop, said: &(dyn Fn(&str) + Sync)) -> std::io::Result<Ended> {
    let (reporter, reports) = Reporter::new();
    let shared = Shared::new(layout, reporter, said);
    let mut agents: BTreeMap<AgentId, Arc<Bell>> = BTreeMap::new();
    let watch = Watch::default();
    std::thread::scope(|scope| {
        let shared = &shared;
        scope.spawn(move || reports.pass_on(&layout.kernel_root(), || shared.is_over()));
        let ended = loop {
            if stop.came() {
                break Ended::Asked;
            }
            if !state::exists(layout.home_json()).unwrap_or(true) {
                break Ended::NoHome;
            }
            for agent in
                driven(layout).into_iter().filter(|agent| !agents.contains_key(agent)).collect::<Vec<_>>()
            {
                let Ok(bell) = Bell::new().map(Arc::new) else { continue };
                let (name, heard) = (agent.clone(), Arc::clone(&bell));
                scope.spawn(move || slot::run(shared, &name, &heard));
                agents.insert(agent, bell);
            }
            // Watched before anybody looks: what comes in between rings once more.
            watch_all(&watch, shared, &agents);
            for bell in agents.values() {
                bell.ring();
            }
            if watch.wait_or_stop(RESCAN, stop).is_err() {
                netsky_disk::clock::pause(RESCAN);
            }
        };
        shared.end();
        for bell in agents.values() {
            bell.ring();
        }
        Ok(ended)
    })
}

/// Who has a driver, by what is or was wanted of them.
fn driven(layout: &Layout) -> Vec<AgentId> {
    let agents = layout.desired_agents().unwrap_or_default();
    let is_driven = |agent: &AgentId| {
        let wish: Option<Desired> = state::read_json(layout.desired(agent)).unwrap_or_default();
        wish.is_some_and(|wish| driver::is_driven(&wish.runtime))
    };
    agents.into_iter().filter(is_driven).collect()
}

fn watch_all(watch: &Watch, shared: &Shared<'_>, agents: &BTreeMap<AgentId, Arc<Bell>>) {
    let layout = shared.layout;
    let inboxes = agents.keys().map(|agent| layout.folder(agent, State::Written));
    let others = [layout.desired_folder(), layout.answers_folder(), shared.kernel.agents()];
    for folder in inboxes.chain(others) {
        // Of one that gives no events the rescan has to do.
        let _ = watch.add(folder);
    }
}
