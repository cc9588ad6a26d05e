//! agentinfinity: triggers a tick when the kernel reports an end, when a restart is asked for, has failed, or was handed off and
//! when it can be verified, when a try is due, when the anchor itself goes away, and when the ticker has missed its time. It repairs nothing itself, so it may die at any point. What programs drop into
//! their outboxes it carries at once; the tick would too, later.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use netsky_bus::{Bus, Owner};
use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_disk::process::PidFd;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, process, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::EventKind;
use netsky_ledger::Telemetry;
use netsky_model::id::{AgentId, Generation, RestartId};
use netsky_model::life::State;
use netsky_model::name::Stage;
use netsky_model::restart::{Inflight, Phase, Status};
use netsky_model::stamp::Stamp;
use netsky_runtime::{Config, carry_all};

use crate::context::Context;
use crate::error::Result;
use crate::held;
use crate::keeper::only_one;
use crate::known::wanted;
use crate::observe;
use crate::pass_on::{self, is_prompt};
use crate::tick::LastTick;
use crate::ticker::run_tick;

/// Slow look for what gave no event.
const RESCAN: Duration = Duration::from_secs(30);
/// Reasons for a tick that may wait. One more is dropped: the tick that answers those in front answers it too.
const WAITING: usize = 16;
/// Most messages that are read at once: what has to be repaired must not wait for a flood.
const MAIL: usize = 100;
/// Longest wait for a child that has said its last word.
const CHILD_END: Duration = Duration::from_secs(5);
/// Pause before an anchor is asked for again; doubled up to [`RESCAN`] while none answers.
const RECONNECT: Duration = Duration::from_millis(200);

/// Watch for ever.
///
/// # Errors
/// Another one runs, or the state folder cannot be written, before anything was begun.
pub fn serve(cx: &Context<'_>, caller: &Caller, said: impl Fn(&str)) -> Result<Infallible> {
    let _one = only_one(cx, &AgentId::infinity(), caller)?;
    // Before the threads: a failure here must end the process, which the anchor then starts again.
    let ready = serde_json::json!({ "v": 1, "process": process::identity()?, "at": clock::stamp() });
    let place = cx.layout.infinity_ready();
    let say_ready = || {
        // What stands in its place and is no file goes out of the way.
        let aside = |error| state::set_aside(&place).map_err(|_| error);
        let again = || state::write_json(&place, &ready);
        again().or_else(|error| aside(error).and_then(|()| again()))
    };
    let is_said = || state::read_json(&place).is_ok_and(|said| said.as_ref() == Some(&ready));
    say_ready()?;
    said("agentinfinity is ready");
    let layout = cx.layout;
    let (tell, told) = sync_channel(WAITING);
    let tell_too = tell.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || follow_kernel(layout, &tell));
        scope.spawn(move || follow_files(layout, &tell_too));
        loop {
            // Whoever changed it has it say nothing of this process.
            if !is_said()
                && let Err(error) = say_ready()
            {
                said(&error.to_string());
            }
            read_mail(cx, &said);
            let why = match told.recv_timeout(RESCAN.min(observe::interval(cx))) {
                Ok(why) => why,
                // Whoever stops the ticker stops no time.
                Err(RecvTimeoutError::Timeout) if is_overdue(cx) => "a tick is overdue".to_owned(),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => unreachable!("both followers run for ever"),
            };
            // One tick answers everything that was told before it looks; what comes later gets its own.
            while told.try_recv().is_ok() {}
            let outcome = match run_tick(cx) {
                Ok(ended) => format!("{ended:?}"),
                Err(error) => error.to_string(),
            };
            said(&format!("{} {why}: tick {outcome}", clock::wall_seconds()));
        }
    })
}

/// Whether the ticker has missed its time. Looks may be no further apart than two intervals, or none proves anything of the time
/// in between.
pub(crate) fn is_overdue(cx: &Context<'_>) -> bool {
    let last: Option<LastTick> = state::read_json(cx.layout.tick("watchdog")).unwrap_or_default();
    // One of another boot that a clock without a battery puts ahead says nothing.
    let ended = last.and_then(|last| clock::stamp().age_of(&last.at));
    // A full disk has no room for that; the note of the lock is written in place.
    let got_on = held::holder(cx).map(|(_, age)| age);
    let bound = observe::interval(cx) * 3 / 2;
    ended.into_iter().chain(got_on).min().is_none_or(|age| age > bound)
}

