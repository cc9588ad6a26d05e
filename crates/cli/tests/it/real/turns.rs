//! Turns of real programs, and what they ask.

use super::{Kind, Real};

fn delivers(kind: Kind) {
    let Some(real) = Real::up(kind) else { return };
    for n in 0..10 {
        let id = real.send(&format!("number {n} for who is idle"));
        assert_eq!((real.until_acked(&id), real.provider.answers_to(&id)), (1, 1));
    }
    let busy = real.send("[[slow 2]]");
    real.until_doing("working");
    let ids: Vec<String> = (0..10).map(|n| real.send(&format!("number {n} for who is at work"))).collect();
    for id in ids.iter().chain([&busy]) {
        assert_eq!((real.until_acked(id), real.provider.answers_to(id)), (1, 1), "{id}");
    }
    let id = real.send("count [[tokens 50000]]");
    real.until_acked(&id);
    real.stage.until("its context", |stage| {
        let pct = stage.agent("agent0")["driven"]["context_pct"].as_u64()?;
        (25..=27).contains(&pct).then_some(())
    });
}

#[test]
fn must_show_1_claude_has_a_receipt_for_each_envelope_idle_or_busy() {
    delivers(Kind::Claude);
}

#[test]
fn must_show_1_codex_has_a_receipt_for_each_envelope_idle_or_busy() {
    delivers(Kind::Codex);
}

fn asks(kind: Kind) {
    let Some(real) = Real::up(kind) else { return };
    for (verb, file, made) in [("deny", "denied", false), ("allow", "allowed", true)] {
        let id = real.send(&real.kind.touch(file));
        let doing = real.until_doing("blocked");
        assert!(doing["on"].as_str().expect("text").contains(&format!("touch {file}")), "{doing}");
        let asked = real.stage.agent("agent0")["driven"]["asks"][0]["id"].as_str().expect("an id").to_owned();
        real.stage.ok(&["agent", verb, "0", "--ask", &asked]);
        real.until_acked(&id);
        assert_eq!(real.stage.outside("place").join(file).exists(), made, "{verb}");
    }
}

#[test]
fn must_show_1_claude_asks_and_is_answered() {
    asks(Kind::Claude);
}

#[test]
fn must_show_1_codex_asks_and_is_answered() {
    asks(Kind::Codex);
}

fn hangs(kind: Kind) {
    let quick = "[drivers]\nsilence = \"4s\"\nprobe = \"1s\"\nanswer = \"3s\"\n";
    for (text, how) in
        [("[[hang headers]]", "no-answer"), ("[[hang mid]]", "stalled"), ("[[hang connect]]", "no-answer")]
    {
        let Some(real) = Real::with(kind, quick) else { return };
        let id = real.send(&format!("hang {text}"));
        let doing = real.until_doing("wedged");
        assert_eq!(doing["how"], how, "{text}");
        assert_eq!(real.envelope(&id), ("delivered".to_owned(), 1));
    }
    let Some(real) = Real::with(kind, quick) else { return };
    real.send("storm [[err 401]]");
    real.until_doing("failed-auth");
}

#[test]
fn must_show_3_claude_that_hangs_is_told_by_its_name() {
    hangs(Kind::Claude);
    let quick = "[drivers]\nsilence = \"4s\"\nprobe = \"1s\"\nanswer = \"3s\"\n";
    // It tells of a ping in ten seconds.
    let Some(real) = Real::with(Kind::Claude, &quick.replace("4s", "15s")) else { return };
    real.send("ping [[hang ping]]");
    assert_eq!(real.until_doing("wedged")["how"], "pings-only");
    let Some(real) = Real::with(Kind::Claude, quick) else { return };
    real.send("storm [[err 529]]");
    real.until_doing("throttled");
}

#[test]
fn must_show_3_codex_that_hangs_is_told_by_its_name() {
    hangs(Kind::Codex);
}
