//! Looking for hangs in a tick, and doing what is due about them. Each act is safe to repeat: a tick that dies in the middle
//! is followed by one that sees the same.

use std::collections::BTreeMap;
use std::time::Duration;

use netsky_bus::Draft;
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::{clock, state};
use netsky_kernel::client::Client;
use netsky_kernel::output_log::{Chunk, LogReader};
use netsky_kernel::rpc::{Guard, SessionView};
use netsky_model::desired::{Desired, Receipts, Want};
use netsky_model::duration::human;
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::render::{line, plain};
use netsky_model::stamp::Stamp;
use netsky_runtime::driver::{Doing, Wedge, is_driven};
use netsky_runtime::drivers::{Book, Undriven};
use netsky_runtime::{Bounds, Config, Hang};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Act, Hangs, Progress, Signals, Verdict, Watch, due, judge, watch};
use crate::context::Context;
use crate::decide::runs;
use crate::error::Result;
use crate::held::Held;
use crate::mail::read_or_aside;
use crate::observe::Observed;
use crate::page::{Raised, page};
use crate::quiet::Quiet;
use crate::reach::HANG;
use crate::standing::pace;
use crate::tick::Ticked;

/// The kind of what tells an agent that it does not get on.
const NUDGE: &str = "nudge";
/// How much of what a program printed last goes into a page.
const SCREEN: u64 = 2 << 10;
/// How much of that goes into its words, in bytes.
const SHOWN: usize = 300;

/// `state/tick/hang.json`: who stands where, for the next look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    v: u64,
    agents: BTreeMap<AgentId, Watch>,
}

/// `state/<agent>-hang-suspected`.
#[derive(Debug, Serialize, Deserialize)]
struct Suspected {
    v: u64,
    /// Since when it was seen to hang.
    at: Stamp,
    generation: Generation,
    /// In which way.
    word: String,
    why: String,
    /// What it said last that it does.
    phase: Option<String>,
}

/// How long each was watched standing still, as which generation, for whoever only tells of it.
pub(crate) fn still(layout: &Layout) -> BTreeMap<AgentId, (Generation, Duration)> {
    let kept: Kept = state::read_json(layout.tick("hang")).ok().flatten().unwrap_or_default();
    let watched = |watch: Watch| (watch.generation, Duration::from_millis(watch.observed.watched_ms));
    kept.agents.into_iter().map(|(agent, watch)| (agent, watched(watch))).collect()
}

/// Who hangs, for whoever only tells of it.
pub(crate) fn told(layout: &Layout, agent: &AgentId, generation: Generation) -> Option<String> {
    let marker = layout.marker(agent, "hang-suspected");
    let suspected: Suspected = state::read_json(marker).ok().flatten()?;
    let age = human(clock::stamp().since(&suspected.at));
    let Suspected { word, why, .. } = suspected;
    (suspected.generation == generation).then(|| format!("{agent}: hangs ({word}) for {age}: {why}"))
}

/// Looks at everybody who is wanted and runs, and does what is due. What fails for one is a problem of that one.
pub(crate) fn tend(
    cx: &Context<'_>,
    client: &mut Client,
    (seen, quiet): (&Observed, &BTreeMap<AgentId, Quiet>),
    held: &mut Held,
    ticked: &mut Ticked,
) -> Result<()> {
    let path = cx.layout.tick("hang");
    let before: Kept = read_or_aside(&path, ticked)?.unwrap_or_default();
    let config = Config::last_good(cx.layout);
    let terms = (&config.hang, &config.drivers);
    let mut kept = Kept { v: 1, agents: carried(seen, &before) };
    for (desired, session) in looked_at(seen) {
        let agent = &desired.agent;
        let known = before.agents.get(agent);
        let quiet = quiet.get(agent).map(|quiet| quiet.why.clone());
        // Whoever lost the lock writes nothing more: what is kept is the next actor's.
        held.got_on()?;
        let now = match look(cx, desired, session, quiet) {
            Ok(signals) => Some(one(cx, client, seen, (session, &signals, known), terms, ticked)),
            Err(error) => {
                ticked.problems.push(format!("whether {agent} gets on is not known: {error}"));
                known.cloned()
            }
        };
        kept.agents.extend(now.map(|now| (agent.clone(), now)));
    }
    for wish in seen.desired.iter().filter(|wish| wish.want != Want::Up) {
        let cleared = ["hang-suspected", "pane-hash"]
            .map(|what| seen.markers.remove(&cx.layout.marker(&wish.agent, what)));
        let failed = cleared.into_iter().filter_map(std::result::Result::err);
        ticked.problems.extend(failed.map(|error| error.to_string()));
    }
    if kept.agents.is_empty() {
        state::remove(&path)?;
    } else if kept != before {
        state::write_json(&path, &kept)?;
    }
    Ok(())
}

