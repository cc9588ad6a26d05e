//! The cases of `decide` on a table.

use std::collections::BTreeMap;

use netsky_model::backoff::Attempts;
use netsky_model::process::ProcessId;
use netsky_model::restart::{Clones, Inflight, Started, Status, VERSION};
use netsky_model::stamp::Stamp;

use super::*;

pub(crate) fn stamp(secs: u64) -> Stamp {
    let wall = jiff::Timestamp::from_second(1_000_000).expect("in range");
    Stamp { wall, boot_ms: secs * 1000, boot_id: "00000001".to_owned() }
}

pub(crate) fn wish(agent: &AgentId, want: &str) -> Desired {
    serde_json::from_value(serde_json::json!({
        "v": 1, "agent": agent, "want": want, "by": "up", "since": "2026-01-01T00:00:00Z", "runtime": "command",
        "argv": ["/bin/true"], "cwd": "/", "env": {}, "receipts": "ack",
    }))
    .expect("a whole wish")
}

pub(crate) fn session(agent: &AgentId, generation: u64, state: &str, since: &str) -> SessionView {
    let keeper = if agent.number().is_some() { "watchdog" } else { "anchor" };
    serde_json::from_value(serde_json::json!({
        "name": agent, "state": state, "lineage": format!("{agent}-00000001"), "generation": generation,
        "runtime": "command", "keeper": keeper, "kept": keeper == "anchor" && state != "stopped", "tags": { "desired_since": since },
        "ended_at": stamp(100), "end": { "kind": "signalled", "signal": 9 },
        "socket": "/", "argv": ["/bin/true"], "cwd": "/",
    }))
    .expect("a whole session")
}

pub(crate) const SINCE: &str = "2026-01-01T00:00:00Z";

pub(crate) fn seen(desired: Vec<Desired>, sessions: Vec<SessionView>) -> Observed {
    Observed {
        now: stamp(200),
        interval: Duration::from_secs(60),
        desired,
        sessions: sessions.into_iter().map(|view| (view.name.clone(), view)).collect(),
        request: Request::None,
        restart: None,
        restart_unread: None,
        clones: Default::default(),
        unproved: None,
        markers: Default::default(),
        attempts: BTreeMap::new(),
        used_up: BTreeMap::new(),
        proofs: Default::default(),
    }
}

pub(crate) fn underway(kind: Kind, phase: Option<Phase>, generation: u64) -> Underway {
    let id: RestartId = "restart-1".parse().expect("valid");
    let child = ProcessId { pid: 77, start_time: 1, boot_id: "00000001".to_owned(), ns: 1 };
    let started = Started {
        name: AgentId::root(),
        generation: Generation(generation),
        nonce: "0123456789abcdef0123456789abcdef".parse().expect("valid"),
    };
    Underway {
        inflight: Inflight {
            v: VERSION,
            id: id.clone(),
            kind,
            clones: Clones::Leave,
            epoch: 1,
            began: stamp(100),
            child_since: stamp(190),
            child: Some(child.clone()),
            observed: None,
            owed: None,
            looked: None,
        },
        status: phase.map(|phase| Status {
            v: VERSION,
            id,
            epoch: 1,
            pid: child,
            phase,
            started_at: stamp(100),
            updated_at: stamp(120),
            error: None,
            torn_down: true,
            agents: vec![started],
        }),
        child_alive: false,
        handoff_there: Ok(true),
    }
}

fn tried(secs: u64) -> Attempts {
    Attempts { v: 1, at: vec![stamp(secs)], ..Attempts::default() }
}

#[test]
fn what_never_ran_is_started_and_nothing_is_handed_over() {
    let root = AgentId::root();
    let effects = decide(&seen(vec![wish(&root, "up")], vec![]));
    assert_eq!(effects, [Effect::Start { agent: root.clone(), after: Generation(0), again: false }]);
    // A session of an earlier wish ended with that wish.
    let old = session(&root, 4, "stopped", "2025-01-01T00:00:00Z");
    let effects = decide(&seen(vec![wish(&root, "up")], vec![old]));
    assert_eq!(effects, [Effect::Start { agent: root, after: Generation(4), again: false }]);
}

