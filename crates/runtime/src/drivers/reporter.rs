//! What agents do, told to the anchor by a thread of its own: no delivery waits for an anchor that is busy or gone.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use netsky_disk::clock;
use netsky_kernel::client::Client;
use netsky_kernel::drain::Report;
use netsky_kernel::rpc::Guard;
use netsky_model::id::{AgentId, Generation};

/// Most reports that wait: minutes of a busy constellation. Beyond it the newest are dropped; the facts have the turns.
const WAITING: usize = 4096;
/// Pause before an anchor that does not serve is asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// How long one report is tried: what is older the kernel needs no more.
const LONGEST: Duration = Duration::from_secs(120);

struct Told {
    agent: AgentId,
    generation: Generation,
    report: Report,
    once: String,
}

/// The way to it.
#[derive(Debug, Clone)]
pub(super) struct Reporter(SyncSender<Told>);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} g{}", self.report.word(), self.agent, self.generation)
    }
}

impl Reporter {
    /// The reporter, and what its thread works on.
    pub(super) fn new() -> (Reporter, Reports) {
        let (tell, told) = sync_channel(WAITING);
        (Reporter(tell), Reports(told))
    }

    /// Tell it once under `once`; never waits.
    pub(super) fn tell(&self, agent: &AgentId, generation: Generation, report: Report, once: String) {
        let once = format!("drivers.{once}");
        let _ = self.0.try_send(Told { agent: agent.clone(), generation, report, once });
    }
}

/// What was told and is not with the anchor yet.
#[derive(Debug)]
pub(super) struct Reports(Receiver<Told>);

impl Reports {
    /// Passes on what is told until nobody can tell anything any more, or `is_over`.
    pub(super) fn pass_on(self, root: &Path, is_over: impl Fn() -> bool) {
        let mut client: Option<Client> = None;
        while !is_over() {
            let told = match self.0.recv_timeout(PAUSE) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let until = clock::boot() + LONGEST;
            while !is_over() && clock::boot() < until {
                if client.is_none() {
                    client = Client::connect(root).ok();
                }
                let guard =
                    Guard { if_generation: Some(told.generation), request_id: Some(told.once.clone()) };
                let answered = client.as_mut().map(|client| client.report(&told.agent, &told.report, &guard));
                match answered {
                    // What it refuses it refuses the next time as well.
                    Some(Ok(_)) => break,
                    Some(Err(error)) if error.kind().is_some() && !error.passes() => break,
                    Some(Err(_)) => client = None,
                    None => {}
                }
                clock::pause(PAUSE);
            }
        }
    }
}