/// One agent: what is kept of it, with what was done.
fn one(
    cx: &Context<'_>,
    client: &mut Client,
    seen: &Observed,
    (session, signals, known): (&SessionView, &Signals, Option<&Watch>),
    terms: (&Hang, &Bounds),
    ticked: &mut Ticked,
) -> Watch {
    let agent = &session.name;
    let known = known.filter(|watch| watch.generation == session.generation);
    let verdict = judge(signals, known, &seen.now, terms);
    let mut now = watch(signals, known, &verdict, &seen.now, pace(seen.interval));
    // Only evidence: what is done does not depend on it.
    if let Err(error) = screen_marker(cx, seen, agent, (known, &verdict), &now) {
        ticked.problems.push(format!("the screen of {agent}: {error}"));
    }
    let (Verdict::Hangs { word, why }, Some(hangs)) = (&verdict, &mut now.hangs) else {
        match over(cx, seen, (agent, known)) {
            Ok(said) => ticked.done.extend(said),
            Err(error) => ticked.problems.push(format!("{agent} gets on: {error}")),
        }
        return now;
    };
    // What lasts longer than its marker may is suspected anew, and paged for again.
    let is_unmarked = || !state::exists(cx.layout.marker(agent, "hang-suspected")).unwrap_or(true);
    let anew = (hangs.did.is_some() && is_unmarked()).then_some(Act::Suspect);
    let due = due((hangs, word), signals.doing.is_some(), seen.interval, terms.0);
    for (act, is_next) in anew.map(|act| (act, false)).into_iter().chain(due.map(|act| (act, true))) {
        match perform(cx, client, session, hangs, (act, why), ticked) {
            Ok(is_done) if is_next && is_done => hangs.did = Some(act),
            Ok(_) => {}
            Err(error) => ticked.problems.push(format!("{agent} hangs: {error}")),
        }
    }
    now
}

/// Whose progress is anybody's business: slots that are wanted and run, and that no restart has in its hands.
fn looked_at(seen: &Observed) -> impl Iterator<Item = (&Desired, &SessionView)> {
    let wanted = seen.desired.iter().filter(|wish| wish.want == Want::Up && wish.agent.number().is_some());
    let all = wanted.filter_map(|wish| Some((wish, seen.sessions.get(&wish.agent)?)));
    all.filter(|(wish, session)| !is_in_hands(seen, &wish.agent) && runs(session))
}

/// What is kept of those whom a restart has in its hands, for the look after it.
fn carried(seen: &Observed, before: &Kept) -> BTreeMap<AgentId, Watch> {
    let kept = before.agents.iter().filter(|(agent, _)| is_in_hands(seen, agent));
    kept.map(|(agent, watch)| (agent.clone(), watch.clone())).collect()
}

/// A planned restart has every numbered session in its hands, a crash restart agent0 alone, unless it takes its clones with it.
fn is_in_hands(seen: &Observed, agent: &AgentId) -> bool {
    let Some(under) = &seen.restart else { return false };
    match under.inflight.takes_all() {
        true => agent.number().is_some(),
        false => *agent == AgentId::root(),
    }
}

fn look(
    cx: &Context<'_>,
    desired: &Desired,
    session: &SessionView,
    quiet: Option<String>,
) -> Result<Signals> {
    let agent = &desired.agent;
    let driven = is_driven(&desired.runtime);
    // A book of another generation says nothing of this one: netsky-drivers has not come to it. One that does not read it
    // sees to.
    let doing = driven.then(|| match Undriven::read(cx.layout, agent) {
        Some(Undriven { why, .. }) => Doing::Wedged { how: Wedge::Undriven, why },
        None => {
            let book = Book::read(cx.layout, agent).ok().flatten();
            let book = book.filter(|book| book.generation == session.generation);
            book.map(|book| book.doing).unwrap_or_default()
        }
    });
    let has_work = !driven && has_work(cx, desired, session.generation)?;
    let bytes = session.heartbeat.as_ref().map_or(0, |beat| beat.progress);
    let progress = &session.progress;
    Ok(Signals {
        generation: session.generation,
        state: session.state,
        progress: Progress { bytes, turns: progress.turn },
        has_work,
        phase: progress.phase.clone().map(|phase| (phase, progress.phase_until.clone())),
        doing,
        quiet,
    })
}