/// agentinfinity answers nobody; what it is told stands in its output, and is done with, or goes on to agent0.
fn read_mail(cx: &Context<'_>, said: &impl Fn(&str)) {
    let me = AgentId::infinity();
    if let Err(error) = let_go(cx, &me) {
        said(&format!("mail: {error}"));
    }
    let mut read = Vec::new();
    let drained = cx.bus.drain(&me, MAIL, Generation::NONE, |claim| {
        // What asks for something is done with once it was passed on.
        read.extend((!is_prompt(claim.envelope())).then(|| claim.id().clone()));
        said(&claim.rendered());
        Ok(())
    });
    let acked = read.iter().map(|id| cx.bus.ack(&me, id.as_str()).map(drop));
    for error in drained.err().into_iter().chain(acked.filter_map(|acked| acked.err())) {
        said(&format!("mail: {error}"));
    }
    let passed = pass_on::prompts(cx).map(|passed| passed.troubles);
    for trouble in passed.unwrap_or_else(|error| vec![error.to_string()]) {
        said(&format!("mail: {trouble}"));
    }
}

/// What an earlier look could not be done with waits again: this process lives, so nobody else gives it back.
fn let_go(cx: &Context<'_>, me: &AgentId) -> Result<()> {
    let mine = Stage::Claimed(process::identity()?);
    for entry in cx.bus.listing(me, Some(State::Claimed), usize::MAX)?.entries() {
        if let Some(name) = entry.name.filter(|name| name.stage == mine) {
            cx.bus.take_back(me, name.key.id.as_str(), Owner::Spared)?;
        }
    }
    Ok(())
}

/// Ask for a tick. When the queue is full the tick that answers those in front answers this too.
fn wake(tell: &SyncSender<String>, why: String) {
    let _ = tell.try_send(why);
}

/// Tell of every end that the kernel reports, of a program or of a context, and of the anchor's own.
fn follow_kernel(layout: &Layout, tell: &SyncSender<String>) {
    let mut pause = RECONNECT;
    loop {
        if let Ok(mut events) =
            Client::connect(&layout.kernel_root()).and_then(|client| client.subscribe(None))
        {
            pause = RECONNECT;
            // What ended before we listened gave no event.
            wake(tell, "kernel connected".to_owned());
            while let Ok(event) = events.next(None) {
                let Some(event) = event else { continue };
                let name = || event.session.as_ref().map_or("somebody", AgentId::as_str);
                // What was not pushed may have been an end.
                if event.is_end() || event.kind == EventKind::Gap {
                    wake(tell, format!("{} ended", name()));
                } else if event.is_used_up() {
                    wake(tell, format!("the context of {} is used up", name()));
                }
            }
        }
        wake(tell, "the anchor went away".to_owned());
        clock::pause(pause);
        pause = (pause * 2).min(RESCAN);
    }
}

/// Tell of restarts and of tries that are due, and carry what programs drop into their outboxes. One watch for all:
/// systems give few.
fn follow_files(layout: &Layout, tell: &SyncSender<String>) {
    let watch = Watch::default();
    let telemetry = Telemetry::new(layout);
    let mut told = Told::default();
    loop {
        // As every tick reads them: this lives for as long as the constellation.
        let config = Config::last_good(layout);
        let bus = Bus::open(layout, &telemetry).with_limits(config.bus).with_root(config.constellation.root);
        // Watched before they are looked into; those of agents that come to be are met by a later round.
        let ours = [layout.state(), layout.restart_status_folder()];
        for folder in outboxes(&bus, layout).into_iter().chain(ours) {
            // Of one that gives no events the rescan has to do.
            let _ = watch.add(folder);
        }
        // What does not go is told by the tick, which tries again.
        let _ = carry_all(&bus);
        told.restarts(layout, tell);
        let limit = told.dues(layout, &clock::stamp(), tell).unwrap_or(RESCAN).min(RESCAN);
        if watch.wait(limit).is_err() {
            clock::pause(limit);
        }
    }
}

/// What was told, each of it once: for what cannot be done yet the ticker's cadence is fast enough.
#[derive(Default)]
struct Told {
    /// Whether the present request was.
    request: bool,
    /// Whose child came to its end, and how.
    ended: Option<(RestartId, Phase)>,
    /// When a restart was given up.
    failed: Option<Stamp>,
    /// When the next try is due, in milliseconds of the boot clock: not told yet.
    due: Option<u64>,
    /// When the restart under way can be judged.
    verdict: Option<u64>,
}

