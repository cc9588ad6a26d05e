//! Who may send as whom, and what the home vouches for (faults A1, T21).

use std::fs;

use serde_json::{Value, json};

use crate::bus_home::Home;
use crate::screen::program;
use crate::stage::Stage;

/// One of each kind of name that only its bearer may use.
const NAMES: [&str; 4] = ["owner", "agentinfinity", "agent0", "peer:b/agent0"];

/// Twenty ways to write a name so that a reader takes it for that name.
fn variants(name: &str) -> Vec<String> {
    let swap = |from: &str, to: &str| name.replacen(from, to, 1);
    vec![
        name.to_owned(),
        name.to_uppercase(),
        name[..1].to_uppercase() + &name[1..],
        format!("{name} "),
        format!(" {name}"),
        format!("{name}\0"),
        format!("\0{name}"),
        format!("{name}\n"),
        format!("{name}\t"),
        format!("{name}\u{200b}"),
        format!("{name}\u{202e}"),
        format!("{name}\u{feff}"),
        format!("{name}/"),
        format!("./{name}"),
        format!("{name}\u{e0041}"),
        swap("e", "е"),
        swap("e", "ｅ"),
        swap("e", "e\u{301}"),
        swap("e", "\u{ad}e"),
        format!("{name}\r"),
    ]
}

#[test]
fn a1_no_variant_of_a_name_is_taken_from_a_session_that_is_another() {
    let home = Home::init();
    let file = home.path().join("../names.jsonl");
    let lines: Vec<Value> = NAMES
        .iter()
        .flat_map(|name| variants(name))
        .map(|from| json!({"to": "agent0", "text": "x", "from": from}))
        .collect();
    fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    let batch = ["channel", "send", "--batch", "--file", file.to_str().expect("UTF-8")];
    let output = program(&home, &batch)
        .env("NETSKY_AGENT", "agent7")
        .env("NETSKY_GENERATION", "3")
        .output()
        .expect("the program starts");
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), NAMES.len() * 20);
    for (answer, line) in answers.iter().zip(&lines) {
        assert!(answer["exit"] == 4 || answer["exit"] == 2, "{line}: {answer}");
    }
    assert!(home.files("agent0", "inbox").unwrap_or_default().is_empty());
}

/// What agent1 does: it sends as itself, and tries to be somebody else with an environment of its own making.
const FORGER: &str = r#"netsky session up
if [ "$NETSKY_AGENT" = agent1 ]; then
  bare="env -i NETSKY_HOME=$NETSKY_HOME PATH=$PATH netsky"
  netsky channel send agent0 mine --id proved; echo "proved $?" >> "$HOME/said"
  env -u NETSKY_TOKEN_FILE netsky channel send agent0 mine --id tokenless; echo "tokenless $?" >> "$HOME/said"
  $bare channel send agent0 forged --from owner; echo "owner $?" >> "$HOME/said"
  $bare channel send agent0 forged --from agent0; echo "agent0 $?" >> "$HOME/said"
  $bare down; echo "down $?" >> "$HOME/said"
  mv "$HOME/said" "$HOME/done"
fi
exec sleep 100000"#;

#[test]
fn a1_the_kernel_sees_who_calls_whatever_the_environment_says() {
    let stage = Stage::up(1, FORGER, "10m");
    let done = stage.home().join("../done");
    stage.until("agent1 has tried everything", |_| done.exists().then_some(()));
    let said = fs::read_to_string(&done).expect("readable");
    assert_eq!(said, "proved 0\ntokenless 0\nowner 4\nagent0 4\ndown 4\n");
    let drained: Value =
        serde_json::from_str(&stage.ok(&["channel", "drain", "agent0", "--json"])).expect("JSON");
    let seen: Vec<(&str, bool, bool)> = drained["envelopes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            let shown = one["rendered"].as_str().expect("text").contains("verified=\"false\"");
            (one["id"].as_str().expect("an id"), one["verified"] == true, shown)
        })
        .collect();
    assert_eq!(seen, [("proved", true, false), ("tokenless", false, true)]);
}
