//! The tick: the one actor. Under one lock it looks, decides, and performs.

use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::{clock, fault, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_model::stamp::Stamp;
use netsky_runtime::{Config, UpProof};
use serde::{Deserialize, Serialize};

use crate::backlog::{self, BACKLOG};
use crate::between::{self, BETWEEN};
use crate::context::Context;
use crate::decide::{Effect, decide};
use crate::error::{Error, Result};
use crate::held::Held;
use crate::known::wanted;
use crate::observe::{self, Observed, observe};
use crate::page::{Raised, page};
use crate::quiet::quiet_windows;
use crate::room::{self, DISK};
use crate::silent::{self, SILENT};
use crate::standing::{self, Found};
use crate::stuck::{self, Failures, STUCK};
use crate::{agentinit, budget, crashloop, event, handoff, hang, mail, perform, prune, reach, reserve};

/// Longest that a tick begins to start and end somebody, from when it wanted the lock: its keeper ends a tick that takes a
/// minute, and what comes behind the last of them must come at all.
const EFFECTS: Duration = Duration::from_secs(20);
/// The condition that the settings do not read.
const CONFIG: &str = "config";
/// The condition that ticks come to nothing.
const TICK: &str = "tick";

/// What a tick did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ticked {
    /// What it did, a sentence each.
    pub done: Vec<String>,
    /// What did not work, a sentence each; tried again by the next tick.
    pub problems: Vec<String>,
    /// What somebody should see to and no agent suffers from, a sentence each.
    pub warnings: Vec<String>,
    /// What was damaged and is out of the way now, a sentence each: no later tick meets it again.
    pub aside: Vec<String>,
}

/// `state/tick/watchdog.json`: the last tick, for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastTick {
    /// Format version.
    pub v: u64,
    /// When it ended.
    pub at: Stamp,
    /// How long it took.
    pub duration_ms: u64,
    /// What it did.
    pub done: Vec<String>,
    /// What did not work.
    pub problems: Vec<String>,
}

/// One tick.
///
/// # Errors
/// The lock is held, the home cannot be read, or no anchor answers; a single repair that fails is not
/// an error but a problem in the result, and the others go on.
pub fn tick(cx: &Context<'_>, caller: &Caller) -> Result<Ticked> {
    let by = if *caller == Caller::Outside { By::Hand } else { By::Keeper };
    let mut held = Held::take(cx)?;
    held.ticks = true;
    held.got_on()?;
    let outcome = told(cx, &mut held, by);
    let noted = held.came_to(&outcome);
    outcome.and_then(|ticked| noted.map(|()| ticked))
}

fn told(cx: &Context<'_>, held: &mut Held, by: By) -> Result<Ticked> {
    let began = clock::boot();
    // Before what the next one is ended in, too.
    let mut ticked = were_cut(cx, held);
    let ran = run(cx, held, by);
    held.got_on()?;
    let failed = match ran {
        Ok(ran) => {
            ticked.and(ran);
            None
        }
        Err(error) => Some(error),
    };
    // Mail is tended also where no session can be, and what came of it is told.
    mail::tend(cx, &mut ticked);
    // After it: what goes with the mail makes room.
    of_the_home(cx, failed.as_ref(), held, &mut ticked);
    if let Err(error) = budget::tend(cx, held, &mut ticked) {
        ticked.warnings.push(format!("what agents take is not counted: {error}"));
    }
    if let Err(error) = reach::reach(cx, &mut ticked) {
        ticked.problems.push(format!("pages: {error}"));
    }
    // Nothing that this does depends on telemetry, which says nothing of itself where it cannot be written.
    let untold = handoff::place(cx).err().or_else(|| held.unmade.take());
    ticked.problems.extend(untold.map(|error| error.to_string()));
    let ticked = ticked.each_once();
    let last = LastTick {
        v: 1,
        at: clock::stamp(),
        duration_ms: clock::boot().saturating_sub(began).as_millis() as u64,
        done: ticked.done.clone(),
        problems: ticked.problems.iter().chain(&ticked.warnings).cloned().collect(),
    };
    let written = state::write_json(cx.layout.tick("watchdog"), &last);
    match failed {
        Some(error) => Err(error),
        None => Ok(written.map(|()| ticked)?),
    }
}