#[test]
fn an_agent0_that_died_begins_a_crash_restart() {
    let root = AgentId::root();
    for state in ["died", "exited", "orphaned", "failed", "inactive"] {
        let effects = decide(&seen(vec![wish(&root, "up")], vec![session(&root, 1, state, SINCE)]));
        assert!(
            matches!(effects[..], [Effect::BeginRestart { kind: Kind::Crash, .. }]),
            "{state}: {effects:?}"
        );
    }
    let alive = decide(&seen(vec![wish(&root, "up")], vec![session(&root, 1, "active", SINCE)]));
    assert_eq!(alive, []);
}

#[test]
fn a_session_that_cannot_be_judged_is_left_alone() {
    let root = AgentId::root();
    for state in ["unknown", "ending", "starting"] {
        assert_eq!(
            decide(&seen(vec![wish(&root, "up")], vec![session(&root, 1, state, SINCE)])),
            [],
            "{state}"
        );
    }
}

#[test]
fn a_request_is_claimed_once_and_a_claimed_one_is_gone_on_with() {
    let root = AgentId::root();
    let mut look = seen(vec![wish(&root, "up")], vec![session(&root, 1, "active", SINCE)]);
    look.request = Request::Queued;
    assert!(matches!(
        decide(&look)[..],
        [Effect::ClaimRequest, Effect::BeginRestart { kind: Kind::Planned, .. }]
    ));
    look.request = Request::Past;
    assert_eq!(decide(&look), [Effect::ExpireRequest], "T25: who lives is not ended for it");
    let mut gone = seen(vec![wish(&root, "up")], vec![session(&root, 1, "died", SINCE)]);
    gone.request = Request::Past;
    assert!(
        matches!(decide(&gone)[..], [Effect::ClaimRequest, Effect::BeginRestart { kind: Kind::Crash, .. }]),
        "for who is gone it is the handoff"
    );
    look.request = Request::Claimed;
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { kind: Kind::Planned, .. }]));
    look.restart = Some(underway(Kind::Planned, None, 2));
    assert!(matches!(decide(&look)[..], [Effect::StartChild(_)]), "one restart at a time");
}

#[test]
fn i7_verified_only_for_the_generation_that_was_started_and_after_a_whole_interval() {
    let root = AgentId::root();
    let look = |generation, state, watched_ms| {
        let mut look = seen(vec![wish(&root, "up")], vec![session(&root, generation, state, SINCE)]);
        let mut under = underway(Kind::Crash, Some(Phase::HandedOff), 2);
        let last = stamp(190);
        under.inflight.observed = Some(restart::Observed { watched_ms, last });
        look.restart = Some(under);
        decide(&look).remove(0)
    };
    assert!(matches!(look(2, "active", 50_000), Effect::Verified(_)));
    assert!(matches!(look(2, "active", 48_999), Effect::Watch(_)));
    assert!(matches!(look(2, "died", 50_000), Effect::Failed { .. }));
    assert!(matches!(look(3, "active", 50_000), Effect::Failed { .. }), "some other agent0 proves nothing");
}

#[test]
fn whose_handoff_is_not_known_to_be_there_is_neither_proved_nor_given_up() {
    let (root, one) = (AgentId::root(), AgentId::numbered(1));
    let sessions = vec![session(&root, 2, "active", SINCE), session(&one, 3, "died", SINCE)];
    let mut look = seen(vec![wish(&root, "up"), wish(&one, "up")], sessions);
    let mut under = underway(Kind::Crash, Some(Phase::HandedOff), 2);
    under.inflight.observed = Some(restart::Observed { watched_ms: 60_000, last: stamp(190) });
    under.handoff_there = Err(crate::error::Error::NotUp);
    look.restart = Some(under);
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }, Effect::Start { .. }]), "{:?}", decide(&look));
    look.sessions.insert(root.clone(), session(&root, 2, "died", SINCE));
    assert!(
        matches!(decide(&look)[..], [Effect::Failed { .. }, Effect::Start { .. }]),
        "it is dead all the same"
    );
}

#[test]
fn t9_no_child_is_ended_for_the_hour_that_the_machine_slept_and_one_that_hangs_is() {
    let mut look = seen(vec![wish(&AgentId::root(), "up")], Vec::new());
    look.restart = Some(Underway { child_alive: true, ..underway(Kind::Crash, Some(Phase::Teardown), 2) });
    for (secs, is_ended) in [(200, false), (3800, false), (3855, false), (3865, true)] {
        look.now = stamp(secs);
        match decide(&look).remove(0) {
            Effect::Look(inflight) if !is_ended => {
                look.restart.as_mut().expect("under way").inflight = inflight;
            }
            Effect::KillChild(_) if is_ended => {}
            other => panic!("{secs}: {other:?}"),
        }
    }
}

