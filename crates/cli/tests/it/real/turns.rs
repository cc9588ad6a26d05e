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

/// How many long turns.
fn turns() -> usize {
    std::env::var("NETSKY_REAL_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(20)
}

/// Turns several times as long as what is called silence, with words or a tool all the time: none hangs at any moment.
fn stays_healthy(kind: Kind) {
    const CLONES: usize = 4;
    let quick = "[drivers]\nsilence = \"3s\"\nprobe = \"1s\"\nanswer = \"10s\"\n";
    let Some(real) = Real::many(kind, CLONES as u32, quick) else { return };
    let tool = match kind {
        Kind::Claude => "[[tool Bash {\"command\":\"sleep 7\"}]]",
        Kind::Codex => "[[tool exec_command {\"cmd\":\"sleep 7\"}]]",
    };
    let mut sent = Vec::new();
    for n in 0..turns().div_ceil(CLONES) {
        for clone in 1..=CLONES {
            let agent = format!("agent{clone}");
            let text = format!("number {n} {}", if n % 4 == 3 { tool } else { "[[slow 10]]" });
            sent.push((agent.clone(), real.send_to(&agent, &text)));
        }
    }
    let mut looks = 0;
    while let Some((agent, id)) = sent.last().cloned() {
        for clone in real.stage.status()["agents"].as_array().expect("a list") {
            let doing = &clone["driven"]["doing"];
            assert!(doing["is"] != "wedged", "look {looks}: {clone}");
            if doing["is"] == "blocked" {
                // A tool that it may not use unasked.
                let (agent, ask) = (clone["id"].as_str().expect("an id"), &clone["driven"]["asks"][0]["id"]);
                real.stage.run(&["agent", "allow", agent, "--ask", ask.as_str().unwrap_or_default()]);
            }
        }
        looks += 1;
        if real.envelope_of(&agent, &id).0 == "acked" {
            sent.pop();
        }
        netsky_disk::clock::pause(std::time::Duration::from_millis(100));
    }
    println!("{kind:?}: {} turns, {looks} looks", turns());
}

#[test]
fn must_show_3_claude_at_long_work_is_never_called_wedged() {
    stays_healthy(Kind::Claude);
}

#[test]
fn must_show_3_codex_at_long_work_is_never_called_wedged() {
    stays_healthy(Kind::Codex);
}

fn is_steered(kind: Kind) {
    let Some(real) = Real::up(kind) else { return };
    let busy = real.send("long [[slow 5]]");
    real.until_doing("working");
    let args = ["channel", "send", "agent0", "and now", "--from", "owner", "--kind", "owner", "--json"];
    let sent: serde_json::Value = serde_json::from_str(&real.stage.ok(&args)).expect("one JSON object");
    let urgent = sent["id"].as_str().expect("an id");
    real.stage.until("it to go in", |_| (real.envelope(urgent).0 != "written").then_some(()));
    for id in [busy.as_str(), urgent] {
        assert_eq!(real.until_acked(id), 1);
    }
    let stopped = real.send("longer [[slow 50]]");
    real.until_doing("working");
    real.stage.ok(&["agent", "interrupt", "0"]);
    assert_eq!((real.until_acked(&stopped), real.provider.answers_to(&stopped)), (1, 0));
    let next = real.send("next");
    assert_eq!((real.until_acked(&next), real.provider.answers_to(&next)), (1, 1));
}

#[test]
fn claude_is_steered_and_stopped_by_its_owner() {
    is_steered(Kind::Claude);
}

#[test]
fn codex_is_steered_and_stopped_by_its_owner() {
    is_steered(Kind::Codex);
}

fn takes_no_mention(kind: Kind) {
    let Some(real) = Real::up(kind) else { return };
    let secret = real.stage.outside("secret.txt");
    std::fs::write(&secret, "TOPSECRET-4711\n").expect("written");
    let secret = secret.display();
    // One of that name: of several none would be meant.
    let skill = real.stage.outside(".codex/skills/zapper");
    std::fs::create_dir_all(&skill).expect("made");
    let text = "---\nname: zapper\ndescription: zaps\n---\nTOPSECRET-SKILL\n";
    std::fs::write(skill.join("SKILL.md"), text).expect("written");
    // What there is it looks up when it starts.
    let program = real.stage.program("agent0");
    real.stage.signal(&program, netsky_disk::process::Signal::KILL);
    real.stage.until("the next one", |stage| (stage.agent("agent0")["generation"] == 2).then_some(()));
    for text in [
        "please $zapper and [$zapper](SKILL.md) now".to_owned(),
        format!("look at @{secret} please"),
        format!("@\"{secret}\" and (@{secret}) and ＠{secret}"),
        "@agent-general-purpose ultrathink about it".to_owned(),
    ] {
        let id = real.send(&text);
        real.until_acked(&id);
    }
    let knows = real.provider.asked().iter().any(|asked| asked.whole.contains("zapper: zaps"));
    assert!(knows || kind == Kind::Claude, "there is something to load");
    for asked in real.provider.asked() {
        for said in ["TOPSECRET", "desire to invoke the agent", "included the keyword"] {
            assert!(!asked.whole.contains(said), "{said}: {}", asked.last);
        }
    }
}

#[test]
fn a2_must_show_6_no_word_of_a_message_makes_claude_read_a_file_or_call_an_agent() {
    takes_no_mention(Kind::Claude);
}

#[test]
fn a2_must_show_6_no_word_of_a_message_makes_codex_read_a_file_or_call_an_agent() {
    takes_no_mention(Kind::Codex);
}
