//! The end of a restart: verified, or failed. The in-flight marker goes last: until then a repeat does the rest.

use std::time::Duration;

use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault, random, state};
use netsky_model::duration::human;
use netsky_model::id::{AgentId, RestartId};
use netsky_model::restart::{self, Inflight, Kind, Looked, Status};

use super::add_attempt;
use crate::context::Context;
use crate::decide::pace;
use crate::error::{Error, Result};
use crate::event::{REPAIRED, event};
use crate::handoff;
use crate::observe::{self, ASKED, Observed, ReviveFailed, Underway};
use crate::page::{self, Raised};
use crate::tick::Ticked;

/// Longest that a restart which failed waits until its handoff can be delivered: an inbox that is full is emptied by who
/// lives, and the next try must not wait for ever.
const OWED: Duration = Duration::from_secs(10 * 60);

/// How the key of a page for restarts that failed begins; behind it stands the agent.
const FAILED: &str = "restart-failed.";

/// The attempt stays in the window: what is verified may die a minute later.
pub(super) fn verified(cx: &Context<'_>, seen: &Observed, id: &RestartId) -> Result<String> {
    let agent0 = AgentId::root();
    archive_request(cx, id, "request")?;
    state::remove(cx.layout.marker(&agent0, "revive-failed"))?;
    cx.record.watchdog("repaired", Some(&agent0), &format!("{id} verified"));
    // One that somebody asked for repairs nothing.
    if seen.restart.as_ref().is_some_and(|under| under.inflight.kind == Kind::Crash) {
        let what = format!("{agent0} runs again, with what is known of the one before: it had ended");
        let data = serde_json::json!({ "agent": agent0, "restart": id, "what": what });
        event(cx, REPAIRED, &format!("restart/{id}"), &data);
    }
    fault::point("watchdog.verified")
        .map_err(|e| netsky_disk::Error::new("clear", cx.layout.restart_inflight(), e))?;
    state::remove(cx.layout.restart_inflight())?;
    Ok(format!("{id}: verified"))
}

pub(super) fn failed(cx: &Context<'_>, seen: &Observed, id: &RestartId, why: &str) -> Result<String> {
    let agent0 = AgentId::root();
    let under = seen.restart.as_ref().ok_or_else(|| Error::Restart(format!("{id} is over")))?;
    let touched = under.status.as_ref().is_some_and(|status| status.torn_down);
    // A crash was counted when this began, and what ended nobody is nothing that agent0 did not survive.
    if under.inflight.kind == Kind::Planned && touched {
        add_attempt(cx, seen, &agent0, &under.inflight.began)?;
    }
    let undelivered = hand_over(cx, seen, under, touched).err();
    if let Some(error) = undelivered.as_ref()
        && let Some(owed) = still_owed(seen, under)
    {
        state::write_json(cx.layout.restart_inflight(), &owed)?;
        return Err(Error::Restart(format!("{id} failed, and its handoff waits: {error}")));
    }
    let kept = undelivered.map(|error| keep(cx, seen, id, &error));
    tell(cx, id, why);
    let status = under.status.as_ref();
    let marker = ReviveFailed {
        v: 1,
        at: clock::stamp(),
        why: format!("{id}: {why}"),
        started: status.and_then(|status| started(status, &agent0)),
        left: state::exists(cx.layout.restart_processing())?,
    };
    state::write_json(cx.layout.marker(&agent0, "revive-failed"), &marker)?;
    cx.record.watchdog("restart-failed", Some(&agent0), &format!("{id}: {why}"));
    state::remove(cx.layout.restart_inflight())?;
    let said = format!("{id}: failed: {why}");
    match kept {
        None => Ok(said),
        Some(kept) => Err(Error::Restart(format!("{said}; {kept}"))),
    }
}

/// A request that has waited for too long is kept for people, who are told.
pub(super) fn expired(cx: &Context<'_>) -> Result<String> {
    let Some(_held) = Lock::try_take(cx.layout.restart_request_lock())? else {
        return Ok("somebody asks for a restart in this moment".to_owned());
    };
    Ok(match put_away(cx)? {
        None => "the restart request is another by now".to_owned(),
        Some(why) => format!("the restart request has expired: {why}"),
    })
}

/// Put a request away that has waited for too long, and say so; why, if it has. For who keeps others from asking.
pub(crate) fn put_away(cx: &Context<'_>) -> Result<Option<String>> {
    let Some(asked) = observe::asked_for(cx.layout).filter(|asked| *asked > ASKED) else { return Ok(None) };
    let id = random::restart_id();
    let place = cx.layout.archived_request(&id, "expired");
    state::claim(cx.layout.restart_request(), &place)?;
    let why = format!(
        "it was asked for {} ago, and no tick has begun with it; what it was asked for with lies in {}, and `netsky restart` asks anew",
        human(asked),
        place.display()
    );
    tell(cx, &id, &why);
    Ok(Some(why))
}