impl Told {
    fn restarts(&mut self, layout: &Layout, tell: &SyncSender<String>) {
        let request = state::exists(layout.restart_request()).unwrap_or(false);
        if request && !self.request {
            wake(tell, "restart asked for".to_owned());
        }
        self.request = request;
        let ended = ended(layout);
        match &ended {
            Some((_, Phase::Failed)) if ended != self.ended => wake(tell, "a restart has failed".to_owned()),
            Some(_) if ended != self.ended => wake(tell, "a restart has handed off".to_owned()),
            _ => {}
        }
        self.ended = ended;
        // The tick that gave it up began no other.
        let failed = observe::revive_failed(layout).map(|failed| failed.at);
        if failed.is_some() && failed != self.failed {
            wake(tell, "a restart was given up".to_owned());
        }
        self.failed = failed;
    }

    /// How long nothing is due.
    fn dues(&mut self, layout: &Layout, now: &Stamp, tell: &SyncSender<String>) -> Option<Duration> {
        if self.due.is_some_and(|due| due <= now.boot_ms) {
            wake(tell, "a try is due".to_owned());
        }
        if self.verdict.is_some_and(|due| due <= now.boot_ms) {
            wake(tell, "a verdict is due".to_owned());
        }
        let at = |left: Duration| now.boot_ms + left.as_millis() as u64;
        let (attempt, verdict) = (next_try(layout, now), next_verdict(layout, now));
        self.due = attempt.map(at);
        self.verdict = verdict.map(at);
        attempt.into_iter().chain(verdict).min()
    }
}

/// The restart whose child has handed off or given up, once that has ended. One that was only interrupted has until the
/// regular tick: what interrupted it may pass.
fn ended(layout: &Layout) -> Option<(RestartId, Phase)> {
    let inflight: Inflight = state::read_json(layout.restart_inflight()).ok()??;
    let status: Status = state::read_json(layout.restart_status(&inflight.id)).ok()??;
    if !matches!(status.phase, Phase::HandedOff | Phase::Failed) {
        return None;
    }
    // One that lives on is looked at again: no tick judges it before it has ended.
    let has_ended = match PidFd::open(&status.pid) {
        Ok(None) => true,
        Ok(Some(child)) => child.wait(CHILD_END).unwrap_or(false),
        Err(_) => false,
    };
    has_ended.then_some((inflight.id, status.phase))
}

/// How long yet until a whole interval of watching the new agent0 is over; none where nobody is watched, or it is over.
fn next_verdict(layout: &Layout, now: &Stamp) -> Option<Duration> {
    let inflight: Inflight = state::read_json(layout.restart_inflight()).ok()??;
    let observed = inflight.observed?;
    let watched = Duration::from_millis(observed.watched_ms) + now.since(&observed.last);
    let left = observe::interval_of(layout).saturating_sub(watched);
    (!left.is_zero()).then_some(left)
}

/// How long yet until the next try of anybody wanted; none where nobody waits for one.
fn next_try(layout: &Layout, now: &Stamp) -> Option<Duration> {
    let is_wanted = |agent: &AgentId| wanted(layout, agent).unwrap_or_default().is_some();
    let waits = layout.desired_agents().unwrap_or_default().into_iter().filter_map(|agent| {
        let left = observe::attempts(layout, &agent)?.wait(now);
        (!left.is_zero() && is_wanted(&agent)).then_some(left)
    });
    waits.min()
}

