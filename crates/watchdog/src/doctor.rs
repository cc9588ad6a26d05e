//! `netsky doctor`: what a constellation needs of its home and its machine, each looked at by itself, with the remedy.
//!
//! Promise: looking changes nothing, and no check keeps another from being made. With `fix` only what is safe at any time is
//! done: folders that are missing, markers that are past their time.
//! Left to others: whether what is on disk is consistent (`netsky check`), and who runs (`netsky status`).

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::home::Home;
use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, env, state};
use netsky_kernel::client::{Client, ClientError, ROOM};
use netsky_model::desired::Want;
use netsky_model::duration::human;
use netsky_model::stamp::Stamp;
use netsky_runtime::Config;
use serde::Serialize;

use crate::context::Context;
use crate::held::{self, HOLDER_DEADLINE};
use crate::markers;
use crate::observe;
use crate::prune::prune_markers;
use crate::reach;
use crate::room;
use crate::tick::LastTick;
use crate::{service, up};

/// How far the wall clock may stray from the boot clock between two looks: a clock that is kept right moves less.
const STEP: Duration = Duration::from_secs(5);

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As it should be.
    Good,
    /// Something is missing that not everybody needs.
    Note,
    /// Something has to be done.
    Bad,
    /// It was bad, and was mended now.
    Fixed,
}

impl Health {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Health::Good => "good",
            Health::Note => "note",
            Health::Bad => "bad",
            Health::Fixed => "fixed",
        }
    }
}

/// What was looked at, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// What.
    pub id: &'static str,
    /// How it stands.
    pub state: Health,
    /// In words.
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

fn good(id: &'static str, what: impl Into<String>) -> Examined {
    Examined { id, state: Health::Good, what: what.into(), remedy: None }
}

fn ill(id: &'static str, state: Health, what: impl Into<String>, remedy: impl Into<String>) -> Examined {
    Examined { id, state, what: what.into(), remedy: Some(remedy.into()) }
}

/// Looks at everything, and mends with `fix` what can be mended at any time.
pub fn doctor(cx: &Context<'_>, fix: bool) -> Vec<Examined> {
    vec![
        folders(cx, fix),
        permissions(cx),
        config(cx),
        disk(cx),
        anchor(cx),
        sockets(cx),
        locks(cx),
        stray_markers(cx, fix),
        clocks(cx),
        transports(cx),
        groups(cx),
        service(cx),
        linger(),
        program("git", "git", "work of agents is landed by it"),
        cli("claude", "claude", ".claude/.credentials.json", "ANTHROPIC_API_KEY"),
        cli("codex", "codex", ".codex/auth.json", "OPENAI_API_KEY"),
    ]
}

fn folders(cx: &Context<'_>, fix: bool) -> Examined {
    let missing: Vec<PathBuf> =
        cx.layout.folders().into_iter().filter(|folder| !state::exists(folder).unwrap_or(true)).collect();
    let Some(first) = missing.first() else {
        return good("home", format!("{} has all of its folders", cx.layout.home().display()));
    };
    let what = format!("{} folders are missing, {} among them", missing.len(), first.display());
    match fix.then(|| Home::complete(cx.layout)) {
        Some(Ok(())) => Examined { id: "home", state: Health::Fixed, what, remedy: None },
        Some(Err(error)) => ill("home", Health::Bad, what, format!("making them failed: {error}")),
        None => ill("home", Health::Bad, what, "`netsky doctor --fix` makes them"),
    }
}

/// Whether what is in the home is its owner's alone. That is mended by nobody but him: who let others in knows why.
fn permissions(cx: &Context<'_>) -> Examined {
    let there = cx.layout.folders().into_iter().filter(|folder| state::exists(folder).unwrap_or(true));
    match there.filter_map(not_ours).next() {
        None => good("permissions", "each folder is yours alone"),
        Some(why) => {
            ill("permissions", Health::Bad, why, "look at what is in it, then `chmod 700` or `chown` it")
        }
    }
}

/// Why a folder cannot be worked in, or not by its owner alone.
fn not_ours(folder: PathBuf) -> Option<String> {
    let dir = match Dir::open(&folder) {
        Ok(dir) => dir,
        Err(error) => return Some(error.to_string()),
    };
    let mode = folder.metadata().ok()?.mode() & 0o777;
    if mode & 0o700 != 0o700 {
        return Some(format!("{}: its mode {mode:04o} keeps its owner out; make it 0700", folder.display()));
    }
    dir.lets_change().err().filter(|error| !is_read_only(error)).map(|error| error.to_string())
}

