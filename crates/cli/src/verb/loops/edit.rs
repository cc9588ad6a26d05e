//! `netsky loop edit`: a loop by options, or a copy of its file in an editor.

use std::time::Duration;

use netsky_disk::{env, random, state};
use netsky_model::id::AgentId;
use netsky_model::stamp::Stamp;
use netsky_schedule::loops::{Look, Loop, LoopId, Mode, read_one};

use super::{A_LOOP, change, id, spaced, tell, usage};
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
        let is_by_hand = self.prompt.is_none()
            && self.interval.is_none()
            && self.agent.is_none()
            && self.expires.is_none();
        let entry = if is_by_hand { by_hand(cx, self.id)? } else { self.by_options(cx)? };
        tell(cx, &entry, &format!("is {}, for {}", entry.standing().word(), entry.next_fire_utc))
    }
}

impl Args {
    fn by_options(self, cx: &Context) -> Result<Loop, Error> {
        if let Some(agent) = &self.agent {
            cx.known(agent)?;
        }
        change(cx, self.id, |entry, now| {
            if let Some(prompt) = self.prompt {
                entry.prompt = prompt;
            }
            if let Some(agent) = self.agent {
                entry.agent = agent;
            }
            match (self.interval, entry.mode) {
                (Some(_), Mode::Dynamic) => {
                    let what = "has no interval: `netsky loop reschedule` says when";
                    return Err(usage(format!("{} {what}", entry.id)));
                }
                (Some(interval), Mode::Fixed) => set_interval(entry, interval, now)?,
                (None, _) => {}
            }
            match self.expires.as_deref() {
                None => {}
                Some("never") => entry.expires_utc = None,
                Some(text) => {
                    entry.expire(spaced(text).map_err(usage)?, now);
                }
            }
            Ok(())
        })
    }
}

/// What is due counts by the interval that it became due in.
fn set_interval(entry: &mut Loop, interval: Duration, now: &Stamp) -> Result<(), Error> {
    if let Look::Due(_) = entry.look(now) {
        let what =
            format!("{} is due: the next tick tells it, and then its interval may be another", entry.id);
        return Err(
            Error::new(Kind::Busy, what).hint("nothing was changed, repeat; or `netsky loop pause` it first")
        );
    }
    entry.set_interval(interval, now);
    Ok(())
}

/// Has somebody edit a copy, and puts what they changed into the loop as it is by then: an editor may be open for long.
fn by_hand(cx: &Context, id: LoopId) -> Result<Loop, Error> {
    let layout = cx.home()?;
    let entry = read_one(layout, id)?;
    cx.may_schedule(A_LOOP, &entry.agent)?;
    let before = entry.text().map_err(|e| usage(e.to_string()))?;
    let copy = layout.home().join("tmp").join(format!("{id}.{}.toml", random::short()));
    state::write(&copy, before.as_bytes())?;
    let edited = edit(&copy).and_then(|()| {
        let after = state::read(&copy)?.unwrap_or_default();
        let after = String::from_utf8(after).map_err(|_| usage("it is not UTF-8 text"))?;
        change(cx, id, |entry, now| {
            let was = entry.interval_secs;
            *entry = entry.edited(&before, &after).map_err(usage)?;
            cx.known(&entry.agent)?;
            match entry.interval().filter(|_| entry.interval_secs != was && was.is_some()) {
                Some(interval) => {
                    entry.interval_secs = was;
                    set_interval(entry, interval, now)
                }
                None => Ok(()),
            }
        })
    });
    let is_as_it_was = state::read(&copy).is_ok_and(|copy| copy.as_deref() == Some(before.as_bytes()));
    if edited.is_ok() || is_as_it_was {
        state::remove(&copy)?;
    }
    let place = || format!("nothing was changed; what you wrote is in {}", copy.display());
    edited.map_err(|error| if is_as_it_was { error } else { error.hint(place()) })
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
        Ok(status) => {
            Err(Error::new(Kind::Failed, format!("the editor ended with {status}"))
                .hint("nothing was changed"))
        }
        Err(error) => Err(Error::new(Kind::Failed, format!("failed to start {editor:?}: {error}"))),
    }
}
