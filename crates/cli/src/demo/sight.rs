//! What happens in the demo's home, as it happens: the kernel's events, the lines of telemetry and what is recorded, as facts
//! with a time.
//!
//! Promise: nothing here is guessed or waited out. Facts come from what is durable, so one that was missed while an
//! anchor was down or a folder stirred unseen is found by the next look. Watching folders only wakes the looker.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_disk::layout::Layout;
use netsky_disk::watch::Watch;
use netsky_disk::{clock, state};
use netsky_kernel::client::Follow;
use netsky_kernel::rpc::{Event, EventKind};
use netsky_ledger::{Mark, facts_after};
use netsky_model::id::{AgentId, EnvelopeId, Generation};
use netsky_model::life::State;
use netsky_model::process::ProcessId;
use netsky_model::restart::Inflight;
use serde::Deserialize;

use crate::error::Error;

/// Most wakes that wait to be looked at; a full queue has a wake in it already.
const WAKES: usize = 1024;
/// Slow look for what gave no event.
const RESCAN: Duration = Duration::from_millis(250);
/// Pause before a kernel that is gone is looked for again.
const RECONNECT: Duration = Duration::from_millis(50);

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// When whoever saw it wrote it down.
    pub(crate) at: Timestamp,
    /// What.
    pub(crate) seen: Seen,
}

/// What happened.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// A row of the kernel's journal.
    Kernel(Event),
    /// A fact of the record.
    Recorded(Box<netsky_ledger::Fact>),
    /// An envelope reached a state.
    Moved(Moved),
    /// An envelope's text was put before its agent.
    Surfaced(Moved),
    /// The watchdog did something.
    Watchdog {
        /// In one word.
        what: String,
        /// Why, or which restart.
        why: String,
    },
    /// An agent's `session up` succeeded.
    UpProof(AgentId),
    /// The demo killed something.
    Killed(Kill),
    /// The demo stopped a restart's child, or let it go on.
    Paused {
        /// The child.
        child: ProcessId,
        /// How long it stood; none when it was just stopped.
        stood: Option<Duration>,
    },
}

/// A line about an envelope.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Moved {
    /// Whose mailbox.
    pub(crate) agent: AgentId,
    pub(crate) id: EnvelopeId,
    /// The state's word.
    pub(crate) to: String,
    pub(crate) attempt: u32,
    #[serde(default)]
    pub(crate) from: Option<String>,
    #[serde(default)]
    pub(crate) generation: Option<Generation>,
}

impl Moved {
    pub(crate) fn is_to(&self, state: State) -> bool {
        self.to == state.word()
    }
}

/// One kill by the demo.
#[derive(Debug, Clone)]
pub(crate) struct Kill {
    /// Who was meant.
    pub(crate) target: String,
    pub(crate) process: ProcessId,
    /// agent0's generation, where agent0 dies of it.
    pub(crate) generation: Option<Generation>,
    /// What it was doing.
    pub(crate) moment: String,
}

/// One line of telemetry, as far as the demo tells it.
#[derive(Deserialize)]
struct Line {
    ts: Timestamp,
    #[serde(flatten)]
    body: Body,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Body {
    Transition(Moved),
    Surfaced(Moved),
    Watchdog {
        what: String,
        why: String,
    },
    Invocation {
        verb: String,
        agent: Option<AgentId>,
        exit: u8,
    },
    #[serde(other)]
    Other,
}

impl Body {
    fn seen(self) -> Option<Seen> {
        match self {
            Body::Transition(moved) => Some(Seen::Moved(moved)),
            Body::Surfaced(moved) => Some(Seen::Surfaced(moved)),
            Body::Watchdog { what, why } => Some(Seen::Watchdog { what, why }),
            Body::Invocation { verb, agent: Some(agent), exit: 0 } if verb == "session up" => {
                Some(Seen::UpProof(agent))
            }
            Body::Invocation { .. } | Body::Other => None,
        }
    }
}

enum Told {
    Kernel(Box<Event>),
    Stirred,
}

/// The looker.
pub(crate) struct Sight {
    layout: Layout,
    told: Receiver<Told>,
    /// How far each telemetry file was read.
    read: BTreeMap<String, u64>,
    /// Rows of the journal that were seen: a new subscription may repeat some.
    rows: BTreeSet<u64>,
    /// How far the record was read.
    mark: Mark,
    waiting: Vec<Fact>,
}

impl Sight {
    /// Starts looking at a home whose constellation is up; what happened before is told first.
    pub(crate) fn open(layout: &Layout) -> Result<Sight, Error> {
        let (tell, told) = sync_channel(WAKES);
        let root = AgentId::root();
        // It comes with the first fact otherwise.
        Dir::make(layout.record())?;
        let folders: Vec<PathBuf> = vec![
            layout.record(),
            layout.logs(),
            layout.state(),
            layout.restart_status_folder(),
            layout.folder(&root, State::Claimed),
            layout.folder(&root, State::Delivered),
            layout.folder(&root, State::Acked),
        ];
        let watch = Watch::new(&folders)?;
        let stir = tell.clone();
        // Both end with this process, or when nobody looks any more.
        std::thread::spawn(move || stir_on_events(&watch, &stir));
        let kernel = layout.kernel_root();
        std::thread::spawn(move || follow_kernel(&kernel, &tell));
        let (read, rows) = (BTreeMap::new(), BTreeSet::new());
        Ok(Sight { layout: layout.clone(), told, read, rows, mark: Mark::default(), waiting: Vec::new() })
    }

