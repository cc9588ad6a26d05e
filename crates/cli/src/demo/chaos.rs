//! What else may be killed or stopped while the demo runs, on top of its own two kills of agent0.

use std::time::Duration;

use netsky_disk::layout::{KernelLayout, Layout};
use netsky_disk::lock::Lock;
use netsky_kernel::client::Client;
use netsky_model::id::{AgentId, Generation};
use netsky_model::process::ProcessId;

/// Who can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Target {
    /// The kernel's daemon
    Anchor,
    /// The watchdog's session
    Agentinfinity,
    /// The heartbeat's session
    Ticker,
    /// The process that holds agent0's terminal
    Worker,
    /// agent0 itself, once more
    Root,
}

impl Target {
    /// What it is called.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Target::Anchor => "the anchor",
            Target::Agentinfinity => "agentinfinity",
            Target::Ticker => "netsky-ticker",
            Target::Worker => "agent0's worker",
            Target::Root => "agent0",
        }
    }

    /// The session whose pids change by it; none for the anchor, whose death changes none.
    pub(crate) fn session(self) -> Option<AgentId> {
        match self {
            Target::Anchor => None,
            Target::Agentinfinity => Some(AgentId::infinity()),
            Target::Ticker => Some(AgentId::ticker()),
            Target::Worker | Target::Root => Some(AgentId::root()),
        }
    }

    /// The process as it lives now, with agent0's generation where agent0 dies with it; none if it does not live.
    pub(crate) fn find(self, layout: &Layout) -> Option<(ProcessId, Option<Generation>)> {
        let Some(name) = self.session() else {
            let note: ProcessId = Lock::noted(KernelLayout::new(layout.kernel_root()).lock())?;
            return Some((note, None));
        };
        let view = Client::connect(&layout.kernel_root()).ok()?.show(&name).ok()?;
        let process = if self == Target::Worker { view.worker } else { view.program };
        let lives = view.state.may_live();
        process
            .filter(|_| lives)
            .map(|process| (process, (name == AgentId::root()).then_some(view.generation)))
    }
}

/// When the extra kills come: a moment of the run that depends on nothing but the seed.
pub(crate) fn moment(seed: u64, tick: Duration) -> Duration {
    // As long as an undisturbed run takes: two restarts, each watched for up to two ticks and the second one begun ten seconds
    // after the first, and the work.
    let run = tick * 4 + Duration::from_secs(12);
    run.mul_f64(fraction(seed))
}

/// SplitMix64: every seed, also 0, 1, 2 …, gives a fraction far from its neighbours'.
fn fraction(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_seeds_spread_over_the_run() {
        let mut tenths = [0; 10];
        for seed in 0..20 {
            tenths[((fraction(seed) * 10.0) as usize).min(9)] += 1;
        }
        assert!(tenths.iter().filter(|count| **count > 0).count() >= 7, "{tenths:?}");
    }
}
