//! What every verb of the constellation works with.

use std::path::PathBuf;

use netsky_bus::Bus;
use netsky_disk::layout::Layout;
use netsky_disk::{spawn, state};
use netsky_kernel::client::Client;
use netsky_ledger::Telemetry;
use netsky_runtime::Config;

use crate::error::Result;

/// A home, its bus, its record, and where our programs are.
pub struct Context<'a> {
    /// Paths of the home.
    pub layout: &'a Layout,
    /// Messages.
    pub bus: Bus<'a>,
    /// Telemetry.
    pub record: &'a Telemetry,
    /// The `netsky` program.
    pub netsky: PathBuf,
    /// The program that serves as `ostk`.
    pub ostk: PathBuf,
}

impl<'a> Context<'a> {
    /// Work on a home.
    ///
    /// # Errors
    /// The system does not say where our programs are.
    pub fn new(layout: &'a Layout, record: &'a Telemetry) -> Result<Context<'a>> {
        let config = Config::last_good(layout);
        let (netsky, ostk) = (spawn::sibling("netsky")?, spawn::ostk()?);
        Ok(Context {
            layout,
            bus: Bus::open(layout, record)
                .with_limits(config.bus)
                .with_root(config.constellation.root)
                .with_missed(netsky_schedule::missed),
            record,
            netsky,
            ostk,
        })
    }

    /// The anchor of the constellation, started if nobody serves; never in what is left of a home that is being removed.
    pub(crate) fn anchor(&self) -> Result<Client> {
        if !state::exists(self.layout.home_json())? {
            let home = self.layout.home();
            return Err(
                netsky_disk::Error::because("start an anchor in", home, "its home.json is gone").into()
            );
        }
        Ok(Client::ensure(&self.layout.kernel_root(), &self.ostk)?)
    }
}

/// Runs `test` on a fresh home in which nothing can be started.
#[cfg(test)]
pub(crate) fn in_a_home(test: impl FnOnce(&Context<'_>)) {
    let temp = tempfile::tempdir().expect("a throwaway folder");
    let layout = Layout::new(temp.path().join("home"));
    netsky_disk::home::Home::init(&layout).expect("a fresh folder becomes a home");
    let record = Telemetry::new(&layout);
    let nowhere = PathBuf::from("/nowhere");
    let bus = Bus::open(&layout, &record);
    test(&Context { layout: &layout, bus, record: &record, netsky: nowhere.clone(), ostk: nowhere });
}

/// A look at one slot that is wanted, and at its session in this state.
#[cfg(test)]
pub(crate) fn observed(agent: &netsky_model::id::AgentId, state: &str) -> crate::observe::Observed {
    let wish = serde_json::json!({
        "v": 1, "agent": agent, "want": "up", "by": "up", "since": "2026-01-01T00:00:00Z", "runtime": "command",
        "argv": ["/bin/true"], "cwd": "/", "env": {}, "receipts": "ack",
    });
    let session = serde_json::json!({
        "name": agent, "state": state, "lineage": format!("{agent}-00000001"), "generation": 1,
        "runtime": "command", "keeper": "watchdog", "kept": false, "tags": {},
        "socket": "/", "argv": ["/bin/true"], "cwd": "/",
    });
    crate::observe::Observed {
        now: netsky_disk::clock::stamp(),
        interval: std::time::Duration::from_secs(60),
        desired: vec![serde_json::from_value(wish).expect("a whole wish")],
        sessions: [(agent.clone(), serde_json::from_value(session).expect("a whole session"))].into(),
        request: crate::observe::Request::None,
        restart: None,
        restart_unread: None,
        clones: Default::default(),
        unproved: None,
        markers: Default::default(),
        attempts: Default::default(),
        used_up: Default::default(),
        proofs: Default::default(),
    }
}
