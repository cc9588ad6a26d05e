//! `ostk status`: who serves this root, and how many sessions stand where; without an anchor what its files say.

use std::collections::BTreeMap;
use std::path::Path;

use netsky_kernel::anchor::{self, Unserved};
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{SessionState, SessionView};
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::ostk::{reach, table};
use crate::output;
use crate::run::Run;

/// Show who serves the kernel root and how its sessions are; starts nothing
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let root = cx.kernel_root()?;
        let mut client = match Client::connect(&root) {
            Err(ClientError::NotServing { .. }) => return unserved(cx, &root),
            connected => connected?,
        };
        let table = client.table()?;
        // An anchor of before does not say what it goes by.
        let trouble = table.settings.or_else(|| anchor::settings_trouble(&root));
        let states = states(&table.sessions);
        let hello = client.hello();
        if cx.json {
            return output::json(&json!({
                "root": root, "serving": true, "anchor_id": hello.anchor_id, "pid": hello.anchor.pid,
                "epoch": hello.epoch, "version": hello.version, "states": states,
                "settings": trouble, "waiting": hello.waiting,
            }));
        }
        let counts = counted(&states);
        output::say(&format!(
            "{} is served by pid {} (epoch {}, version {})\nsessions: {counts}",
            root.display(),
            hello.anchor.pid,
            hello.epoch,
            hello.version,
        ))?;
        if let Some(waiting) = reach::waiting(&root, hello.waiting, "") {
            output::say(&waiting)?;
        }
        say_trouble(trouble)
    }
}

/// What the files of a root say while nobody serves it.
fn unserved(cx: &Context, root: &Path) -> Result<(), Error> {
    let Unserved { mut sessions, unread } = anchor::unserved(root)?;
    sessions.retain(|session| session.state != SessionState::Inactive);
    let (states, trouble) = (states(&sessions), anchor::settings_trouble(root));
    if cx.json {
        return output::json(&json!({
            "root": root, "serving": false, "states": states, "sessions": table::values(&sessions)?, "unread": unread,
            "settings": trouble,
        }));
    }
    output::say(&format!("no anchor runs: nobody serves {}", root.display()))?;
    output::say(&format!("sessions, as its files say: {}", counted(&states)))?;
    for name in &unread {
        output::say(&format!("the description of {name} is gone or does not read"))?;
    }
    say_trouble(trouble)?;
    if sessions.is_empty() { Ok(()) } else { table::sessions(cx, &sessions) }
}

/// Settings that do not read.
fn say_trouble(trouble: Option<String>) -> Result<(), Error> {
    trouble.map_or(Ok(()), |why| output::say(&format!("its settings do not read: {why}")))
}

fn states(sessions: &[SessionView]) -> BTreeMap<&'static str, usize> {
    let mut states = BTreeMap::new();
    for session in sessions {
        *states.entry(session.state.word()).or_default() += 1;
    }
    states
}

fn counted(states: &BTreeMap<&str, usize>) -> String {
    let counts: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}
