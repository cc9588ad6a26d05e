//! One look at everything the tick decides from. Reading only; a source that does not read is said so
//! and never taken for "nothing is there".

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::SessionView;
use netsky_model::backoff::Attempts;
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Generation};
use netsky_model::lifecycle::LifecycleState;
use netsky_model::process::{Life, ProcessId};
use netsky_model::restart::{Clones, Inflight, Started, Status};
use netsky_model::stamp::Stamp;
use netsky_runtime::drivers::Book;
use netsky_runtime::{Config, TAG_SINCE, UpProof};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::ticker::LastBeat;
use crate::{handoff, known, perform};

/// Interval of the ticker when it has not said another.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// What a tick saw.
#[derive(Debug)]
pub(crate) struct Observed {
    /// When it looked.
    pub(crate) now: Stamp,
    /// How often the ticker ticks.
    pub(crate) interval: Duration,
    /// What should be, agent0 first.
    pub(crate) desired: Vec<Desired>,
    /// What is.
    pub(crate) sessions: BTreeMap<AgentId, SessionView>,
    /// Whether a planned restart waits.
    pub(crate) request: Request,
    /// The restart that is under way.
    pub(crate) restart: Option<Underway>,
    /// Why it is not known whether one is.
    pub(crate) restart_unread: Option<String>,
    /// What becomes of clones in a crash restart that begins now.
    pub(crate) clones: Clones,
    /// The agent0 that the last restart started and gave up on, as long as it does not say that it is up.
    pub(crate) unproved: Option<Started>,
    /// The markers that there were.
    pub(crate) markers: Markers,
    /// Starts of what had died.
    pub(crate) attempts: BTreeMap<AgentId, Attempts>,
    /// Whose context is used up as their driver knows, in which generation, and since when.
    pub(crate) used_up: BTreeMap<AgentId, (Generation, Option<Stamp>)>,
    /// Names of the up proofs that were there before it was asked who lives: whose session is not among those is over.
    pub(crate) proofs: BTreeSet<String>,
}

/// Names in `state/` when a tick looked, sorted: hundreds of agents have hundreds of markers that are seldom there. For those that
/// are made under the tick's lock alone (`restart-attempts`, `hang-suspected`, `pane-hash`, `crashloop-suspected`): what was not
/// there is not there unless this tick made it.
#[derive(Debug, Default)]
pub(crate) struct Markers(Option<Vec<OsString>>);

impl Markers {
    fn look(layout: &Layout, problems: &mut Vec<String>) -> Markers {
        let names = Dir::open(layout.state()).and_then(|folder| folder.raw_names());
        // Where they are not known each is asked about.
        Markers(names.map_err(|error| problems.push(error.to_string())).ok())
    }

    /// Whether it has to be asked about.
    pub(crate) fn may_have(&self, marker: &Path) -> bool {
        let known = self.0.as_ref().zip(marker.file_name());
        known.is_none_or(|(names, name)| names.binary_search_by(|one| one.as_os_str().cmp(name)).is_ok())
    }

    /// As [`state::remove`].
    pub(crate) fn remove(&self, marker: &Path) -> Result<bool> {
        Ok(self.may_have(marker) && state::remove(marker)?)
    }
}

/// How long a request for a restart waits for a tick: an agent0 that lives is not ended for what was asked of another day.
pub(crate) const ASKED: Duration = Duration::from_secs(30 * 60);

/// The request for a planned restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// There is none.
    None,
    /// Waits to be claimed.
    Queued,
    /// Has waited for longer than anybody who asks expects: no tick has looked for so long, or it was put there.
    Past,
    /// Claimed by a tick that came no further.
    Claimed,
    /// Left by a restart that failed: the next one is a further try.
    Left,
}

/// `state/agent0-revive-failed`: the last restart, if it was not verified.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReviveFailed {
    /// Format version.
    pub(crate) v: u64,
    /// When it was given up.
    pub(crate) at: Stamp,
    /// Which, and why.
    pub(crate) why: String,
    /// The agent0 that it had started; it may live.
    pub(crate) started: Option<Started>,
    /// Whether what somebody asked with is left to the next restart.
    #[serde(default)]
    pub(crate) left: bool,
}