/// Where replies are dropped, and where new agents come to be.
fn outboxes(bus: &Bus<'_>, layout: &Layout) -> Vec<PathBuf> {
    let agents = bus.agents().unwrap_or_default();
    agents.iter().map(|agent| layout.outbox(agent)).chain([layout.channels()]).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use netsky_bus::Draft;
    use netsky_model::backoff::Attempts;
    use netsky_model::id::Sender;
    use netsky_model::provenance::MAX_HOPS;
    use netsky_model::quota::Limits;
    use netsky_model::restart::{Kind, Observed};

    use super::*;
    use crate::context::in_a_home;
    use crate::decide::tests::underway;

    #[test]
    fn what_asks_for_something_is_passed_on_and_what_tells_something_is_done_with() {
        in_a_home(|cx| {
            let (me, root) = (AgentId::infinity(), AgentId::root());
            cx.bus.create(&root).expect("made");
            let counts = || {
                let mine = [State::Written, State::Delivered, State::Acked, State::Forwarded];
                let mine = mine.map(|state| cx.bus.count(&me, state).expect("counted"));
                (mine, cx.bus.count(&root, State::Written).expect("counted"))
            };
            let send = |from: Sender, kind: Option<&str>| {
                let draft = Draft {
                    create: true,
                    kind: kind.map(str::to_owned),
                    ..Draft::new(from, me.clone(), "x")
                };
                cx.bus.send(draft).expect("sent");
            };
            send(Sender::owner(), None);
            send(Sender::owner(), Some("prompt"));
            // As far as one came that died before it passed anything on.
            drop(cx.bus.drain(&me, 1, Generation::NONE, |_| Ok(())).expect("read"));
            assert_eq!(counts(), ([1, 1, 0, 0], 0));
            send(Sender::owner(), Some("report"));
            send(root.clone().into(), None);
            read_mail(cx, &|_| ());
            assert_eq!(counts(), ([0, 0, 2, 2], 2), "agent0 is asked nothing by itself");
        });
    }

    #[test]
    fn fm_deliver_what_can_never_be_passed_on_holds_nobody_up_and_is_told() {
        in_a_home(|cx| {
            let (me, root) = (AgentId::infinity(), AgentId::root());
            cx.bus.create(&root).expect("made");
            let hand = AgentId::numbered;
            let draft = Draft { create: true, ..Draft::new(Sender::owner(), hand(1), "far") };
            let mut id = cx.bus.send(draft).expect("sent").id;
            for n in 1..=MAX_HOPS {
                let to = if n == MAX_HOPS { me.clone() } else { hand(n + 1) };
                cx.bus.create(&to).expect("made");
                let gone = cx.bus.forward(&hand(n), id.as_str(), &to, &Sender::owner());
                id = gone.expect("forwarded").copy;
            }
            cx.bus.send(Draft::new(Sender::owner(), me.clone(), "behind it")).expect("sent");
            let told = RefCell::new(String::new());
            read_mail(cx, &|line| told.borrow_mut().push_str(line));
            assert_eq!(cx.bus.count(&root, State::Written).expect("counted"), 1);
            assert_eq!(cx.bus.count(&me, State::Acked).expect("counted"), 1);
            assert!(told.borrow().contains("cannot be passed on"), "{told:?}");
        });
    }

    #[test]
    fn a24_a_clone_fills_through_agentinfinity_nothing_that_is_kept_for_the_components() {
        in_a_home(|cx| {
            let limits = Limits { inbox_envelopes: 100, share_percent: 60, ..Limits::default() };
            let bus = netsky_bus::Bus::open(cx.layout, cx.record).with_limits(limits);
            let cx = &Context { bus, netsky: cx.netsky.clone(), ostk: cx.ostk.clone(), ..*cx };
            let (me, root) = (AgentId::infinity(), AgentId::root());
            cx.bus.create(&root).expect("made");
            cx.bus.create(&me).expect("made");
            for n in 0..85 {
                let from = AgentId::numbered(n % 4 + 1).into();
                cx.bus.send(Draft::new(from, root.clone(), "x")).expect("sent");
            }
            for _ in 0..50 {
                let from = AgentId::numbered(9).into();
                cx.bus.send(Draft::new(from, me.clone(), "flood")).expect("sent");
            }
            cx.bus.send(Draft::new(Sender::owner(), me.clone(), "the owner's")).expect("sent");
            for _ in 0..5 {
                read_mail(cx, &|_| ());
            }
            assert_eq!(cx.bus.count(&root, State::Written).expect("counted"), 91, "five, and the owner's");
            for _ in 0..9 {
                cx.bus.send(Draft::new(me.clone().into(), root.clone(), "a handoff")).expect("it fits");
            }
        });
    }

    #[test]
    fn fm_deliver_nothing_that_waits_overtakes_what_is_being_read() {
        in_a_home(|cx| {
            let (me, root) = (AgentId::infinity(), AgentId::root());
            cx.bus.create(&root).expect("made");
            for text in ["one", "two"] {
                let draft = Draft { create: true, ..Draft::new(Sender::owner(), me.clone(), text) };
                cx.bus.send(draft).expect("sent");
            }
            let batch = cx.bus.claim(&me, 1, Generation::NONE).expect("claimed");
            assert_eq!(pass_on::prompts(cx).expect("looked").count, 0);
            for claim in batch.claims {
                cx.bus.put_back(claim).expect("back");
            }
            assert_eq!(pass_on::prompts(cx).expect("looked").count, 2);
        });
    }

    #[test]
    fn mail_that_could_not_be_recorded_is_read_at_the_next_look() {
        in_a_home(|cx| {
            let me = AgentId::infinity();
            let draft = Draft { create: true, ..Draft::new(Sender::owner(), me.clone(), "hear-hear") };
            cx.bus.send(draft).expect("sent");
            let delivered = cx.layout.folder(&me, State::Delivered);
            let told = RefCell::new(String::new());
            let recorded_where =
                |mode| set_permissions(&delivered, Permissions::from_mode(mode)).expect("ours");
            let look = || read_mail(cx, &|line| told.borrow_mut().push_str(line));
            recorded_where(0o755);
            look();
            assert!(told.borrow().contains("mail: "), "{told:?}");
            recorded_where(0o700);
            // One that was shown, and whose record failed: nobody puts it back, and its owner lives.
            drop(cx.bus.claim(&me, 1, Generation::NONE).expect("claimed"));
            assert_eq!(cx.bus.list(&me, Some(State::Claimed)).expect("listed").len(), 1);
            look();
            assert!(told.borrow().contains("hear-hear"), "{told:?}");
            assert!(cx.bus.list(&me, Some(State::Claimed)).expect("listed").is_empty());
        });
    }

    #[test]
    fn must_show_7_a_handoff_is_looked_at_at_once_and_judged_an_interval_later() {
        in_a_home(|cx| {
            let boot = |secs: u64| Stamp { boot_ms: secs * 1000, ..clock::stamp() };
            let mut under = underway(Kind::Crash, Some(Phase::UpDetected), 2);
            let mut status = under.status.take().expect("a status");
            let path = cx.layout.restart_status(&status.id);
            let (tell, told) = sync_channel(WAITING);
            let mut known = Told::default();
            let mut look = |inflight: &Inflight, status: &Status, secs| {
                state::write_json(cx.layout.restart_inflight(), inflight).expect("written");
                state::write_json(&path, status).expect("written");
                known.restarts(cx.layout, &tell);
                let left = known.dues(cx.layout, &boot(secs), &tell);
                (told.try_iter().collect::<Vec<_>>(), left.map(|left| left.as_secs()))
            };
            assert_eq!(look(&under.inflight, &status, 1000), (vec![], None));
            status.phase = Phase::HandedOff;
            let (told, left) = look(&under.inflight, &status, 1001);
            assert_eq!((&told[..], left), (&["a restart has handed off".to_owned()][..], None));
            assert_eq!(look(&under.inflight, &status, 1002).0, [""; 0], "once");
            // What the tick makes of it; the interval is the default one.
            under.inflight.observed = Some(Observed { watched_ms: 0, last: boot(1002) });
            assert_eq!(look(&under.inflight, &status, 1003), (vec![], Some(59)));
            assert_eq!(look(&under.inflight, &status, 1061), (vec![], Some(1)));
            let (told, left) = look(&under.inflight, &status, 1062);
            assert_eq!((&told[..], left), (&["a verdict is due".to_owned()][..], None));
            assert_eq!(look(&under.inflight, &status, 1063).0, [""; 0], "once");
        });
    }

    #[test]
    fn the_next_try_is_the_earliest_of_who_is_wanted_and_waits() {
        in_a_home(|cx| {
            let boot = |secs| Stamp { boot_ms: secs * 1000, ..clock::stamp() };
            let left = |secs| next_try(cx.layout, &boot(secs)).map(|left| left.as_secs());
            let tried = |agent: &str, want: &str, secs: &[u64]| {
                let agent: AgentId = agent.parse().expect("an id");
                let wish = serde_json::json!({
                    "v": 1, "agent": agent, "want": want, "by": "up", "since": "2026-01-01T00:00:00Z",
                    "runtime": "command", "argv": ["/bin/true"], "cwd": "/", "env": {}, "receipts": "none",
                });
                state::write_json(cx.layout.desired(&agent), &wish).expect("a wish");
                let at = secs.iter().map(|secs| boot(*secs)).collect();
                let attempts = Attempts { v: 1, at, ..Attempts::default() };
                state::write_json(cx.layout.marker(&agent, "restart-attempts"), &attempts).expect("attempts");
            };
            assert_eq!(left(1000), None, "nobody was tried");
            tried("agent0", "up", &[980, 990]);
            assert_eq!(left(1000), Some(10));
            tried("agent1", "up", &[998]);
            tried("agent2", "stopped", &[999]);
            assert_eq!(left(1000), Some(8));
            assert_eq!(left(1008), Some(2), "what is due was told");
            assert_eq!(left(1010), None);
            let (tell, told) = sync_channel(WAITING);
            let mut known = Told::default();
            for secs in [1000, 1007, 1008, 1009, 1010, 1011, 2000] {
                known.dues(cx.layout, &boot(secs), &tell);
            }
            assert_eq!(told.try_iter().count(), 2, "once for each of them");
        });
    }
}
