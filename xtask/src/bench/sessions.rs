//! Sessions: a start through the anchor, and how soon a killed agent is noticed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use netsky_disk::process::{PidFd, Signal, identify};
use netsky_kernel::client::{Client, Events};
use netsky_kernel::rpc::{EventKind, Guard, SessionView};
use netsky_kernel::session::{Io, Keeper, Spec};
use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;

use super::pairs::{Pair, alternate, timed};
use super::{Programs, floor};

const STARTS: usize = 60;
const DEATHS: usize = 60;

/// Nothing measured here takes longer; past it something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that does nothing until it is killed.
const SLEEPER: [&str; 2] = ["/bin/sleep", "1000"];

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Vec<Pair>> {
    let root = scratch.join("kernel");
    let floor = floor::Folders::make(&scratch.join("floor-of-sessions"))?;
    let mut client = Client::ensure(&root, &programs.ostk).context("start an anchor")?;
    // The anchor ends with everything under it, also when a measurement fails.
    let measured = starts(&mut client, &floor)
        .and_then(|starts| Ok([starts, deaths(&root, &mut client, &floor)?].into_iter().flatten().collect()));
    client.shutdown(true).context("stop the anchor")?;
    measured
}

fn starts(client: &mut Client, floor: &floor::Folders) -> Result<[Pair; 2]> {
    let name: AgentId = "started".parse()?;
    let mut ours = |_| {
        let took = timed(|| Ok(client.spawn(&spec(&name), &Guard::none()).map(drop)?))?;
        client.kill(&name, Some(Duration::ZERO), &Guard::none())?;
        Ok(took)
    };
    let bare = alternate(
        "start of a session through the anchor",
        "one fork and exec",
        STARTS,
        |_| start_bare(|| Ok(())),
        &mut ours,
    )?;
    let parts = |round: usize| {
        start_bare(|| {
            end(sleeper()?)?;
            floor.write(2 * round)?;
            floor.write(2 * round + 1)?;
            floor.row()?;
            floor.row()
        })
    };
    let whole = alternate(
        "the same",
        "what it consists of: two processes (worker, program), the meta twice, two journal rows",
        STARTS,
        parts,
        ours,
    )?;
    Ok([bare, whole])
}

/// How long a start takes together with what else belongs to it.
pub(super) fn start_bare(beside: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let mut child = None;
    let took = timed(|| {
        child = Some(sleeper()?);
        beside()
    })?;
    child.map_or(Ok(()), end)?;
    Ok(took)
}

fn deaths(root: &Path, client: &mut Client, floor: &floor::Folders) -> Result<[Pair; 2]> {
    let name: AgentId = "killed".parse()?;
    let mut events = Client::connect(root)?.subscribe(None)?;
    let mut ours = |_| {
        let session = client.spawn(&spec(&name), &Guard::none())?;
        let held = hold(session.program.clone())?;
        timed(|| {
            held.signal(Signal::KILL)?;
            noticed(&mut events, &session)
        })
    };
    let bare = alternate(
        "a killed agent, from SIGKILL to the event at a subscriber",
        "from SIGKILL to the pidfd of one's own child",
        DEATHS,
        |_| die_bare(|| Ok(())),
        &mut ours,
    )?;
    let parts = |round: usize| {
        die_bare(|| {
            floor.write(usize::MAX - round)?;
            floor.row()
        })
    };
    let whole = alternate(
        "the same",
        "what it consists of: the death, the meta of the end, the worker's row",
        DEATHS,
        parts,
        ours,
    )?;
    Ok([bare, whole])
}

/// How long a death takes to be seen by the parent, together with what else belongs to it.
pub(super) fn die_bare(beside: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let child = sleeper()?;
    let held = hold(identify(child.id()))?;
    let took = timed(|| {
        held.signal(Signal::KILL)?;
        ensure!(held.wait(PATIENCE)?, "a killed child lives");
        beside()
    })?;
    end(child)?;
    Ok(took)
}

/// Waits for the row that says how this very generation ended.
fn noticed(events: &mut Events, session: &SessionView) -> Result<()> {
    let wanted = |event: &netsky_kernel::rpc::Event| {
        event.kind == EventKind::Exited && event.generation == Some(session.generation)
    };
    let row = events.find(PATIENCE, wanted)?;
    ensure!(row.is_some_and(|row| row.kind == EventKind::Exited), "nobody noticed the death");
    Ok(())
}

fn hold(program: Option<ProcessId>) -> Result<PidFd> {
    let program = program.context("the program has no identity")?;
    PidFd::open(&program)?.context("the program ended by itself")
}

fn spec(name: &AgentId) -> Spec {
    Spec {
        name: name.clone(),
        argv: SLEEPER.map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        umask: None,
        io: Io::Pipes,
        runtime: "command".into(),
        model: None,
        keeper: Keeper::Watchdog,
        tags: BTreeMap::new(),
    }
}

fn sleeper() -> Result<Child> {
    let [program, argument] = SLEEPER;
    Command::new(program)
        .arg(argument)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("start a sleeper")
}

fn end(mut child: Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}
