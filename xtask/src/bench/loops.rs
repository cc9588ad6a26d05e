//! A hundred thousand loops: a tick costs by what is due.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netsky_bus::{Bus, Draft};
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, EnvelopeId, Sender};
use netsky_model::witness::Nobody;

use super::bus::{LIMITS, home};
use super::pairs::{Pair, alternate, timed};
use super::{Programs, floor};

/// A tick that has nothing to do.
pub(super) const IDLE: &str = "whole `netsky loop tick` in a home of 100,000 loops, none due";
pub(super) const ONE: &str = "whole `netsky loop tick` in a home of 100,000 loops, 1 due";
/// A tick that has much to do.
pub(super) const BUSY: &str = "whole `netsky loop tick` in a home of 100,000 loops, 1,000 due";

const LOOPS: u32 = 100_000;
const DUE: u32 = 1_000;
const ROUNDS: usize = 20;
const BUSY_ROUNDS: usize = 5;
/// Loops of a second are due at each tick that comes later.
const SECOND: Duration = Duration::from_millis(1_100);

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Vec<Pair>> {
    let place = &scratch.join("many");
    let layout = home(place)?;
    for number in 0..LOOPS {
        write(&layout, number, "2099-01-01T00:00:00Z", 86_400)?;
    }
    let tick = || programs.run(place, &["loop", "tick"]);
    tick()?;
    let idle =
        alternate(IDLE, "the files of all loops read", ROUNDS, |_| read_all(&layout), |_| timed(tick))?;
    let bus = Bus::open(&layout, &Nobody).with_limits(LIMITS);
    bus.create(&AgentId::root())?;
    let mut sent = 0_u64;
    let mut due = |name: &str, floor: &str, count: u32, rounds| {
        for number in 0..count {
            write(&layout, number, "2026-01-01T00:00:00Z", 1)?;
        }
        tick()?;
        empty(&bus)?;
        alternate(
            name,
            floor,
            rounds,
            |_| {
                let took = timed(|| (0..count).try_for_each(|_| send(&bus, &mut sent)))?;
                empty(&bus)?;
                Ok(took)
            },
            |_| {
                std::thread::sleep(SECOND);
                let began = Instant::now();
                tick()?;
                let took = began.elapsed();
                let told = empty(&bus)?;
                ensure!(told == count as usize, "{told} of {count} were told");
                Ok(took)
            },
        )
    };
    let one = due(ONE, "1 durable send under a derived id inside a process", 1, ROUNDS)?;
    let busy = due(BUSY, "1,000 durable sends under derived ids inside a process", DUE, BUSY_ROUNDS)?;
    Ok(vec![idle, one, busy])
}

fn write(layout: &Layout, number: u32, next: &str, interval: u64) -> Result<()> {
    let text = format!(
        "id = \"loop-{number:08x}\"\nagent = \"agent0\"\ncreated_utc = \"2026-01-01T00:00:00Z\"\nmode = \"fixed\"\n\
         prompt = \"{}\"\nnext_fire_utc = \"{next}\"\ninterval_secs = {interval}\n",
        floor::TEXT.trim()
    );
    let path = layout.loops().join(format!("loop-{number:08x}.toml"));
    // Another file, which the folder shows; one that is written in place it does not.
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn read_all(layout: &Layout) -> Result<Duration> {
    timed(|| {
        for entry in std::fs::read_dir(layout.loops())? {
            let path = entry?.path();
            if path.extension().is_some_and(|ext| ext == "toml") {
                std::fs::read(path)?;
            }
        }
        Ok(())
    })
}

fn send(bus: &Bus<'_>, sent: &mut u64) -> Result<()> {
    *sent += 1;
    let from: Sender = "agentloop".parse().context("a sender")?;
    let id = EnvelopeId::derived(&["bench", &sent.to_string()]);
    bus.send(Draft { id: Some(id), ..Draft::new(from, AgentId::root(), floor::TEXT) })?;
    Ok(())
}

/// agent0 has read everything; how much.
fn empty(bus: &Bus<'_>) -> Result<usize> {
    let read = bus.drain(&AgentId::root(), usize::MAX, netsky_model::id::Generation::NONE, |_| Ok(()))?;
    Ok(read.surfaced)
}