/// Where the last tick was ended before its end: whatever it was ended in, this one may be, too.
fn were_cut(cx: &Context<'_>, held: &mut Held) -> Ticked {
    let mut ticked = Ticked::default();
    let Some(failed) = held.failed.clone().filter(|failed| failed.cut) else { return ticked };
    let interval = observe::interval(cx);
    // Whoever is killed once, or twice, is none.
    let cut = [ticks_fail(&failed.why, 2 * interval)];
    if let Err(error) = standing::tend(cx, (&clock::stamp(), interval), &[TICK], &cut, held, &mut ticked) {
        ticked.warnings.push(format!("what stands is not kept: {error}"));
    }
    // This and whatever else ticks before it raised: none came as far as that.
    if let Err(error) = reach::reach(cx, &mut ticked) {
        ticked.problems.push(format!("pages: {error}"));
    }
    ticked
}

fn ticks_fail(why: &str, page: Duration) -> Found {
    Found {
        condition: TICK.to_owned(),
        of: String::new(),
        reason: format!("ticks fail, so nobody is started, ended or looked at: {why}"),
        tell: None,
        page: Some(page),
    }
}

/// What concerns the owner also where no session can be: who is silent, the disk, the settings, and that ticks fail.
fn of_the_home(cx: &Context<'_>, failed: Option<&Error>, held: &mut Held, ticked: &mut Ticked) {
    let mut found = silent::found(cx, failed);
    match room::found(cx) {
        Ok(disk) => found.extend(disk),
        Err(error) => ticked.problems.push(format!("the room on the disk: {error}")),
    }
    // Each tick has it as a warning already.
    found.extend(Config::trouble(cx.layout).map(|trouble| Found {
        condition: CONFIG.to_owned(),
        of: String::new(),
        reason: trouble.to_string(),
        tell: None,
        page: Some(Duration::ZERO),
    }));
    let interval = observe::interval(cx);
    let is_told = found.iter().any(|found| found.condition == silent::ANCHOR);
    // Two looks, and ticks that something woke one after the other are one.
    let failed = failed.filter(|_| !is_told);
    found.extend(failed.map(|error| ticks_fail(&error.to_string(), interval / 2)));
    let looked = (&clock::stamp(), interval);
    if let Err(error) = standing::tend(cx, looked, &[SILENT, DISK, CONFIG, TICK], &found, held, ticked) {
        // Nothing that lasts can be seen to last: one page a boot.
        let raised = Raised {
            condition: TICK.to_owned(),
            occurrence: clock::stamp().boot_id,
            reason: format!("ticks cannot keep what they see, so nothing that lasts is told: {error}"),
            data: serde_json::json!({}),
        };
        page(cx, &raised, ticked);
        ticked.warnings.push(format!("what stands is not kept: {error}"));
    }
}

impl Ticked {
    /// What came of another step, behind this.
    pub(crate) fn and(&mut self, then: Ticked) {
        self.done.extend(then.done);
        self.problems.extend(then.problems);
        self.warnings.extend(then.warnings);
        self.aside.extend(then.aside);
    }

    /// Each problem once: several steps may meet the same one.
    pub(crate) fn each_once(mut self) -> Ticked {
        let mut told: Vec<String> = Vec::new();
        for problem in self.problems {
            // The same with more words before it: one broken mailbox is met by its mail and by the start of its agent.
            if !told.iter().any(|before| before.ends_with(&problem)) {
                told.push(problem);
            }
        }
        self.problems = told;
        self
    }
}

/// Who has a tick made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The ticker, agentinfinity, an agent.
    Keeper,
    /// Somebody who asks for it, and waits for no pause.
    Hand,
}

