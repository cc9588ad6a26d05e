//! `.heartbeat.<name>`: one small file, rewritten in place every ten seconds by the main loop itself.
//!
//! Promise: the counter `liveness` rises only when the loop came round; a worker that is stopped or stuck beats
//! no more. Left to others: what an old heartbeat means.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_disk::layout::KernelLayout;
use netsky_model::id::{AgentId, Generation};
use netsky_model::process::ProcessId;
use rustix::fs::OFlags;

use crate::log::say;
use crate::session::{End, Heartbeat, Pulse, VERSION};
use crate::start::heartbeat_period;

/// Fixed size of the file: the longest heartbeat fits, and a write never moves its end.
const SIZE: usize = 768;

/// The beating side.
#[derive(Debug)]
pub(super) struct Heart {
    file: File,
    beat: Heartbeat,
    interval: Duration,
    next: Duration,
}

impl Heart {
    pub(super) fn open(
        layout: &KernelLayout,
        name: &AgentId,
        generation: Generation,
        worker: &ProcessId,
    ) -> netsky_disk::Result<Heart> {
        let dir = Dir::open(layout.root())?;
        let path = layout.heartbeat(name);
        let file = dir.open_file(path.file_name().unwrap_or_default(), OFlags::CREATE | OFlags::RDWR)?;
        let beat = Heartbeat {
            v: VERSION,
            name: name.clone(),
            generation,
            worker: worker.clone(),
            liveness: 0,
            progress: 0,
            phase: Pulse::Running,
            killed: false,
            ended: None,
            at: clock::stamp(),
        };
        Ok(Heart { file, beat, interval: heartbeat_period(), next: Duration::ZERO })
    }

    /// Something went in or out of the program.
    pub(super) fn progressed(&mut self, bytes: usize) {
        self.beat.progress += bytes as u64;
    }

    /// When the next beat is due, on the boot clock.
    pub(super) fn due(&self) -> Duration {
        self.next
    }

    /// Beat if it is time; true if it was. A disk that refuses costs a heartbeat, not the session.
    pub(super) fn beat(&mut self, now: Duration, phase: Pulse) -> bool {
        if now < self.next && phase == self.beat.phase {
            return false;
        }
        self.next = now + self.interval;
        self.beat.liveness += 1;
        self.beat.phase = phase;
        self.beat.at = clock::stamp();
        // Telemetry: the next beat says more than this error would.
        let _ = self.file.write_all_at(&padded(&self.beat), 0);
        true
    }

    /// Says, in room that is there, how the program ended: the end itself found none.
    pub(super) fn ended(&mut self, how: &End) {
        self.beat.killed = *how == End::Killed;
        self.beat.ended = Some(how.clone());
        self.beat.at = clock::stamp();
        let said = self.file.write_all_at(&padded(&self.beat), 0).and_then(|()| self.file.sync_data());
        if let Err(error) = said {
            say!("how {} ended is written nowhere by its worker: {error}", self.beat.name);
        }
    }

    /// What a probe is told: as of now, beside the file's rhythm.
    pub(super) fn answer(&self) -> Heartbeat {
        Heartbeat { at: clock::stamp(), ..self.beat.clone() }
    }
}

fn padded(beat: &Heartbeat) -> Vec<u8> {
    let text = serde_json::to_string(beat).expect("plain data with string keys becomes JSON");
    format!("{text:<width$}\n", width = SIZE - 1).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_heartbeat_fits_its_file() {
        let most = u64::MAX;
        let worker = ProcessId { pid: u32::MAX, start_time: most, boot_id: "f".repeat(36), ns: most };
        let beat = Heartbeat {
            v: 1,
            name: "a".repeat(64).parse().expect("valid"),
            generation: Generation(most),
            worker,
            liveness: most,
            progress: most,
            phase: Pulse::Draining,
            killed: true,
            ended: Some(End::Signalled { signal: i32::MIN, asked: true }),
            at: clock::stamp(),
        };
        let bytes = padded(&beat);
        assert_eq!(bytes.len(), SIZE);
        assert_eq!(serde_json::from_slice::<Heartbeat>(&bytes).expect("reads"), beat);
    }

    #[test]
    fn the_checked_in_heartbeat_of_version_1_loads() {
        let sample = include_bytes!("../../samples/heartbeat.v1.json");
        let beat: Heartbeat = serde_json::from_slice(sample).expect("loads for ever");
        assert_eq!((beat.liveness, beat.progress, beat.phase), (17, 90210, Pulse::Running));
    }
}