/// A restart that is under way.
#[derive(Debug)]
pub(crate) struct Underway {
    /// What the tick wrote of it.
    pub(crate) inflight: Inflight,
    /// What its child wrote of it.
    pub(crate) status: Option<Status>,
    /// Whether the child runs.
    pub(crate) child_alive: bool,
    /// Whether the handoff is in agent0's mailbox, in whatever state; an error where that is not known.
    pub(crate) handoff_there: Result<bool>,
}

/// Look at what there is beside the wishes. What does not read is told in `problems` and left out; the others go on.
pub(crate) fn observe(
    cx: &Context<'_>,
    client: &mut Client,
    desired: Vec<Desired>,
    problems: &mut Vec<String>,
) -> Result<Observed> {
    // Before: the session of a proof that comes later may not be among those.
    let proofs = Dir::open(cx.layout.up_folder()).and_then(|folder| folder.names());
    let proofs = proofs.unwrap_or_default().into_iter().collect();
    let sessions: BTreeMap<AgentId, SessionView> =
        client.list()?.into_iter().map(|view| (view.name.clone(), view)).collect();
    let markers = Markers::look(cx.layout, problems);
    let mut attempts = BTreeMap::new();
    for wish in &desired {
        let path = cx.layout.marker(&wish.agent, "restart-attempts");
        let read = if markers.may_have(&path) { state::read_json(&path) } else { Ok(None) };
        let known = match read {
            Ok(known) => known.unwrap_or_default(),
            Err(error) => {
                problems.push(error.to_string());
                set_aside(&path, &error, problems);
                // Nobody knows how often: as if one had been made when it ended, which delays and does not forbid.
                let ended =
                    sessions.get(&wish.agent).and_then(|session: &SessionView| session.ended_at.clone());
                let mut unknown = Attempts::default();
                unknown.add(&ended.unwrap_or_else(clock::stamp));
                unknown
            }
        };
        attempts.insert(wish.agent.clone(), known);
    }
    let (restart, restart_unread) = match underway(cx) {
        Ok(restart) => (restart, None),
        Err(Error::Disk(error)) if error.is_damage() => {
            problems.push(error.to_string());
            set_aside(&cx.layout.restart_inflight(), &error, problems);
            (None, None)
        }
        // Its child may be at work: agent0 is left to it, and everybody else is seen to.
        Err(error) => (None, Some(error.to_string())),
    };
    if let Some(Underway { inflight, handoff_there: Err(error), .. }) = &restart {
        problems.push(format!("{}: whether its handoff was delivered is not known: {error}", inflight.id));
    }
    let driven = desired.iter().filter(|wish| netsky_runtime::driver::is_driven(&wish.runtime));
    // A book that does not read netsky-drivers sees to.
    let books = driven.filter_map(|wish| Book::read(cx.layout, &wish.agent).ok().flatten());
    let used_up = books.filter(|book| book.lifecycle == LifecycleState::Dead);
    let used_up = used_up.map(|book| (book.agent, (book.generation, book.turn_ended))).collect();
    Ok(Observed {
        now: clock::stamp(),
        interval: interval(cx),
        desired,
        sessions,
        request: request(cx)?,
        restart,
        restart_unread,
        clones: Config::last_good(cx.layout).restart.clones,
        unproved: unproved(cx, problems),
        markers,
        attempts,
        used_up,
        proofs,
    })
}

/// What should be.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Every wish that reads, agent0 first.
    pub(crate) read: Vec<Desired>,
    /// Whose wish does not: what is wanted of them is not known.
    pub(crate) unread: Vec<AgentId>,
    /// Who was started for a wish that is gone, and lives; or did not, while others are wanted.
    pub(crate) unwished: Vec<AgentId>,
}

impl Wishes {
    /// Whether somebody has to be kept: wanted, or alive for what does not read.
    pub(crate) fn is_any_kept(&self, cx: &Context<'_>) -> bool {
        let lives = |agent: &AgentId| known::is_held(cx, agent);
        let is_wanted = |wish: &Desired| wish.want == Want::Up;
        self.read.iter().any(is_wanted) || self.unread.iter().chain(&self.unwished).any(lives)
    }
}