    /// Sleeps until something may have happened.
    pub(crate) fn wait(&mut self) {
        match self.told.recv_timeout(RESCAN) {
            Ok(told) => self.hear(told),
            Err(RecvTimeoutError::Timeout) => {}
            // Both watchers are gone, which only happens when the home is: the slow look is left.
            Err(RecvTimeoutError::Disconnected) => clock::pause(RESCAN),
        }
    }

    /// Everything new since the last look, in the order of its times.
    pub(crate) fn look(&mut self) -> Result<Vec<Fact>, Error> {
        while let Ok(told) = self.told.try_recv() {
            self.hear(told);
        }
        let mut facts = std::mem::take(&mut self.waiting);
        facts.extend(self.telemetry()?);
        let (recorded, mark, _) = facts_after(&self.layout, self.mark)?;
        self.mark = mark;
        let recorded = recorded.into_iter();
        facts.extend(recorded.map(|fact| Fact { at: fact.ts, seen: Seen::Recorded(Box::new(fact)) }));
        facts.sort_by_key(|fact| fact.at);
        Ok(facts)
    }

    /// The restart that is under way.
    pub(crate) fn inflight(&self) -> Result<Option<Inflight>, Error> {
        Ok(state::read_json(self.layout.restart_inflight())?)
    }

    fn hear(&mut self, told: Told) {
        if let Told::Kernel(event) = told
            && self.rows.insert(event.seq)
        {
            // A start is a fact from the moment its worker wrote it; an end is known when the anchor knows it.
            let told =
                (event.kind == EventKind::Started).then(|| event.data["at"].as_str()?.parse().ok()).flatten();
            self.waiting.push(Fact { at: told.unwrap_or(event.ts), seen: Seen::Kernel(*event) });
        }
    }

    fn telemetry(&mut self) -> Result<Vec<Fact>, Error> {
        let logs = Dir::open(self.layout.logs())?;
        let mut facts = Vec::new();
        for name in logs.names()? {
            if !name.starts_with("telemetry-") {
                continue;
            }
            let from = self.read.entry(name.clone()).or_default();
            let bytes = tail(&logs.path().join(&name), *from).map_err(|source| netsky_disk::Error {
                op: "read",
                path: logs.path().join(&name),
                source,
            })?;
            // What stands behind the last line's end is still being written.
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            *from += whole as u64;
            for line in bytes[..whole].split(|byte| *byte == b'\n') {
                let Ok(Line { ts: at, body }) = serde_json::from_slice(line) else { continue };
                facts.extend(body.seen().map(|seen| Fact { at, seen }));
            }
        }
        Ok(facts)
    }
}

fn tail(path: &Path, from: u64) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn stir_on_events(watch: &Watch, tell: &SyncSender<Told>) {
    while watch.wait(Duration::from_secs(60)).is_ok() {
        if let Err(std::sync::mpsc::TrySendError::Disconnected(_)) = tell.try_send(Told::Stirred) {
            return;
        }
    }
}

/// Every row of the journal from the first one on, over the deaths of anchors.
fn follow_kernel(root: &Path, tell: &SyncSender<Told>) {
    let mut rows = Follow::all(root, 0);
    loop {
        match rows.next(None) {
            Ok(Some(event)) if event.kind == EventKind::Gap => {}
            Ok(Some(event)) => {
                if tell.send(Told::Kernel(Box::new(event))).is_err() {
                    return;
                }
            }
            // The root may only be on its way.
            Ok(None) | Err(_) => clock::pause(RECONNECT),
        }
    }
}
