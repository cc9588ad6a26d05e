//! agentinfinity: triggers a tick when the kernel reports an end, when a restart is asked for, and when
//! the anchor itself goes away. It repairs nothing itself, so it may die at any point.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use netsky_disk::layout::Layout;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, process, state};
use netsky_kernel::client::Client;

use crate::context::Context;
use crate::error::Result;
use crate::ticker::run_tick;

/// Slow look for what gave no event.
const RESCAN: Duration = Duration::from_secs(30);
/// Reasons for a tick that may wait. One more is dropped: the tick that answers those in front answers it too.
const WAITING: usize = 16;
/// Pause before an anchor is asked for again.
const RECONNECT: Duration = Duration::from_millis(200);

/// Watch for ever.
///
/// # Errors
/// The state folder cannot be watched or written.
pub fn serve(cx: &Context<'_>, said: impl Fn(&str)) -> Result<()> {
    let (tell, told) = sync_channel(WAITING);
    std::thread::scope(|scope| {
        let layout = cx.layout;
        let (kernel, requests) = (tell.clone(), tell);
        scope.spawn(move || follow_kernel(layout, &kernel));
        scope.spawn(move || follow_requests(layout, &requests));
        let ready = serde_json::json!({ "v": 1, "process": process::me(), "at": clock::stamp() });
        state::write_json(cx.layout.infinity_ready(), &ready)?;
        said("agentinfinity is ready");
        run(cx, &told, &said)
    })
}

fn run(cx: &Context<'_>, told: &Receiver<String>, said: &impl Fn(&str)) -> Result<()> {
    loop {
        let why = match told.recv_timeout(RESCAN) {
            Ok(why) => why,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        // One tick answers everything that was told before it looks; what comes later gets its own.
        while told.try_recv().is_ok() {}
        let outcome = match run_tick(cx) {
            Ok(ended) => format!("{ended:?}"),
            Err(error) => error.to_string(),
        };
        said(&format!("{} {why}: tick {outcome}", clock::wall_seconds()));
    }
}

/// Ask for a tick; false once nobody ticks any more.
fn wake(tell: &SyncSender<String>, why: String) -> bool {
    !matches!(tell.try_send(why), Err(TrySendError::Disconnected(_)))
}

/// Tell of every end that the kernel reports, and of the anchor's own.
fn follow_kernel(layout: &Layout, tell: &SyncSender<String>) {
    loop {
        if let Ok(mut events) =
            Client::connect(&layout.kernel_root()).and_then(|client| client.subscribe(None))
        {
            // What ended before we listened gave no event.
            let mut alive = wake(tell, "kernel connected".to_owned());
            while let (true, Ok(event)) = (alive, events.next(None)) {
                if let Some(event) = event.filter(netsky_kernel::rpc::Event::is_end) {
                    let name = event.session.map_or_else(String::new, |name| name.to_string());
                    alive = wake(tell, format!("{name} ended"));
                }
            }
        }
        if !wake(tell, "the anchor went away".to_owned()) {
            return;
        }
        clock::pause(RECONNECT);
    }
}

/// Tell of a restart request.
fn follow_requests(layout: &Layout, tell: &SyncSender<String>) {
    let Ok(watch) = Watch::new(&[layout.state()]) else { return };
    let mut told = false;
    loop {
        let waits = state::exists(layout.restart_request()).unwrap_or(false);
        // Told once a request: while it cannot be claimed yet, the ticker's cadence is fast enough.
        if waits && !told && !wake(tell, "restart asked for".to_owned()) {
            return;
        }
        told = waits;
        if watch.wait(RESCAN).is_err() {
            clock::pause(RESCAN);
        }
    }
}
