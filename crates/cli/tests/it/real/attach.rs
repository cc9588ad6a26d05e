//! The transcript of real programs.

use super::{Kind, Real};

fn is_shown(kind: Kind) {
    let Some(real) = Real::up(kind) else { return };
    let id = real.send(&real.kind.touch("allowed"));
    let doing = real.until_doing("blocked");
    let on = doing["on"].as_str().expect("text");
    let waits = real.stage.ok(&["attach", "0"]);
    assert!(waits.starts_with("owner → agent0: ") || waits.contains("\nowner → agent0: "), "{waits}");
    assert!(waits.contains("\n● ") && waits.contains(&format!("\n? agent0 asks: {on}\n")), "{waits}");
    assert!(waits.ends_with(", or deny\n"), "{waits}");
    let asked = real.stage.agent("agent0")["driven"]["asks"][0]["id"].as_str().expect("an id").to_owned();
    real.stage.ok(&["agent", "allow", "0", "--ask", &asked]);
    real.until_acked(&id);
    let told = real.stage.ok(&["attach", "0"]);
    assert!(told.contains("\n  ⎿ ") && told.contains("\nagent0: ") && told.contains("\n── done ("), "{told}");
    assert!(
        !told.contains("? agent0 asks") && !told.contains(|c: char| c.is_control() && c != '\n'),
        "{told}"
    );
}

#[test]
fn a_turn_of_claude_is_shown_with_what_it_asks() {
    is_shown(Kind::Claude);
}

#[test]
fn a_turn_of_codex_is_shown_with_what_it_asks() {
    is_shown(Kind::Codex);
}
