//! How Codex is started and greeted, and where it keeps its conversations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netsky_disk::Result;
use netsky_kernel::session::Io;
use serde_json::{Value, json};

use super::super::{Conversation, Entry, Learnt, Out, Start, StartFrom, is_part_of_a_path, names};
use super::super::{is_id, short};
use super::{Codex, Doing, Wedge};

/// What it inherits: its provider, its keys, its own settings; how this machine reaches others.
pub(in super::super) const INHERITED: [&str; 13] = [
    "CODEX_*",
    "OPENAI_*",
    "AZURE_OPENAI_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What it is not to tell us: nothing follows from it, and some of it is long.
pub(super) const UNWANTED: [&str; 6] = [
    "account/rateLimits/updated",
    "remoteControl/status/changed",
    "thread/goal/cleared",
    "thread/readState/changed",
    "thread/settings/updated",
    "turn/diff/updated",
];

/// The request that greets it.
pub(super) const GREET: &str = "netsky-greet";
/// The request for its configuration.
pub(super) const CONFIG: &str = "netsky-config";
/// The request that begins a thread.
pub(super) const THREAD: &str = "netsky-thread";
/// The request that goes on with one.
pub(super) const RESUME: &str = "netsky-resume";

/// How it is started for a slot: the words of the wish first, ours behind them.
pub(in super::super) fn start(from: &StartFrom<'_>) -> Start {
    let mut argv = from.desired.argv.clone();
    if let Some(model) = &from.desired.model {
        argv.extend(setting("model", model));
    }
    argv.extend(setting("developer_instructions", from.prompt));
    argv.push("app-server".to_owned());
    Start { argv, env: BTreeMap::new(), io: Io::Pipes }
}

/// A setting for this start: what JSON says of a text means the same in TOML.
fn setting(key: &str, text: &str) -> [String; 2] {
    ["-c".to_owned(), format!("{key}={}", Value::from(text))]
}

/// Whether there is a conversation to go on with: one in which nothing was said yet is refused when it is resumed.
pub(in super::super) fn has_conversation(env: &BTreeMap<String, String>, id: &str) -> Result<bool> {
    // Codex packs old ones, and goes on with those as well.
    Ok(kept(env, id, &[".jsonl", ".jsonl.zst"])?.is_some())
}

/// Where a conversation is kept, as lines.
pub(super) fn transcript(env: &BTreeMap<String, String>, id: &str) -> Result<Option<PathBuf>> {
    kept(env, id, &[".jsonl"])
}

/// The file of a conversation. It lies in the folder of the day on which it began.
fn kept(env: &BTreeMap<String, String>, id: &str, endings: &[&str]) -> Result<Option<PathBuf>> {
    let own = env.get("CODEX_HOME").map(PathBuf::from);
    let root = own.or_else(|| Some(Path::new(env.get("HOME")?).join(".codex")));
    let Some(root) = root.filter(|_| is_part_of_a_path(id)) else { return Ok(None) };
    let is_it = |name: &String| {
        let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
        name.starts_with("rollout-")
            && stem.and_then(|stem| stem.strip_suffix(id)).is_some_and(|stem| stem.ends_with('-'))
    };
    for year in numbered(&root.join("sessions"))? {
        for month in numbered(&year)? {
            for day in numbered(&month)? {
                if let Some(name) = names(&day)?.into_iter().find(is_it) {
                    return Ok(Some(day.join(name)));
                }
            }
        }
    }
    Ok(None)
}

/// The folders in a folder whose names are numbers, the highest first.
fn numbered(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut numbers = names(folder)?;
    numbers.retain(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.sort_by(|a, b| b.cmp(a));
    Ok(numbers.into_iter().map(|name| folder.join(name)).collect())
}

impl Codex {
    /// It answered the greeting. To be greeted twice is refused and no harm: the first answer is on its way or was read.
    pub(super) fn greeted(&mut self, answer: &Value, out: &mut Out) {
        let Some(program) = answer["result"]["userAgent"].as_str() else {
            if !self.is_greeted {
                self.refuses(answer, out);
            }
            return;
        };
        self.is_greeted = true;
        let version = program.split_once('/').and_then(|(_, rest)| rest.split_whitespace().next());
        self.version = version.map(short);
        self.enter(out);
    }

    /// It is to have a thread: the one to go on with, else a new one.
    pub(super) fn enter(&mut self, out: &mut Out) {
        if self.is_up {
            return;
        }
        out.write("netsky-initialized", &json!({"method": "initialized"}));
        match &self.conversation {
            Some(Conversation { begun: true, .. }) => Codex::request(out, CONFIG, "config/read", &json!({})),
            _ => Codex::begin_thread(out),
        }
    }

    /// Where it works, with which model and by which rules is its own configuration's to say.
    fn begin_thread(out: &mut Out) {
        Codex::request(out, THREAD, "thread/start", &json!({}));
    }

    /// It said what it is configured for. A thread goes on with the model and in the folder of its first start unless it is
    /// told otherwise, and the wish may have changed since.
    pub(super) fn configured(&mut self, result: &Value, out: &mut Out) {
        let mut params = json!({"threadId": self.thread(), "excludeTurns": true, "cwd": "."});
        if let Some(model) = result["config"]["model"].as_str() {
            params["model"] = model.into();
        }
        Codex::request(out, RESUME, "thread/resume", &params);
    }

    /// It has a thread, or says why not.
    pub(super) fn entered(&mut self, request: &str, answer: &Value, out: &mut Out) {
        let result = &answer["result"];
        if let Some(id) = result["thread"]["id"].as_str().filter(|id| is_id(id)) {
            if let Some(model) = result["model"].as_str() {
                out.learn(Learnt::Model(short(model)));
            }
            return self.is_in(id, out);
        }
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        // It was not begun, whatever we thought.
        if request == RESUME && (why.contains("no rollout found") || why.contains("invalid session id")) {
            return Codex::begin_thread(out);
        }
        self.refuses(answer, out);
    }

    /// It will not take part.
    fn refuses(&mut self, answer: &Value, out: &mut Out) {
        let why = short(answer["error"]["message"].as_str().unwrap_or("it does not say why"));
        out.learn(Learnt::Said(Entry::Note { text: why.clone() }));
        self.set(Doing::Wedged { how: Wedge::Refused, why }, out);
    }

    /// A thread is there.
    pub(super) fn is_in(&mut self, id: &str, out: &mut Out) {
        if self.conversation.as_ref().is_none_or(|known| known.id != id) {
            let conversation = Conversation { id: id.to_owned(), begun: false };
            self.conversation = Some(conversation.clone());
            out.learn(Learnt::Conversation(conversation));
        }
        if !std::mem::replace(&mut self.is_up, true) {
            out.learn(Learnt::Up { version: self.version.clone() });
            if matches!(self.doing, Doing::Starting | Doing::Wedged { .. }) {
                self.set(Doing::Idle, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{KILLED, ROLLOUT};
    use super::*;

    #[test]
    fn it_is_started_with_its_model_and_its_prompt() {
        let wish = json!({
            "v": 1, "agent": "agent1", "want": "up", "by": "up", "since": "2026-11-26T18:00:00Z", "runtime": "codex",
            "model": "m\"1", "argv": ["codex"], "cwd": "/home/someone/work", "env": {}, "receipts": "ack",
        });
        let desired = serde_json::from_value(wish).expect("a wish");
        let start = start(&StartFrom {
            desired: &desired,
            conversation: None,
            fresh: "f",
            prompt: "You are agent1\n\"quoted\"",
        });
        assert_eq!(start.argv[..3], ["codex", "-c", r#"model="m\"1""#]);
        assert_eq!(start.argv[4], r#"developer_instructions="You are agent1\n\"quoted\"""#);
        assert_eq!(start.argv.last().map(String::as_str), Some("app-server"));
    }

    #[test]
    fn a_rollout_is_found_by_its_thread_and_no_link_is_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let day = root.path().join("sessions/2026/11/26");
        std::fs::create_dir_all(&day).expect("a day");
        let file = day.join(format!("rollout-2026-11-26T17-57-51-{KILLED}.jsonl"));
        std::fs::write(&file, ROLLOUT).expect("a rollout");
        std::os::unix::fs::symlink(&day, root.path().join("sessions/2026/11/27")).expect("a link");
        let env = BTreeMap::from([("CODEX_HOME".to_owned(), root.path().display().to_string())]);
        assert_eq!(transcript(&env, KILLED).expect("looked"), Some(file));
        assert!(has_conversation(&env, KILLED).expect("looked"));
        for other in ["", "51-01a21901", "../x", &KILLED[1..]] {
            assert_eq!(transcript(&env, other).expect("looked"), None, "{other}");
        }
    }
}
