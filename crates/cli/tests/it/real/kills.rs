//! Deaths at random moments of a turn, and what the provider's log says of it.

use std::panic::resume_unwind;
use std::time::Duration;

use netsky_disk::process::Signal;
use netsky_sim::campaign::Share;

use super::{Kind, Real};
use crate::power_cuts::mixed;

/// How many of each.
fn kills() -> u64 {
    std::env::var("NETSKY_REAL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(2)
}

/// Who dies.
#[derive(Debug, Clone, Copy)]
enum Who {
    Program,
    Worker,
    Drivers,
    Anchor,
    All,
}

const EVERYBODY: [Who; 5] = [Who::Program, Who::Worker, Who::Drivers, Who::Anchor, Who::All];

impl Who {
    fn die(self, real: &Real) {
        let stage = &real.stage;
        let victims = match self {
            Who::Program => vec![stage.program("agent0")],
            Who::Worker => vec![stage.worker("agent0")],
            Who::Drivers => vec![stage.program("netsky-drivers")],
            Who::Anchor => vec![stage.anchor()],
            Who::All => {
                let ours = ["netsky-drivers", "agentinfinity", "netsky-ticker", "agent0"];
                [stage.anchor()].into_iter().chain(ours.map(|name| stage.worker(name))).collect()
            }
        };
        for victim in victims {
            stage.signal(&victim, Signal::KILL);
        }
        if matches!(self, Who::All) {
            stage.until("a tick", |stage| stage.run(&["watchdog", "tick"]).status.success().then_some(()));
        }
    }

    /// Whether its death ends a turn.
    fn ends_turns(self) -> bool {
        matches!(self, Who::Program | Who::Worker | Who::All)
    }
}

/// A constellation with a conversation, to be killed in.
fn begun(kind: Kind) -> Option<(Real, String)> {
    let real = Real::up(kind)?;
    let first = real.send("begin");
    real.until_acked(&first);
    let conversation = real.conversation();
    Some((real, conversation))
}

/// Somebody's death at a moment of an envelope's turn; what was told twice and need not have been.
fn survives_one(real: &Real, conversation: &str, who: Who, moment: Duration) {
    let kind = real.kind;
    // So many deaths in so short a time are a crash loop, which is another test's matter.
    let _ = std::fs::remove_file(real.stage.home().join("state/agent0-restart-attempts"));
    let generation = real.stage.agent("agent0")["generation"].as_u64().expect("a number");
    let id = real.send(&format!("{who:?} at {moment:?} [[slow 2]]"));
    netsky_disk::clock::pause(moment);
    who.die(real);
    let attempt = real.until_acked(&id);
    let answers = real.provider.answers_to(&id);
    assert!(answers >= 1, "{kind:?} {who:?} at {moment:?}: nobody answered");
    assert!(who.ends_turns() || answers == 1, "{kind:?} {who:?} at {moment:?}: answered {answers} times");
    assert!(attempt <= 3, "{kind:?} {who:?} at {moment:?}: told {attempt} times");
    println!("{kind:?} {who:?} at {moment:?}: told {attempt} times, answered {answers} times");
    // Whose turn was just over when he died has an envelope that is acked before he is back: the next death is to meet him.
    let least = generation + u64::from(who.ends_turns());
    real.stage.until("agent0 is back", |stage| {
        let root = stage.agent("agent0");
        let is_back =
            root["generation"].as_u64() >= Some(least) && root["up"] == true && root["worker_pid"].is_u64();
        (is_back && root["driven"]["doing"]["is"] == "idle").then_some(())
    });
    assert_eq!(real.conversation(), conversation, "{kind:?} {who:?} at {moment:?}");
}

/// A moment of a turn, which takes two seconds and some more.
fn moment(seed: u64) -> Duration {
    Duration::from_millis((seed >> 33) % 2500)
}

fn survives(kind: Kind) {
    let Some((real, conversation)) = begun(kind) else { return };
    let mut seed = 0x9e37_79b9_u64;
    for _ in 0..kills() {
        for who in EVERYBODY {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            survives_one(&real, &conversation, who, moment(seed));
        }
    }
}

#[test]
fn must_show_1_claude_goes_on_with_its_conversation_whoever_dies_in_a_turn() {
    survives(Kind::Claude);
}

#[test]
fn must_show_1_codex_goes_on_with_its_conversation_whoever_dies_in_a_turn() {
    survives(Kind::Codex);
}

/// Messages that wait become one turn, which is cut; others wait behind it.
fn keeps_order(kind: Kind) {
    let Some((real, _)) = begun(kind) else { return };
    real.send("first [[slow 2]]");
    real.until_doing("working");
    // The program takes the first by itself, and then what is left in one turn.
    let cut = ["one", "two [[slow 5]]", "three [[slow 5]]"].map(|text| real.send(text));
    let is_told = || real.provider.asked().iter().any(|asked| asked.is_user && asked.last.contains(&cut[1]));
    real.stage.until("their turn", |_| is_told().then_some(()));
    let behind = ["four", "five"].map(|text| real.send(text));
    // It writes down what it was told.
    netsky_disk::clock::pause(Duration::from_millis(700));
    real.stage.signal(&real.stage.program("agent0"), Signal::KILL);
    let all: Vec<&String> = cut.iter().chain(&behind).collect();
    for id in &all {
        real.until_acked(id);
    }
    let acked = "SELECT id FROM envelope_events WHERE state = 'acked' ORDER BY ts_utc";
    let acked = real.stage.ok(&["query", acked, "--csv"]);
    let order: Vec<Option<usize>> = all.iter().map(|id| acked.find(id.as_str())).collect();
    assert!(order.is_sorted() && order[0].is_some(), "{kind:?}: {order:?}");
}

#[test]
fn i2_claude_that_dies_in_a_turn_of_several_messages_is_told_the_rest_in_their_order() {
    keeps_order(Kind::Claude);
}

#[test]
fn i2_codex_that_dies_in_a_turn_of_several_messages_is_told_the_rest_in_their_order() {
    keeps_order(Kind::Codex);
}

/// A batch of `cargo xtask campaign real-kills`: in each step everybody dies once beside each of the two programs, which
/// have a constellation each and meet nothing of each other but the machine.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_real_kills() {
    let share = Share::asked();
    share.run(|step| {
        let deaths = |kind| {
            let Some((real, conversation)) = begun(kind) else { return 0 };
            for (who, n) in EVERYBODY.into_iter().zip(step * EVERYBODY.len() as u64..) {
                let salt = if kind == Kind::Claude { share.seed } else { !share.seed };
                survives_one(&real, &conversation, who, moment(mixed(mixed(salt).wrapping_add(n))));
            }
            EVERYBODY.len() as u64
        };
        let finished = |one: std::thread::ScopedJoinHandle<'_, u64>| {
            one.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        std::thread::scope(|scope| {
            let both = [Kind::Claude, Kind::Codex].map(|kind| scope.spawn(move || deaths(kind)));
            both.map(finished).iter().sum()
        })
    });
}
