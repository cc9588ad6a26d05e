//! The restart protocol with a real Claude Code as the root and a real Codex as its clone.

use netsky_disk::process::Signal;

use super::model::Provider;
use super::{Kind, Real, codex_home};
use crate::stage::Stage;

#[test]
fn must_show_2_a_planned_and_a_crash_restart_of_claude_beside_a_codex_are_verified_and_their_handoffs_read() {
    let Some(program) = Kind::Codex.program() else { return };
    let settings = |stage: &Stage, provider: &Provider| {
        format!(
            "[agents.agent1]\nruntime = \"codex\"\nmodel = \"scripted-1\"\nargv = [{program:?}]\n[agents.agent1.env]\n{}",
            codex_home(stage, provider)
        )
    };
    let Some(real) = Real::made(Kind::Claude, 1, settings) else { return };
    for agent in ["agent0", "agent1"] {
        let id = real.send_to(agent, "begin");
        assert_eq!(real.until_acked_of(agent, &id), 1);
    }
    let clone = real.conversation_of("agent1");
    let first = real.conversation();
    // Asked for: agent0 begins a conversation, its clone goes on with its own.
    let handoff = real.stage.outside("handoff");
    std::fs::write(&handoff, "the plan is in plan.md; go on with the planned part").expect("written");
    real.stage.ok(&["restart", "--handoff", handoff.to_str().expect("text")]);
    real.stage.until_verified(2);
    real.stage.until("the handoff to be read", |_| {
        (real.provider.answers_to("go on with the planned part") == 1).then_some(())
    });
    let second = real.conversation();
    assert_ne!(first, second);
    let id = real.send_to("agent1", "still there");
    assert_eq!((real.until_acked_of("agent1", &id), real.conversation_of("agent1")), (1, clone.clone()));
    // A crash in a turn: the same conversation, what was cut told again, and what is known of the crash.
    let cut = real.send("cut [[slow 2]]");
    real.until_doing("working");
    let died = real.stage.program("agent0");
    real.stage.signal(&died, Signal::KILL);
    real.stage.until_verified(3);
    assert_eq!((real.until_acked(&cut), real.conversation()), (2, second));
    let told = "agent0 generation 2 ended without a handoff";
    real.stage.until("the crash handoff to be read", |_| {
        let asked = real.provider.asked();
        asked.iter().any(|asked| asked.is_answered && asked.last.contains(told)).then_some(())
    });
    let agent = real.stage.agent("agent0");
    assert_eq!((agent["driven"]["answered"].as_bool(), agent["up"].as_bool()), (Some(true), Some(true)));
    assert_eq!(real.conversation_of("agent1"), clone);
}