/// One condition, however many fail: the owner is told of the first, and after the cool-down of how many there were since.
fn tell(cx: &Context<'_>, id: &RestartId, why: &str) {
    let agent0 = AgentId::root();
    let log = cx.layout.restart_log(id);
    let said = if state::exists(&log).unwrap_or(false) {
        format!("; what it said: {}", log.display())
    } else {
        String::new()
    };
    let reason = format!("the restart of {agent0} failed: {why}{said}");
    let raised = Raised {
        condition: format!("{FAILED}{agent0}"),
        occurrence: id.to_string(),
        reason,
        data: serde_json::json!({ "agent": agent0, "restart": id }),
    };
    // Who cannot be told of is tried again all the same.
    let mut told = Ticked::default();
    page::page(cx, &raised, &mut told);
    for problem in told.problems {
        cx.record.watchdog("unrecorded", Some(&agent0), &problem);
    }
}

fn started(status: &Status, agent: &AgentId) -> Option<restart::Started> {
    status.agents.iter().find(|started| started.name == *agent).cloned()
}

fn is_root_alive(seen: &Observed) -> bool {
    seen.sessions.get(&AgentId::root()).is_some_and(|session| session.state.may_live())
}

/// A restart that touched nothing leaves its request to people. One that started a new agent0 still gives it
/// the handoff: nobody else would. One whose agent0 is gone leaves its request, the best handoff there is, to
/// the next restart, unless this one had delivered it.
fn hand_over(cx: &Context<'_>, seen: &Observed, under: &Underway, touched: bool) -> Result<()> {
    let (id, alive) = (&under.inflight.id, is_root_alive(seen));
    if alive && under.status.as_ref().is_some_and(|status| !status.agents.is_empty()) {
        handoff::deliver(cx, id)?;
    }
    if (alive && !touched) || cx.bus.has(&AgentId::root(), &handoff::id(id))? {
        archive_request(cx, id, "failed")?;
    }
    Ok(())
}

/// What to note where a handoff that cannot be delivered may still be waited for.
fn still_owed(seen: &Observed, under: &Underway) -> Option<Inflight> {
    let pace = pace(seen, &under.inflight);
    let owed = restart::Observed::look(under.inflight.owed.as_ref(), &seen.now, pace);
    let waits = owed.watched_ms < OWED.as_millis() as u64;
    let looked =
        Looked::look(under.inflight.looked.as_ref(), &under.inflight.began, &seen.now, seen.interval);
    waits.then(|| Inflight { owed: Some(owed), looked: Some(looked), ..under.inflight.clone() })
}

/// What nobody could be given goes to people; what somebody asked with stays for the next restart of an agent0 that is gone.
fn keep(cx: &Context<'_>, seen: &Observed, id: &RestartId, error: &Error) -> String {
    let place = cx.layout.archived_request(id, "undelivered");
    let draft = state::claim(cx.layout.crash_handoff(id), &place).map_err(Error::from);
    let request = if is_root_alive(seen) { archive_request(cx, id, "failed") } else { Ok(()) };
    let unkept = draft.map(drop).and(request).err();
    let unkept = unkept.map_or_else(String::new, |error| format!(" (not all of it: {error})"));
    format!(
        "its handoff was not delivered ({error}) and lies in {}{unkept}",
        cx.layout.restart_archive().display()
    )
}