/// The work of a tick; the caller holds the lock.
pub(crate) fn run(cx: &Context<'_>, held: &mut Held, by: By) -> Result<Ticked> {
    let mut ticked = Ticked {
        warnings: Config::trouble(cx.layout).iter().map(ToString::to_string).collect(),
        ..Ticked::default()
    };
    let wishes = observe::wishes(cx, &mut ticked.problems)?;
    ticked.done.extend(wishes.unwished.iter().map(|agent| observe::unwished(cx, agent)));
    let kept = wishes.is_any_kept(cx);
    let mut client = match Client::connect(&cx.layout.kernel_root()) {
        // Where nobody is kept no anchor is started to find that nothing runs.
        Err(ClientError::NotServing { .. }) if !kept => return Ok(ticked),
        Err(ClientError::NotServing { .. }) => {
            let client = cx.anchor()?;
            let epoch = client.hello().epoch;
            ticked.done.push(format!("started the anchor (epoch {epoch}), which revives what it keeps"));
            let data = serde_json::json!({ "epoch": epoch, "what": "the anchor serves again" });
            event::event(cx, event::REPAIRED, &format!("anchor/{epoch}"), &data);
            client
        }
        Ok(stopping) if kept && stopping.hello().stopping => cx.anchor()?,
        served => served?,
    };
    if by == By::Hand {
        ticked.done.extend(hurry(cx, &mut client)?);
        held.got_on()?;
    }
    let seen = observe(cx, &mut client, wishes.read, &mut ticked.problems)?;
    return_mail(cx, &seen, &mut ticked.problems);
    let failures = act(cx, &mut client, &seen, held, &mut ticked)?;
    crashloop::tend(cx, &seen, held, &mut ticked)?;
    let quiet = quiet_windows(cx.layout, &seen.now);
    if let Err(error) = hang::tend(cx, &mut client, (&seen, &quiet), held, &mut ticked) {
        ticked.problems.push(format!("who hangs is not known: {error}"));
    }
    held.got_on()?;
    if let Err(error) = event::tend(cx, &seen, held, &mut ticked) {
        ticked.warnings.push(format!("what the owner was told of is not kept: {error}"));
    }
    let mut found = between::found(&seen, |session| UpProof::of_session(cx.layout, session).is_some());
    found.extend(backlog::found(cx, (&seen, &quiet), &mut ticked));
    found.extend(stuck::found(&failures));
    let looked = (&seen.now, seen.interval);
    if let Err(error) = standing::tend(cx, looked, &[BETWEEN, BACKLOG, STUCK], &found, held, &mut ticked) {
        ticked.warnings.push(format!("since when that is so is not kept: {error}"));
    }
    if let Err(error) = agentinit::tend(cx, &seen, &mut ticked) {
        ticked.problems.push(format!("whether agentinfinity comes up is not known: {error}"));
    }
    if kept && let Err(error) = reserve::keep(cx) {
        ticked.warnings.push(error.to_string());
    }
    if let Err(error) = prune::prune(cx, &seen) {
        ticked.warnings.push(format!("pruning: {error}"));
    }
    Ok(ticked)
}

/// Does what is decided, each thing by itself.
fn act(
    cx: &Context<'_>,
    client: &mut Client,
    seen: &Observed,
    held: &mut Held,
    ticked: &mut Ticked,
) -> Result<Failures> {
    let effects = decide(seen);
    fault::point("watchdog.tick.decided")
        .map_err(|e| netsky_disk::Error::new("act in", cx.layout.home(), e))?;
    let until = held.wanted + EFFECTS;
    each(effects, until, clock::boot, ticked, |effect| {
        held.got_on()?;
        Ok(perform::perform(cx, client, seen, effect))
    })
}

/// One after the other, as long as there is time, and the first in any case. What fails stops none behind it; only an error of
/// `perform` itself does.
fn each(
    effects: Vec<Effect>,
    until: Duration,
    now: impl Fn() -> Duration,
    ticked: &mut Ticked,
    mut perform: impl FnMut(&Effect) -> Result<Result<String>>,
) -> Result<Failures> {
    let mut failures = Failures::new();
    let (mut has_acted, mut effects) = (false, effects.into_iter());
    while let Some(effect) = effects.next() {
        let left = effects.len() + 1;
        if has_acted && now() > until {
            let why = format!("{left} things are left to the next tick: what was done took too long");
            ticked.problems.push(why);
            break;
        }
        has_acted |= !matches!(effect, Effect::Wait { .. } | Effect::Settled(_));
        match perform(&effect)? {
            Ok(said) => ticked.done.push(said),
            Err(error) => {
                ticked.problems.push(about(&effect, &error));
                failures.push((stuck::about(&effect), error.to_string()));
                if effect == Effect::ClaimRequest {
                    // What stands behind a claim that failed is meant for a claim that held.
                    effects.next();
                }
            }
        }
    }
    Ok(failures)
}

/// Whoever makes a pause before the anchor brings it back is started now. Whom the anchor was faster with needs nothing
/// more, and what keeps another from starting it tells itself by its next try.
fn hurry(cx: &Context<'_>, client: &mut Client) -> Result<Vec<String>> {
    let mut started = Vec::new();
    let sessions = client.list()?.into_iter();
    for session in sessions.filter(|session| session.revives_in_ms.is_some_and(|left| left > 0)) {
        // As it is wanted: what it is started for now is what it is brought back for later.
        if let Some(wish) = wanted(cx.layout, &session.name).unwrap_or_default()
            && let Ok(view) = perform::launch(cx, client, &wish, session.generation, (false, None))
        {
            started.push(format!("{} generation {} started", view.name, view.generation));
        }
    }
    Ok(started)
}

/// What did not work, with whose start it was.
fn about(effect: &Effect, error: &Error) -> String {
    let said = error.to_string();
    match effect {
        Effect::Start { agent, .. } | Effect::Succeed { agent, .. } if !said.starts_with(agent.as_str()) => {
            format!("{agent}: {said}")
        }
        _ => said,
    }
}