/// What no mode of a folder tells: that is how it is mounted, or a disk that fails.
fn is_read_only(error: &netsky_disk::Error) -> bool {
    error.source.kind() == ErrorKind::ReadOnlyFilesystem
}

fn config(cx: &Context<'_>) -> Examined {
    match Config::trouble(cx.layout) {
        None => good("config", "config.toml reads, or is not there"),
        Some(trouble) => ill("config", Health::Bad, trouble.to_string(), "mend the line that it names"),
    }
}

fn disk(cx: &Context<'_>) -> Examined {
    // Of one where nothing can be written the system says that there is room.
    let folders = cx.layout.folders().into_iter();
    let mut refused = folders.filter_map(|folder| Dir::open(folder).and_then(|dir| dir.lets_change()).err());
    if let Some(error) = refused.find(is_read_only) {
        let remedy =
            "mount it writable again; a disk that fails is made read-only too: the kernel's log says so";
        return ill("disk", Health::Bad, error.to_string(), remedy);
    }
    match netsky_disk::room(cx.layout.home()) {
        Err(error) => ill("disk", Health::Bad, error.to_string(), "see what is mounted there"),
        Ok(left) if left < ROOM => {
            let what = format!("{left} bytes are left, too few to start an agent");
            ill("disk", Health::Bad, what, "make room; nothing was lost")
        }
        Ok(left) if left < room::SCARCE => {
            ill("disk", Health::Bad, format!("{} MiB are left", left >> 20), "make room; nothing was lost")
        }
        Ok(left) if left < room::LOW => {
            ill("disk", Health::Note, format!("{} MiB are left", left >> 20), "make room before it is full")
        }
        Ok(left) => good("disk", format!("{} MiB are left", left >> 20)),
    }
}

fn anchor(cx: &Context<'_>) -> Examined {
    let ours = env!("CARGO_PKG_VERSION");
    match Client::connect(&cx.layout.kernel_root()) {
        Err(ClientError::NotServing { .. }) => match kept(cx) {
            0 => good("anchor", "nobody serves, and nobody is meant to run; `netsky up` starts one"),
            count => ill(
                "anchor",
                Health::Bad,
                format!("nobody serves, and {count} are meant to run: what dies now stays dead"),
                "`netsky tick --failsafe` starts it, or the next tick where ticks come; agents live on",
            ),
        },
        Err(error) => ill(
            "anchor",
            Health::Bad,
            format!("it does not answer: {error}"),
            "end its process; the next tick starts another, agents live on",
        ),
        Ok(client) if client.hello().version != ours => {
            let what = format!("version {} serves, and this is {ours}", client.hello().version);
            ill(
                "anchor",
                Health::Note,
                what,
                format!(
                    "`ostk --root {} kernel shutdown` ends it alone; the next tick starts the new one, agents live on",
                    cx.layout.kernel_root().display()
                ),
            )
        }
        Ok(_) => good("anchor", format!("serves, version {ours}")),
    }
}

/// How many should be kept, as far as that is known.
fn kept(cx: &Context<'_>) -> usize {
    let wishes = observe::wishes(cx, &mut Vec::new()).map(|wishes| wishes.read).unwrap_or_default();
    wishes.iter().filter(|wish| wish.want == Want::Up).count()
}

/// A socket whose worker is gone stands in nobody's way; many of them tell of something.
fn sockets(cx: &Context<'_>) -> Examined {
    let kernel = KernelLayout::new(cx.layout.kernel_root());
    let described = kernel.described_agents().unwrap_or_default();
    let is_stale = |agent: &&netsky_model::id::AgentId| {
        state::exists(kernel.worker_sock(agent)).unwrap_or(false)
            && !Lock::is_held(kernel.worker_lock(agent)).unwrap_or(true)
    };
    match described.iter().filter(is_stale).count() {
        0 => good("sockets", "each belongs to a worker that lives"),
        count => ill(
            "sockets",
            Health::Note,
            format!("{count} of workers that are gone"),
            format!("`ostk --root {} kernel reap` takes them away", cx.layout.kernel_root().display()),
        ),
    }
}

