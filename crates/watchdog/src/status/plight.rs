//! Who is down and why, who starts it again and when; what else is not as it was asked for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netsky_disk::{clock, process, state};
use netsky_kernel::rpc::SessionView;
use netsky_model::backoff::CRASHLOOP;
use netsky_model::desired::{Desired, Want};
use netsky_model::duration::human;
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use netsky_runtime::driver::is_driven;
use netsky_schedule::cron;
use netsky_schedule::loops::set_aside;
use serde::Serialize;

use super::AgentStatus;
use crate::context::Context;
use crate::decide::KEPT;
use crate::held;
use crate::observe::{self, Underway};
use crate::perform;
use crate::tick::LastTick;
use crate::ticker::LastRun;
use crate::up::UP_LIMIT;

/// So many ticks in a row may be late, and so long each may take that does not note its failure, before somebody is told.
const MISSED: u32 = 3;
const SLOW: Duration = Duration::from_secs(10);

/// Starts of what keeps ending.
#[derive(Debug, Clone, Serialize)]
pub struct Trying {
    /// Until the next one, in seconds.
    pub next_in_s: u64,
    /// How many the last half hour saw.
    pub recent: usize,
    /// Whether they came to be a crashloop: one try an hour.
    pub crashloop: bool,
}

impl Trying {
    /// The `tick` is said where the wait is over.
    pub(super) fn line(&self, tick: &NextTick) -> String {
        let Trying { next_in_s, recent, crashloop } = self;
        let next = match next_in_s {
            0 => format!("next try {tick}"),
            _ if *tick == NextTick::Never => format!("next try {tick}"),
            s if *crashloop => format!("next try in {}", human(Duration::from_secs(*s))),
            s => format!("next try in {s} s"),
        };
        if *crashloop {
            return format!("crashloop: it keeps ending; {next}, `netsky up` tries at once");
        }
        // Past the crashloop's number once an agent0 that proved itself has ended it.
        let of = if *recent < CRASHLOOP { format!(" of {CRASHLOOP}") } else { String::new() };
        format!("{next}, attempt {}{of} in 30 min", recent + 1)
    }
}

pub(super) fn trying(cx: &Context<'_>, agent: &AgentId) -> Option<Trying> {
    let (attempts, now) = (observe::attempts(cx.layout, agent)?, clock::stamp());
    let trying = Trying {
        next_in_s: attempts.wait(&now).as_millis().div_ceil(1000) as u64,
        recent: attempts.recent(&now),
        crashloop: attempts.crashloop,
    };
    (trying.recent > 0 || trying.crashloop).then_some(trying)
}

/// Why somebody wanted does not run, as far as that can be known, and when it is tried again.
pub(super) fn plight(
    cx: &Context<'_>,
    desired: &Desired,
    (trying, ended): (Option<&Trying>, Option<&str>),
    tick: &NextTick,
    underway: Option<&Underway>,
) -> String {
    let next = trying.map_or_else(|| format!("it is down; next try {tick}"), |trying| trying.line(tick));
    let last_restart = || failed_restart(cx, underway).filter(|_| desired.agent == AgentId::root());
    let why =
        perform::not_startable(cx, desired).or_else(last_restart).or_else(|| Some(ended_so(desired, ended?)));
    format!("{}: {}{next}", desired.agent, why.map_or_else(String::new, |why| format!("{why}; ")))
}

/// How the program ended, and where it may have said why.
fn ended_so(desired: &Desired, how: &str) -> String {
    let stderr = if is_driven(&desired.runtime) { " --stderr" } else { "" };
    format!("{how} (`netsky logs {}{stderr}` has its last words)", desired.agent)
}

fn failed_restart(cx: &Context<'_>, underway: Option<&Underway>) -> Option<String> {
    let failed = match underway {
        Some(underway) => underway.status.as_ref()?.error.clone(),
        None => observe::revive_failed(cx.layout).map(|failed| failed.why),
    }?;
    Some(format!("the last restart failed: {failed}"))
}

/// The last restart, where agent0 runs on all the same.
pub(super) fn in_vain(cx: &Context<'_>, underway: Option<&Underway>, queued: bool) -> Option<String> {
    let failed = failed_restart(cx, underway)?;
    let kept = match (underway, queued) {
        // No tick has judged it yet.
        (Some(_), _) => String::new(),
        (None, true) => ", and what was asked for waits for the next tick".to_owned(),
        (None, false) => kept_request(cx).map_or_else(String::new, |kept| {
            format!(", and what it was asked with is kept in {}", kept.display())
        }),
    };
    Some(format!("{failed}; agent0 runs{kept}"))
}

/// What the last restart was asked with, where it failed and left that to people.
fn kept_request(cx: &Context<'_>) -> Option<PathBuf> {
    let why = observe::revive_failed(cx.layout)?.why;
    let kept = cx.layout.archived_request(&why.split_once(':')?.0.parse().ok()?, "failed");
    state::exists(&kept).unwrap_or(false).then_some(kept)
}

