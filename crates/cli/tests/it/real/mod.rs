//! The real Claude Code and the real Codex in the slots, against a provider on loopback.
//!
//! Only where `NETSKY_REAL_CLAUDE` and `NETSKY_REAL_CODEX` say where they are, and nothing but loopback is there to be
//! reached: `./check --real` does both. How often somebody is killed at random is `NETSKY_REAL_KILLS`.

use std::path::PathBuf;

use serde_json::Value;

use crate::skipped::skipped;
use crate::stage::Stage;

mod attach;
mod context;
mod demo;
mod drill;
mod kills;
mod landing;
mod model;
mod restart;
mod turns;

use model::Provider;

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Claude,
    Codex,
}

impl Kind {
    /// Where it is; none, which is told, where it is not.
    fn program(self) -> Option<PathBuf> {
        let key = match self {
            Kind::Claude => "NETSKY_REAL_CLAUDE",
            Kind::Codex => "NETSKY_REAL_CODEX",
        };
        let program = std::env::var_os(key).map(PathBuf::from);
        if program.is_none() {
            skipped(&format!("a real program; `./check --real` names one by {key}"));
        }
        program
    }

    fn runtime(self) -> &'static str {
        match self {
            Kind::Claude => "claude",
            Kind::Codex => "codex",
        }
    }

    /// What a text says to have a file made, which the program asks about first.
    fn touch(self, file: &str) -> String {
        match self {
            Kind::Claude => format!("[[tool Bash {{\"command\":\"touch {file} && echo made\"}}]]"),
            Kind::Codex => format!(
                "[[tool exec_command {{\"cmd\":\"touch {file}; echo made\",\"sandbox_permissions\":\"require_escalated\",\
                 \"justification\":\"a test\"}}]]"
            ),
        }
    }
}

/// A constellation whose agent0 is a real program.
struct Real {
    kind: Kind,
    stage: Stage,
    provider: Provider,
}

impl Real {
    fn up(kind: Kind) -> Option<Real> {
        Real::with(kind, "")
    }

    /// With more settings.
    fn with(kind: Kind, settings: &str) -> Option<Real> {
        Real::many(kind, 0, settings)
    }

    /// With so many clones, each of the same kind.
    fn many(kind: Kind, clones: u32, settings: &str) -> Option<Real> {
        Real::made(kind, clones, |_, _| settings.to_owned())
    }

    /// The same, where settings depend on the place.
    fn made(kind: Kind, clones: u32, settings: impl Fn(&Stage, &Provider) -> String) -> Option<Real> {
        let program = kind.program()?;
        let (stage, provider) = (Stage::new(), Provider::start());
        let settings = settings(&stage, &provider);
        let place = stage.outside("place");
        std::fs::create_dir_all(&place).expect("made");
        std::fs::create_dir_all(stage.outside("tmp")).expect("made");
        let env = match kind {
            Kind::Claude => claude_home(&stage, &provider),
            Kind::Codex => codex_home(&stage, &provider),
        };
        stage.ok(&["init"]);
        let tmp = stage.outside("tmp");
        // One whose context is known.
        let model = if kind == Kind::Claude { "model = \"claude-haiku-4-5\"\n" } else { "" };
        let text = format!(
            "[defaults]\nruntime = \"{}\"\n{model}argv = [{program:?}]\ncwd = {place:?}\n[defaults.env]\nTMPDIR = {tmp:?}\n{env}{settings}",
            kind.runtime()
        );
        std::fs::write(stage.home().join("config.toml"), text).expect("written");
        let told = stage.ok(&["up", &clones.to_string(), "--tick", "500ms"]);
        assert!(told.contains("agent0 session 1 starting at "), "{told}");
        Some(Real { kind, stage, provider })
    }

    /// Sends as the owner; the envelope's id.
    fn send(&self, text: &str) -> String {
        self.send_to("agent0", text)
    }

    fn send_to(&self, agent: &str, text: &str) -> String {
        let sent = self.stage.ok(&["channel", "send", agent, text, "--from", "owner", "--json"]);
        let sent: Value = serde_json::from_str(&sent).expect("one JSON object");
        sent["id"].as_str().expect("an id").to_owned()
    }

    /// The envelope's state and attempt.
    fn envelope(&self, id: &str) -> (String, u64) {
        self.envelope_of("agent0", id)
    }

    fn envelope_of(&self, agent: &str, id: &str) -> (String, u64) {
        let shown = self.stage.ok(&["channel", "show", agent, id, "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("one JSON object");
        (shown["state"].as_str().unwrap_or_default().to_owned(), shown["attempt"].as_u64().unwrap_or(0))
    }

    fn until_acked(&self, id: &str) -> u64 {
        self.until_acked_of("agent0", id)
    }

    fn until_acked_of(&self, agent: &str, id: &str) -> u64 {
        self.stage.until(&format!("an end of {id}"), |_| {
            let (state, attempt) = self.envelope_of(agent, id);
            assert_ne!(state, "poisoned", "{id}");
            (state == "acked").then_some(attempt)
        })
    }

    fn until_doing(&self, word: &str) -> Value {
        self.stage.until(&format!("agent0 is {word}"), |stage| {
            let doing = stage.agent("agent0")["driven"]["doing"].clone();
            (doing["is"] == word).then_some(doing)
        })
    }

    /// Its conversation, as netsky-drivers knows it.
    fn conversation(&self) -> String {
        self.conversation_of("agent0")
    }

    fn conversation_of(&self, agent: &str) -> String {
        let shown = self.stage.ok(&["agent", "show", agent, "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("one JSON object");
        shown["conversation"]["id"].as_str().unwrap_or_default().to_owned()
    }
}

/// A home in which Claude Code asks nothing at its start; the environment that it needs, as settings.
fn claude_home(stage: &Stage, provider: &Provider) -> String {
    let key = "sk-ant-scripted-0000";
    let place = stage.outside("place");
    let known = serde_json::json!({
        "hasCompletedOnboarding": true,
        "customApiKeyResponses": {"approved": [key], "rejected": []},
        "projects": {place.to_str().expect("text"): {"hasTrustDialogAccepted": true}},
    });
    std::fs::write(stage.outside(".claude.json"), known.to_string()).expect("written");
    format!(
        "ANTHROPIC_BASE_URL = \"{}\"\nANTHROPIC_API_KEY = \"{key}\"\nIS_SANDBOX = \"1\"\nDISABLE_AUTOUPDATER = \"1\"\n\
         CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\nCLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL = \"1\"\n",
        provider.url
    )
}

/// The same for Codex.
fn codex_home(stage: &Stage, provider: &Provider) -> String {
    let folder = stage.outside(".codex");
    std::fs::create_dir_all(&folder).expect("made");
    let config = format!(
        "model = \"scripted-1\"\nmodel_provider = \"scripted\"\nmodel_context_window = 200000\n\
         check_for_update_on_startup = false\napproval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"CODEX_SCRIPTED_KEY\"\nsupports_websockets = false\nrequest_max_retries = 2\nstream_max_retries = 2\n\
         [features]\ndaemon_auto_start = false\nplugins = false\napps = false\n[analytics]\nenabled = false\n\
         [otel]\nmetrics_exporter = \"none\"\n[projects.{:?}]\ntrust_level = \"trusted\"\n",
        provider.url,
        stage.outside("place"),
    );
    std::fs::write(folder.join("config.toml"), config).expect("written");
    "CODEX_SCRIPTED_KEY = \"k\"\n".to_owned()
}
