//! The bus under load: a batch, a long drain, a home that is old.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use netsky_bus::{Bus, Draft};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::quota::Limits;
use netsky_model::witness::Nobody;

use super::pairs::{Pair, alternate, timed};
use super::{Programs, floor, mail};

/// Messages of one batch.
const BATCH: usize = 1_000;
const BATCHES: usize = 5;

/// Messages of one long drain.
const DRAINED: usize = 10_000;
const DRAINS: usize = 2;

/// Messages that an old home has seen.
const LIFE: usize = 100_000;
const OLD_SENDS: usize = 150;

/// One sender fills the inbox here, as fast as it can.
pub(crate) const LIMITS: Limits = Limits {
    inbox_envelopes: DRAINED as u64,
    inbox_bytes: 64 << 20,
    share_percent: 100,
    reserve_percent: 0,
    rate_per_second: 1_000_000,
    burst: 10_000_000,
};

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Vec<Pair>> {
    let [inside, whole] = batch(&scratch.join("batch"), programs)?;
    let drain = drain(&scratch.join("drain"), programs)?;
    let old = old(scratch, programs)?;
    Ok(vec![inside, whole, drain, old])
}

/// One whole `channel send --batch` of a thousand lines against as many single sends: inside a process, and whole ones.
fn batch(place: &Path, programs: &Programs) -> Result<[Pair; 2]> {
    let layout = home(place)?;
    let bus = Bus::open(&layout, &Nobody).with_limits(LIMITS);
    let line = serde_json::json!({ "to": "agent7", "from": "agent0", "text": floor::TEXT });
    let lines = format!("{line}\n").repeat(BATCH);
    let against = |floor: &'static str, single: &dyn Fn() -> Result<()>| {
        let emptied = |act: &dyn Fn() -> Result<()>| {
            let took = timed(act)?;
            empty(&bus)?;
            Ok(took)
        };
        alternate(
            "1,000 messages by one `channel send --batch`",
            floor,
            BATCHES,
            |_| emptied(&|| (0..BATCH).try_for_each(|_| single())),
            |_| emptied(&|| send_batch(programs, place, &lines)),
        )
    };
    let inside =
        against("1,000 durable sends inside a process, one by one", &|| Ok(bus.send(draft()).map(drop)?))?;
    let whole = against("1,000 whole `netsky channel send`, one by one", &|| {
        mail::send(programs, place, &AgentId::numbered(7))
    })?;
    Ok([inside, whole])
}

/// One `channel drain` of a long inbox against as many bare durable writes.
fn drain(place: &Path, programs: &Programs) -> Result<Pair> {
    let layout = home(place)?;
    let bus = Bus::open(&layout, &Nobody).with_limits(LIMITS);
    let floor = floor::Folders::make(&place.join("floor"))?;
    alternate(
        "one `channel drain` of 10,000 messages",
        "10,000 times create, write, fsync, rename, fsync folder",
        DRAINS,
        |round| timed(|| (0..DRAINED).try_for_each(|n| floor.write(round * DRAINED + n))),
        |_| {
            fill(&bus, DRAINED)?;
            timed(|| programs.run(place, &["channel", "drain", "agent7"]))
        },
    )
}

/// A whole send in a home that has seen a hundred thousand messages against the same in a fresh one.
fn old(scratch: &Path, programs: &Programs) -> Result<Pair> {
    let (fresh, old) = (scratch.join("fresh"), scratch.join("old"));
    home(&fresh)?;
    let layout = home(&old)?;
    let bus = Bus::open(&layout, &Nobody).with_limits(LIMITS);
    for _ in 0..LIFE / DRAINED + 1 {
        fill(&bus, DRAINED)?;
        empty(&bus)?;
    }
    let to = AgentId::numbered(7);
    alternate(
        "whole `netsky channel send` in a home that has seen 100,000 messages",
        "the same in a home that has seen none",
        OLD_SENDS,
        |_| timed(|| mail::send(programs, &fresh, &to)),
        |_| timed(|| mail::send(programs, &old, &to)),
    )
}

pub(super) fn home(place: &Path) -> Result<Layout> {
    let layout = Layout::new(place);
    Home::init(&layout).map_err(|refused| anyhow::anyhow!("make a home: {refused}"))?;
    Bus::open(&layout, &Nobody).create(&AgentId::numbered(7))?;
    Ok(layout)
}

fn draft() -> Draft {
    Draft::new(Sender::from(AgentId::root()), AgentId::numbered(7), floor::TEXT)
}

fn fill(bus: &Bus<'_>, count: usize) -> Result<()> {
    for sent in bus.send_all((0..count).map(|_| draft()).collect()) {
        sent?;
    }
    Ok(())
}

fn empty(bus: &Bus<'_>) -> Result<()> {
    Ok(bus.drain(&AgentId::numbered(7), usize::MAX, Generation::NONE, |_| Ok(())).map(drop)?)
}

fn send_batch(programs: &Programs, home: &Path, lines: &str) -> Result<()> {
    let mut child = programs
        .on(home, &["channel", "send", "--batch"])
        .stdin(Stdio::piped())
        .spawn()
        .context("start a batch")?;
    child.stdin.take().context("piped")?.write_all(lines.as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "netsky channel send --batch: {status}");
    Ok(())
}