#[test]
fn who_is_proved_and_at_the_end_of_its_context_gives_way_in_the_same_look() {
    let root = AgentId::root();
    let mut used_up = session(&root, 2, "active", SINCE);
    (used_up.started_at, used_up.progress.lifecycle) = (Some(stamp(100)), LifecycleState::Dead);
    let mut look = seen(vec![wish(&root, "up")], vec![used_up]);
    let mut under = underway(Kind::Crash, Some(Phase::HandedOff), 2);
    under.inflight.observed = Some(restart::Observed { watched_ms: 50_000, last: stamp(190) });
    look.restart = Some(under);
    assert!(matches!(decide(&look)[..], [Effect::Verified(_), Effect::Succeed { .. }]));
    if let Some(under) = &mut look.restart {
        under.inflight.observed = None;
    }
    assert!(matches!(decide(&look)[..], [Effect::Watch(_)]), "nobody is ended who is being watched");
}

#[test]
fn clones_come_back_by_themselves_but_not_beside_a_planned_restart() {
    let (root, one) = (AgentId::root(), AgentId::numbered(1));
    let wishes = || vec![wish(&root, "up"), wish(&one, "up")];
    let sessions = || vec![session(&root, 1, "active", SINCE), session(&one, 3, "died", SINCE)];
    let again = Effect::Start { agent: one.clone(), after: Generation(3), again: true };
    assert_eq!(decide(&seen(wishes(), sessions())), std::slice::from_ref(&again));
    let mut look = seen(wishes(), sessions());
    look.restart = Some(Underway { child_alive: true, ..underway(Kind::Planned, None, 2) });
    assert!(matches!(decide(&look)[..], [Effect::Look(_)]), "the child has them");
    look.restart = Some(Underway { child_alive: true, ..underway(Kind::Crash, None, 2) });
    assert_eq!(decide(&look)[1], again, "a crash restart leaves clones to the tick");
    look.restart.as_mut().expect("under way").inflight.clones = Clones::Restart;
    assert!(matches!(decide(&look)[..], [Effect::Look(_)]), "unless the owner wants it otherwise");
}

#[test]
fn clones_are_the_childs_from_the_tick_on_that_begins_a_crash_restart_which_takes_them() {
    let (root, one) = (AgentId::root(), AgentId::numbered(1));
    let sessions = vec![session(&root, 1, "died", SINCE), session(&one, 3, "died", SINCE)];
    let mut look = seen(vec![wish(&root, "up"), wish(&one, "up")], sessions);
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { .. }, Effect::Start { .. }]));
    look.clones = Clones::Restart;
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { .. }]));
}