/// Whether mail waits, is in its hands, or was taken and is not finished; who waits for more has finished what it will.
fn has_work(cx: &Context<'_>, desired: &Desired, generation: Generation) -> Result<bool> {
    let agent = &desired.agent;
    if cx.bus.count(agent, State::Written)? > 0 || cx.bus.count(agent, State::Claimed)? > 0 {
        return Ok(true);
    }
    let is_owed = desired.receipts == Receipts::Ack && cx.bus.count(agent, State::Delivered)? > 0;
    Ok(is_owed && !cx.bus.is_awaited(agent, generation)?)
}

/// `state/<agent>-pane-hash`: there while its screen stands still, and nothing excuses that.
fn screen_marker(
    cx: &Context<'_>,
    seen: &Observed,
    agent: &AgentId,
    (before, verdict): (Option<&Watch>, &Verdict),
    now: &Watch,
) -> Result<()> {
    let path = cx.layout.marker(agent, "pane-hash");
    let stands = before.is_some_and(|before| before.progress == now.progress);
    if !stands || !matches!(verdict, Verdict::Silent | Verdict::Hangs { .. }) {
        seen.markers.remove(&path)?;
    } else if !state::exists(&path)? {
        let hash = blake3::hash(screen(cx, agent).as_bytes()).to_hex();
        let note =
            json!({ "v": 1, "at": now.observed.last, "hash": hash.as_str(), "generation": now.generation });
        state::write_json(path, &note)?;
    }
    Ok(())
}

/// A hang that is over: it moves, or something excuses it.
fn over(
    cx: &Context<'_>,
    seen: &Observed,
    (agent, before): (&AgentId, Option<&Watch>),
) -> Result<Option<String>> {
    let was_marked = seen.markers.remove(&cx.layout.marker(agent, "hang-suspected"))?;
    if !was_marked && before.is_none_or(|before| before.hangs.is_none()) {
        return Ok(None);
    }
    cx.record.watchdog("hang-over", Some(agent), "it gets on");
    Ok(Some(format!("{agent} gets on again")))
}

/// Does one thing; false where it has to be tried again.
fn perform(
    cx: &Context<'_>,
    client: &mut Client,
    session: &SessionView,
    hangs: &Hangs,
    (act, why): (Act, &str),
    ticked: &mut Ticked,
) -> Result<bool> {
    let agent = &session.name;
    let word = &hangs.word;
    let said = match act {
        Act::Suspect => {
            let note = Suspected {
                v: 1,
                at: clock::stamp(),
                generation: session.generation,
                word: word.clone(),
                why: why.to_owned(),
                phase: session.progress.phase.clone(),
            };
            state::write_json(cx.layout.marker(agent, "hang-suspected"), &note)?;
            cx.record.watchdog("hang-suspected", Some(agent), &format!("{word}: {why}"));
            format!("{agent} hangs ({word}): {why}; the next look decides")
        }
        Act::Nudge => {
            let text = format!(
                "You have made no progress: {why}. If you are at work, say so by `ostk report phase WORD --for 30m`; \
                 else take your mail and go on."
            );
            let id = EnvelopeId::derived(&[NUDGE, &occurrence(session, hangs)]);
            let draft = Draft::new(AgentId::infinity().into(), agent.clone(), &text);
            cx.bus.send(Draft { id: Some(id), kind: Some(NUDGE.to_owned()), ..draft })?;
            cx.record.watchdog("hang-nudged", Some(agent), why);
            format!("{agent} was told that it hangs")
        }
        Act::Page => {
            let shown = screen(cx, agent);
            let data = json!({
                "agent": agent, "generation": session.generation,
                "evidence": {
                    "phase": session.progress.phase, "turns": session.progress.turn,
                    "since": hangs.since, "for_ms": hangs.for_ms, "screen": shown,
                },
            });
            let raised = Raised {
                condition: format!("{HANG}{agent}"),
                occurrence: occurrence(session, hangs),
                reason: format!("{agent} hangs ({word}): {why}{}", evidence(session, &shown)),
                data,
            };
            return Ok(page(cx, &raised, ticked));
        }
        Act::End => {
            client.kill(agent, None, &Guard::if_generation(session.generation))?;
            cx.record.watchdog("hang-ended", Some(agent), why);
            format!("{agent} was ended: it hangs, and hang.restart is set")
        }
    };
    ticked.done.push(said);
    Ok(true)
}

/// One for each hang of each incarnation.
fn occurrence(session: &SessionView, hangs: &Hangs) -> String {
    let (lineage, generation) = (&session.lineage, session.generation);
    format!("{lineage}.g{generation}.{}.{}", hangs.since.boot_id, hangs.since.boot_ms)
}

