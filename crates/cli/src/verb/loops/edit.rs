//! `netsky loop edit`: a loop by options, or its file in an editor, which is read at once.

use std::time::Duration;

use jiff::SignedDuration;
use netsky_disk::env;
use netsky_model::id::AgentId;
use netsky_schedule::loops::{Loop, LoopId, Mode, Store};

use super::{id, known, spaced, tell};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::Run;

/// Change a loop by options, or its file in $VISUAL or $EDITOR where there is none
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_parser = id)]
    id: LoopId,
    /// What is told
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// How often; of one that has an interval
    #[arg(long, value_name = "D", value_parser = spaced)]
    interval: Option<Duration>,
    /// Who is told
    #[arg(long, value_parser = super::super::channel::agent)]
    agent: Option<AgentId>,
    /// After how long from now it fires no more; `never`
    #[arg(long, value_name = "D")]
    expires: Option<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let is_by_hand = self.prompt.is_none()
            && self.interval.is_none()
            && self.agent.is_none()
            && self.expires.is_none();
        if is_by_hand {
            // It is there and reads, or there is nothing to edit.
            Store::open(layout)?.get(self.id)?;
            edit(&layout.loops().join(format!("{}.toml", self.id)))?;
            let mut store = Store::open(layout)?;
            let entry = store.touched(self.id)?;
            store.close()?;
            return tell(cx, &entry, &format!("is {}, for {}", entry.standing().word(), entry.next_fire_utc));
        }
        let mut store = Store::open(layout)?;
        let mut entry = store.get(self.id)?;
        self.change(cx, &mut entry, &store)?;
        if let Some(flaw) = entry.flaw() {
            return Err(usage(flaw));
        }
        store.save(&entry)?;
        store.close()?;
        tell(cx, &entry, &format!("is {}, for {}", entry.standing().word(), entry.next_fire_utc))
    }
}

impl Args {
    fn change(self, cx: &Context, entry: &mut Loop, store: &Store) -> Result<(), Error> {
        if let Some(prompt) = self.prompt {
            entry.prompt = prompt;
        }
        if let Some(agent) = self.agent {
            known(cx, &agent)?;
            entry.agent = agent;
        }
        match (self.interval, entry.mode) {
            (Some(_), Mode::Dynamic) => {
                return Err(usage(format!(
                    "{} has no interval: `netsky loop reschedule` says when",
                    entry.id
                )));
            }
            (Some(interval), Mode::Fixed) => entry.set_interval(interval, store.now()),
            (None, _) => {}
        }
        match self.expires.as_deref() {
            None => {}
            Some("never") => entry.expires_utc = None,
            Some(text) => {
                let after = SignedDuration::try_from(spaced(text).map_err(usage)?).unwrap_or_default();
                entry.expires_utc = store.now().wall.checked_add(after).ok();
            }
        }
        Ok(())
    }
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(Kind::Usage, what).hint("nothing was changed")
}

/// Has the user edit a file, in their terminal.
fn edit(file: &std::path::Path) -> Result<(), Error> {
    let editor =
        env::text("VISUAL").or_else(|| env::text("EDITOR")).filter(|editor| !editor.trim().is_empty());
    let editor = editor.ok_or_else(|| {
        Error::new(Kind::Usage, "neither $VISUAL nor $EDITOR is set")
            .hint("set one of them, or name an option")
    })?;
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    #[expect(clippy::disallowed_methods, reason = "an editor needs the user's terminal, whole")]
    let ended = std::process::Command::new(program).args(words).arg(file).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::new(Kind::Failed, format!("the editor ended with {status}"))
            .hint("what it wrote is read by the next look at all files, within 10 minutes")),
        Err(error) => Err(Error::new(Kind::Failed, format!("failed to start {editor:?}: {error}"))),
    }
}
