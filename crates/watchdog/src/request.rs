//! `netsky restart`: queue a planned restart of agent0. The tick claims and performs it.

use std::path::Path;

use netsky_disk::env::Caller;
use netsky_disk::fs::{Dir, Place, read_users_file, write_durable};
use netsky_disk::lock::Lock;
use netsky_disk::{clock, state};
use netsky_kernel::client::{Client, ClientError};
use netsky_model::desired::{Desired, Want};
use netsky_model::id::{AgentId, Sender};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::perform::put_away;
use crate::{handoff, observe};

/// Most bytes of a handoff; past 40 KiB its envelope points to the archived whole.
const MAX_HANDOFF: u64 = 256 * 1024;

/// What was queued.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Queued {
    /// Bytes of the handoff's text; none if nobody wrote one.
    pub bytes: Option<usize>,
    /// Whether an anchor serves, which keeps those who notice a request; without one nobody may.
    pub served: bool,
    /// Seconds until it is tried, where agent0 is gone and was tried before.
    pub waits_s: Option<u64>,
}

/// Queue a planned restart with the text of `handoff`, or with a short one of our own.
///
/// # Errors
/// agent0 is not meant to be up, a restart is pending, the file cannot be read or is too large: nothing
/// is queued then.
pub fn request(cx: &Context<'_>, caller: &Caller, handoff: Option<&Path>) -> Result<Queued> {
    let from = match caller {
        Caller::Outside => Sender::owner(),
        Caller::Inside { agent: Some(agent), .. }
            if *agent == AgentId::root() || *agent == AgentId::infinity() =>
        {
            Sender::from(agent.clone())
        }
        Caller::Inside { .. } => {
            return Err(Error::OwnerOnly { verb: "restart of agent0 from another session" });
        }
    };
    let bytes = queue(cx, &from, handoff)?;
    let client = Client::connect(&cx.layout.kernel_root());
    // Only a plain "nobody" is one: a slow anchor comes back to its work.
    let served = !matches!(client, Err(ClientError::NotServing { .. }));
    let waits_s = client.ok().and_then(|mut client| waits(cx, &mut client));
    Ok(Queued { bytes: handoff.map(|_| bytes), served, waits_s })
}

/// Keep others from asking, and a `down` from settling what is asked for, between a look and what is done about it.
pub(crate) fn hold(cx: &Context<'_>) -> netsky_disk::Result<Lock> {
    Lock::take(cx.layout.restart_request_lock())
}

/// Write the request where no restart is asked for or under way; how many bytes it has.
fn queue(cx: &Context<'_>, from: &Sender, handoff: Option<&Path>) -> Result<usize> {
    let _held = hold(cx)?;
    let desired: Option<Desired> = state::read_json(cx.layout.desired(&AgentId::root()))?;
    if desired.is_none_or(|desired| desired.want != Want::Up) {
        return Err(Error::NotUp);
    }
    // What has waited for too long stands in nobody's way.
    put_away(cx)?;
    // In the order of its way: one that a tick claims between two of these looks is met by the second.
    if observe::is_queued(cx.layout)? {
        return Err(Error::RestartPending("queued"));
    }
    if state::exists(cx.layout.restart_processing())? || state::exists(cx.layout.restart_inflight())? {
        return Err(Error::RestartPending("under way"));
    }
    let text = match handoff {
        Some(file) => read_file(file)?,
        None => {
            format!("Planned restart asked for by {from} at {}, without a handoff.\n", clock::wall_seconds())
        }
    };
    // An empty file is in nobody's way.
    state::remove(cx.layout.restart_request())?;
    let folder = Dir::make(cx.layout.state())?;
    let tmp = Dir::make(cx.layout.state_tmp())?;
    match write_durable(&tmp, &folder, "restart-request", text.as_bytes(), Place::New) {
        Err(e) if e.is_exists() => Err(Error::RestartPending("queued")),
        written => Ok(written.map(|()| text.len())?),
    }
}