/// What dead claimants and dead generations had taken goes back, whatever else this tick can do.
fn return_mail(cx: &Context<'_>, seen: &Observed, problems: &mut Vec<String>) {
    for desired in &seen.desired {
        let session = seen.sessions.get(&desired.agent);
        let is_dead = |generation| {
            session.is_none_or(|s| {
                generation < s.generation || generation == s.generation && !s.state.may_live()
            })
        };
        let left = match perform::return_mail(cx, desired, session.and_then(perform::stopped), is_dead) {
            // It has none yet, or no more.
            Err(Error::Bus(netsky_bus::Error::NoChannel(_))) => Vec::new(),
            returned => returned.unwrap_or_else(|error| vec![error.to_string()]),
        };
        problems.extend(left.iter().map(|what| format!("mail of {}: {what}", desired.agent)));
    }
}

#[cfg(test)]
mod tests {
    use netsky_model::id::{AgentId, Generation};

    use super::*;
    use crate::context::in_a_home;
    use crate::held::failed;

    #[test]
    fn what_came_of_the_mail_is_told_where_no_anchor_answers() {
        in_a_home(|cx| {
            let path = cx.layout.desired(&AgentId::root());
            let wish = serde_json::json!({
                "v": 1, "agent": "agent0", "want": "up", "by": "up", "since": "2026-01-01T00:00:00Z",
                "runtime": "command", "argv": ["/bin/true"], "cwd": "/", "env": {}, "receipts": "none",
            });
            state::write_json(path, &wish).expect("a wish");
            std::fs::write(cx.layout.tick("awaiting"), "damaged").expect("written");
            tick(cx, &Caller::Outside).expect_err("nobody serves, and there is no program that could");
            let last: LastTick =
                state::read_json(cx.layout.tick("watchdog")).expect("reads").expect("written");
            assert!(last.problems.iter().any(|problem| problem.contains("awaiting.json")), "{last:?}");
        });
    }

    #[test]
    fn a_home_whose_logs_are_no_folder_is_tended_and_that_is_told_once() {
        in_a_home(|cx| {
            std::fs::remove_dir_all(cx.layout.logs()).expect("there");
            for path in [cx.layout.logs(), cx.layout.handoff_archive()] {
                for is_link in [false, true] {
                    match is_link {
                        false => std::fs::write(&path, "x").expect("made"),
                        true => std::os::unix::fs::symlink("/nowhere", &path).expect("made"),
                    }
                    let ticked = tick(cx, &Caller::Outside).expect("it goes on");
                    let told: Vec<_> = ticked.problems.iter().filter(|told| told.contains("/logs")).collect();
                    assert!(told.len() == 1 && told[0].contains("not a folder, move it away"), "{ticked:?}");
                    assert!(told[0].contains(&path.display().to_string()), "{told:?}");
                    std::fs::remove_file(&path).expect("ours");
                }
                assert_eq!(
                    tick(cx, &Caller::Outside).expect("it goes on").problems,
                    [""; 0],
                    "and it is made again"
                );
                std::fs::remove_dir(cx.layout.handoff_archive()).expect("empty");
            }
        });
    }

    #[test]
    fn i10_settings_that_do_not_read_are_one_page_until_they_do() {
        in_a_home(|cx| {
            let pages = || {
                let facts = netsky_ledger::facts(cx.layout).expect("they read");
                facts.iter().filter(|fact| fact.data["condition"] == CONFIG).count()
            };
            let mut told = Vec::new();
            for settings in ["", "[defaults\n", "[defaults\n", "", "[defaults\n"] {
                std::fs::write(cx.layout.config(), settings).expect("written");
                // What it started to send goes nowhere: there is no program here.
                let _ = tick(cx, &Caller::Outside).expect("it goes on");
                told.push((pages(), standing::paged(cx.layout).len()));
            }
            assert_eq!(told, [(0, 0), (1, 1), (1, 1), (1, 0), (2, 1)]);
        });
    }