fn stray_markers(cx: &Context<'_>, fix: bool) -> Examined {
    let found = match markers::markers(cx.layout) {
        Ok(found) => found,
        Err(error) => return ill("markers", Health::Bad, error.to_string(), "see who may read the home"),
    };
    let past = found.iter().filter(|marker| marker.is_past).count();
    let strange: Vec<&str> =
        found.iter().filter(|marker| marker.meaning.is_none()).map(|marker| marker.id.as_str()).collect();
    if past > 0 {
        let what = format!("{past} are past their time");
        return match fix.then(|| prune_markers(cx)) {
            Some(Ok(())) => match left_past(cx) {
                None => Examined { id: "markers", state: Health::Fixed, what, remedy: None },
                Some(left) => {
                    let remedy = format!("{left} cannot be removed: see what it is, and move it away");
                    ill("markers", Health::Bad, what, remedy)
                }
            },
            Some(Err(error)) => ill("markers", Health::Bad, what, format!("removing them failed: {error}")),
            None => ill("markers", Health::Bad, what, "a tick, or `netsky doctor --fix`, removes them"),
        };
    }
    match strange.first() {
        None => good("markers", format!("{} stand, none is past its time", found.len())),
        Some(first) => {
            let what = format!("{} in state/ are none of netsky's, {first} among them", strange.len());
            ill("markers", Health::Note, what, "see whose they are; netsky leaves them alone")
        }
    }
}

/// What is past its time still.
fn left_past(cx: &Context<'_>) -> Option<String> {
    let found = markers::markers(cx.layout).unwrap_or_default();
    Some(found.into_iter().find(|marker| marker.is_past)?.id)
}

/// A lock goes with its holder; only one that is kept is in the way.
fn locks(cx: &Context<'_>) -> Examined {
    let path = cx.layout.watchdog_lock();
    let held = match Lock::is_held(&path) {
        Ok(held) => held,
        Err(error) => return ill("locks", Health::Bad, error.to_string(), "move what is there away"),
    };
    let holder = if held { held::holder(cx) } else { None };
    match holder {
        None => good("locks", "no actor keeps the others waiting"),
        Some((pid, age)) if age < HOLDER_DEADLINE => {
            good("locks", format!("an actor is at work (pid {pid}), and got on {} ago", human(age)))
        }
        Some((pid, age)) => {
            let what = format!("an actor (pid {pid}) has not got on for {}", human(age));
            ill(
                "locks",
                Health::Bad,
                what,
                format!("the next tick ends it; `netsky watchdog tick`, or `kill -9 {pid}`"),
            )
        }
    }
}

/// Whether the wall clock was set since the last tick.
fn clocks(cx: &Context<'_>) -> Examined {
    let last: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    let now = clock::stamp();
    let Some(last) = last.map(|last| last.at).filter(|at| at.boot_id == now.boot_id) else {
        return good("clock", "no tick of this boot to compare with");
    };
    let strayed = strayed(&last, &now);
    match strayed > STEP {
        false => good("clock", "the wall clock goes on with the boot clock"),
        true => {
            let what = format!("the wall clock was set by {} since the last tick", human(strayed));
            ill("clock", Health::Note, what, "ages and pauses are not touched by it; schedules are told")
        }
    }
}

fn strayed(last: &Stamp, now: &Stamp) -> Duration {
    let wall = now.wall.as_millisecond() - last.wall.as_millisecond();
    let boot = i64::try_from(now.boot_ms.saturating_sub(last.boot_ms)).unwrap_or(i64::MAX);
    Duration::from_millis(wall.saturating_sub(boot).unsigned_abs())
}

fn transports(cx: &Context<'_>) -> Examined {
    match Config::last_good(cx.layout).page.transports.len() {
        0 => {
            let what = "no transport is set: pages go to logs/pages.jsonl and reach nobody";
            ill(
                "pages",
                Health::Note,
                what,
                "set [[page.transports]] in config.toml (docs/pages.md), then `netsky escalate \"test\"`",
            )
        }
        count => match reach::look(cx.layout).map(|seen| seen.unsent) {
            Ok(None) => good("pages", format!("{count} transports are set")),
            Ok(Some(unsent)) => {
                let why = unsent.why.unwrap_or_default();
                let what =
                    format!("{count} transports are set, and {} pages are unsent: {why}", unsent.count);
                ill("pages", Health::Bad, what, "mend a transport, then `netsky watchdog pages`")
            }
            Err(error) => ill("pages", Health::Bad, error.to_string(), "see `netsky status`"),
        },
    }
}

/// Whether the kernel can give each session a control group: what leaves its parents behind is found all the same, later.
fn groups(cx: &Context<'_>) -> Examined {
    let sessions = crate::known::sessions(cx).unwrap_or_default();
    let living: Vec<_> = sessions.values().filter(|session| session.state.may_live()).collect();
    match living.iter().filter(|session| session.cgroup.is_none()).count() {
        _ if living.is_empty() => {
            good("groups", "no session runs; `ostk kernel show` of one says whether it has a group")
        }
        0 => good("groups", "each session has a control group of its own"),
        count => {
            let what = format!("{count} of {} sessions have no control group", living.len());
            ill(
                "groups",
                Health::Note,
                what,
                "processes are found by their mark; see docs/kernel.md for a delegated group",
            )
        }
    }
}

