//! Contexts of real programs that end.

use super::{Kind, Real};

/// Words that a model of that kind was asked, and answered whole.
fn answered(real: &Real, what: &str) -> Option<String> {
    let asked = real.provider.asked();
    asked.into_iter().find(|asked| asked.is_answered && asked.last.contains(what)).map(|asked| asked.last)
}

fn hands_over(kind: Kind) {
    let Some(real) = Real::up(kind) else { return };
    let mut conversations = Vec::new();
    for generation in 1..=3 {
        let id = real.send(&format!("part {generation} [[tokens 150000]]"));
        real.until_acked(&id);
        real.stage.until("its handoff", |stage| {
            (stage.json("state/drivers/agent0.json")["asked"]["given"] == true).then_some(())
        });
        conversations.push(real.conversation());
        let id = real.send(&format!("more of part {generation} [[tokens 185000]]"));
        real.until_acked(&id);
        let next = real.send(&format!("behind part {generation}"));
        let take_over = format!("You take over from generation {generation} of agent0");
        let told = real.stage.until("a successor that was told", |_| answered(&real, &take_over));
        assert!(told.contains("is done, the next one is not\n</handoff>"), "{told}");
        assert_eq!((real.until_acked(&next), real.provider.answers_to(&next)), (1, 1));
    }
    conversations.push(real.conversation());
    conversations.dedup();
    assert_eq!(conversations.len(), 4, "{conversations:?}");
    let last =
        real.provider.asked().iter().filter(|asked| asked.last.contains("this is your last turn")).count();
    assert_eq!(last, 3, "each was asked once for its last handoff");
}

#[test]
fn must_show_4_claude_lives_through_three_generations_by_context_pressure() {
    hands_over(Kind::Claude);
}

#[test]
fn must_show_4_codex_lives_through_three_generations_by_context_pressure() {
    hands_over(Kind::Codex);
}
