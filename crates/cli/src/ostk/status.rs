//! `ostk status`: who serves this root, and how many sessions stand where.

use std::collections::BTreeMap;

use netsky_kernel::client::{Client, ClientError};
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Show who serves the kernel root and how its sessions are; starts nothing
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let root = cx.kernel_root()?;
        let mut client = match Client::connect(&root) {
            Err(ClientError::NotServing { .. }) if cx.json => {
                return output::json(&json!({ "root": root, "serving": false }));
            }
            Err(ClientError::NotServing { .. }) => {
                return output::say(&format!("nobody serves {}", root.display()));
            }
            connected => connected?,
        };
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        let sessions = client.ps()?;
        for session in &sessions {
            *states.entry(session.state.word()).or_default() += 1;
        }
        let hello = client.hello();
        if cx.json {
            return output::json(&json!({
                "root": root, "serving": true, "anchor_id": hello.anchor_id, "pid": hello.anchor.pid,
                "epoch": hello.epoch, "version": hello.version, "states": states,
            }));
        }
        let counts: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        output::say(&format!(
            "{} is served by pid {} (epoch {}, version {})\nsessions: {counts}",
            root.display(),
            hello.anchor.pid,
            hello.epoch,
            hello.version,
        ))
    }
}
