//! A constellation in a throwaway home, as a measurement needs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netsky_bus::{Bus, Draft};
use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::lock::Lock;
use netsky_disk::watch::Watch;
use netsky_kernel::client::Client;
use netsky_model::id::{AgentId, Sender};
use netsky_model::life::State;
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;
use serde_json::Value;

use super::{Programs, floor};

/// Nothing here takes longer; past it something is broken.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// A slow look, for what gives no event.
const LOOK: Duration = Duration::from_millis(20);

/// A constellation, which goes down when it is dropped.
pub(super) struct Up<'a> {
    programs: &'a Programs,
    place: PathBuf,
    pub(super) layout: Layout,
}

impl<'a> Up<'a> {
    /// With these settings, up with these words.
    pub(super) fn with(
        programs: &'a Programs,
        place: &Path,
        settings: &str,
        words: &[&str],
    ) -> Result<Up<'a>> {
        std::fs::create_dir_all(place)?;
        let up = Up { programs, place: place.to_owned(), layout: Layout::new(place.join("home")) };
        up.run(&["init"])?;
        std::fs::write(up.layout.home().join("config.toml"), settings)?;
        up.run(words)?;
        Ok(up)
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.programs.on(self.layout.home(), words);
        command.env("HOME", &self.place).env("PATH", "/usr/bin:/bin").current_dir(&self.place);
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<()> {
        let status = self.command(words).status().context("run netsky")?;
        ensure!(status.success(), "netsky {}: {status}", words.join(" "));
        Ok(())
    }

    /// Sends, and answers when the beginning of that was.
    pub(super) fn send(&self, to: &AgentId) -> Result<Instant> {
        let draft = Draft::new(Sender::owner(), to.clone(), floor::TEXT);
        let began = Instant::now();
        Bus::open(&self.layout, &Nobody).with_limits(super::bus::LIMITS).send(draft)?;
        Ok(began)
    }

    /// Waits until everything that this agent was sent has its end.
    pub(super) fn until_finished(&self, agent: &AgentId) -> Result<()> {
        let bus = Bus::open(&self.layout, &Nobody);
        self.until(&format!("an end of the mail of {agent}"), || {
            let open = [State::Written, State::Claimed, State::Delivered];
            Ok(open.iter().map(|state| bus.count(agent, *state)).sum::<netsky_bus::Result<usize>>()? == 0)
        })
    }

    /// Waits until this generation of an agent has handed its nonce back.
    pub(super) fn until_proved(&self, agent: &str, generation: u64) -> Result<()> {
        let folder = self.layout.up_folder();
        self.until(&format!("a proof of {agent}"), || {
            for entry in std::fs::read_dir(&folder)?.flatten() {
                let proof: Value = serde_json::from_slice(&std::fs::read(entry.path()).unwrap_or_default())
                    .unwrap_or_default();
                if proof["agent"] == agent && proof["generation"] == generation {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    pub(super) fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let watch = Watch::new(&[self.layout.up_folder(), self.layout.state()])?;
        let began = Instant::now();
        while !holds()? {
            ensure!(began.elapsed() < PATIENCE, "{what} did not come");
            watch.wait(LOOK)?;
        }
        Ok(())
    }

    /// Those of netsky's processes that live as long as the constellation.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        let root = self.layout.kernel_root();
        let anchor: ProcessId =
            Lock::noted(KernelLayout::new(root.clone()).lock()).context("no anchor serves")?;
        let mut all = vec![anchor.pid];
        let own = [AgentId::infinity(), AgentId::drivers(), AgentId::ticker()];
        for session in Client::connect(&root)?.list()? {
            all.extend(session.worker.map(|worker| worker.pid));
            all.extend(session.program.filter(|_| own.contains(&session.name)).map(|program| program.pid));
        }
        Ok(all)
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}