/// Whether anything starts netsky when the machine does.
fn service(cx: &Context<'_>) -> Examined {
    let note = |what: String, remedy: &str| ill("service", Health::Note, what, remedy);
    let manager = service::Manager::here();
    let plan = service::Plan::new(cx.layout, cx.netsky.clone(), up::ticker_interval(cx.layout));
    let seen = match plan.and_then(|plan| service::look(&plan, manager, false)) {
        Ok(seen) => seen,
        Err(error) => return note(error.to_string(), "see `netsky service status`"),
    };
    match (seen.is_installed(), seen.enabled) {
        (true, true) => good("service", "the ticker and the failsafe start with the machine"),
        (true, false) => note(
            "it is installed, and not enabled".to_owned(),
            "`netsky service install` where the user's systemd answers",
        ),
        (false, _) if seen.is_missing() => note(
            "nothing starts this home's ticker and failsafe with the machine".to_owned(),
            "`netsky service install`, or `netsky up` after each boot",
        ),
        (false, _) => note("files of it are missing, or not ours".to_owned(), "see `netsky service status`"),
    }
}

/// Whether the processes of a user outlive his last login.
fn linger() -> Examined {
    match service::linger() {
        None => good("linger", "no systemd ends the processes of who logs out"),
        Some(true) => good("linger", "your processes outlive your logins"),
        Some(false) => ill(
            "linger",
            Health::Note,
            "systemd may end everything that you run once you log out",
            "`loginctl enable-linger`",
        ),
    }
}

fn program(id: &'static str, name: &str, why: &str) -> Examined {
    match found(name) {
        Some(path) => good(id, path.display().to_string()),
        None => ill(
            id,
            Health::Note,
            format!("no {name} in PATH"),
            format!("install it where you need it: {why}"),
        ),
    }
}

/// An agent's program, and whether it has a login where it keeps one.
fn cli(id: &'static str, name: &str, login: &str, key: &str) -> Examined {
    let Some(path) = found(name) else {
        return ill(
            id,
            Health::Note,
            format!("no {name} in PATH"),
            "install it, or set the path in config.toml",
        );
    };
    let home = env::path("HOME").unwrap_or_default();
    let is_in = state::exists(home.join(login)).unwrap_or(false) || env::text(key).is_some();
    match is_in {
        true => good(id, format!("{}, and a login", path.display())),
        false => {
            let what = format!("{}, and no login that can be seen from here", path.display());
            ill(id, Health::Note, what, format!("log in with it once, or give the slot {key}"))
        }
    }
}

fn found(name: &str) -> Option<PathBuf> {
    let path = env::text("PATH").unwrap_or_default();
    path.split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|path| state::exists(path).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use netsky_model::id::AgentId;

    use super::*;
    use crate::context::in_a_home;
    use crate::decide::tests::wish;

    #[test]
    fn t9_a_step_of_the_wall_clock_is_told_and_a_sleep_is_none() {
        let at = |wall: i64, boot_ms: u64| Stamp {
            wall: jiff::Timestamp::from_second(wall).expect("in range"),
            boot_ms,
            boot_id: "b".to_owned(),
        };
        let last = at(1_000_000, 50_000);
        assert_eq!(strayed(&last, &at(1_000_060, 110_000)), Duration::ZERO);
        assert_eq!(strayed(&last, &at(1_028_800, 28_850_000)), Duration::ZERO, "eight hours of sleep");
        for step in [-10_800, 10_800] {
            assert_eq!(strayed(&last, &at(1_000_060 + step, 110_000)), Duration::from_secs(10_800));
        }
    }

    #[test]
    fn an_anchor_that_nobody_serves_is_bad_where_somebody_is_meant_to_run() {
        in_a_home(|cx| {
            assert_eq!(anchor(cx).state, Health::Good);
            for (want, is) in [("up", Health::Bad), ("stopped", Health::Good)] {
                let root = AgentId::root();
                state::write_json(cx.layout.desired(&root), &wish(&root, want)).expect("wanted");
                let told = anchor(cx);
                assert_eq!((told.state, kept(cx)), (is, usize::from(want == "up")), "{told:?}");
            }
        });
    }
}
