//! The drill of restarts with the real programs: one as the root, the other as its clone, and somebody killed beside each.

use netsky_sim::campaign::Share;

use super::model::Provider;
use super::{Kind, Real, claude_home, codex_home};
use crate::drill::{Restart, Victim};
use crate::stage::Stage;

/// A root of this kind with a clone of the other.
fn begun(kind: Kind) -> Option<Real> {
    let other = if kind == Kind::Claude { Kind::Codex } else { Kind::Claude };
    let program = other.program()?;
    let settings = |stage: &Stage, provider: &Provider| {
        let env = match other {
            Kind::Claude => claude_home(stage, provider),
            Kind::Codex => codex_home(stage, provider),
        };
        let model = if other == Kind::Claude { "claude-haiku-4-5" } else { "scripted-1" };
        let runtime = other.runtime();
        format!(
            "[agents.agent1]\nruntime = {runtime:?}\nmodel = {model:?}\nargv = [{program:?}]\n[agents.agent1.env]\n{env}"
        )
    };
    let real = Real::made(kind, 1, settings)?;
    for agent in ["agent0", "agent1"] {
        let id = real.send_to(agent, "begin");
        real.until_acked_of(agent, &id);
    }
    Some(real)
}

/// One restart to its verified end: its handoff is read, and agent0 and its clone answer.
fn restart(real: &Real, number: u64, how: Restart) {
    let clone = real.conversation_of("agent1");
    let words = format!("handoff number {number} of the drill");
    how.run(&real.stage, &words);
    if how.planned {
        let read = real.stage.until("the handoff to be read", |_| {
            Some(real.provider.answers_to(&words)).filter(|times| *times > 0)
        });
        // Who dies once more may have read it before.
        assert!(read == 1 || how.victim == Victim::NewRoot, "{how:?}: read {read} times");
    }
    for agent in ["agent0", "agent1"] {
        let id = real.send_to(agent, &format!("still there after {number}"));
        real.until_acked_of(agent, &id);
    }
    assert_eq!(real.conversation_of("agent1"), clone, "{how:?}");
}

/// A batch of `cargo xtask campaign real-restarts`: in each step five in one home, with Claude and with Codex as the root in turn.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_real_restarts() {
    const EACH: u64 = 5;
    let share = Share::asked();
    share.run(|step| {
        let kind = if step % 2 == 0 { Kind::Claude } else { Kind::Codex };
        let Some(real) = begun(kind) else { return 0 };
        for number in step * EACH..(step + 1) * EACH {
            restart(&real, number, Restart::of(!share.seed, number));
        }
        let checked = real.stage.run(&["check"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        EACH
    });
}
