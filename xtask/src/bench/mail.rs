//! Messages: one durable send inside a process, and one whole `netsky channel send`.

use std::path::Path;

use anyhow::Result;
use netsky_bus::{Bus, Draft};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Sender};
use netsky_model::witness::Nobody;

use super::pairs::{Pair, alternate, timed};
use super::{Programs, floor};

const SENDS: usize = 300;
const WHOLE_SENDS: usize = 150;

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Vec<Pair>> {
    let home = scratch.join("home");
    let layout = Layout::new(&home);
    Home::init(&layout).map_err(|refused| anyhow::anyhow!("make a home: {refused}"))?;
    let bus = Bus::open(&layout, &Nobody);
    let (from, to) = (Sender::from(AgentId::root()), AgentId::numbered(7));
    bus.create(&to)?;

    let floor = floor::Folders::make(&scratch.join("floor"))?;
    let inside = alternate(
        "durable send inside a process",
        "create, write, fsync, rename, fsync folder",
        SENDS,
        |round| timed(|| floor.write(round)),
        |_| {
            let draft = Draft::new(from.clone(), to.clone(), floor::TEXT);
            timed(|| Ok(bus.send(draft).map(drop)?))
        },
    )?;

    let floor = floor::Folders::make(&scratch.join("floor-of-processes"))?;
    let whole = alternate(
        "whole `netsky channel send`",
        "the same write, and one start of `/bin/true`",
        WHOLE_SENDS,
        |round| timed(|| floor.write(round).and_then(|()| floor::bare_process())),
        |_| timed(|| send(programs, &home, &to)),
    )?;
    Ok(vec![inside, whole])
}

pub(crate) fn send(programs: &Programs, home: &Path, to: &AgentId) -> Result<()> {
    programs.run(home, &["channel", "send", to.as_str(), floor::TEXT, "--from", "agent0"])
}
