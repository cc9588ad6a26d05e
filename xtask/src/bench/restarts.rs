//! Deaths of agent0: how soon one is noticed, and its successor runs and is verified; and what watching 200 agents costs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netsky_disk::process::{Signal, signal};
use netsky_kernel::client::{Client, Events};
use netsky_kernel::rpc::{Event, EventKind, SessionView};
use netsky_model::id::AgentId;

use super::asked::Figure;
use super::constellation::{PATIENCE, Up};
use super::pairs::{Pair, alternate_all};
use super::report::Measured;
use super::{Programs, cpu, sessions};

/// From the death until somebody acts on it.
pub(super) const NOTICED: &str =
    "a killed agent0, from SIGKILL until its restart is under way, agentinfinity alive";
pub(super) const SPAWNED: &str = "a killed agent0, from SIGKILL until the next one runs, agentinfinity alive";
pub(super) const VERIFIED: &str =
    "a killed agent0, from the up-proof of the next one until it is verified, agentinfinity alive";
pub(super) const NOTICED_BY_TICKS: &str =
    "a killed agent0, from SIGKILL until its restart is under way, by a tick each second alone";
pub(super) const VERIFIED_BY_TICKS: &str =
    "a killed agent0, from the up-proof of the next one until it is verified, by a tick each second alone";
/// Beside the rows.
pub(super) const TICK: &str = "a tick that looks at 200 agents, in which nothing is due";
pub(super) const WATCHED: &str = "200 idle agents, watched by a tick each 30 s";

const INTERVAL: Duration = Duration::from_secs(1);
const ROUNDS: usize = 60;
const ROUNDS_BY_TICKS: usize = 30;
/// Agents that are looked at.
const AGENTS: u32 = 200;
/// Ticks whose time is counted.
const TICKS: u32 = 20;
/// How long 200 agents are watched: two ticks of the ticker.
const IDLE: Duration = Duration::from_secs(60);
/// A program that proves that it is up and does nothing.
const IDLER: [&str; 3] = ["/bin/sh", "-c", "netsky session up && exec sleep 100000"];

pub(super) fn measure(scratch: &Path, programs: &Programs) -> Result<Measured> {
    let mut pairs = Vec::from(alive(&scratch.join("alive"), programs)?);
    pairs.extend(by_ticks(&scratch.join("by-ticks"), programs)?);
    let (tick, watched) = many(&scratch.join("many"), programs)?;
    let text = format!(
        "| time of a core | |\n| --- | ---: |\n| {TICK} | {tick:.1} ms |\n| {WATCHED}: everything of netsky | {watched:.2} % |\n"
    );
    let figures =
        [Figure::Tick.of(TICK), Figure::Core.of(WATCHED)].into_iter().zip([tick, watched]).collect();
    Ok(Measured { pairs, text, figures })
}

fn up<'a>(programs: &'a Programs, place: &Path, words: &[&str]) -> Result<Up<'a>> {
    Up::with(programs, place, "", &[words, &["--runtime", "command", "--"], &IDLER].concat())
}

/// One agent0 after the other.
struct Roots<'a> {
    up: Up<'a>,
    rows: Events,
}

impl<'a> Roots<'a> {
    fn begin(programs: &'a Programs, place: &Path) -> Result<Roots<'a>> {
        let up = up(programs, place, &["up", "0", "--tick", "1s"])?;
        let rows = Client::connect(&up.layout.kernel_root())?.subscribe(None)?;
        Ok(Roots { up, rows })
    }

    fn present(&self) -> Result<SessionView> {
        Ok(Client::connect(&self.up.layout.kernel_root())?.show(&AgentId::root())?)
    }

    /// Kills it: how long until its restart is under way, until the next one runs, and from its proof until it is verified.
    fn die(&mut self) -> Result<[Duration; 3]> {
        // As if half an hour of health had come before.
        let counted = self.up.layout.state().join("agent0-restart-attempts");
        std::fs::remove_file(counted).or_else(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        })?;
        let present = self.present()?;
        let next = present.generation.next();
        let victim = present.program.context("agent0 has no program")?;
        let began = Instant::now();
        ensure!(signal(&victim, Signal::KILL)?, "it is gone already");
        let inflight = self.up.layout.restart_inflight();
        self.up.until("its restart", || Ok(inflight.exists()))?;
        let noticed = began.elapsed();
        let runs = |row: &Event| {
            row.kind == EventKind::Started
                && row.session.as_ref() == Some(&AgentId::root())
                && row.generation == Some(next)
        };
        ensure!(self.rows.find(PATIENCE, runs)?.is_some_and(|row| runs(&row)), "nobody started another");
        let spawned = began.elapsed();
        self.up.until_proved("agent0", next.0)?;
        let proved = Instant::now();
        self.up.until("its verified end", || Ok(!inflight.exists()))?;
        Ok([noticed, spawned, proved.elapsed()])
    }
}

fn alive(place: &Path, programs: &Programs) -> Result<[Pair; 3]> {
    let mut roots = Roots::begin(programs, place)?;
    let names = [
        (NOTICED, "from SIGKILL to the pidfd of one's own child"),
        (SPAWNED, "that program started by hand: one fork and exec"),
        (VERIFIED, "one interval"),
    ];
    alternate_all(
        names.map(|(ours, floor)| (ours.to_owned(), floor.to_owned())),
        ROUNDS,
        |_| Ok([sessions::die_bare(|| Ok(()))?, sessions::start_bare(|| Ok(()))?, INTERVAL]),
        |_| roots.die(),
    )
}

/// agentinfinity is there and does nothing, so nobody takes its place either.
fn by_ticks(place: &Path, programs: &Programs) -> Result<[Pair; 2]> {
    let mut roots = Roots::begin(programs, place)?;
    let session = Client::connect(&roots.up.layout.kernel_root())?.show(&AgentId::infinity())?;
    let keeper = session.program.context("agentinfinity has no program")?;
    ensure!(signal(&keeper, Signal::STOP)?, "agentinfinity is gone");
    let names = [(NOTICED_BY_TICKS, "one interval"), (VERIFIED_BY_TICKS, "two intervals")];
    let measured = alternate_all(
        names.map(|(ours, floor)| (ours.to_owned(), floor.to_owned())),
        ROUNDS_BY_TICKS,
        |_| Ok([INTERVAL, INTERVAL * 2]),
        |round| {
            // The one before was verified by a tick: this one dies at another moment between two.
            std::thread::sleep(INTERVAL * (round as u32 * 7 % 10) / 10);
            let [noticed, _, verified] = roots.die()?;
            Ok([noticed, verified])
        },
    );
    signal(&keeper, Signal::CONT)?;
    measured
}

/// Milliseconds of a core for one tick, and per cent of a core for all that watches.
fn many(place: &Path, programs: &Programs) -> Result<(f64, f64)> {
    let up = up(programs, place, &["up", &AGENTS.to_string(), "--tick", "30s"])?;
    let own = std::process::id();
    let before = cpu::of_children_of(own)?;
    (0..TICKS).try_for_each(|_| up.run(&["watchdog", "tick"]))?;
    let tick = (cpu::of_children_of(own)?.saturating_sub(before) / TICKS).as_secs_f64() * 1e3;
    let processes = up.processes()?;
    let before = cpu::with_children_of(&processes)?;
    std::thread::sleep(IDLE);
    let busy = cpu::with_children_of(&processes)?.saturating_sub(before);
    Ok((tick, 100.0 * busy.div_duration_f64(IDLE)))
}
