//! Who may send as whom, and what the home vouches for (faults A1, T21).

use std::fs;

use netsky_disk::key;
use netsky_disk::layout::Layout;
use netsky_model::envelope::Envelope;
use serde_json::Value;

use crate::bus_home::Home;
use crate::stage::Stage;

/// What agent1 does: it sends as itself, and tries to be somebody else with an environment of its own making.
const FORGER: &str = r#"netsky session up
if [ "$NETSKY_AGENT" = agent1 ]; then
  bare="env -i NETSKY_HOME=$NETSKY_HOME PATH=$PATH netsky"
  netsky channel send agent0 mine --id proved; echo "proved $?" >> "$HOME/said"
  env -u NETSKY_TOKEN_FILE netsky channel send agent0 mine --id tokenless; echo "tokenless $?" >> "$HOME/said"
  $bare channel send agent0 forged --from owner; echo "owner $?" >> "$HOME/said"
  $bare channel send agent0 forged --from agent0; echo "agent0 $?" >> "$HOME/said"
  $bare channel drain agent0; echo "drain $?" >> "$HOME/said"
  $bare down; echo "down $?" >> "$HOME/said"
  NETSKY_AGENT=agent0 netsky session up; echo "up $?" >> "$HOME/said"
  mv "$HOME/said" "$HOME/done"
fi
exec sleep 100000"#;

#[test]
fn a1_the_kernel_sees_who_calls_whatever_the_environment_says() {
    let stage = Stage::up(1, FORGER, "10m");
    let done = stage.home().join("../done");
    stage.until("agent1 has tried everything", |_| done.exists().then_some(()));
    let said = fs::read_to_string(&done).expect("readable");
    assert_eq!(said, "proved 0\ntokenless 0\nowner 4\nagent0 4\ndrain 4\ndown 4\nup 4\n");
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

#[test]
fn a1_what_a_file_says_of_its_sender_counts_for_a_look_as_for_a_drain() {
    let home = Home::init();
    for id in ["forged", "proved"] {
        home.netsky(["channel", "send", "agent0", "x", "--from", "owner", "--id", id]).expect("sent");
    }
    let key = key::load(&Layout::new(home.path())).expect("reads").expect("a home has one");
    for file in home.files("agent0", "inbox").expect("there") {
        let path = home.channel("agent0", "inbox").join(file);
        let mut envelope = Envelope::parse(&fs::read(&path).expect("there")).expect("whole");
        envelope.sign(&key).expect("signed");
        if envelope.id.as_ref().is_some_and(|id| id.as_str() == "forged") {
            envelope.mac = Some("00".repeat(32));
        }
        envelope.digest = None;
        fs::write(path, serde_json::to_vec(&envelope).expect("JSON")).expect("written");
    }
    let asked = |args: &[&str]| -> Value {
        let said = home.netsky(args.iter().copied().chain(["--json"])).expect("answered").stdout;
        serde_json::from_str(&said).expect("JSON")
    };
    let verified = |list: &Value| -> Vec<bool> {
        list["envelopes"].as_array().expect("a list").iter().map(|one| one["verified"] == true).collect()
    };
    assert_eq!(asked(&["channel", "show", "agent0", "forged"])["verified"], false);
    assert_eq!(asked(&["channel", "show", "agent0", "proved"])["verified"], true);
    assert_eq!(verified(&asked(&["channel", "list", "agent0"])), [false, true]);
    assert_eq!(verified(&asked(&["channel", "drain", "agent0"])), [false, true]);
}
