//! Slots whose programs are driven: mail with receipts, what is asked, deaths at bad moments.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use netsky_disk::process::{Signal, is_alive};
use serde_json::Value;

use crate::stage::Stage;

mod asks;
mod attach;
mod codex;
mod context;
mod deaths;
mod fault_points;
mod floods;
mod mail;
mod troubles;
mod wedges;

const FAKE_CLAUDE: &str = include_str!("fake_claude.sh");
const FAKE_CODEX: &str = include_str!("fake_codex.sh");

/// Makes a program of a script.
fn executable(program: &Path, script: &str) {
    std::fs::write(program, script).expect("written");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).expect("ours");
}

/// A constellation whose agent0 is a Claude Code, or a Codex, without a model.
pub(super) struct Driven {
    pub(super) stage: Stage,
}

impl Driven {
    pub(super) fn up() -> Driven {
        Driven::with("")
    }

    /// With more settings.
    pub(super) fn with(settings: &str) -> Driven {
        Driven::many(0, settings)
    }

    /// With so many clones, each of the same kind.
    pub(super) fn many(clones: u32, settings: &str) -> Driven {
        Driven::of("claude", FAKE_CLAUDE, clones, settings)
    }

    /// Of another kind.
    pub(super) fn of(runtime: &str, script: &str, clones: u32, settings: &str) -> Driven {
        let stage = Stage::new();
        let program = stage.outside(runtime);
        executable(&program, script);
        stage.ok(&["init"]);
        let argv = format!("[defaults]\nruntime = \"{runtime}\"\nargv = [{program:?}]\n{settings}");
        std::fs::write(stage.home().join("config.toml"), argv).expect("written");
        let told = stage.ok(&["up", &clones.to_string(), "--tick", "200ms"]);
        assert!(told.contains("agent0 session 1 starting at "), "{told}");
        Driven { stage }
    }

    /// A file beside the home, where the fake looks.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.stage.outside(name)
    }

    pub(super) fn touch(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("written");
    }

    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Sends as the owner; the envelope's id.
    pub(super) fn send(&self, text: &str) -> String {
        self.sent(&[text])
    }

    /// The same of a text that no command line takes.
    pub(super) fn send_file(&self, text: &str) -> String {
        let file = self.file("message");
        std::fs::write(&file, text).expect("written");
        self.sent(&["--file", file.to_str().expect("text")])
    }

    fn sent(&self, what: &[&str]) -> String {
        self.sent_to("agent0", what)
    }

    pub(super) fn sent_to(&self, agent: &str, what: &[&str]) -> String {
        let args = [&["channel", "send", agent, "--from", "owner", "--json"], what].concat();
        let sent = self.stage.ok(&args);
        let sent: Value = serde_json::from_str(&sent).expect("one JSON object");
        sent["id"].as_str().expect("an id").to_owned()
    }

    /// The envelope's state and attempt.
    pub(super) fn envelope(&self, id: &str) -> (String, u64) {
        self.envelope_of("agent0", id)
    }

    pub(super) fn envelope_of(&self, agent: &str, id: &str) -> (String, u64) {
        let shown = self.stage.ok(&["channel", "show", agent, id, "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("one JSON object");
        let text = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
        (text("state"), shown["attempt"].as_u64().unwrap_or(0))
    }

    pub(super) fn until_state(&self, id: &str, state: &str) -> u64 {
        self.stage.until(&format!("{id} {state}"), |_| {
            let (now, attempt) = self.envelope(id);
            (now == state).then_some(attempt)
        })
    }

    /// What agent0 does.
    pub(super) fn doing(&self) -> Value {
        self.stage.agent("agent0")["driven"]["doing"].clone()
    }

    pub(super) fn until_doing(&self, word: &str) -> Value {
        self.stage.until(&format!("agent0 is {word}"), |_| {
            let doing = self.doing();
            (doing["is"] == word).then_some(doing)
        })
    }

    /// How many turns about this envelope ended well, as the program says.
    pub(super) fn turns_of(&self, id: &str) -> usize {
        // Its own element: a crash handoff names it as well.
        let element = format!(" id=\\\"{id}\\\"");
        self.lines("turns").iter().filter(|line| line.contains(&element)).count()
    }

    /// Kills by name of session, and waits for the end.
    pub(super) fn kill(&self, id: &str) {
        let program = self.stage.program(id);
        self.stage.signal(&program, Signal::KILL);
        self.stage.until("its end", |_| (!is_alive(&program)).then_some(()));
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // A fake that waits for a file ends with its session in any case; the check is of what is on disk.
        if !std::thread::panicking() {
            let checked = self.stage.run(&["check"]);
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        }
    }
}
