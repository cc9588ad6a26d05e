//! A batch of `cargo xtask campaign`: what it is asked for, and the one line that it answers with.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a batch is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Decides what chance decides; another one looks elsewhere.
    pub seed: u64,
    /// How many are wanted.
    pub wanted: u64,
    /// Where it begins: what the batch before answered as `next`, 0 at first.
    pub from: u64,
}

impl Share {
    /// What the environment asks for; where it says nothing, one step of seed 1.
    pub fn asked() -> Share {
        let number = |name: &str, otherwise| {
            let text = std::env::var(name).ok();
            text.map_or(otherwise, |text| {
                text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
            })
        };
        Share {
            seed: number("CAMPAIGN_SEED", 1),
            wanted: number("CAMPAIGN_WANTED", 1),
            from: number("CAMPAIGN_FROM", 0),
        }
    }

    /// Takes steps, numbered from `from` on, until they counted as many as are wanted, one counted nothing, or one
    /// panicked, which is its failure; then says what came of it.
    pub fn run(self, mut step: impl FnMut(u64) -> u64) {
        self.run_over(|n| Some(step(n)).filter(|counted| *counted > 0));
    }

    /// The same where a step may count nothing and others follow; it ends with none.
    pub fn run_over(self, mut step: impl FnMut(u64) -> Option<u64>) {
        let (mut count, mut next, mut failures) = (0, self.from, Vec::new());
        while count < self.wanted && failures.is_empty() {
            match catch_unwind(AssertUnwindSafe(|| step(next))) {
                Ok(None) => break,
                Ok(Some(counted)) => count += counted,
                Err(panic) => failures.push(format!("step {next}: {}", words(&*panic))),
            }
            next += 1;
        }
        self.answer(count, next, &failures);
    }

    /// Says what a batch came to.
    pub fn answer(self, count: u64, next: u64, failures: &[String]) {
        println!("campaign: {}", serde_json::json!({ "count": count, "next": next, "failures": failures }));
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