#[test]
fn a5_where_a_restart_is_not_known_to_be_under_way_agent0_alone_is_left_alone() {
    let (root, one) = (AgentId::root(), AgentId::numbered(1));
    let sessions = vec![session(&root, 1, "died", SINCE), session(&one, 3, "died", SINCE)];
    let mut look = seen(vec![wish(&root, "up"), wish(&one, "up")], sessions);
    look.restart_unread = Some("it has a second name".to_owned());
    let effects = decide(&look);
    let [Effect::Wait { agent, why }, Effect::Start { agent: other, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(*agent == root && why.contains("it has a second name") && *other == one, "{effects:?}");
}

#[test]
fn who_would_not_end_keeps_nobody_from_being_started() {
    let (root, [one, two]) = (AgentId::root(), [1, 2].map(AgentId::numbered));
    let wishes = vec![wish(&root, "up"), wish(&one, "stopped"), wish(&two, "up")];
    let sessions = vec![
        session(&root, 1, "active", SINCE),
        session(&one, 1, "active", SINCE),
        session(&two, 1, "died", SINCE),
    ];
    assert!(matches!(decide(&seen(wishes, sessions))[..], [Effect::Start { .. }, Effect::Stop { .. }]));
}

#[test]
fn who_keeps_the_others_is_ended_behind_the_last_of_them_and_who_is_being_ended_is_left_alone() {
    let names = ["agent0", "agent1", "agentinfinity", "netsky-drivers", "netsky-ticker"];
    let agents = names.map(|name| name.parse::<AgentId>().expect("valid"));
    let wishes: Vec<Desired> = agents.iter().map(|agent| wish(agent, "stopped")).collect();
    let stopped = |states: [&str; 5]| {
        let sessions = agents.iter().zip(states).map(|(agent, state)| session(agent, 1, state, SINCE));
        let effects = decide(&seen(wishes.clone(), sessions.collect()));
        let agent = |effect: Effect| match effect {
            Effect::Stop { agent, .. } => agent.to_string(),
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(agent).collect::<Vec<_>>()
    };
    assert_eq!(stopped(["active"; 5]), names[..2]);
    assert_eq!(stopped(["ending", "active", "active", "active", "active"]), ["agent1"]);
    assert_eq!(stopped(["exited", "ending", "active", "active", "active"]), [""; 0]);
    assert_eq!(stopped(["exited", "exited", "active", "active", "active"]), names[2..]);
    assert_eq!(stopped(["exited", "exited", "exited", "ending", "active"]), ["netsky-ticker"]);
}

#[test]
fn clones_are_seen_to_where_nobody_judges_the_planned_restart_under_way() {
    let one = AgentId::numbered(1);
    // The wish of agent0 does not read.
    let mut look = seen(vec![wish(&one, "up")], vec![session(&one, 3, "died", SINCE)]);
    look.restart = Some(underway(Kind::Planned, Some(Phase::Teardown), 2));
    assert_eq!(decide(&look), [Effect::Start { agent: one, after: Generation(3), again: true }]);
}

#[test]
fn a_restart_whose_handoff_is_gone_does_not_blame_its_agent0() {
    let root = AgentId::root();
    let mut look = seen(vec![wish(&root, "up")], vec![session(&root, 2, "active", SINCE)]);
    look.restart =
        Some(Underway { handoff_there: Ok(false), ..underway(Kind::Crash, Some(Phase::HandedOff), 2) });
    let why = |look: &Observed| match decide(look).remove(0) {
        Effect::Failed { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&look), "its handoff is not in agent0's mailbox any more");
    look.sessions.insert(root.clone(), session(&root, 2, "died", SINCE));
    assert_eq!(why(&look), "agent0 did not stay up until it was verified");
}

#[test]
fn what_keeps_dying_waits_longer() {
    let one = AgentId::numbered(1);
    let mut look = seen(vec![wish(&one, "up")], vec![session(&one, 3, "exited", SINCE)]);
    look.attempts.insert(one.clone(), tried(195));
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]));
    look.attempts.insert(one, tried(180));
    assert!(matches!(decide(&look)[..], [Effect::Start { .. }]));
}

#[test]
fn what_is_not_wanted_is_stopped_with_the_generation_that_was_seen() {
    let one = AgentId::numbered(1);
    let effects = decide(&seen(vec![wish(&one, "stopped")], vec![session(&one, 3, "active", SINCE)]));
    assert_eq!(effects, [Effect::Stop { agent: one.clone(), generation: Generation(3) }]);
    assert_eq!(decide(&seen(vec![wish(&one, "stopped")], vec![session(&one, 3, "stopped", SINCE)])), []);
}

#[test]
fn the_anchors_own_are_left_to_it_unless_it_is_overdue() {
    let ticker = AgentId::ticker();
    let mut look = seen(vec![wish(&ticker, "up")], vec![session(&ticker, 1, "died", SINCE)]);
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]), "and it is told");
    look.now = stamp(100 + 121);
    assert!(matches!(decide(&look)[..], [Effect::Start { .. }]));
    // After a boot whose wall clock is behind nobody knows how long that is, and nobody is left down for it.
    let behind = stamp(100);
    let behind =
        Stamp { boot_id: "b9".to_owned(), wall: behind.wall - jiff::SignedDuration::from_hours(9), ..behind };
    assert!(matches!(decide(&Observed { now: behind, ..look })[..], [Effect::Start { .. }]));
    let killed = seen(vec![wish(&ticker, "up")], vec![session(&ticker, 1, "stopped", SINCE)]);
    assert!(matches!(decide(&killed)[..], [Effect::Start { .. }]), "somebody killed it, and it is wanted");
}