/// What a page says of it beside why: where it is, and the end of what it showed.
fn evidence(session: &SessionView, shown: &str) -> String {
    let phase = session.progress.phase.as_ref().map_or_else(String::new, |phase| format!(", phase {phase}"));
    let shown = line(shown);
    let from = shown.len().saturating_sub(SHOWN);
    let shown = &shown[shown.ceil_char_boundary(from)..];
    let shown = if shown.is_empty() { "nothing" } else { shown };
    format!("; turn {}{phase}; it showed last: {shown}", session.progress.turn)
}

/// What it printed last, as text; nothing where that cannot be read.
fn screen(cx: &Context<'_>, agent: &AgentId) -> String {
    let path = KernelLayout::new(cx.layout.kernel_root()).out(agent);
    let read = || {
        let log = LogReader::open(&path).ok()?;
        let span = log.span().ok()?;
        let from = span.end.saturating_sub(SCREEN).max(span.base);
        match log.read_from(from, SCREEN as usize).ok()? {
            Chunk::Bytes { bytes, .. } => Some(plain(&String::from_utf8_lossy(&bytes))),
            Chunk::Gap { .. } | Chunk::End => None,
        }
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use netsky_bus::Bus;
    use netsky_model::restart::{Clones, Inflight, Kind};
    use netsky_model::witness::Nobody;

    use super::*;
    use crate::context::{in_a_home, observed};
    use crate::observe::Underway;

    fn restarted(kind: Kind) -> Observed {
        let inflight = Inflight {
            v: 1,
            id: netsky_disk::random::restart_id(),
            kind,
            clones: Clones::Leave,
            epoch: 1,
            began: clock::stamp(),
            child_since: clock::stamp(),
            child: None,
            observed: None,
            owed: None,
            looked: None,
        };
        let restart = Underway { inflight, status: None, child_alive: true, handoff_there: Ok(false) };
        Observed { restart: Some(restart), ..observed(&AgentId::root(), "active") }
    }

    /// Idle by design: it has read all and waits for more; what is in its hands is work like any other.
    #[test]
    fn t11_who_waits_for_mail_has_no_work_but_what_is_in_its_hands() {
        in_a_home(|cx| {
            let (root, first) = (AgentId::root(), Generation(1));
            let wish = observed(&root, "active").desired.remove(0);
            let is_busy = || has_work(cx, &wish, first).expect("known");
            cx.bus.create(&root).expect("made");
            assert!(!is_busy());
            cx.bus.send(Draft::new(AgentId::infinity().into(), root.clone(), "x")).expect("sent");
            assert!(is_busy(), "it waits");
            let shown = cx.bus.drain(&root, 9, first, |_| {
                assert!(is_busy(), "it is in its hands");
                Ok(())
            });
            shown.expect("shown");
            assert!(is_busy(), "it was taken and is not finished");
            std::thread::scope(|scope| {
                let (layout, root, limit) = (cx.layout, &root, Some(Duration::from_secs(60)));
                let waiting = scope.spawn(move || Bus::open(layout, &Nobody).wait(root, first, limit));
                let until = clock::boot() + Duration::from_secs(50);
                while is_busy() {
                    assert!(clock::boot() < until, "it waits, and is not idle");
                    clock::pause(Duration::from_millis(1));
                }
                cx.bus.send(Draft::new(AgentId::infinity().into(), root.clone(), "y")).expect("sent");
                assert!(is_busy(), "that one it has not read");
                assert!(waiting.join().expect("no panic").expect("waited"));
            });
        });
    }

    #[test]
    fn a_restart_has_in_its_hands_whom_it_ends_and_what_is_kept_of_them_stays() {
        let watch = Watch {
            generation: Generation(1),
            progress: Progress { bytes: 1, turns: 0 },
            observed: netsky_model::restart::Observed { watched_ms: 1, last: clock::stamp() },
            hangs: None,
        };
        let all = [AgentId::root(), AgentId::numbered(1)];
        let before = Kept { v: 1, agents: all.iter().map(|agent| (agent.clone(), watch.clone())).collect() };
        let names = |kind| carried(&restarted(kind), &before).into_keys().collect::<Vec<_>>();
        assert_eq!(names(Kind::Crash), all[..1]);
        assert_eq!(names(Kind::Planned), all);
        let none = Observed { restart: None, ..restarted(Kind::Crash) };
        assert!(carried(&none, &before).is_empty(), "each is looked at, and what is kept is what was seen");
    }
}