/// Who starts somebody that is down.
#[derive(PartialEq)]
pub(super) enum Care {
    /// The anchor, which keeps it, and may make a pause first.
    Anchor {
        next_in: Option<Duration>,
    },
    /// The child of a restart, which is at work.
    Child,
    Tick,
}

impl Care {
    /// `session` is what an anchor that serves says of it.
    pub(super) fn of(agent: &AgentId, session: Option<SessionView>, underway: Option<&Underway>) -> Care {
        let in_hands = underway.is_some_and(|under| {
            let all = under.inflight.takes_all() && agent.number().is_some();
            under.child_alive && (all || *agent == AgentId::root())
        });
        match session {
            Some(session) if session.kept => {
                Care::Anchor { next_in: session.revives_in_ms.map(Duration::from_millis) }
            }
            _ if in_hands => Care::Child,
            _ => Care::Tick,
        }
    }
}

/// What is wrong with somebody whom the anchor brings back.
pub(super) fn kept_down(agent: &AgentId, next_in: Option<Duration>) -> String {
    match next_in.map(|next_in| next_in.as_millis().div_ceil(1000)) {
        None | Some(0) => format!("{agent}: {KEPT}"),
        Some(s) => format!("{agent}: it keeps ending; the anchor starts it in {s} s, `netsky up` at once"),
    }
}

/// What is wrong with an agent0 that lives longer than an `up` waits for it, and proved nothing.
pub(super) fn never_proved(agent: &AgentStatus, now: &Stamp) -> Option<String> {
    let lives = now.since(agent.started_at.as_ref()?);
    let is_meant = agent.id == AgentId::root() && agent.is_wanted();
    let is_late = is_meant && !agent.up && lives > UP_LIMIT;
    is_late.then(|| {
        let lives = human(lives);
        let what = "no proof is there that it called `netsky session up`: no start of it counts";
        format!("{}: runs for {lives}, and {what}; `netsky restart` replaces it", agent.id)
    })
}

/// When a tick looks at who is down.
#[derive(PartialEq)]
pub(super) enum NextTick {
    Within(Duration),
    /// There was none for too long, though the ticker lives, or the last one failed.
    InVain,
    /// When something happens, or once the ticker is back.
    Later,
    Never,
}

impl NextTick {
    /// `kept` says whether the anchor brings anybody back who would wake one, `serves` that the ticker of a service ticks, and
    /// `is_in_vain` that none came to its end of late.
    pub(super) fn of(
        agents: &[AgentStatus],
        (kept, serves): (bool, bool),
        interval: Duration,
        is_in_vain: bool,
    ) -> NextTick {
        let lives = |id: AgentId| agents.iter().any(|agent| agent.id == id && agent.is_there());
        match serves || lives(AgentId::ticker()) {
            true if is_in_vain => NextTick::InVain,
            true => NextTick::Within(interval),
            false if kept || lives(AgentId::infinity()) => NextTick::Later,
            false => NextTick::Never,
        }
    }
}

impl std::fmt::Display for NextTick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NextTick::Within(limit) => write!(f, "with the next tick, at most {} from now", human(*limit)),
            NextTick::InVain => f.write_str("with the next tick that comes to its end"),
            NextTick::Later => f.write_str("with the next tick"),
            NextTick::Never => f.write_str("with the next tick, which nobody wakes: repeat your `netsky up`"),
        }
    }
}

/// What is wrong with a ticker that lives and has made no tick for long.
pub(super) fn late(cx: &Context<'_>, agents: &[AgentStatus], interval: Duration) -> Option<String> {
    let ticker = agents.iter().find(|agent| agent.id == AgentId::ticker() && agent.is_there())?;
    let last: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    // One that has just come back is not to blame for the time before.
    let ticks =
        [last.map(|last| last.at), held::failed(cx).map(|failed| failed.at), ticker.started_at.clone()];
    let now = clock::stamp();
    let none_for = ticks.into_iter().flatten().map(|at| now.since(&at)).min()?;
    if none_for <= interval * MISSED + SLOW {
        return None;
    }
    let pid = ticker.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    Some(format!(
        "{}{pid}: lives, and there was no tick for {}: is it stopped, or did the machine sleep? `netsky watchdog tick` makes one",
        ticker.id,
        human(none_for)
    ))
}

/// Ticks of a schedule of which none comes to its end, while somebody makes them.
pub(super) fn stalled(kind: &str, last: &LastRun, interval: Duration) -> Option<String> {
    let is_now = clock::stamp().since(&last.at) <= interval * MISSED + SLOW;
    let failing = last.failing_ms.filter(|_| is_now && last.is_stalled())?;
    let failing = human(Duration::from_millis(failing));
    let why = &last.outcome;
    Some(format!(
        "no {kind} tick comes to its end for {failing}: {why}; `netsky {kind} tick` is one, and says why"
    ))
}

/// An agent that lives and cannot do anything. Of the keepers it is told what they leave undone.
pub(super) fn stopped(session: &SessionView) -> Option<String> {
    let program = session.program.as_ref().filter(|_| session.name.number().is_some())?;
    let said =
        || format!("{}: its program is stopped and does nothing; `kill -CONT {}`", session.name, program.pid);
    process::is_stopped(program).then(said)
}