#[test]
fn i7_who_keeps_the_rest_is_started_before_it() {
    let all = [AgentId::root(), AgentId::numbered(1), AgentId::infinity(), AgentId::ticker()];
    let look = seen(all.iter().map(|agent| wish(agent, "up")).collect(), Vec::new());
    let started: Vec<AgentId> = decide(&look)
        .into_iter()
        .map(|effect| match effect {
            Effect::Start { agent, .. } => agent,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(started, [AgentId::infinity(), AgentId::ticker(), AgentId::root(), AgentId::numbered(1)]);
}

#[test]
fn a_planned_restart_that_failed_waits_its_turn_and_becomes_a_crash_restart() {
    let (root, one) = (AgentId::root(), AgentId::numbered(1));
    let wishes = vec![wish(&root, "up"), wish(&one, "up")];
    let sessions = vec![session(&root, 2, "exited", SINCE), session(&one, 3, "active", SINCE)];
    let mut look = seen(wishes, sessions);
    look.request = Request::Left;
    look.attempts.insert(root.clone(), tried(195));
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]), "no hot loop");
    look.attempts.insert(root, tried(150));
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { kind: Kind::Crash, .. }]), "clones stay");
}

#[test]
fn i7_a_crashloop_waits_for_its_half_open_try_but_not_for_who_asks_while_agent0_lives() {
    let root = AgentId::root();
    let crashloop = || Attempts { crashloop: true, ..tried(150) };
    let mut look = seen(vec![wish(&root, "up")], vec![session(&root, 6, "died", SINCE)]);
    look.attempts.insert(root.clone(), crashloop());
    assert_eq!(decide(&look), [wait(&root, "it keeps dying; next start in 3551 s")]);
    look.now = stamp(150 + 3600);
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { kind: Kind::Crash, .. }]));
    let mut look = seen(vec![wish(&root, "up")], vec![session(&root, 6, "active", SINCE)]);
    look.attempts.insert(root.clone(), crashloop());
    assert_eq!(decide(&look), [], "up, and not for long enough to forget");
    look.request = Request::Left;
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]), "its last try failed");
    look.request = Request::Claimed;
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { .. }]), "who claimed it died before any try");
    look.request = Request::Queued;
    assert!(matches!(decide(&look)[..], [Effect::ClaimRequest, Effect::BeginRestart { .. }]));
}

#[test]
fn the_tick_that_begins_a_planned_restart_starts_no_clone_beside_it() {
    let (root, one) = (AgentId::root(), AgentId::numbered(1));
    let wishes = vec![wish(&root, "up"), wish(&one, "up")];
    let mut look = seen(wishes, vec![session(&root, 1, "active", SINCE), session(&one, 3, "died", SINCE)]);
    look.request = Request::Queued;
    assert!(matches!(
        decide(&look)[..],
        [Effect::ClaimRequest, Effect::BeginRestart { kind: Kind::Planned, .. }]
    ));
}

#[test]
fn a_clone_that_was_never_started_waits_for_no_planned_restart() {
    let (root, one, two) = (AgentId::root(), AgentId::numbered(1), AgentId::numbered(2));
    let wishes = vec![wish(&root, "up"), wish(&one, "up"), wish(&two, "up")];
    let before = "2025-01-01T00:00:00Z";
    let sessions = vec![
        session(&root, 1, "stopped", SINCE),
        session(&one, 3, "stopped", SINCE),
        session(&two, 4, "stopped", before),
    ];
    let mut look = seen(wishes, sessions);
    look.restart = Some(underway(Kind::Planned, Some(Phase::Teardown), 2));
    let started = |look: &Observed| -> Vec<Effect> {
        decide(look).into_iter().filter(|effect| matches!(effect, Effect::Start { .. })).collect()
    };
    let start = |after| Effect::Start { agent: two.clone(), after: Generation(after), again: false };
    assert_eq!(started(&look), [start(4)], "what ran for an earlier wish is another's end");
    look.sessions.remove(&two);
    assert_eq!(started(&look), [start(0)]);
}