/// All wishes, and who lives without one; what is wrong with those that do not read is told in `problems`.
pub(crate) fn wishes(cx: &Context<'_>, problems: &mut Vec<String>) -> Result<Wishes> {
    let mut wishes = Wishes::default();
    // Who has no wish, and does not live.
    let mut gone = Vec::new();
    for agent in known::agents(cx)? {
        let why = match state::read_json::<Desired>(cx.layout.desired(&agent)) {
            Ok(None) => {
                let place = if known::is_held(cx, &agent) { &mut wishes.unwished } else { &mut gone };
                place.push(agent);
                continue;
            }
            Ok(Some(wish)) if wish.agent == agent => {
                wishes.read.push(wish);
                continue;
            }
            Ok(Some(wish)) => {
                let path = cx.layout.desired(&agent);
                format!("the wish for {agent} is about {}; move {} away", wish.agent, path.display())
            }
            Err(why) => Error::BadWish { agent: agent.clone(), why }.to_string(),
        };
        problems.push(why);
        wishes.unread.push(agent);
    }
    // Of a constellation that is not up nobody is missed.
    if !gone.is_empty() && wishes.read.iter().any(|wish| wish.want == Want::Up) {
        match known::sessions(cx) {
            Ok(sessions) => {
                let missed = |agent: &AgentId| sessions.get(agent).is_some_and(is_missed);
                wishes.unwished.extend(gone.into_iter().filter(missed));
            }
            // Whoever reads is kept and ended all the same.
            Err(error) => problems.push(format!("who ended without a wish is not known: {error}")),
        }
    }
    Ok(wishes)
}

/// Whether somebody who has no wish ended without being told to: nobody knows any more whether it is wanted.
fn is_missed(session: &SessionView) -> bool {
    session.tags.contains_key(TAG_SINCE) && perform::stopped(session).is_none()
}

/// What is wrong with somebody who has no wish, and the ways out.
pub(crate) fn unwished(cx: &Context<'_>, agent: &AgentId) -> String {
    let again = up_again(agent);
    match known::is_held(cx, agent) {
        true => format!(
            "{agent}: runs, and no wish of it is there; `netsky down` ends it, `{again}` makes one for it"
        ),
        false => format!("{agent}: is down, and no wish of it is there; `{again}` brings it back"),
    }
}

/// The command that writes an agent's wish anew.
pub(crate) fn up_again(agent: &AgentId) -> String {
    match agent.number() {
        Some(0) => "netsky up -- PROGRAM".to_owned(),
        Some(number) => format!("netsky up {number} -- PROGRAM"),
        None => "netsky up".to_owned(),
    }
}

fn set_aside(path: &Path, damage: &netsky_disk::Error, problems: &mut Vec<String>) {
    if damage.is_damage()
        && let Err(error) = state::set_aside(path)
    {
        problems.push(error.to_string());
    }
}

/// The ticker's own word for its interval.
pub(crate) fn interval(cx: &Context<'_>) -> Duration {
    interval_of(cx.layout)
}

/// As [`interval`], for who has no more than the paths.
pub(crate) fn interval_of(layout: &Layout) -> Duration {
    let beat: Option<LastBeat> = state::read_json(layout.tick("ticker")).unwrap_or_default();
    beat.map_or(DEFAULT_INTERVAL, |beat| Duration::from_millis(beat.interval_ms))
}

/// Whether a planned restart was asked for and has not begun to touch anything that lives.
///
/// In the order of its way: whoever looks at the request first cannot miss a restart that moves on meanwhile.
pub(crate) fn is_asked(layout: &Layout) -> Result<bool> {
    Ok(is_queued(layout)? || state::exists(layout.restart_processing())?)
}

fn request(cx: &Context<'_>) -> Result<Request> {
    if state::exists(cx.layout.restart_processing())? {
        let left = revive_failed(cx.layout).is_some_and(|failed| failed.left);
        return Ok(if left { Request::Left } else { Request::Claimed });
    }
    Ok(match is_queued(cx.layout)? {
        false => Request::None,
        true if asked_for(cx.layout).is_some_and(|asked| asked > ASKED) => Request::Past,
        true => Request::Queued,
    })
}

/// How long ago the request was written, by the wall clock; none of one that is gone.
pub(crate) fn asked_for(layout: &Layout) -> Option<Duration> {
    let written = layout.restart_request().symlink_metadata().and_then(|meta| meta.modified()).ok()?;
    Some(written.elapsed().unwrap_or_default())
}