    #[test]
    fn i10_ticks_that_fail_are_one_page_until_one_does_not() {
        in_a_home(|cx| {
            let beat = serde_json::json!({
                "v": 1, "at": clock::stamp(), "interval_ms": 4, "outcome": "", "duration_ms": 0
            });
            state::write_json(cx.layout.tick("ticker"), &beat).expect("written");
            // There is no program here that could be an anchor.
            let wish = crate::decide::tests::wish(&AgentId::root(), "up");
            state::write_json(cx.layout.desired(&wish.agent), &wish).expect("written");
            let pages = || {
                let facts = netsky_ledger::facts(cx.layout).expect("they read");
                facts.iter().filter(|fact| fact.data["condition"] == TICK).count()
            };
            tick(cx, &Caller::Outside).expect_err("no anchor");
            assert_eq!(pages(), 0, "one look is none");
            for _ in 0..3 {
                clock::pause(Duration::from_millis(5));
                tick(cx, &Caller::Outside).expect_err("no anchor");
            }
            assert_eq!((pages(), standing::paged(cx.layout)), (1, vec![TICK.to_owned()]));
            state::remove(cx.layout.desired(&wish.agent)).expect("there");
            tick(cx, &Caller::Outside).expect("nobody is wanted");
            assert_eq!((pages(), standing::paged(cx.layout)), (1, vec![]));
        });
    }

    #[test]
    fn i10_ticks_that_are_ended_before_their_end_are_a_page_and_one_that_was_killed_is_none() {
        in_a_home(|cx| {
            let beat = |interval_ms: u64| {
                let beat = serde_json::json!({
                    "v": 1, "at": clock::stamp(), "interval_ms": interval_ms, "outcome": "", "duration_ms": 0
                });
                state::write_json(cx.layout.tick("ticker"), &beat).expect("written");
            };
            beat(60_000);
            let pages = || {
                let facts = netsky_ledger::facts(cx.layout).expect("they read");
                facts.iter().filter(|fact| fact.data["condition"] == TICK).count()
            };
            // As far as one comes that is killed in the middle.
            let cut = || {
                let mut held = Held::take(cx).expect("free");
                held.ticks = true;
                held.got_on().expect("noted");
                were_cut(cx, &mut held);
            };
            for cuts in [1, 2] {
                (0..cuts).for_each(|_| cut());
                tick(cx, &Caller::Outside).expect("nobody is wanted");
                assert_eq!((pages(), failed(cx)), (0, None), "{cuts}");
            }
            beat(4);
            cut();
            for _ in 0..4 {
                clock::pause(Duration::from_millis(5));
                cut();
            }
            assert_eq!((pages(), standing::paged(cx.layout)), (1, vec![TICK.to_owned()]));
            assert!(failed(cx).is_some_and(|failed| failed.cut), "also before the next one");
            tick(cx, &Caller::Outside).expect("nobody is wanted");
            assert_eq!((pages(), standing::paged(cx.layout), failed(cx)), (1, vec![], None));
        });
    }

    #[test]
    fn t24_what_a_tick_has_no_time_for_is_left_to_the_next_and_counted() {
        let stop = |n| Effect::Stop { agent: AgentId::numbered(n), generation: Generation(1) };
        let (at, mut tried) = (std::cell::Cell::new(Duration::ZERO), Vec::new());
        let mut ticked = Ticked::default();
        let all = [Effect::ClaimRequest, stop(1), stop(2), stop(3), stop(4), stop(5)];
        let failures = each(
            all.to_vec(),
            Duration::from_secs(20),
            || at.get(),
            &mut ticked,
            |effect| {
                at.set(at.get() + Duration::from_secs(11));
                tried.push(effect.clone());
                Ok(Err(Error::Restart("it does not end".to_owned())))
            },
        )
        .expect("it goes on");
        assert_eq!(tried, [Effect::ClaimRequest, stop(2)], "what stands behind a claim goes with it");
        let whom: Vec<_> = failures.iter().map(|(agent, _)| agent.clone()).collect();
        assert_eq!(whom, [AgentId::root(), AgentId::numbered(2)]);
        let left = "3 things are left to the next tick: what was done took too long";
        assert_eq!(ticked.problems.last().map(String::as_str), Some(left));
        assert_eq!(ticked.problems.len(), 3, "{ticked:?}");
        // Whoever waited for the lock until then does one thing all the same.
        tried.clear();
        let wait = Effect::Wait { agent: AgentId::infinity(), why: String::new() };
        each(
            vec![wait.clone(), stop(1), stop(2)],
            Duration::ZERO,
            || at.get(),
            &mut Ticked::default(),
            |effect| {
                tried.push(effect.clone());
                Ok(Ok(String::new()))
            },
        )
        .expect("it goes on");
        assert_eq!(tried, [wait, stop(1)]);
    }

    #[test]
    fn a_problem_that_several_steps_met_is_told_once() {
        let problems = ["mail: full", "gone", "full", "gone"].map(str::to_owned).into();
        let ticked = Ticked { problems, ..Ticked::default() }.each_once();
        assert_eq!(ticked.problems, ["mail: full", "gone"]);
    }
}