#[test]
fn i7_an_agent0_that_never_said_that_it_is_up_is_tried_again_and_outlives_nothing() {
    let root = AgentId::root();
    let mut alive = session(&root, 2, "active", SINCE);
    alive.started_at = Some(stamp(100));
    let mut look = seen(vec![wish(&root, "up")], vec![alive]);
    look.unproved = underway(Kind::Crash, Some(Phase::Failed), 2)
        .status
        .and_then(|status| status.agents.into_iter().next());
    look.attempts.insert(root.clone(), tried(195));
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]), "by the same rules");
    look.attempts.insert(root.clone(), Attempts { crashloop: true, ..tried(100) });
    look.now = stamp(100 + 1801);
    assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]), "a life that proves nothing is not healthy");
    look.now = stamp(100 + 3600);
    assert!(matches!(decide(&look)[..], [Effect::BeginRestart { kind: Kind::Crash, .. }]));
    look.sessions.insert(root.clone(), session(&root, 2, "unknown", SINCE));
    assert_eq!(decide(&look), [], "what cannot be judged is left alone");
    look.sessions.insert(root.clone(), session(&root, 3, "active", SINCE));
    assert_eq!(decide(&look), [], "another agent0");
}

#[test]
fn what_has_lived_for_the_window_starts_with_a_clean_slate() {
    let one = AgentId::numbered(1);
    let mut alive = session(&one, 3, "active", SINCE);
    alive.started_at = Some(stamp(100));
    let mut look = seen(vec![wish(&one, "up")], vec![alive]);
    look.attempts.insert(one.clone(), tried(90));
    assert_eq!(decide(&look), []);
    look.now = stamp(100 + 1801);
    assert_eq!(decide(&look), [Effect::Settled(one)]);
}

#[test]
fn whose_context_is_used_up_gives_way_to_a_successor_and_not_in_a_hot_loop() {
    for agent in [AgentId::root(), AgentId::numbered(1)] {
        let mut alive = session(&agent, 3, "active", SINCE);
        (alive.started_at, alive.progress.lifecycle) = (Some(stamp(100)), LifecycleState::Draining);
        let mut look = seen(vec![wish(&agent, "up")], vec![alive.clone()]);
        assert_eq!(decide(&look), [], "its last turn is under way");
        for (generation, is_over) in [(2, false), (3, true)] {
            look.used_up.insert(agent.clone(), (Generation(generation), None));
            let succeeds = matches!(decide(&look)[..], [Effect::Succeed { .. }]);
            assert_eq!(succeeds, is_over, "the kernel has not heard of it");
        }
        look.used_up.clear();
        alive.progress.lifecycle = LifecycleState::Dead;
        look.sessions.insert(agent.clone(), alive.clone());
        let succeed = |soon| Effect::Succeed { agent: agent.clone(), generation: Generation(3), soon };
        assert_eq!(decide(&look), [succeed(false)]);
        alive.started_at = Some(stamp(150));
        look.attempts.insert(agent.clone(), tried(195));
        look.sessions.insert(agent.clone(), alive.clone());
        assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]));
        // A look that comes late makes it no older: it was used up ten seconds after its start.
        look.used_up.insert(agent.clone(), (Generation(3), Some(stamp(160))));
        look.now = stamp(150 + 3000);
        assert!(matches!(decide(&look)[..], [Effect::Succeed { soon: true, .. }]), "{:?}", decide(&look));
        look.attempts.insert(agent.clone(), Attempts { crashloop: true, ..tried(150) });
        assert!(matches!(decide(&look)[..], [Effect::Wait { .. }]), "one try an hour: {:?}", decide(&look));
        look.now = stamp(200);
        look.used_up.clear();
        look.attempts.clear();
        assert_eq!(decide(&look), [succeed(true)]);
        alive.state = SessionState::Stopped;
        look.sessions.insert(agent.clone(), alive.clone());
        assert!(!matches!(decide(&look)[..], [Effect::Succeed { .. }]), "it ended by itself");
        alive.state = SessionState::Active;
        look.sessions.insert(agent.clone(), SessionView { keeper: Keeper::Anchor, ..alive.clone() });
        assert!(!matches!(decide(&look)[..], [Effect::Succeed { .. }]), "the anchor sees to its own");
        look.request = Request::Claimed;
        look.sessions.insert(agent.clone(), alive);
        let planned = agent == AgentId::root();
        let begins = matches!(decide(&look)[..], [Effect::BeginRestart { kind: Kind::Planned, .. }]);
        assert_eq!(begins, planned, "a restart that was asked for replaces it as well");
    }
}
