//! `netsky demo --runtime …`, with the program in PATH as its user has it.

use serde_json::Value;

use super::model::Provider;
use super::{Kind, claude_home, codex_home};
use crate::stage::Stage;

/// The demo's own word of what it showed.
fn shows(kind: Kind) {
    let Some(program) = kind.program() else { return };
    let (stage, provider) = (Stage::new(), Provider::start());
    for folder in ["place", "tmp", "bin"] {
        std::fs::create_dir_all(stage.outside(folder)).expect("made");
    }
    let settings = match kind {
        Kind::Claude => claude_home(&stage, &provider),
        Kind::Codex => codex_home(&stage, &provider),
    };
    std::os::unix::fs::symlink(program, stage.outside("bin").join(kind.runtime())).expect("made");
    let environment = settings.lines().map(|line| line.split_once(" = ").expect("a setting"));
    let environment = environment.map(|(key, value)| (key, value.trim_matches('"')));
    let output = stage
        .command(&["--json", "demo", "--runtime", kind.runtime(), "--tick", "500ms"])
        .env("PATH", format!("{}:/usr/bin:/bin", stage.outside("bin").display()))
        .env("TMPDIR", stage.outside("tmp"))
        .envs(environment)
        .output()
        .expect("the program starts");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{complaint}"));
    assert!(output.status.success(), "{complaint}\n{told:#}");
    assert_eq!(complaint.lines().count(), 1, "what it costs, and no more: {complaint}");
    assert!(complaint.contains("its account may be charged"), "{complaint}");
    assert_eq!(
        (&told["holds"], &told["two_agent0"], &told["runtime"]),
        (&true.into(), &false.into(), &kind.runtime().into())
    );
    let conversation = &told["conversation"];
    assert!(
        conversation["before"].is_string() && conversation["before"] == conversation["after"],
        "{told:#}"
    );
    assert_eq!(told["kills"][0]["moment"], "in the middle of a turn");
    assert_eq!(told["restarts"][0]["outcome"], "verified");
    let envelopes = told["envelopes"].as_array().expect("a list");
    // A word for each clone, two orders, the handoff.
    assert_eq!(envelopes.len(), 2 + 2 + 1, "{told:#}");
    assert!(envelopes.iter().all(|envelope| envelope["state"] == "acked"), "{told:#}");
    for envelope in envelopes.iter().filter(|envelope| envelope["kind"] == "owner") {
        let id = envelope["id"].as_str().expect("an id");
        assert!(provider.answers_to(id) >= 1, "nobody answered {id}");
    }
    assert_eq!(stage.names("../tmp"), [] as [String; 0], "the throwaway home stayed");
}

#[test]
fn must_show_5_the_demo_with_claude() {
    shows(Kind::Claude);
}

#[test]
fn must_show_5_the_demo_with_codex() {
    shows(Kind::Codex);
}
