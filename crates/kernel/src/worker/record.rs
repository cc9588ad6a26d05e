//! What a worker leaves on disk about its program: the meta file, durable, and a line for each thing it saw.
//!
//! The worker is the only writer of both while it holds the session's lock.

use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::layout::KernelLayout;
use netsky_disk::lines::{self, Lines};
use netsky_disk::{ReadError, clock, fault};
use netsky_model::process::ProcessId;
use rustix::fs::OFlags;

use super::ending::Verdict;
use crate::session::{Meta, PhaseEvent, Seen, VERSION, WorkerEvent};

/// Most bytes of old rows: about 3,000 generations. Beyond it the file is begun anew and the former kept as `.prev`;
/// its rows are in the journal by then, as an anchor folds them before each start.
const EVENTS: u64 = 1 << 20;

/// The session's record, open for writing.
pub(super) struct Record {
    pub(super) meta: Meta,
    me: ProcessId,
    agents: Dir,
    tmp: Dir,
    meta_name: String,
    events_name: String,
    events: Lines,
    written: u64,
    /// Whether the row about the end was appended: once, however often it is tried to make it durable.
    end_told: bool,
    /// Whether that was tried in vain.
    unsynced: bool,
}

impl Record {
    pub(super) fn open(layout: &KernelLayout, meta: Meta, me: ProcessId) -> netsky_disk::Result<Record> {
        let agents = Dir::open(layout.agents())?;
        let name = &meta.spec.name;
        let events_name = format!("{name}.events.jsonl");
        let old = agents.open_file(&events_name, OFlags::CREATE | OFlags::RDWR)?.metadata();
        if old.is_ok_and(|old| old.len() > EVENTS) {
            agents.rename_over(&events_name, &agents, format!("{events_name}.prev"))?;
        }
        let (events, _torn) = Lines::open(&agents, &events_name)?;
        let meta_name = format!("{name}.meta");
        Ok(Record {
            tmp: Dir::make(layout.tmp())?,
            meta,
            me,
            agents,
            meta_name,
            events_name,
            events,
            written: 0,
            end_told: false,
            unsynced: false,
        })
    }

    /// The program runs: durable before anybody is told.
    pub(super) fn started(&mut self, program: &ProcessId) -> netsky_disk::Result<()> {
        self.meta.worker = Some(self.me.clone());
        self.meta.program = Some(program.clone());
        self.advance(PhaseEvent::Started(clock::stamp()))?;
        self.saw(Seen::Started { program: program.clone() });
        Ok(())
    }

    /// A kill was asked for.
    pub(super) fn kill_asked(&mut self, grace_ms: u32) {
        self.saw(Seen::KillAsked { grace_ms });
    }

    /// Nothing of the program is left: durable before the lock is let go of. After an error it may be called again, and
    /// then does only what is missing.
    pub(super) fn ended(&mut self, verdict: &Verdict) -> netsky_disk::Result<()> {
        let Verdict { how, swept, left, unseen } = verdict.clone();
        self.meta.worker.get_or_insert_with(|| self.me.clone());
        if self.meta.phase.may_live() {
            self.advance(PhaseEvent::Ended(how.clone(), clock::stamp()))?;
        }
        if !self.end_told {
            self.saw(Seen::Exited { how, swept, left, unseen });
            self.end_told = true;
        }
        if self.unsynced {
            // Another sync of the same file would prove nothing.
            return lines::renew(&self.tmp, &self.agents, &self.events_name);
        }
        let synced = fault::point("worker.end.told")
            .map_err(|e| netsky_disk::Error::new("sync", &self.events_name, e))
            .and_then(|()| self.events.sync());
        self.unsynced = synced.is_err();
        synced
    }

    /// Writes the description anew where what has its name is not it; that stays beside it as evidence.
    pub(super) fn restate(&mut self) -> netsky_disk::Result<()> {
        match self.agents.read(&self.meta_name, Meta::MAX_BYTES).map(|bytes| Meta::parse(&bytes)) {
            Ok(Ok(meta)) if meta == self.meta => return Ok(()),
            Err(ReadError::Io(error)) if error.is_not_found() => {}
            Err(ReadError::Io(error)) => return Err(error),
            Ok(_) | Err(_) => {
                let aside = format!("{}.damaged-{}", self.meta_name, netsky_disk::random::short());
                self.agents.rename(&self.meta_name, &self.agents, aside)?;
            }
        }
        write_durable(&self.tmp, &self.agents, &self.meta_name, &self.meta.to_bytes(), Place::Over)
    }

    fn advance(&mut self, event: PhaseEvent) -> netsky_disk::Result<()> {
        let mut next = self.meta.clone();
        next.phase = next
            .phase
            .next(event)
            .map_err(|e| netsky_disk::Error::because("record", &self.meta_name, e.to_string()))?;
        next.written_at = clock::stamp();
        next.version = env!("CARGO_PKG_VERSION").to_owned();
        write_durable(&self.tmp, &self.agents, &self.meta_name, &next.to_bytes(), Place::Over)?;
        self.meta = next;
        Ok(())
    }

    /// Append a line. One that cannot be written is a number that is missing: the meta file holds the truth.
    fn saw(&mut self, what: Seen) {
        self.written += 1;
        let event = WorkerEvent {
            v: VERSION,
            n: self.written,
            ts: clock::stamp(),
            worker: self.me.clone(),
            lineage: self.meta.lineage.clone(),
            generation: self.meta.generation,
            what,
        };
        let line = serde_json::to_vec(&event).expect("plain data with string keys becomes JSON");
        let _ = self.events.append(&line);
    }
}
