//! agentinfinity: triggers a tick when the kernel reports an end, when a restart is asked for, and when
//! the anchor itself goes away. It repairs nothing itself, so it may die at any point. What programs drop into their outboxes
//! it carries at once; the tick would too, later.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use netsky_bus::{Bus, Owner};
use netsky_disk::env::Caller;
use netsky_disk::layout::Layout;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, process, state};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::EventKind;
use netsky_ledger::Telemetry;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::name::Stage;
use netsky_runtime::{Config, carry_all};

use crate::context::Context;
use crate::error::Result;
use crate::keeper::only_one;
use crate::ticker::run_tick;

/// Slow look for what gave no event.
const RESCAN: Duration = Duration::from_secs(30);
/// Reasons for a tick that may wait. One more is dropped: the tick that answers those in front answers it too.
const WAITING: usize = 16;
/// Most messages that are read at once: what has to be repaired must not wait for a flood.
const MAIL: usize = 100;
/// Pause before an anchor is asked for again; doubled up to [`RESCAN`] while none answers.
const RECONNECT: Duration = Duration::from_millis(200);

/// Watch for ever.
///
/// # Errors
/// Another one runs, or the state folder cannot be written, before anything was begun.
pub fn serve(cx: &Context<'_>, caller: &Caller, said: impl Fn(&str)) -> Result<Infallible> {
    let _one = only_one(cx, &AgentId::infinity(), caller)?;
    // Before the threads: a failure here must end the process, which the anchor then starts again.
    let ready = serde_json::json!({ "v": 1, "process": process::identity()?, "at": clock::stamp() });
    state::write_json(cx.layout.infinity_ready(), &ready)?;
    said("agentinfinity is ready");
    let layout = cx.layout;
    let (tell, told) = sync_channel(WAITING);
    let tell_too = tell.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || follow_kernel(layout, &tell));
        scope.spawn(move || follow_files(layout, &tell_too));
        loop {
            read_mail(cx, &said);
            let why = match told.recv_timeout(RESCAN) {
                Ok(why) => why,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => unreachable!("both followers run for ever"),
            };
            // One tick answers everything that was told before it looks; what comes later gets its own.
            while told.try_recv().is_ok() {}
            let outcome = match run_tick(cx) {
                Ok(ended) => format!("{ended:?}"),
                Err(error) => error.to_string(),
            };
            said(&format!("{} {why}: tick {outcome}", clock::wall_seconds()));
        }
    })
}

/// agentinfinity answers nobody; what it is told stands in its output, and is done with.
fn read_mail(cx: &Context<'_>, said: &impl Fn(&str)) {
    let me = AgentId::infinity();
    if let Err(error) = let_go(cx, &me) {
        said(&format!("mail: {error}"));
    }
    let mut read = Vec::new();
    let drained = cx.bus.drain(&me, MAIL, Generation::NONE, |claim| {
        read.push(claim.id().clone());
        said(&claim.rendered());
        Ok(())
    });
    let acked = read.iter().map(|id| cx.bus.ack(&me, id.as_str()).map(drop));
    for error in drained.err().into_iter().chain(acked.filter_map(|acked| acked.err())) {
        said(&format!("mail: {error}"));
    }
}

/// What an earlier look could not be done with waits again: this process lives, so nobody else gives it back.
fn let_go(cx: &Context<'_>, me: &AgentId) -> Result<()> {
    let mine = Stage::Claimed(process::identity()?);
    for entry in cx.bus.list(me, Some(State::Claimed))? {
        if let Some(name) = entry.name.filter(|name| name.stage == mine) {
            cx.bus.take_back(me, name.key.id.as_str(), Owner::Spared)?;
        }
    }
    Ok(())
}

/// Ask for a tick. When the queue is full the tick that answers those in front answers this too.
fn wake(tell: &SyncSender<String>, why: String) {
    let _ = tell.try_send(why);
}

/// Tell of every end that the kernel reports, and of the anchor's own.
fn follow_kernel(layout: &Layout, tell: &SyncSender<String>) {
    let mut pause = RECONNECT;
    loop {
        if let Ok(mut events) =
            Client::connect(&layout.kernel_root()).and_then(|client| client.subscribe(None))
        {
            pause = RECONNECT;
            // What ended before we listened gave no event.
            wake(tell, "kernel connected".to_owned());
            while let Ok(event) = events.next(None) {
                // What was not pushed may have been an end.
                if let Some(event) = event.filter(|event| event.is_end() || event.kind == EventKind::Gap) {
                    let name = event.session.map_or_else(|| "somebody".to_owned(), |name| name.to_string());
                    wake(tell, format!("{name} ended"));
                }
            }
        }
        wake(tell, "the anchor went away".to_owned());
        clock::pause(pause);
        pause = (pause * 2).min(RESCAN);
    }
}

/// Tell of a restart request, and carry what programs drop into their outboxes. One watch for both: systems give few.
fn follow_files(layout: &Layout, tell: &SyncSender<String>) {
    // Without events (the user's inotify instances are used up) the rescan alone has to do.
    let watch = Watch::new(&[layout.state()]).ok();
    let telemetry = Telemetry::new(layout);
    let mut told = false;
    loop {
        // As every tick reads them: this lives for as long as the constellation.
        let bus = Bus::open(layout, &telemetry).with_limits(Config::last_good(layout).bus);
        // Watched before they are looked into; those of agents that come to be are met by a later round.
        for folder in outboxes(&bus, layout) {
            let _ = watch.as_ref().map(|watch| watch.add(folder));
        }
        // What does not go is told by the tick, which tries again.
        let _ = carry_all(&bus);
        let waits = state::exists(layout.restart_request()).unwrap_or(false);
        // Told once a request: while it cannot be claimed yet, the ticker's cadence is fast enough.
        if waits && !told {
            wake(tell, "restart asked for".to_owned());
        }
        told = waits;
        if watch.as_ref().is_none_or(|watch| watch.wait(RESCAN).is_err()) {
            clock::pause(RESCAN);
        }
    }
}

/// Where replies are dropped, and where new agents come to be.
fn outboxes(bus: &Bus<'_>, layout: &Layout) -> Vec<PathBuf> {
    let agents = bus.agents().unwrap_or_default();
    agents.iter().map(|agent| layout.outbox(agent)).chain([layout.channels()]).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use netsky_bus::Draft;
    use netsky_model::id::Sender;

    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn mail_that_could_not_be_recorded_is_read_at_the_next_look() {
        in_a_home(|cx| {
            let me = AgentId::infinity();
            let draft = Draft { create: true, ..Draft::new(Sender::owner(), me.clone(), "hear-hear") };
            cx.bus.send(draft).expect("sent");
            let delivered = cx.layout.folder(&me, State::Delivered);
            let told = RefCell::new(String::new());
            let look = |mode| {
                set_permissions(&delivered, Permissions::from_mode(mode)).expect("ours");
                read_mail(cx, &|line| told.borrow_mut().push_str(line));
            };
            look(0o755);
            assert!(told.borrow().contains("mail: "), "{told:?}");
            look(0o700);
            assert!(told.borrow().contains("hear-hear"), "{told:?}");
            assert!(cx.bus.list(&me, Some(State::Claimed)).expect("listed").is_empty());
        });
    }
}