/// Whoever asked for a restart can look up what with.
pub(crate) fn archive_request(cx: &Context<'_>, id: &RestartId, what: &str) -> Result<()> {
    state::claim(cx.layout.restart_processing(), cx.layout.archived_request(id, what))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use netsky_model::life::State;
    use netsky_model::restart::Phase;

    use super::*;
    use crate::context::in_a_home;
    use crate::decide::tests::{SINCE, seen, session, stamp, underway, wish};

    /// A look at a restart of this kind and phase, whose agent0 lives as the generation that it started.
    fn look(kind: Kind, phase: Phase) -> Observed {
        let root = AgentId::root();
        let mut look = seen(vec![wish(&root, "up")], vec![session(&root, 2, "active", SINCE)]);
        look.restart = Some(underway(kind, Some(phase), 2));
        look
    }

    fn id_of(look: &Observed) -> RestartId {
        look.restart.as_ref().expect("under way").inflight.id.clone()
    }

    #[test]
    fn i7_a_handoff_that_cannot_be_delivered_holds_up_no_later_restart_for_ever() {
        in_a_home(|cx| {
            cx.bus.create(&AgentId::root()).expect("a channel");
            let inbox = cx.layout.folder(&AgentId::root(), State::Written);
            std::fs::remove_dir(&inbox).expect("empty");
            std::fs::write(&inbox, b"").expect("a file in its place takes no mail");
            let mut look = look(Kind::Crash, Phase::Failed);
            let id = id_of(&look);
            state::write(cx.layout.crash_handoff(&id), b"what is known").expect("a draft");
            for minute in 0..10 {
                look.now = stamp(200 + 60 * minute);
                let waits = failed(cx, &look, &id, "why").expect_err("it waits").to_string();
                assert!(waits.contains("its handoff waits"), "{waits}");
                let under = look.restart.as_mut().expect("under way");
                under.inflight =
                    state::read_json(cx.layout.restart_inflight()).expect("reads").expect("stays");
                assert!(cx.layout.crash_handoff(&id).exists());
            }
            look.now = stamp(200 + 600);
            let over = failed(cx, &look, &id, "why").expect_err("a problem").to_string();
            assert!(over.contains("restart-1: failed: why; its handoff was not delivered"), "{over}");
            assert!(!cx.layout.restart_inflight().exists(), "the next one may begin");
            let kept =
                std::fs::read(cx.layout.archived_request(&id, "undelivered")).expect("kept for people");
            assert_eq!(kept, b"what is known");
            let marker: Option<ReviveFailed> =
                state::read_json(cx.layout.marker(&AgentId::root(), "revive-failed")).expect("reads");
            assert!(marker.is_some_and(|failed| failed.started.is_some()));
        });
    }

    #[test]
    fn t25_a_request_that_has_waited_for_too_long_is_kept_for_people_who_are_told() {
        in_a_home(|cx| {
            let (request, old) = (cx.layout.restart_request(), ASKED + Duration::from_secs(60));
            state::write(&request, b"please").expect("asked for");
            assert_eq!(expired(cx).expect("looked"), "the restart request is another by now");
            let at = std::time::SystemTime::now() - old;
            std::fs::File::open(&request).and_then(|file| file.set_modified(at)).expect("aged");
            let held = Lock::try_take(cx.layout.restart_request_lock()).expect("ours").expect("free");
            assert_eq!(expired(cx).expect("looked"), "somebody asks for a restart in this moment");
            drop(held);
            let said = expired(cx).expect("put away");
            assert!(said.starts_with("the restart request has expired: it was asked for 31m"), "{said}");
            assert!(!request.exists() && read_all(cx.layout.restart_archive()) == "please");
            let pages = read_all(cx.layout.record());
            assert!(pages.contains("restart-failed.agent0") && pages.contains("`netsky restart` asks anew"));
        });
    }

    fn read_all(folder: std::path::PathBuf) -> String {
        let files = std::fs::read_dir(folder).expect("there").flatten().map(|entry| entry.path());
        files.filter_map(|file| std::fs::read_to_string(file).ok()).collect()
    }

    #[test]
    fn i7_a_restart_that_ended_nobody_is_not_held_against_an_agent0_that_lives() {
        for touched in [false, true] {
            in_a_home(|cx| {
                cx.bus.create(&AgentId::root()).expect("a channel");
                state::write(cx.layout.restart_processing(), b"please").expect("claimed");
                let mut look = look(Kind::Planned, Phase::Failed);
                let id = id_of(&look);
                let status = look.restart.as_mut().and_then(|under| under.status.as_mut()).expect("a status");
                status.torn_down = touched;
                status.agents.clear();
                state::write(cx.layout.restart_log(&id), b"its last words").expect("a log");
                failed(cx, &look, &id, "a program is gone").expect("over");
                let counted = cx.layout.marker(&AgentId::root(), "restart-attempts").exists();
                assert_eq!(counted, touched);
                assert_eq!(cx.layout.restart_processing().exists(), touched, "what touched nothing is over");
                let pages = read_all(cx.layout.record());
                let told = ["restart-failed.agent0", "a program is gone; what it said: ", "restart-1.log"];
                assert!(told.iter().all(|told| pages.contains(told)), "{pages}");
                let told = crate::observe::revive_failed(cx.layout).expect("told");
                assert_eq!(told.left, touched, "the next restart knows that it is not the first");
                // As far as one came that died before the marker was gone.
                let _ = failed(cx, &look, &id, "a program is gone");
                let facts = netsky_ledger::facts(cx.layout).expect("they read");
                let page = |fact: &&netsky_ledger::Fact| fact.data["condition"] == "restart-failed.agent0";
                assert_eq!(facts.iter().filter(page).count(), 1, "told twice it is one fact");
            });
        }
    }
}