/// What is wrong with loops and cron entries, as far as a look at few files tells.
pub(super) fn schedules(cx: &Context<'_>, last: &BTreeMap<&'static str, LastRun>) -> Vec<String> {
    let cron = cron::load(cx.layout);
    let mut told: Vec<String> = cron.trouble.filter(|_| !cron.passes).into_iter().collect();
    told.extend(cron.entries.broken.iter().map(ToString::to_string));
    let aside = set_aside(cx.layout);
    told.extend(aside.first().map(|first| {
        format!(
            "{} in state/loops/broken, {first:?} among them: mend and move back what should be a loop, remove the rest",
            aside.len()
        )
    }));
    let failed = last.iter().filter(|(_, last)| last.outcome != "done" && !last.is_stalled());
    told.extend(
        failed.map(|(kind, last)| {
            format!("the last {kind} tick {}: `netsky {kind} tick` says why", last.outcome)
        }),
    );
    told
}

/// What a `down` or an `up` that was killed left in the middle.
pub(super) fn cut_short(agents: &[AgentStatus]) -> Option<String> {
    let is_stopped = |agent: &&AgentStatus| agent.want == Some(Want::Stopped);
    let rootless = agents.iter().filter(is_stopped).any(|agent| agent.id == AgentId::root());
    let wanted =
        agents.iter().filter(|agent| rootless && agent.is_wanted()).map(|agent| (agent, "still wanted"));
    let alive = agents.iter().filter(is_stopped).filter(|agent| agent.is_there());
    let left: Vec<String> = wanted
        .chain(alive.map(|agent| (agent, "not wanted and runs on")))
        .map(|(agent, how)| format!("{} is {how}", agent.id))
        .collect();
    (!left.is_empty()).then(|| format!("an `up` or a `down` was cut short: {}; repeat it", left.join(", ")))
}

/// Whether the disk is too full to start who is down: no tick may have come since that could say so.
pub(super) fn no_room_for(cx: &Context<'_>, down: &[AgentId], next: &NextTick) -> Option<String> {
    let missing: Vec<&str> = down.iter().map(AgentId::as_str).collect();
    if missing.is_empty() {
        return None;
    }
    let why = perform::no_room(cx)?;
    let todo = match next {
        NextTick::Never => "repeat your `netsky up`",
        _ => "the next tick starts what is down",
    };
    Some(format!("{} cannot be started: {why}; nothing was lost, make room and {todo}", missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn an_agent0_that_proves_nothing_in_time_is_told_of() {
        let started_at = clock::stamp();
        let root = AgentStatus {
            id: AgentId::root(),
            want: Some(Want::Up),
            state: None,
            pid: Some(2),
            worker_pid: None,
            generation: None,
            driven: None,
            up: false,
            started_at: Some(started_at.clone()),
            trying: None,
            quiet: None,
            phase: None,
            still_s: None,
            inbox: 0,
            unfinished: 0,
            poison: 0,
        };
        let later = |s: u64| Stamp { boot_ms: started_at.boot_ms + s * 1000, ..started_at.clone() };
        let told = never_proved(&root, &later(61)).expect("it is late");
        assert!(told.starts_with("agent0: runs for 1m 1s, and no proof"), "{told}");
        assert_eq!(never_proved(&root, &later(59)), None);
        assert_eq!(never_proved(&AgentStatus { up: true, ..root.clone() }, &later(61)), None);
        assert_eq!(never_proved(&AgentStatus { id: AgentId::numbered(1), ..root }, &later(61)), None);
    }

    #[test]
    fn what_is_wrong_with_loops_and_cron_entries_is_told_while_it_is() {
        in_a_home(|cx| {
            let run = |outcome: &str, failing_ms| LastRun {
                v: 1,
                at: clock::stamp(),
                outcome: outcome.to_owned(),
                duration_ms: 1,
                failing_ms,
            };
            let told = |outcome, failing| schedules(cx, &[("loop", run(outcome, failing))].into());
            assert_eq!(told("done", None), [""; 0]);
            assert_eq!(told("failed", Some(u64::MAX)), [""; 0], "it is told as one that comes to no end");
            assert_eq!(
                told("ended with code 1", None),
                ["the last loop tick ended with code 1: `netsky loop tick` says why"]
            );
            std::fs::write(cx.layout.cron(), "x = = y").expect("written");
            let aside = cx.layout.loops().join("broken");
            netsky_disk::fs::Dir::make(cx.layout.loops()).expect("made");
            netsky_disk::fs::Dir::make(&aside).expect("made");
            std::fs::write(aside.join("a.toml"), "no loop").expect("written");
            let told = told("done", None);
            assert!(told[0].starts_with("cron.toml: line 1: ") && told.len() == 2, "{told:?}");
            assert!(told[1].starts_with("1 in state/loops/broken, \"a.toml\""));
            std::fs::write(cx.layout.cron(), "[[entries]]\nschedule = \"x\"\n").expect("written");
            let told = schedules(cx, &BTreeMap::new());
            assert!(told[0].starts_with("cron.toml line "), "{told:?}");
        });
    }
}
