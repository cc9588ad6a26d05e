//! How Claude Code is started, and where it keeps its conversations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netsky_disk::{Result, state};
use netsky_kernel::session::Io;

use super::super::{Start, StartFrom, is_part_of_a_path, names};

/// What it inherits: its provider, its keys, its own settings; how this machine reaches others.
pub(in super::super) const INHERITED: [&str; 12] = [
    "ANTHROPIC_*",
    "CLAUDE_*",
    "DISABLE_*",
    "API_TIMEOUT_MS",
    "IS_SANDBOX",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "https_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
];

/// Lines in both directions, what the model says as it says it, and a receipt for each message.
const STREAM: [&str; 10] = [
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--replay-user-messages",
    "--permission-prompt-tool",
    "stdio",
];

/// It tells what it does; and no word of a message reads a file or changes how it thinks: that is its owner's settings' to say.
const ENV: [&str; 3] = [
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS",
    "CLAUDE_CODE_DISABLE_ULTRATHINK",
];

/// How it is started for a slot: the words of the wish first, ours behind them.
pub(in super::super) fn start(from: &StartFrom<'_>) -> Start {
    let mut argv = from.desired.argv.clone();
    argv.extend(STREAM.map(str::to_owned));
    if let Some(model) = &from.desired.model {
        argv.extend(["--model".to_owned(), model.clone()]);
    }
    argv.extend(["--append-system-prompt".to_owned(), from.prompt.to_owned()]);
    argv.extend(match from.conversation {
        Some(conversation) => ["--resume".to_owned(), conversation.id.clone()],
        None => ["--session-id".to_owned(), from.fresh.to_owned()],
    });
    let env = ENV.map(|name| (name.to_owned(), "1".to_owned())).into();
    Start { argv, env, io: Io::Pipes }
}

/// Whether there is a conversation to go on with: one in which nothing was said yet is refused when it is resumed.
pub(in super::super) fn has_conversation(env: &BTreeMap<String, String>, id: &str) -> Result<bool> {
    Ok(transcript(env, id)?.is_some())
}

/// Where a conversation is kept. Its folder is named after the place where it began, which may be elsewhere by now.
pub(super) fn transcript(env: &BTreeMap<String, String>, id: &str) -> Result<Option<PathBuf>> {
    let own = env.get("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let root = own.or_else(|| Some(Path::new(env.get("HOME")?).join(".claude")));
    let Some(projects) = root.filter(|_| is_part_of_a_path(id)).map(|root| root.join("projects")) else {
        return Ok(None);
    };
    for folder in names(&projects)? {
        let path = projects.join(folder).join(format!("{id}.jsonl"));
        match state::exists(&path) {
            Ok(true) => return Ok(Some(path)),
            Err(error) if !error.is_no_folder() => return Err(error),
            Ok(false) | Err(_) => {}
        }
    }
    Ok(None)
}
