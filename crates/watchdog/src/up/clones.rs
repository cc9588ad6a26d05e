//! The clones of an `up`, once the first is up: which of them ended at once, or runs and will not take part.

use std::time::Duration;

use netsky_disk::watch::Watch;
use netsky_disk::{clock, process};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::SessionView;
use netsky_model::desired::Desired;
use netsky_model::id::{AgentId, Generation};
use netsky_model::process::Life;
use netsky_runtime::{UpProof, driver};

use super::refusal;
use crate::context::Context;
use crate::error::Error;
use crate::perform;

/// Longest wait for those that are driven, which soon say that they are up or that they refuse. Others may never say it.
const SOON: Duration = Duration::from_secs(5);
/// Slow look, for what gave no event.
const RESCAN: Duration = Duration::from_millis(200);

/// What one look comes to.
enum Look {
    Well,
    /// It is driven, and has said nothing yet.
    Waits,
    Unwell(Error),
}

/// Who is unwell, a sentence each; `before` is what lived when this began.
pub(super) fn unwell<'a>(
    cx: &Context<'_>,
    clones: impl Iterator<Item = &'a Desired> + Clone,
    before: &[SessionView],
) -> Vec<String> {
    let until = clock::boot() + SOON;
    let watch = Watch::new(&[cx.layout.up_folder()]);
    loop {
        // What is not known now a status tells.
        let sessions = Client::connect(&cx.layout.kernel_root()).and_then(|mut client| client.list());
        let sessions = sessions.unwrap_or_default();
        let looks: Vec<Look> = clones
            .clone()
            .filter_map(|wish| Some(look(cx, wish, of(&sessions, &wish.agent)?, of(before, &wish.agent))))
            .collect();
        let waits = looks.iter().any(|look| matches!(look, Look::Waits));
        if !waits || clock::boot() >= until {
            let unwell = looks.into_iter().filter_map(|look| match look {
                Look::Unwell(why) => Some(why.to_string()),
                Look::Well | Look::Waits => None,
            });
            return unwell.collect();
        }
        if watch.as_ref().is_ok_and(|watch| watch.wait(RESCAN).is_err()) || watch.is_err() {
            clock::pause(RESCAN);
        }
    }
}

fn of<'a>(sessions: &'a [SessionView], agent: &AgentId) -> Option<&'a SessionView> {
    sessions.iter().find(|session| session.name == *agent)
}

fn look(cx: &Context<'_>, wish: &Desired, session: &SessionView, before: Option<&SessionView>) -> Look {
    let agent = &session.name;
    if session.state.may_live() {
        if let Some(why) = refusal(cx.layout, session) {
            return Look::Unwell(Error::Refuses(agent.clone(), why));
        }
        let is_up = || UpProof::of_session(cx.layout, session).is_some();
        // The kernel's word may be older than its death.
        let ends = session.program.as_ref().is_some_and(|id| process::probe(id) == Life::Dead);
        return if ends || driver::is_driven(&wish.runtime) && !is_up() { Look::Waits } else { Look::Well };
    }
    let is_ours = session.generation > before.map_or(Generation::NONE, |before| before.generation);
    match is_ours && perform::stopped(session).is_none() {
        true => {
            let how = session.end.as_ref().map_or_else(|| session.state.to_string(), ToString::to_string);
            Look::Unwell(Error::EndedBeforeUp(agent.clone(), how))
        }
        false => Look::Well,
    }
}