/// Whoever lives is restarted at once, whatever is counted against it.
fn waits(cx: &Context<'_>, client: &mut Client) -> Option<u64> {
    let agent0 = client.show(&AgentId::root()).ok().filter(|session| !session.state.may_live())?;
    let left = observe::attempts(cx.layout, &agent0.name)?.wait(&clock::stamp());
    (!left.is_zero()).then(|| left.as_secs() + 1)
}

fn read_file(file: &Path) -> Result<String> {
    let bytes = read_users_file(file, MAX_HANDOFF)
        .map_err(|e| Error::BadHandoff(format!("{}: {e}", file.display())))?;
    let handoff::Source { text, damaged } = handoff::Source::read(&bytes);
    if damaged {
        return Err(Error::BadHandoff(format!("{} is not UTF-8 text", file.display())));
    }
    if text.trim().is_empty() {
        return Err(Error::BadHandoff(format!("{} is empty", file.display())));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::context::in_a_home;
    use crate::decide::tests::wish;

    /// Many ask at once, while what stands for a tick claims what it sees; how many were told that theirs is queued.
    fn accepted(cx: &Context<'_>) -> usize {
        let (layout, is_over) = (cx.layout, AtomicBool::new(false));
        let (from, to) = (layout.restart_request(), layout.restart_processing());
        thread::scope(|scope| {
            let claimant = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    state::claim(&from, &to).expect("claimed, or nothing is there");
                }
            });
            let ask = || {
                let record = netsky_ledger::Telemetry::new(layout);
                let bus = netsky_bus::Bus::open(layout, &record);
                let (netsky, ostk) = ("/nowhere".into(), "/nowhere".into());
                let cx = Context { layout, bus, record: &record, netsky, ostk };
                match request(&cx, &Caller::Outside, None) {
                    Ok(_) => 1,
                    Err(Error::RestartPending(_)) => 0,
                    Err(error) => panic!("{error}"),
                }
            };
            let asking: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            let accepted = asking.into_iter().map(|one| one.join().expect("it says")).sum();
            is_over.store(true, Ordering::Relaxed);
            claimant.join().expect("it ends");
            accepted
        })
    }

    #[test]
    fn fm_restart_request_racers_of_many_that_ask_at_once_one_is_accepted() {
        in_a_home(|cx| {
            let root = AgentId::root();
            state::write_json(cx.layout.desired(&root), &wish(&root, "up")).expect("written");
            for round in 0..30 {
                assert_eq!(accepted(cx), 1, "round {round}");
                state::remove(cx.layout.restart_request()).expect("over");
                state::remove(cx.layout.restart_processing()).expect("over");
            }
            request(cx, &Caller::Outside, None).expect("queued");
            let again = request(cx, &Caller::Outside, None).expect_err("it is not taken away for another");
            assert!(matches!(again, Error::RestartPending("queued")), "{again}");
        });
    }

    #[test]
    fn t25_a_request_that_has_waited_for_too_long_is_in_nobodys_way() {
        in_a_home(|cx| {
            let (root, request_file) = (AgentId::root(), cx.layout.restart_request());
            state::write_json(cx.layout.desired(&root), &wish(&root, "up")).expect("wanted");
            state::write(&request_file, b"of another day").expect("asked for");
            let ask = || request(cx, &Caller::Outside, None);
            assert!(matches!(ask(), Err(Error::RestartPending("queued"))));
            let at = std::time::SystemTime::now() - observe::ASKED * 2;
            std::fs::File::open(&request_file).and_then(|file| file.set_modified(at)).expect("aged");
            ask().expect("queued");
            let now = state::read(&request_file).expect("reads").expect("there");
            assert!(now.starts_with(b"Planned restart asked for by owner"));
            let kept = std::fs::read_dir(cx.layout.restart_archive()).expect("listed").flatten();
            assert!(kept.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".expired")));
        });
    }
}