/// Whoever asks says something: an empty file is no request, and `markers` has it until somebody asks.
pub(crate) fn is_queued(layout: &Layout) -> Result<bool> {
    let path = layout.restart_request();
    Ok(state::exists(&path)? && !state::read(&path).is_ok_and(|text| text == Some(Vec::new())))
}

/// What is counted against an agent, for whoever only tells of it; nothing where that does not read.
pub(crate) fn attempts(layout: &Layout, agent: &AgentId) -> Option<Attempts> {
    state::read_json(layout.marker(agent, "restart-attempts")).unwrap_or_default()
}

/// The last restart, if it was not verified, for whoever only tells of it.
pub(crate) fn revive_failed(layout: &Layout) -> Option<ReviveFailed> {
    state::read_json(layout.marker(&AgentId::root(), "revive-failed")).unwrap_or_default()
}

/// Who was started by a restart that failed, and has not said that it is up since. What cannot be known is not so:
/// whoever lives is not ended for a file that does not read.
fn unproved(cx: &Context<'_>, problems: &mut Vec<String>) -> Option<Started> {
    let look = || -> Result<Option<Started>> {
        let failed: Option<ReviveFailed> =
            state::read_json(cx.layout.marker(&AgentId::root(), "revive-failed"))?;
        let Some(started) = failed.and_then(|failed| failed.started) else { return Ok(None) };
        let proof = UpProof::read(cx.layout, &started.nonce, &started.name, started.generation)?;
        Ok(proof.is_none().then_some(started))
    };
    look().unwrap_or_else(|error| {
        problems.push(error.to_string());
        if let Error::Disk(error) = &error {
            set_aside(&cx.layout.marker(&AgentId::root(), "revive-failed"), error, problems);
        }
        None
    })
}

/// The restart under way, and its child.
pub(crate) fn underway(cx: &Context<'_>) -> Result<Option<Underway>> {
    let Some(inflight) = inflight(cx)? else { return Ok(None) };
    // A status that does not read is a phase that is not known: the child starts over.
    let status: Option<Status> = state::read_json(cx.layout.restart_status(&inflight.id)).unwrap_or_default();
    let child_alive = match &inflight.child {
        Some(child) => is_child_alive(cx, child)?,
        None => false,
    };
    let handoff_there = cx.bus.has(&AgentId::root(), &handoff::id(&inflight.id)).map_err(Error::from);
    Ok(Some(Underway { inflight, status, child_alive, handoff_there }))
}

/// Whether the child of a restart lives. One of another pid namespace cannot be judged by its pid: a machine in a machine that
/// was started anew has its home and none of its processes. Whoever works holds the lock.
pub(crate) fn is_child_alive(cx: &Context<'_>, child: &ProcessId) -> Result<bool> {
    lives(process::probe(child), || Ok(Lock::is_held(cx.layout.restart_child_lock())?))
}

fn lives(seen: Life, is_held: impl FnOnce() -> Result<bool>) -> Result<bool> {
    match seen {
        Life::Alive => Ok(true),
        Life::Dead => Ok(false),
        Life::Unknown => is_held(),
    }
}

/// What is noted of the restart under way, and whom its child lock names.
pub(crate) fn inflight(cx: &Context<'_>) -> Result<Option<Inflight>> {
    let mut inflight: Option<Inflight> = state::read_json(cx.layout.restart_inflight())?;
    if let Some(inflight) = &mut inflight
        && inflight.child.is_none()
        && Lock::is_held(cx.layout.restart_child_lock())?
    {
        // The tick that started it died before it noted whom; the child itself did.
        inflight.child = Lock::noted(cx.layout.restart_child_lock());
    }
    Ok(inflight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t3_a_child_that_no_pid_can_tell_of_lives_as_long_as_its_lock_is_held() {
        for (seen, held, is) in [
            (Life::Alive, false, true),
            (Life::Dead, true, false),
            (Life::Unknown, true, true),
            (Life::Unknown, false, false),
        ] {
            assert_eq!(lives(seen, || Ok(held)).expect("looked"), is, "{seen:?} {held}");
        }
    }
}
